"""A server that does what a test says, connection after connection: for clients whose server misbehaves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

from penstock.codecs.mqtt.decode import Decoder, Need
from penstock.codecs.mqtt.encode import encode
from penstock.codecs.mqtt.packets import ConnAck, Connect, Packet, PingReq, PingResp
from penstock.codecs.mqtt.properties import NO_PROPERTIES, Properties

T = TypeVar("T", bound=Packet)


class Peer:
    """The server's end of one connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._decoder = Decoder()

    def send(self, *packets: Packet) -> None:
        assert self._decoder.version is not None
        self.send_bytes(b"".join([encode(packet, self._decoder.version) for packet in packets]))

    def send_bytes(self, data: bytes) -> None:
        self._writer.write(data)

    async def expect(self, kind: type[T]) -> T:
        """The next packet, which must be of this kind; pings are answered on the way."""
        while True:
            packet = await self._next()
            if isinstance(packet, kind):
                return packet
            assert isinstance(packet, PingReq), packet
            self.send(PingResp())

    async def _next(self) -> Packet:
        while (packet := self._decoder.next_packet()) is Need.DATA:
            data = await self._reader.read(1 << 16)
            assert data, "the client closed the connection"
            self._decoder.receive(data)
        return packet

    async def ended(self) -> None:
        """Returns when the client has closed; what it sent before is dropped."""
        try:
            while await self._reader.read(1 << 16):
                pass
        except ConnectionError:
            return

    async def accept(self, properties: Properties = NO_PROPERTIES, *, session_present: bool = False) -> Connect:
        connect = await self.expect(Connect)
        self.send(ConnAck(session_present, properties=properties))
        return connect


Script = Callable[[Peer], Awaitable[None]]


@asynccontextmanager
async def scripted(*scripts: Script) -> AsyncIterator[int]:
    """The port of a server that plays one script a connection and then closes it. Fails if a script fails or was not
    played to its end."""
    failures: list[BaseException] = []
    unplayed = list(scripts)
    done = asyncio.Event()
    finished = 0

    async def play(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal finished
        if not unplayed:
            writer.close()
            return
        try:
            await unplayed.pop(0)(Peer(reader, writer))
        except BaseException as error:
            failures.append(error)
        finally:
            finished += 1
            if failures or finished == len(scripts):
                done.set()
            writer.close()

    async with await asyncio.start_server(play, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]
        async with asyncio.timeout(10):
            await done.wait()
    if failures:
        raise failures[0]
