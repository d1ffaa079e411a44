"""What somebody types who has just started a server."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import trustme
from tests.support.cli import COMMAND, ENVIRONMENT
from tests.support.commands import Ran, run_here
from tests.support.live_server import live_server

_PATIENCE_S = 60.0


class Newcomer:
    """Types commands, without any option that says where the server is."""

    def __init__(self, place: Path) -> None:
        self.variables = {"XDG_CONFIG_HOME": str(place / "config")}

    def type(self, *words: str, code: int = 0) -> Ran:
        ran = run_here(*words, variables=self.variables)
        assert ran.code == code, (words, ran)
        return ran


def until(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + _PATIENCE_S
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.mark.parametrize("name", ["localhost", "broker.example.com"])
def test_the_first_command_reaches_a_server_with_tls(tmp_path: Path, name: str) -> None:
    newcomer, authority, file = Newcomer(tmp_path), trustme.CA(), tmp_path / "server.pem"

    def issue() -> None:
        authority.issue_cert(name).private_key_and_cert_chain_pem.write_to_path(str(file))

    issue()
    tls = json.dumps({"certificate": str(file), "key": str(file)})
    settings = [
        "listeners.mqtt=null", "listeners.mqtts.port=0", f"listeners.mqtts.tls={tls}", f"listeners.http.tls={tls}",
        "storage.disk_reserve=0",
    ]  # fmt: skip
    with live_server(tmp_path / "server", settings, is_dev=False, variables=newcomer.variables) as server:
        newcomer.type("queue", "create", "orders", "--partitions", "1")
        newcomer.type("produce", "orders", "a lamp")
        newcomer.type("publish", "$queue/orders", "a chair")
        assert b"orders" in newcomer.type("queue", "list").out
        # A certificate that is renewed is trusted, and one of another file is not.
        issue()
        server.process.send_signal(signal.SIGHUP)
        until(lambda: "configuration reloaded" in server.said())
        assert b"orders" in newcomer.type("queue", "list").out
        trustme.CA().issue_cert(name).cert_chain_pems[0].write_to_path(str(file))
        assert "certificate" in newcomer.type("queue", "list", code=4).err


def test_a_queue_that_a_typo_makes_is_said(tmp_path: Path) -> None:
    with live_server(tmp_path / "server", ["storage.disk_reserve=0"]) as server:
        url = ("--url", f"http://127.0.0.1:{server.ports['http']}")
        refused = run_here("produce", "ordres", "a lamp", "--no-create", *url, variables={})
        assert refused.code == 3 and "no queue 'ordres'" in refused.err
        first = run_here("produce", "ordres", "a lamp", *url, variables={})
        assert (first.code, first.err) == (0, "penstock: created queue 'ordres', which did not exist\n")
        again = run_here("produce", "ordres", "a chair", *url, variables={})
        assert (again.code, again.err) == (0, "")


@pytest.mark.parametrize("command", [("publish", "$queue/ordres", "a lamp"), ("subscribe", "$queue/ordres")])
def test_a_queue_that_a_typo_makes_over_mqtt_is_said(tmp_path: Path, command: tuple[str, ...]) -> None:
    said = "penstock: created queue 'ordres', which did not exist\n"
    with live_server(tmp_path / "server", ["storage.disk_reserve=0"]) as server:
        place = ("--port", str(server.ports["mqtt"]))
        refused = run_here(*command, "--no-create", *place, variables={})
        assert refused.code != 0 and "no queue 'ordres'" in refused.err
        assert "3.1.1" in run_here(*command, "--no-create", "-V", "3.1.1", *place, variables={}).err
        if command[0] == "publish":
            first = run_here(*command, "--count", "3", *place, variables={})
            assert (first.code, first.err) == (0, said)
        else:
            heard = tmp_path / "heard"
            with (
                heard.open("wb") as file,
                subprocess.Popen(
                    [*COMMAND, *command, "--count", "1", *place], stderr=file, env=ENVIRONMENT
                ) as subscriber,
            ):
                until(lambda: heard.read_text() == said)
                run_here("publish", "$queue/ordres", "a lamp", *place, variables={})
                assert subscriber.wait(_PATIENCE_S) == 0
        again = run_here("publish", "$queue/ordres", "a chair", "--no-create", *place, variables={})
        assert (again.code, again.err) == (0, "")


def test_following_says_when_the_server_is_away_and_when_it_is_back(tmp_path: Path) -> None:
    port = "0"
    said = (tmp_path / "said").open("wb")
    follower: subprocess.Popen[bytes] | None = None
    try:
        for round in range(2):
            with live_server(tmp_path / "server", [f"listeners.http.port={port}", "storage.disk_reserve=0"]) as server:
                port = str(server.ports["http"])
                url = ("--url", f"http://127.0.0.1:{port}")
                if follower is None:
                    run_here("queue", "create", "orders", "--partitions", "1", *url, variables={})
                    command = [*COMMAND, "consume", "orders", "--follow", "--from-beginning", *url]
                    follower = subprocess.Popen(command, stdout=said, stderr=said, env=ENVIRONMENT)
                run_here("produce", "orders", f"message {round}", *url, variables={})
                until(lambda: f"message {round}" in (tmp_path / "said").read_text())  # noqa: B023  # asked at once
    finally:
        said.close()
        if follower is not None:
            follower.terminate()
            follower.wait(_PATIENCE_S)
    lines = (tmp_path / "said").read_text().splitlines()
    assert [line for line in lines if line.startswith("message")] == ["message 0", "message 1"]
    away, back = [line for line in lines if line.startswith("penstock: http")][:2]
    assert "cannot be reached (" in away and back.endswith("can be reached again")
