"""Listeners: connections are accepted whatever others do, and failures are told once."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
import ssl
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import cast

import pytest
import trustme
from tests.support import loop

from penstock.core.errors import CannotListen
from penstock.gateways.wire.secure import SecureConnections, ShakeHands
from penstock.server.config_listeners import SniCertificate, Tls
from penstock.server.listeners import Listening, bind
from penstock.server.tls import context_of
from penstock.server.written import BadConfiguration

AUTHORITY = trustme.CA()
Run = Callable[[Coroutine[object, object, object]], object]


class Greeting(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are no subclasses of asyncio's.
        connected = cast(asyncio.Transport, transport)
        connected.write(b"hello")
        connected.close()


@pytest.fixture(params=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Run:
    if request.param == "asyncio":
        return loop.run
    uvloop = pytest.importorskip("uvloop")

    def run(main: Coroutine[object, object, object]) -> object:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(main)

    return run


@pytest.fixture
def files(tmp_path: Path) -> Path:
    for name in ("a.example", "b.example"):
        issued = AUTHORITY.issue_cert(name)
        issued.private_key_pem.write_to_path(str(tmp_path / f"{name}.key"))
        (tmp_path / f"{name}.pem").write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
    AUTHORITY.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    return tmp_path


def _tls(files: Path, **settings: object) -> Tls:
    return Tls(certificate=str(files / "a.example.pem"), key=str(files / "a.example.key"), **settings)  # type: ignore[arg-type]  # tests give what Tls has


def _trusting() -> ssl.SSLContext:
    context = ssl.create_default_context()
    AUTHORITY.configure_trust(context)
    return context


async def _greeted(address: tuple[str, int], context: ssl.SSLContext | None = None, name: str = "a.example") -> bytes:
    reader, writer = await asyncio.open_connection(*address, ssl=context, server_hostname=name if context else None)
    data = await reader.read()
    writer.close()
    return data


def _shake_hands(context: ssl.SSLContext, timeout_s: float = 10.0) -> ShakeHands:
    secure = SecureConnections(asyncio.get_running_loop())
    return partial(secure.shake_hands, context=context, deadline_s=timeout_s)


def _listening(context: ssl.SSLContext | None = None, timeout_s: float = 10.0) -> Listening:
    listening = Listening("mqtt", bind("mqtt", "127.0.0.1", 0))
    listening.serve(Greeting, None if context is None else _shake_hands(context, timeout_s))
    listening.start()
    return listening


# Binding


def test_a_port_in_use_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(CannotListen) as caught:
        bind("mqtt", "127.0.0.1", taken.getsockname()[1])
    assert "listener mqtt cannot listen on 127.0.0.1" in str(caught.value)
    assert "Address already in use" in str(caught.value)


def test_an_address_of_nobody_is_named() -> None:
    with pytest.raises(CannotListen, match=r"192\.0\.2\.1"):
        bind("mqtt", "192.0.2.1", 0)


def test_all_addresses_of_a_host_get_one_port() -> None:
    bound = bind("mqtt", "localhost", 0)
    assert len({sock.getsockname()[1] for sock in bound}) == 1
    for sock in bound:
        sock.close()


# Accepting


def test_nobody_connects_before_the_start_nor_after_the_end(run: Run) -> None:
    async def scene() -> None:
        listening = Listening("mqtt", bind("mqtt", "127.0.0.1", 0))
        listening.serve(Greeting)
        address = listening.address
        with pytest.raises(ConnectionRefusedError):
            await _greeted(address)
        listening.start()
        assert await _greeted(address) == b"hello"
        await listening.close()
        with pytest.raises(ConnectionRefusedError):
            await _greeted(address)

    run(scene())


def test_many_at_once_are_all_accepted(run: Run) -> None:
    async def scene() -> None:
        listening = _listening()
        assert await asyncio.gather(*(_greeted(listening.address) for _ in range(200))) == [b"hello"] * 200
        await listening.close()

    run(scene())


def test_out_of_descriptors_is_told_once_and_accepting_goes_on(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    monkeypatch.setattr("penstock.server.listeners._RETRY_S", 0.01)

    class Exhausted:
        def __init__(self, sock: socket.socket) -> None:
            self.failures, self._sock = 0, sock

        def accept(self) -> tuple[socket.socket, object]:
            if self.failures < 5:
                self.failures += 1
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
            return self._sock.accept()

        def __getattr__(self, name: str) -> object:
            return getattr(self._sock, name)

    async def scene() -> int:
        (sock,) = bind("mqtt", "127.0.0.1", 0)
        exhausted = Exhausted(sock)
        listening = Listening("mqtt", [exhausted])  # type: ignore[list-item]  # stands for a socket
        listening.serve(Greeting)
        listening.start()
        assert await _greeted(listening.address) == b"hello"
        await listening.close()
        return exhausted.failures

    with caplog.at_level(logging.WARNING):
        assert run(scene()) == 5
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == 1
    assert "Too many open files" in told[0]
    assert "ulimit -n" in told[0]


def test_who_may_not_connect_is_closed_unread_and_counted(caplog: pytest.LogCaptureFixture, run: Run) -> None:
    async def scene() -> int:
        listening = Listening("mqtt", bind("mqtt", "127.0.0.1", 0), may_connect=lambda peer: peer != "127.0.0.1")
        listening.serve(Greeting)
        listening.start()
        for _ in range(3):
            assert await _greeted(listening.address) == b""
        await listening.close()
        return listening.refused

    with caplog.at_level(logging.WARNING):
        assert run(scene()) == 3
    assert len(caplog.records) == 1


# TLS


def test_a_slow_handshake_holds_nobody_up_and_ends_at_its_deadline(files: Path, run: Run) -> None:
    async def scene() -> None:
        listening = _listening(context_of(_tls(files), "tls"), timeout_s=0.2)
        slow = [await asyncio.open_connection(*listening.address) for _ in range(20)]
        assert await _greeted(listening.address, _trusting()) == b"hello"
        for reader, writer in slow:
            assert await reader.read() == b""
            writer.close()
        await listening.close()
        assert listening.failed_handshakes == 20

    run(scene())


def test_rubbish_instead_of_a_handshake_is_told_once(files: Path, caplog: pytest.LogCaptureFixture, run: Run) -> None:
    async def scene() -> None:
        listening = _listening(context_of(_tls(files), "tls"))
        for _ in range(3):
            reader, writer = await asyncio.open_connection(*listening.address)
            writer.write(b"\x10\x0c\x00\x04MQTT\x04\x02\x00\x3c\x00\x00" * 10)
            await reader.read()
            writer.close()
        await listening.close()
        assert listening.failed_handshakes == 3

    with caplog.at_level(logging.WARNING):
        run(scene())
    assert len([record for record in caplog.records if record.name == "penstock.server.listeners"]) == 1


def test_closing_ends_handshakes_under_way(files: Path, run: Run) -> None:
    async def scene() -> None:
        listening = _listening(context_of(_tls(files), "tls"))
        reader, writer = await asyncio.open_connection(*listening.address)
        await _greeted(listening.address, _trusting())
        await listening.close()
        assert await reader.read() == b""
        writer.close()

    run(scene())


def test_the_certificate_follows_the_name_that_is_asked_for(files: Path, run: Run) -> None:
    other = SniCertificate(
        hostnames=("b.example", "*.c.example"),
        certificate=str(files / "b.example.pem"),
        key=str(files / "b.example.key"),
    )

    async def scene() -> None:
        listening = _listening(context_of(_tls(files, sni=(other,)), "tls"))
        assert await _greeted(listening.address, _trusting(), "b.example") == b"hello"
        assert await _greeted(listening.address, _trusting(), "a.example") == b"hello"
        with pytest.raises(ssl.SSLCertVerificationError, match=r"not valid for 'x\.c\.example'"):
            await _greeted(listening.address, _trusting(), "x.c.example")
        await listening.close()

    run(scene())


def test_a_context_is_replaced_while_it_listens(files: Path, run: Run) -> None:
    async def scene() -> None:
        listening = _listening(context_of(_tls(files), "tls"))
        with pytest.raises(ssl.SSLCertVerificationError):
            await _greeted(listening.address, _trusting(), "b.example")
        renewed = Tls(certificate=str(files / "b.example.pem"), key=str(files / "b.example.key"))
        listening.serve(Greeting, _shake_hands(context_of(renewed, "tls")))
        assert await _greeted(listening.address, _trusting(), "b.example") == b"hello"
        await listening.close()

    run(scene())


def test_old_versions_of_tls_are_refused(files: Path) -> None:
    assert context_of(_tls(files), "tls").minimum_version is ssl.TLSVersion.TLSv1_2


def test_a_client_without_a_certificate_is_refused_where_one_is_required(files: Path, run: Run) -> None:
    tls = _tls(files, client_ca=str(files / "ca.pem"), require_client_certificate=True)

    async def scene() -> None:
        listening = _listening(context_of(tls, "tls"))
        with pytest.raises(OSError):
            # With TLS 1.3 a client is told behind its handshake.
            assert await _greeted(listening.address, _trusting()) != b"hello"
            raise ConnectionResetError
        known = _trusting()
        AUTHORITY.issue_cert("device-1").configure_cert(known)
        assert await _greeted(listening.address, known) == b"hello"
        await listening.close()

    run(scene())


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"certificate": "absent.pem"}, "listeners.x.tls.certificate: absent.pem cannot be read: No such file"),
        ({"key": "b.example.key"}, "are not a certificate and its key"),
        ({"certificate": "ca.pem"}, "are not a certificate and its key"),
        ({"client_ca": "a.example.key"}, "listeners.x.tls.client_ca: "),
    ],
)
def test_files_that_will_not_do_are_named(change: dict[str, str], said: str, files: Path) -> None:
    given = {key: str(files / name) if (files / name).exists() else name for key, name in change.items()}
    settings = {"certificate": str(files / "a.example.pem"), "key": str(files / "a.example.key"), **given}
    with pytest.raises(BadConfiguration) as caught:
        context_of(Tls(**settings), "listeners.x.tls")  # type: ignore[arg-type]  # texts, all of them
    assert said in str(caught.value)
