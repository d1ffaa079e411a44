"""TLS of all connections of a loop: every byte, in order, whatever peers do, and nobody waits for another one."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress

import pytest
import trustme
import uvloop
from tests.support.loop import run

from penstock.gateways.wire.listener import Inner
from penstock.gateways.wire.secure import SecureConnections

AUTHORITY = trustme.CA()
LARGE = bytes(range(256)) * 4096 * 8
HELD_BY_THE_SYSTEM_BYTES = 128 << 10
"""on either side of a connection, of LARGE's 8 MiB"""
Run = Callable[[Coroutine[object, object, None]], None]
both_loops = pytest.mark.parametrize("run_on", [run, uvloop.run], ids=["asyncio", "uvloop"])


def server_side(**settings: object) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    AUTHORITY.issue_cert("localhost").configure_cert(context)
    for name, value in settings.items():
        setattr(context, name, value)
    return context


def client_side() -> ssl.SSLContext:
    context = ssl.create_default_context()
    AUTHORITY.configure_trust(context)
    return context


class Echo(asyncio.Protocol):
    """Sends back what comes, and does not read while its peer does not."""

    def __init__(self, said: list[str]) -> None:
        self.said = said
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]  # it is one
        self.said.append("made")

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)

    def pause_writing(self) -> None:
        self.said.append("paused")
        self.transport.pause_reading()

    def resume_writing(self) -> None:
        self.said.append("resumed")
        self.transport.resume_reading()

    def eof_received(self) -> bool:
        self.said.append("ended")
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self.said.append("lost")


class BufferedEcho(asyncio.BufferedProtocol):
    """The same with a small buffer of its own."""

    def __init__(self, said: list[str]) -> None:
        self.echo, self.buffer = Echo(said), memoryview(bytearray(1000))
        self.connection_made, self.connection_lost = self.echo.connection_made, self.echo.connection_lost  # type: ignore[method-assign]  # as they are
        self.pause_writing, self.resume_writing = self.echo.pause_writing, self.echo.resume_writing  # type: ignore[method-assign]
        self.eof_received = self.echo.eof_received  # type: ignore[method-assign]

    def get_buffer(self, sizehint: int) -> memoryview:
        return self.buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.echo.data_received(bytes(self.buffer[:nbytes]))


class Accepting:
    """A listening socket whose connections are secured."""

    def __init__(self, context: ssl.SSLContext, make: Callable[[list[str]], Inner], deadline_s: float) -> None:
        self.said: list[str] = []
        self.failed: list[BaseException] = []
        self._loop = asyncio.get_running_loop()
        self.secure = SecureConnections(self._loop)
        self._context, self._make, self._deadline_s = context, make, deadline_s
        self._sock = socket.create_server(("127.0.0.1", 0), backlog=200)
        # Accepted connections have the same. Without it the system keeps megabytes of what nobody reads.
        self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, HELD_BY_THE_SYSTEM_BYTES)
        self._sock.setblocking(False)
        self.port = self._sock.getsockname()[1]
        self._tasks: list[asyncio.Task[None]] = []
        self._accepting = self._loop.create_task(self._accept())

    async def _accept(self) -> None:
        while True:
            connection, _ = await self._loop.sock_accept(self._sock)
            connection.setblocking(False)
            self._tasks.append(self._loop.create_task(self._shake_hands(connection)))

    async def _shake_hands(self, connection: socket.socket) -> None:
        try:
            await self.secure.shake_hands(
                connection, lambda: self._make(self.said), None, self._context, self._deadline_s
            )
        except OSError as error:
            self.failed.append(error)

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(20):
            while not holds():  # noqa: ASYNC110  # what holds is told by nobody
                await asyncio.sleep(0.001)

    async def close(self) -> None:
        self._accepting.cancel()
        await asyncio.gather(self._accepting, *self._tasks, return_exceptions=True)
        self._sock.close()
        self.secure.close()


@asynccontextmanager
async def accepting(
    context: ssl.SSLContext | None = None,
    make: Callable[[list[str]], Inner] = Echo,
    deadline_s: float = 20.0,
) -> AsyncIterator[Accepting]:
    found = Accepting(context or server_side(), make, deadline_s)
    try:
        yield found
    finally:
        await found.close()


async def connected(
    port: int, context: ssl.SSLContext | None = None
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, HELD_BY_THE_SYSTEM_BYTES)
    sock.setblocking(False)
    await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", port))
    return await asyncio.open_connection(sock=sock, ssl=context or client_side(), server_hostname="localhost")


@both_loops
@pytest.mark.parametrize("make", [Echo, BufferedEcho])
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_every_byte_comes_back_in_order(
    run_on: Run, make: Callable[[list[str]], Inner], version: ssl.TLSVersion
) -> None:
    async def main() -> None:
        async with accepting(server_side(maximum_version=version), make) as server:
            reader, writer = await connected(server.port)
            for data in (b"a", b"b" * 16_384, b"c" * 70_000, LARGE):
                writer.write(data)
                assert await reader.readexactly(len(data)) == data
            writer.close()
            await server.until(lambda: "lost" in server.said)
            assert server.said.count("ended") == 1

    run_on(main())


