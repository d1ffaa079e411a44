"""Bytes of one connection: received into one buffer that all share, scanned there, and kept only where a packet is not
there whole."""

from __future__ import annotations

import asyncio
import math
import socket
from collections.abc import Coroutine
from time import monotonic
from typing import TYPE_CHECKING, cast

from penstock.codecs.mqtt.decode import decode, read_header
from penstock.codecs.mqtt.errors import PacketError, ProtocolError
from penstock.codecs.mqtt.kinds import PacketType, Version
from penstock.codecs.mqtt.reasons import ReasonCode
from penstock.core.ports import Buffer
from penstock.gateways.listener import ListenerFacts
from penstock.gateways.mqtt.connection import Connection
from penstock.gateways.mqtt.outbox import Transport
from penstock.kernels import mqtt_columns as names

if TYPE_CHECKING:
    from penstock.gateways.mqtt.gateway import MqttGateway

# A longer packet that comes in pieces is gathered in a buffer of its own, which grows with what has come.
_SHARED_BYTES_KEPT = 64 << 10
_LEAST_ROOM_BYTES = 64 << 10
# The scanner looks at the flags of these, whole or not.
_SCANNED = range(PacketType.PUBLISH, PacketType.PUBCOMP + 1)


class MqttProtocol(asyncio.BufferedProtocol):
    def __init__(self, gateway: MqttGateway, facts: ListenerFacts) -> None:
        self._gateway, self._facts = gateway, facts
        self._connection: Connection | None = None
        self._transport: Transport | None = None
        self._kept = bytearray()
        """what was received and not looked at yet, mostly the beginning of a packet"""
        self._filled = 0
        """how much of `_kept` that is"""
        self._waiting: asyncio.Task[None] | None = None
        """what has to be done before anything else of the client is looked at"""

    # From the loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(Transport, transport)
        sock = transport.get_extra_info("socket")
        if sock is not None and sock.family in (socket.AF_INET, socket.AF_INET6):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._connection = Connection(self._gateway, self._transport, self._facts)
        self._gateway.opened(self._connection)

    def connection_lost(self, error: Exception | None) -> None:
        assert self._connection is not None
        if self._waiting is not None:
            self._waiting.cancel()
        self._kept = bytearray()
        self._filled = 0
        self._connection.lost()

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        assert self._connection is not None
        self._connection.outbox.is_paused = True

    def resume_writing(self) -> None:
        assert self._connection is not None
        self._connection.outbox.is_paused = False
        self._connection.pump()

    def get_buffer(self, sizehint: int) -> memoryview:
        if self._filled > _SHARED_BYTES_KEPT or self._waiting is not None:
            self._reserve(_LEAST_ROOM_BYTES)
            return memoryview(self._kept)[self._filled :]
        shared = self._gateway.receive_buffer
        if self._filled:
            shared[: self._filled] = self._kept[: self._filled]
        return shared[self._filled :]

    def buffer_updated(self, size: int) -> None:
        if self._filled > _SHARED_BYTES_KEPT or self._waiting is not None:
            self._filled += size
            if self._waiting is None:
                self._look_again()
            return
        stop, self._filled = self._filled + size, 0
        self._receive(self._gateway.receive_buffer, stop)

    def feed(self, data: Buffer) -> None:
        """For transports that are not read into our buffer."""
        self._append(data)
        if self._waiting is None:
            self._look_again()

    # What was received

    def _look_again(self) -> None:
        """At what was kept."""
        data, stop = self._kept, self._filled
        self._kept, self._filled = bytearray(), 0
        self._receive(memoryview(data), stop)

    def _receive(self, data: memoryview, stop: int) -> None:
        connection = self._connection
        assert connection is not None
        before_s, connection.heard_s = connection.heard_s, (began_s := monotonic())
        flusher = self._gateway.flusher
        flusher.gather(began_s)
        at = 0
        try:
            while at < stop and self._waiting is None and not connection.is_ended:
                done = self._scan(data, at, stop) if connection.is_open else self._decode_one(data, at, stop)
                if done == at:
                    break
                at = done
            if connection.is_open:
                self._gateway.pace.heard(before_s, self._gateway.scanner.rows)
        except PacketError as error:
            connection.fail(error)
        except Exception as error:
            connection.broke(error)
        finally:
            flusher.release()
        if at < stop and not connection.is_ended:
            self._append(data[at:stop])

    def _decode_one(self, data: memoryview, at: int, stop: int) -> int:
        """Where the packet at `at` ends; `at` if it is not there whole. One at a time until the client is let in."""
        connection = self._connection
        assert connection is not None
        limit = self._gateway.options.max_packet_bytes_before_login
        header = read_header(data[at : min(stop, at + 5)], connection.version)
        if header is not None and header.packet_bytes > limit:
            raise ProtocolError(
                f"a packet of {header.packet_bytes} bytes before the login, and the limit is {limit}",
                ReasonCode.PACKET_TOO_LARGE,
                connection.version,
            )
        if header is None or at + header.packet_bytes > stop:
            return at
        end = at + header.packet_bytes
        self._wait_for(connection.take(decode(data[at:end], connection.version)))
        return end

    def _scan(self, data: memoryview, at: int, stop: int) -> int:
        """How far everything is taken."""
        connection, scanner = self._connection, self._gateway.scanner
        assert connection is not None and connection.version is not None
        options = self._gateway.options
        count = scanner.scan(
            data,
            at,
            stop,
            connection.version,
            options.max_packet_bytes,
            connection.alias_maximum,
            options.maximum_qos,
            options.retain_available,
        )
        why, position, size, reason = scanner.why, scanner.position, scanner.size, scanner.reason
        if count and (work := connection.take_rows(data[:stop], at)) is not None:
            self._wait_for(work)
            return position
        if why == names.BAD_PACKET:
            raise ProtocolError(f"a packet at byte {position} of {stop}", ReasonCode(reason), connection.version)
        if why == names.OTHER_PACKET:
            packet = decode(data[position : position + size], Version(connection.version))
            self._wait_for(connection.take(packet))
            return position + size
        if why == names.NEEDS_BYTES and position < stop and data[position] >> 4 not in _SCANNED:
            read_header(data[position : min(stop, position + 5)], connection.version)
        if why == names.NEEDS_BYTES and size > _SHARED_BYTES_KEPT and not count:
            self._reserve(min(size - (stop - position), _LEAST_ROOM_BYTES))
        return position

    def _wait_for(self, work: Coroutine[None, None, None] | None) -> None:
        """Look at nothing else of the client until the work is done."""
        if work is None:
            return
        assert self._transport is not None and self._connection is not None
        self._transport.pause_reading()
        # Whoever is not listened to is not silent.
        self._connection.heard_s = math.inf
        self._waiting = asyncio.get_running_loop().create_task(work)
        self._waiting.add_done_callback(self._waited)

    def _waited(self, task: asyncio.Task[None]) -> None:
        self._waiting = None
        connection = self._connection
        assert connection is not None and self._transport is not None
        if task.cancelled():
            return
        connection.heard_s = monotonic()
        error = task.exception()
        if error is not None:
            connection.broke(error)
        if connection.is_ended or self._gateway.is_closing:
            return
        if self._filled:
            self._look_again()
        if self._waiting is None:
            self._transport.resume_reading()

    def _append(self, data: Buffer) -> None:
        self._reserve(len(data))
        self._kept[self._filled : self._filled + len(data)] = data
        self._filled += len(data)

    def _reserve(self, size: int) -> None:
        """Room for so many bytes more; a buffer that is full grows by half."""
        missing = self._filled + size - len(self._kept)
        if missing > 0:
            self._kept = self._kept + bytes(max(missing, len(self._kept) // 2))
