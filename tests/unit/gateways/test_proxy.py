"""Headers of load balancers, in any split, before plain and encrypted connections, on both event loops."""

from __future__ import annotations

import asyncio
import ipaddress
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from functools import partial
from time import monotonic

import pytest
import trustme
import uvloop
from tests.support.http_gateway import RunningHttp
from tests.support.loop import run

from penstock.gateways.wire.proxy import SIGNATURE_2, BadHeader, Header, ProxyProtocol
from penstock.gateways.wire.reactor import Address
from penstock.gateways.wire.secure import SecureConnections
from penstock.log.upkeep import faults

TCP_4 = b"PROXY TCP4 192.0.2.1 192.0.2.9 5001 1883\r\n"
TCP_6 = b"PROXY TCP6 2001:db8::1 2001:db8::9 5001 1883\r\n"
FROM_4, FROM_6 = ("192.0.2.1", 5001), ("2001:db8::1", 5001, 0, 0)


def version_2(command: int = 0x21, family: int = 0x11, body: bytes = b"") -> bytes:
    return SIGNATURE_2 + bytes([command, family]) + len(body).to_bytes(2, "big") + body


def addresses(source: str, destination: str, tail: bytes = b"") -> bytes:
    packed = ipaddress.ip_address(source).packed + ipaddress.ip_address(destination).packed
    return packed + (5001).to_bytes(2, "big") + (1883).to_bytes(2, "big") + tail


V2_TCP_4 = version_2(body=addresses("192.0.2.1", "192.0.2.9"))
V2_TCP_6 = version_2(family=0x21, body=addresses("2001:db8::1", "2001:db8::9", b"\x03\x00\x04abcd"))
GOOD: list[tuple[bytes, Address | None]] = [
    (TCP_4, FROM_4),
    (TCP_6, FROM_6),
    (b"PROXY UNKNOWN\r\n", None),
    (b"PROXY UNKNOWN ffff::1 ffff::2 1 2\r\n", None),
    (V2_TCP_4, FROM_4),
    (V2_TCP_6, FROM_6),
    (version_2(command=0x20, family=0x11, body=addresses("192.0.2.1", "192.0.2.9")), None),
    (version_2(command=0x20, family=0), None),
    (version_2(family=0x31, body=bytes(216)), None),
]


@pytest.mark.parametrize(("sent", "address"), GOOD)
def test_a_header_is_read_to_its_last_byte_and_no_further(sent: bytes, address: Address | None) -> None:
    header, rest = Header(), sent + b"behind it"
    while need := header.need_bytes():
        header.receive(rest[:need])
        rest = rest[need:]
    assert header.address == address
    assert rest == b"behind it"


@pytest.mark.parametrize(("sent", "address"), GOOD)
def test_any_split_gives_the_same_address(sent: bytes, address: Address | None) -> None:
    header = Header()
    for i in range(len(sent)):
        assert header.need_bytes()
        header.receive(sent[i : i + 1])
    assert not header.need_bytes()
    assert header.address == address


@pytest.mark.parametrize(
    "sent",
    [
        b"\x10\x0c\x00\x04MQTT\x04\x02\x00",
        b"GET /mqtt HTTP/1.1\r\n",
        b"PROXY TCP4 192.0.2.1 192.0.2.9 5001\r\n",
        b"PROXY TCP4 192.0.2.1 192.0.2.9 5001 65536\r\n",
        b"PROXY TCP4 192.0.2.1 192.0.2.9 +1 1\r\n",
        b"PROXY TCP4 2001:db8::1 2001:db8::9 1 1\r\n",
        b"PROXY UDP4 192.0.2.1 192.0.2.9 1 1\r\n",
        b"PROXY TCP4 192.0.2.1 192.0.2.9 1 1 \r\n",
        b"PROXY  \r\n       \r\n",
        b"PROXY TCP4 " + b"1" * 100 + b"\r\n",
        b"PROXY TCP4 192.0.2.1\n",
        version_2(command=0x11, body=addresses("192.0.2.1", "192.0.2.9")),
        version_2(command=0x22, body=addresses("192.0.2.1", "192.0.2.9")),
        version_2(family=0x12, body=addresses("192.0.2.1", "192.0.2.9")),
        version_2(family=0x11, body=b"short"),
        version_2(body=bytes(5000)),
        SIGNATURE_2[:-1] + b"\r" * 20,
    ],
)
def test_anything_else_is_refused_by_its_first_wrong_bytes(sent: bytes) -> None:
    header = Header()
    with pytest.raises(BadHeader):
        while need := header.need_bytes():
            assert sent, "it was refused too late"
            header.receive(sent[:need])
            sent = sent[need:]