@both_loops
def test_who_does_not_read_holds_its_protocol_up_and_goes_on(run_on: Run) -> None:
    async def main() -> None:
        async with accepting() as server:
            reader, writer = await connected(server.port)
            writer.write(LARGE)
            await server.until(lambda: "paused" in server.said)  # nobody reads: asyncio stops, too, at 128 KiB
            assert await reader.readexactly(len(LARGE)) == LARGE
            assert "resumed" in server.said
            writer.close()

    run_on(main())


@pytest.mark.parametrize("sent", [b"no TLS at all" * 20, b"\x16\x03\x01\x00\x05hello", b""])
def test_what_is_no_tls_is_told_of_and_closed(sent: bytes) -> None:
    async def main() -> None:
        async with accepting() as server:
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(sent)
            writer.write_eof()
            with suppress(ConnectionResetError):
                await reader.read()
            await server.until(lambda: bool(server.failed))
            assert not server.said
            writer.close()

    run(main())


def test_who_shakes_no_hands_in_time_is_cut_off() -> None:
    async def main() -> None:
        async with accepting(deadline_s=0.05) as server:
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            with suppress(ConnectionResetError):
                assert await reader.read() == b""
            assert isinstance(server.failed[0], ConnectionAbortedError)
            writer.close()

    run(main())


def test_an_alert_says_why_a_handshake_failed() -> None:
    async def main() -> None:
        context = server_side(minimum_version=ssl.TLSVersion.TLSv1_3)
        old = client_side()
        old.maximum_version = ssl.TLSVersion.TLSv1_2
        async with accepting(context) as server:
            with pytest.raises(ssl.SSLError, match="PROTOCOL_VERSION"):
                await connected(server.port, old)
            await server.until(lambda: bool(server.failed))

    run(main())


def test_a_damaged_record_ends_its_connection_and_no_other() -> None:
    async def main() -> None:
        async with accepting() as server:
            reader, writer = await connected(server.port)
            incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
            tls = client_side().wrap_bio(incoming, outgoing, server_hostname="localhost")
            raw_reader, raw_writer = await asyncio.open_connection("127.0.0.1", server.port)
            while True:
                try:
                    tls.do_handshake()
                    break
                except ssl.SSLWantReadError:
                    raw_writer.write(outgoing.read())
                    incoming.write(await raw_reader.read(1 << 16))
            raw_writer.write(outgoing.read())
            tls.write(b"x" * 100)
            damaged = bytearray(outgoing.read())
            damaged[-1] ^= 1
            raw_writer.write(damaged)
            with suppress(ConnectionResetError):
                await raw_reader.read()
            await server.until(lambda: server.said.count("lost") == 1)
            writer.write(b"still here")
            assert await reader.readexactly(10) == b"still here"
            writer.close()
            raw_writer.close()

    run(main())


def test_a_protocol_that_fails_loses_its_connection_and_no_other() -> None:
    class Failing(Echo):
        def data_received(self, data: bytes) -> None:
            if data == b"fail":
                raise ValueError("a mistake of ours")
            super().data_received(data)

    async def main() -> None:
        async with accepting(make=Failing) as server:
            reader, writer = await connected(server.port)
            other_reader, other = await connected(server.port)
            other.write(b"fail")
            with suppress(ConnectionResetError):
                assert await other_reader.read() == b""
            writer.write(b"on")
            assert await reader.readexactly(2) == b"on"
            writer.close()
            other.close()

    run(main())


def test_many_handshakes_at_once_are_all_done() -> None:
    async def main() -> None:
        async with accepting() as server:
            several = await asyncio.gather(*[connected(server.port) for _ in range(60)])
            for number, (_, writer) in enumerate(several):
                writer.write(b"%03d" % number)
            for number, (reader, writer) in enumerate(several):
                assert await reader.readexactly(3) == b"%03d" % number
                writer.close()
            await server.until(lambda: server.said.count("lost") == 60)

    run(main())


def test_a_client_that_vanishes_is_lost_once() -> None:
    async def main() -> None:
        async with accepting() as server:
            _, writer = await connected(server.port)
            await server.until(lambda: "made" in server.said)
            writer.transport.abort()
            await server.until(lambda: "lost" in server.said)
            assert server.said == ["made", "ended", "lost"]

    run(main())


def test_the_certificate_of_a_client_is_known() -> None:
    seen: list[object] = []

    class Asking(Echo):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            super().connection_made(transport)
            seen.append(transport.get_extra_info("peercert"))
            seen.append(transport.get_extra_info("peername")[0])
            seen.append(transport.get_extra_info("sslcontext") is not None)

    async def main() -> None:
        context = server_side(verify_mode=ssl.CERT_REQUIRED)
        AUTHORITY.configure_trust(context)
        mine = client_side()
        AUTHORITY.issue_cert("device-7", common_name="device-7").configure_cert(mine)
        async with accepting(context, Asking) as server:
            reader, writer = await connected(server.port, mine)
            writer.write(b"hi")
            assert await reader.readexactly(2) == b"hi"
            writer.close()

    run(main())
    assert ("commonName", "device-7") in [pair for part in seen[0]["subject"] for pair in part]  # type: ignore[index]  # as ssl has it
    assert seen[1:] == ["127.0.0.1", True]


def test_closing_cuts_off_who_is_there() -> None:
    async def main() -> None:
        async with accepting() as server:
            _, writer = await connected(server.port)
            await server.until(lambda: "made" in server.said)
            server.secure.close()
            assert server.said[-1] == "lost"
            writer.close()

    run(main())
