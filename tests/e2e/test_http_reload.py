"""A configuration that is read again under load, and certificates that are exchanged."""

from __future__ import annotations

import json
import signal
import ssl
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
import trustme
from tests.support.http_client import HttpClient
from tests.support.live_server import LiveServer, live_server

_PATIENCE_S = 30.0


class Load(threading.Thread):
    """One connection that publishes, request after request, until it is told to stop: under way when it is made."""

    def __init__(self, client: HttpClient) -> None:
        super().__init__()
        self.client, self.failures = client, list[str]()
        self.sent, self._is_over = 0, threading.Event()
        # Here, not in the thread: on a busy machine it begins after the certificate has changed.
        assert client.get("/health").status == 200
        self.start()

    def __enter__(self) -> Load:
        return self

    def __exit__(self, *_: object) -> None:
        """Whatever became of the test, its connection is not left to the next one."""
        self._is_over.set()
        self.join()

    def run(self) -> None:
        with closing(self.client) as client:
            connection = client.socket
            while not self._is_over.is_set():
                answer = client.post("queues/load/messages", {"text": str(self.sent)})
                if answer.status != 200 or client.socket is not connection:
                    self.failures.append(str(answer))
                    return
                self.sent += 1

    def stop(self) -> int:
        """How many it sent, at least one."""
        until(lambda: self.sent > 0 or not self.is_alive())
        self._is_over.set()
        self.join(_PATIENCE_S)
        assert not self.failures and not self.is_alive(), self.failures
        return self.sent


def until(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + _PATIENCE_S
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.01)


def reloads(server: LiveServer) -> int:
    return server.said().count("configuration reloaded")


def test_a_reload_under_load_drops_no_connection(tmp_path: Path) -> None:
    with live_server(tmp_path / "server", ["storage.disk_reserve=0"]) as server:
        address = "127.0.0.1", server.ports["http"]
        with closing(HttpClient(address)) as admin, ExitStack() as stack:
            loads = [stack.enter_context(Load(HttpClient(address))) for _ in range(4)]
            for number in range(1, 11):
                assert admin.post("config/reload").status == 200
                server.process.send_signal(signal.SIGHUP)
                until(lambda wanted=2 * number: reloads(server) >= wanted)  # type: ignore[misc]  # bound at once
            sent = sum(load.stop() for load in loads)
            assert admin.get("queues/load/stats").json["messages"] == sent


def issue(authority: trustme.CA, file: Path) -> None:
    """Replaced as a whole, as tools that renew certificates do."""
    fresh = file.with_suffix(".new")
    authority.issue_cert("localhost", "127.0.0.1").private_key_and_cert_chain_pem.write_to_path(str(fresh))
    fresh.replace(file)


def trusting(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


@pytest.mark.parametrize("how", ["signal", "request"])
def test_a_new_certificate_reaches_new_connections_only(tmp_path: Path, how: str) -> None:
    before, after, file = trustme.CA(), trustme.CA(), tmp_path / "server.pem"
    issue(before, file)
    tls = json.dumps({"certificate": str(file), "key": str(file)})
    with live_server(tmp_path / "server", ["storage.disk_reserve=0", f"listeners.http.tls={tls}"]) as server:
        address = "127.0.0.1", server.ports["http"]
        with (
            closing(HttpClient(address, context=trusting(before))) as old,
            Load(HttpClient(address, context=trusting(before))) as load,
        ):
            assert old.get("/health").status == 200
            issue(after, file)
            if how == "signal":
                server.process.send_signal(signal.SIGHUP)
                until(lambda: reloads(server) == 1)
            else:
                assert old.post("config/reload").status == 200
            connection = old.socket
            with closing(HttpClient(address, context=trusting(after))) as new:
                assert new.get("/health").status == 200
            with closing(HttpClient(address, context=trusting(before))) as late, pytest.raises(ssl.SSLError):
                late.get("/health")
            assert old.get("/health").status == 200 and old.socket is connection
            assert load.stop() > 0


def test_a_certificate_that_will_not_do_keeps_the_old_one(tmp_path: Path) -> None:
    authority, file = trustme.CA(), tmp_path / "server.pem"
    issue(authority, file)
    tls = json.dumps({"certificate": str(file), "key": str(file)})
    with live_server(tmp_path / "server", [f"listeners.http.tls={tls}"]) as server:
        with closing(HttpClient(("127.0.0.1", server.ports["http"]), context=trusting(authority))) as http:
            file.write_text("rubbish")
            assert http.post("config/reload").code == "invalid-setting"
        with closing(HttpClient(("127.0.0.1", server.ports["http"]), context=trusting(authority))) as http:
            assert http.get("/health").status == 200