class Plain(asyncio.Protocol):
    """Says whose connection it is, then sends back what comes."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.write(f"{transport.get_extra_info('peername')[0]}\n".encode())

    def write(self, data: bytes) -> None:
        assert isinstance(self.transport, asyncio.Transport)
        self.transport.write(data)

    def data_received(self, data: bytes) -> None:
        self.write(data)


class Buffered(asyncio.BufferedProtocol):
    def __init__(self) -> None:
        self.plain = Plain()
        self.buffer = bytearray(4)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.plain.connection_made(transport)

    def get_buffer(self, sizehint: int) -> bytearray:
        return self.buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.plain.data_received(bytes(self.buffer[:nbytes]))


Inner = type[Plain] | type[Buffered]
Run = Callable[[Coroutine[object, object, None]], None]
both_loops = pytest.mark.parametrize("run_on", [run, uvloop.run], ids=["asyncio", "uvloop"])
both_kinds = pytest.mark.parametrize("inner", [Plain, Buffered])


@asynccontextmanager
async def serving(inner: Inner, tls: ssl.SSLContext | None = None, deadline_s: float = 10.0) -> AsyncIterator[int]:
    loop = asyncio.get_running_loop()
    secure = SecureConnections(loop)
    shake_hands = None if tls is None else partial(secure.shake_hands, context=tls, deadline_s=10.0)
    server = await loop.create_server(lambda: ProxyProtocol(inner, deadline_s, shake_hands), "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]
    secure.close()


async def talk(port: int, sent: bytes, size: int) -> tuple[str, bytes]:
    """The address that the server sees, and what it sends back."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(sent)
    answer = (await reader.readline()).decode().strip(), await reader.readexactly(size)
    writer.close()
    await writer.wait_closed()
    return answer


@both_loops
@both_kinds
def test_the_inner_protocol_gets_the_announced_address_and_every_byte(inner: Inner, run_on: Run) -> None:
    async def main() -> None:
        async with serving(inner) as port:
            for header, host in [(TCP_4, "192.0.2.1"), (V2_TCP_6, "2001:db8::1"), (b"PROXY UNKNOWN\r\n", "127.0.0.1")]:
                assert await talk(port, header + b"0123456789", 10) == (host, b"0123456789")

    run_on(main())


@both_loops
def test_who_sends_no_header_is_cut_off_and_so_is_who_sends_none_in_time(run_on: Run) -> None:
    async def closed(port: int, sent: bytes) -> bool:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(sent)
        try:
            return await reader.read() == b""
        except ConnectionResetError:
            return True
        finally:
            writer.close()

    async def main() -> None:
        async with serving(Plain) as port:
            assert await closed(port, b"\x10\x0c\x00\x04MQTT\x04\x02\x00\x3c\x00\x00")
        async with serving(Plain, deadline_s=0.01) as port:
            assert await closed(port, b"PROXY ")

    run_on(main())


@both_loops
@both_kinds
def test_tls_begins_behind_the_header(inner: Inner, run_on: Run) -> None:
    authority = trustme.CA()
    server_side, client_side = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH), ssl.create_default_context()
    authority.issue_cert("localhost").configure_cert(server_side)
    authority.configure_trust(client_side)

    async def main() -> None:
        async with serving(inner, server_side) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(V2_TCP_4)
            await writer.start_tls(client_side, server_hostname="localhost")
            writer.write(b"0123456789")
            assert await reader.readline() == b"192.0.2.1\n"
            assert await reader.readexactly(10) == b"0123456789"
            writer.close()
            await writer.wait_closed()

    run_on(main())


def test_a_tls_handshake_that_fails_is_told_of_and_closed() -> None:
    refusals: list[str] = []
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)

    async def main() -> None:
        secure = SecureConnections(asyncio.get_running_loop())
        shake_hands = partial(secure.shake_hands, context=tls, deadline_s=10.0)

        def make() -> ProxyProtocol:
            return ProxyProtocol(Plain, shake_hands=shake_hands, refused=lambda _peer, reason: refusals.append(reason))

        async with await asyncio.get_running_loop().create_server(make, "127.0.0.1", 0) as server:
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            writer.write(TCP_4 + b"no TLS at all" * 10)
            with suppress(ConnectionResetError):
                await reader.read()
            writer.close()
        secure.close()

    run(main())
    assert refusals
    assert refusals[0].startswith("no TLS")


def test_connections_that_http_refuses_are_one_line_a_minute_with_a_count(
    http: RunningHttp, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(50):
        http.call(partial(http.gateway.refused, f"192.0.2.{number}", "too many connections"))
    assert caplog.text.count("connection refused") == 1
    later = monotonic() + 61
    monkeypatch.setattr(faults, "monotonic", lambda: later)
    http.call(lambda: http.gateway.refused("192.0.2.1", "too many connections"))
    assert "times=50" in caplog.text
