"""MQTT over WebSocket, with the client of another library, and with bytes that no client sends."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager

import pytest
import trustme
import uvloop
from tests.support.loop import run
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.typing import Origin, Subprotocol

from penstock.core.errors import InvalidArgument
from penstock.core.ports import Buffer
from penstock.gateways.mqtt.gateway import OVER_WEBSOCKET
from penstock.gateways.wire import websocket
from penstock.gateways.wire.origins import Origins, is_this_machine
from penstock.gateways.wire.websocket import WebSocketProtocol

MQTT = [Subprotocol("mqtt")]
REQUEST = (
    "GET {path} HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: mqtt\r\n\r\n"
)


class Echo:
    """Stands where an MQTT connection will: sends back what it is fed, and remembers."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport
        self.fed: list[bytes] = []
        self.paused: list[bool] = []
        self.lost = asyncio.Event()
        self.ended = asyncio.Event()
        self.answers = True

    def connection_made(self, transport: asyncio.Transport) -> None:
        self.transport = transport

    def feed(self, data: Buffer) -> None:
        self.fed.append(bytes(data))
        if self.fed[-1].endswith(b"end"):
            self.ended.set()
        if self.answers:
            self.transport.write(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.set()

    def pause_writing(self) -> None:
        self.paused.append(True)

    def resume_writing(self) -> None:
        self.paused.append(False)


class Server:
    def __init__(self, make: Callable[[Callable[[], Echo]], WebSocketProtocol]) -> None:
        self.mqtt: list[Echo] = []
        self.refusals: list[str] = []
        self._make = make
        self.port = 0

    def protocol(self) -> WebSocketProtocol:
        def make_mqtt() -> Echo:
            self.mqtt.append(Echo())
            return self.mqtt[-1]

        return self._make(make_mqtt)


@asynccontextmanager
async def serving(
    allowed_origins: Sequence[str] = (),
    max_message_bytes: int = 1 << 20,
    handshake_timeout_s: float = 10.0,
    tls: ssl.SSLContext | None = None,
) -> AsyncIterator[Server]:
    server = Server(
        lambda make_mqtt: WebSocketProtocol(
            make_mqtt,
            OVER_WEBSOCKET,
            "/mqtt",
            Origins(allowed_origins),
            max_message_bytes,
            handshake_timeout_s,
            refused=lambda _peer, reason: server.refusals.append(reason),
        )
    )
    listening = await asyncio.get_running_loop().create_server(server.protocol, "127.0.0.1", 0, ssl=tls)
    server.port = listening.sockets[0].getsockname()[1]
    async with listening:
        yield server


def dial(server: Server, origin: str | None = None, path: str = "/mqtt") -> connect:
    return connect(
        f"ws://127.0.0.1:{server.port}{path}",
        origin=None if origin is None else Origin(origin),
        subprotocols=MQTT,
        compression=None,
        proxy=None,
        max_queue=None,
    )


async def raw(server: Server, sent: bytes) -> bytes:
    """Everything that these bytes are answered with, until the server closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    try:
        writer.write(sent)
        return await reader.read()
    except ConnectionResetError:
        return b""
    finally:
        writer.close()


async def closed(connection: ClientConnection) -> tuple[int | None, str | None]:
    with pytest.raises(ConnectionClosed):
        while True:
            await connection.recv()
    return connection.close_code, connection.close_reason


def test_the_subprotocol_is_mqtt_and_bytes_go_both_ways() -> None:
    async def main() -> None:
        async with serving() as server, dial(server) as client:
            assert client.subprotocol == "mqtt"
            await client.send(b"ping")
            assert await client.recv() == b"ping"

    run(main())


def test_frames_of_one_receive_are_fed_at_once_and_fragments_pass_as_they_come() -> None:
    async def main() -> None:
        async with serving() as server, dial(server) as client:
            client.protocol.send_binary(b"a")
            client.protocol.send_binary(b"b", fin=False)
            client.protocol.send_continuation(b"c", fin=True)
            client.transport.write(b"".join(client.protocol.data_to_send()))
            assert await client.recv() == b"abc"
            assert server.mqtt[0].fed == [b"abc"]

    run(main())


@pytest.mark.parametrize("subprotocols", [None, [Subprotocol("mqttv3.1")]])
def test_mqtt_6_0_0_3_who_does_not_offer_mqtt_is_refused(subprotocols: list[Subprotocol] | None) -> None:
    async def main() -> None:
        async with serving() as server:
            with pytest.raises(InvalidStatus) as refused:
                await connect(f"ws://127.0.0.1:{server.port}/mqtt", subprotocols=subprotocols, proxy=None)
            assert refused.value.response.status_code == 400
            assert "subprotocol" in server.refusals[0]
            assert not server.mqtt

    run(main())


def test_mqtt_6_0_0_1_text_closes_the_connection() -> None:
    async def main() -> None:
        async with serving() as server, dial(server) as client:
            await client.send(b"before")
            await client.send("text")
            assert await closed(client) == (1003, "MQTT is binary")
            await server.mqtt[0].lost.wait()
            assert server.mqtt[0].fed == [b"before"]

    run(main())


def test_another_path_is_not_found_and_a_query_is_no_part_of_it() -> None:
    async def main() -> None:
        async with serving() as server:
            with pytest.raises(InvalidStatus) as refused:
                await dial(server, path="/other")
            assert refused.value.response.status_code == 404
            async with dial(server, path="/mqtt?token=1") as client:
                await client.send(b"x")
                assert await client.recv() == b"x"

    run(main())


def test_without_a_list_only_pages_of_the_same_host_and_programs_pass() -> None:
    async def main() -> None:
        async with serving() as server:
            async with dial(server), dial(server, f"http://127.0.0.1:{server.port}"):
                pass
            with pytest.raises(InvalidStatus) as refused:
                await dial(server, "https://evil.example")
            assert refused.value.response.status_code == 403
            assert server.refusals == ["this origin is not in allowed_origins"]

    run(main())


@pytest.mark.parametrize(
    ("host", "is_ours"),
    [
        ("localhost", True),
        ("LOCALHOST:8080", True),
        ("127.0.0.1:1", True),
        ("127.255.0.9", True),
        ("[::1]:8083", True),
        ("", False),
        ("localhost.evil.example", False),
        ("127.0.0.1.evil.example:80", False),
        ("localhost:80@evil.example", False),
        ("192.168.0.1", False),
        ("[::2]", False),
        ("::1", False),
        ("0.0.0.0", False),
    ],
)
def test_only_names_that_no_page_can_have_are_this_machines(host: str, is_ours: bool) -> None:
    assert is_this_machine(host) is is_ours


@pytest.mark.parametrize(
    ("allowed", "origin", "host", "passes"),
    [
        ([], None, "a", True),
        ([], "http://a", "a", True),
        ([], "http://A:80", "a", True),
        ([], "https://a", "a", True),
        ([], "http://a:8083", "a:8083", True),
        ([], "http://[::1]:8083", "[::1]:8083", True),
        ([], "http://a:8083", "a", False),
        ([], "http://b", "a", False),
        ([], "null", "a", False),
        ([], "http://a@b", "a", False),
        (["https://a.com"], None, "b", True),
        (["https://a.com"], "https://a.com", "b", True),
        (["https://a.com"], "https://a.com:443", "b", True),
        (["https://a.com"], "http://a.com", "b", False),
        (["https://a.com"], "https://a.com:8443", "b", False),
        (["https://a.com"], "https://x.a.com", "b", False),
        (["https://a.com"], "https://a.com.evil.org", "b", False),
        (["https://a.com"], "http://b", "b", False),
        (["https://*.a.com"], "https://x.a.com", "b", True),
        (["https://*.a.com"], "https://y.x.a.com", "b", True),
        (["https://*.a.com"], "https://a.com", "b", False),
        (["https://*.a.com"], "https://xa.com", "b", False),
        (["https://*.a.com"], "https://evil.org/.a.com", "b", False),
        (["https://*.a.com"], "https://evil.org#.a.com", "b", False),
        (["https://*.a.com:8443"], "https://x.a.com:8443", "b", True),
        (["*.a.com"], "http://x.a.com:99", "b", True),
        (["*"], "null", "b", True),
    ],
)
def test_origins_are_told_apart(allowed: list[str], origin: str | None, host: str, passes: bool) -> None:
    assert Origins(allowed).allow(origin, host) is passes


@pytest.mark.parametrize("text", ["", "https://", "https://a.com/path", "*.*.com", "a b"])
def test_what_is_no_origin_is_refused_when_it_is_configured(text: str) -> None:
    with pytest.raises(InvalidArgument, match="is not an origin"):
        Origins([text])


def test_a_frame_over_the_limit_closes_with_1009_before_it_is_read() -> None:
    async def main() -> None:
        async with serving(max_message_bytes=1000) as server, dial(server) as client:
            await client.send(b"\xff" * 1000)
            assert await client.recv() == b"\xff" * 1000
            await client.send(b"\xff" * 1001)
            assert (await closed(client))[0] == 1009

    run(main())


def test_before_the_first_answer_frames_are_short() -> None:
    async def main() -> None:
        async with serving() as server:
            async with dial(server) as client:
                await client.send(b"\xff" * (websocket.MAX_MESSAGE_BYTES_BEFORE_LOGIN + 1))
                assert (await closed(client))[0] == 1009
            async with dial(server) as client:
                await client.send(b"\xff")
                await client.recv()
                await client.send(b"\xff" * 1_000_000)
                assert len(await client.recv()) == 1_000_000

    run(main())


def test_several_packets_written_at_once_are_a_message_each() -> None:
    """Some clients take one packet of a message, and wait for the next one."""
    packets = [b"\x30\x03\0\x01a", b"\x40\x02\0\x01", b"\x30\xc8\x01" + bytes(200), b"\xd0\0"]

    async def main() -> None:
        async with serving() as server, dial(server) as client:
            await client.send(b"".join(packets))
            assert [await client.recv() for _ in packets] == packets

    run(main())


def test_packets_may_come_in_any_frames() -> None:
    packets = b"\x30\x03\0\x01a\x40\x02\0\x01end"

    async def main() -> None:
        async with serving() as server, dial(server) as client:
            await client.send(packets[:3])
            await client.send(b"")
            await client.send([packets[3:4], b"", packets[4:]])
            await server.mqtt[0].ended.wait()
            assert b"".join(server.mqtt[0].fed) == packets

    run(main())


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"GET /mqtt HTTP/1.1\r\nHost: a\r\n\r\n", b"426"),
        (b"POST /mqtt HTTP/1.1\r\nHost: a\r\n\r\n", b"405"),
        (b"GET /mqtt HTTP/1.1\r\n\r\n", b"400"),
        (b"GET /mqtt HTTP/1.1\r\nHost: a\r\nOrigin: http://a\r\nOrigin: http://a\r\n\r\n", b"400"),
        (b"GET /" + b"x" * 9000, b"414"),
        (b"GET /mqtt HTTP/1.1\r\n" + b"A: 0123456789\r\n" * 120 + b"B" * 20_000, b"431"),
        (b"GET /mqtt HTTP/1.1\r\n" + b"A: %s\r\n" % (b"x" * 1000) * 20, b"431"),
        (b"GET /mqtt HTTP/2.0\r\nHost: a\r\n\r\n", b"505"),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"505"),
        (b"\x10\x0c\x00\x04MQTT\x04\x02\x00\x3c\x00\x00\r\n", b""),
    ],
)
def test_requests_that_are_none_are_answered_and_closed(sent: bytes, status: bytes) -> None:
    async def main() -> None:
        async with serving() as server:
            answer = await raw(server, sent)
            assert answer[9:12] == status
            assert len(server.refusals) == 1
            assert not server.mqtt

    run(main())


def test_frames_sent_before_the_upgrade_was_accepted_end_the_connection() -> None:
    async def main() -> None:
        async with serving() as server:
            assert await raw(server, REQUEST.format(path="/mqtt").encode() + b"\x89\x80\0\0\0\0") == b""
            assert server.refusals == ["frames before the upgrade"]

    run(main())


def test_a_handshake_that_does_not_come_is_given_up() -> None:
    async def main() -> None:
        async with serving(handshake_timeout_s=0.01) as server:
            assert await raw(server, b"GET /mqtt HTTP/1.1\r\n") == b""
            assert server.refusals == ["no upgrade in time"]

    run(main())


@pytest.mark.parametrize(
    "frame", [b"\x82\x01x", b"\x83\x80\0\0\0\0", b"\x89\xfe\0\x7e\0\0\0\0" + bytes(126), b"\x80\x80\0\0\0\0"]
)
def test_frames_that_are_none_close_with_1002(frame: bytes) -> None:
    async def main() -> None:
        async with serving() as server, dial(server) as client:
            client.transport.write(frame)
            assert (await closed(client))[0] == 1002
            await server.mqtt[0].lost.wait()

    run(main())


def test_pings_are_answered_and_a_close_is_returned() -> None:
    async def main() -> None:
        async with serving() as server:
            async with dial(server) as client:
                await (await client.ping())
            assert client.close_code == 1000
            await server.mqtt[0].lost.wait()

    run(main())


def test_what_came_before_a_close_is_still_fed() -> None:
    async def main() -> None:
        async with serving() as server, dial(server) as client:
            client.protocol.send_binary(b"last")
            client.protocol.send_close(1000)
            client.transport.write(b"".join(client.protocol.data_to_send()))
            await server.mqtt[0].lost.wait()
            assert server.mqtt[0].fed == [b"last"]

    run(main())


def test_the_server_closes_with_a_frame_and_drops_what_comes_after() -> None:
    async def main() -> None:
        async with serving() as server, dial(server) as client:
            await client.send(b"x")
            await client.recv()
            mqtt = server.mqtt[0]
            mqtt.transport.write(b"bye")
            mqtt.transport.close()
            assert mqtt.transport.is_closing()
            mqtt.transport.write(b"after")
            assert await client.recv() == b"bye"
            assert (await closed(client))[0] == 1000
            await mqtt.lost.wait()
            assert mqtt.fed == [b"x"]

    run(main())


def test_a_peer_that_does_not_answer_a_close_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(websocket, "CLOSE_TIMEOUT_S", 0.01)

    async def main() -> None:
        async with serving() as server:
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(REQUEST.format(path="/mqtt").encode())
            assert b"101" in await reader.readuntil(b"\r\n\r\n")
            server.mqtt[0].transport.close()
            await server.mqtt[0].lost.wait()
            writer.close()

    run(main())


def test_a_peer_that_sends_pings_and_reads_nothing_fills_no_memory() -> None:
    async def main() -> None:
        async with serving() as server, dial(server) as client:
            mqtt = server.mqtt[0]
            mqtt.transport.set_write_buffer_limits(1000, 0)
            client.transport.pause_reading()
            while not mqtt.paused:
                mqtt.transport.write(b"x" * 100_000)
                await asyncio.sleep(0)
            full = mqtt.transport.get_write_buffer_size()
            for _ in range(1000):
                client.protocol.send_ping(b"p" * 100)
            client.protocol.send_binary(b"end")
            mqtt.answers = False
            client.transport.write(b"".join(client.protocol.data_to_send()))
            await mqtt.ended.wait()
            assert mqtt.transport.get_write_buffer_size() <= full
            client.transport.resume_reading()
            while mqtt.paused[-1]:
                await client.recv()
            await (await client.ping())

    run(main())


def test_reading_stops_while_the_connection_says_so() -> None:
    async def main() -> None:
        async with serving() as server, dial(server) as client:
            mqtt = server.mqtt[0]
            mqtt.transport.pause_reading()
            await client.send(b"x")
            assert not mqtt.transport.is_reading()
            assert not mqtt.fed
            mqtt.transport.resume_reading()
            assert await client.recv() == b"x"
            assert mqtt.transport.get_extra_info("peername")[0] == "127.0.0.1"

    run(main())


def test_payloads_reach_no_log_line(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, logger="penstock")

    async def main() -> None:
        async with serving() as server, dial(server) as client:
            await client.send(b"secret")
            await client.recv()
            await client.send("text")
            await closed(client)

    run(main())
    assert not [record for record in caplog.records if record.name.startswith("penstock")]


def test_a_browser_that_asks_for_compression_gets_none() -> None:
    async def main() -> None:
        async with serving() as server:
            client = await connect(f"ws://127.0.0.1:{server.port}/mqtt", subprotocols=MQTT, proxy=None)
            assert client.protocol.extensions == []
            await client.send(b"x")
            assert await client.recv() == b"x"
            await client.close()

    run(main())


@pytest.mark.parametrize("run_on", [run, uvloop.run], ids=["asyncio", "uvloop"])
def test_with_tls_and_on_either_loop_bytes_pass_and_the_last_frame_arrives(
    run_on: Callable[[Coroutine[object, object, None]], None],
) -> None:
    authority = trustme.CA()
    server_side, client_side = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH), ssl.create_default_context()
    authority.issue_cert("localhost").configure_cert(server_side)
    authority.configure_trust(client_side)

    async def main() -> None:
        for tls in (None, server_side):
            async with serving(tls=tls, max_message_bytes=100) as server:
                client = await connect(
                    f"{'ws' if tls is None else 'wss'}://127.0.0.1:{server.port}/mqtt",
                    subprotocols=MQTT,
                    ssl=None if tls is None else client_side,
                    server_hostname=None if tls is None else "localhost",
                    proxy=None,
                )
                await client.send(b"x" * 100)
                assert await client.recv() == b"x" * 100
                await client.send(b"x" * 101)
                assert (await closed(client))[0] == 1009
                await server.mqtt[0].lost.wait()

    run_on(main())
