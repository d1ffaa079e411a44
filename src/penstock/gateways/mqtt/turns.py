"""All connections of a gateway, once a turn of the loop: what they sent is received and scanned together, plain
publishes of all of them become one frame, and are answered together. Everything else is taken connection by connection,
in the order in which it came."""

from __future__ import annotations

import asyncio
import math
import socket
from array import array
from collections.abc import Coroutine, Sequence
from functools import partial
from itertools import compress
from operator import ne
from time import monotonic
from typing import TYPE_CHECKING

from penstock.codecs.mqtt.decode import decode, read_header
from penstock.codecs.mqtt.errors import PacketError, ProtocolError
from penstock.codecs.mqtt.kinds import PacketType, Version
from penstock.codecs.mqtt.reasons import ReasonCode
from penstock.core.ports import Buffer
from penstock.gateways.mqtt.connection import Connection
from penstock.gateways.mqtt.joint import JointPublishes
from penstock.gateways.wire.listener import ListenerFacts
from penstock.gateways.wire.reactor import Reactor, ReactorOptions, Transport, open_reactor
from penstock.gateways.wire.slot import Facts, SlotTransport
from penstock.kernels import mqtt_columns as names
from penstock.kernels import turn as kernel
from penstock.kernels.mqtt_scan import Scanner

if TYPE_CHECKING:
    from penstock.gateways.mqtt.gateway import MqttGateway

# Packets of a turn; the smallest take 4 bytes. What does not fit is looked at in the next one.
TURN_ROWS = 32_768
_LONG_BYTES = 64 << 10
# A sync takes a tenth of that; who publishes to no queue waits no longer for one.
_LONGEST_WAIT_S = 2e-3
_HIGH_WATER_BYTES = 64 << 10
# The scanner looks at the flags of these, whole or not.
_KINDS = frozenset(kind.value for kind in PacketType)
_SCANNED = range(PacketType.PUBLISH, PacketType.PUBCOMP + 1)
_POSITIONS = range(names.TOPIC_START, names.ALIAS_AT + 1)


class RegionRows:
    """What a scan found of one connection, with positions in its own bytes. It has the manner of a Scanner."""

    __slots__ = ("_first", "_scanner", "_start", "rows")

    def __init__(self, scanner: Scanner, first: int, stop: int, start: int) -> None:
        self._scanner, self._first, self.rows, self._start = scanner, first, stop - first, start

    def column(self, number: int) -> array[int]:
        [found] = self.pick((number,))
        return found

    def pick(self, numbers: Sequence[int]) -> list[array[int]]:
        found = self._scanner.pick_part(numbers, self._first, self._first + self.rows)
        if self._start:
            for number, column in zip(numbers, found, strict=True):
                if number in _POSITIONS:
                    kernel.shift(column, -self._start)
        return found


class Turns:
    """Used from the loop."""

    def __init__(self, gateway: MqttGateway) -> None:
        self._gateway, self._loop = gateway, gateway.loop
        options = gateway.options
        self.reactor: Reactor = open_reactor(
            ReactorOptions(
                max_packet_bytes=max(options.max_packet_bytes, 1 << 20),
                max_pieces_bytes=gateway.incoming_bytes,
                high_water_bytes=_HIGH_WATER_BYTES,
            )
        )
        self._versions = self.reactor.add_column("i")
        self._alias_maxima = self.reactor.add_column("i")
        self._connections: dict[int, Connection] = {}
        """by slot"""
        self._waiting: dict[Connection, asyncio.Task[None]] = {}
        """what has to be done before anything else of the client is looked at"""
        self.scanner = Scanner(TURN_ROWS)
        self.joint = JointPublishes(gateway, self.reactor, self.scanner)
        self._is_turning = self._is_called = self._is_closed = self._is_late = False
        self._timer: asyncio.TimerHandle | None = None
        """while nothing is received, so that what comes during a sync is one turn"""
        self._loop.add_reader(self.reactor.fileno(), self._readable)
        gateway.flusher.then = self.reactor.flush

    # Connections

    def adopt(self, sock: socket.socket, facts: ListenerFacts, peer: object) -> None:
        """One that the server accepted."""
        slot = self.reactor.add(sock.detach(), 0)
        self._begin(SlotTransport(self.reactor, slot, self.soon, peer), facts)

    def adopt_foreign(self, transport: Transport, facts: ListenerFacts, known: Facts) -> SlotTransport:
        """One whose bytes come and go by a transport of asyncio: see feed() and ended()."""
        slot = self.reactor.add_foreign(transport, 0)
        made = SlotTransport(self.reactor, slot, self.soon, facts=known)
        self._begin(made, facts)
        return made

    def _begin(self, transport: SlotTransport, facts: ListenerFacts) -> None:
        connection = self._connections[transport.slot] = Connection(self._gateway, transport, facts)
        self._gateway.opened(connection)

    def let_in(self, connection: Connection) -> None:
        """From now on its packets are scanned."""
        slot = connection.transport.slot
        assert connection.version is not None
        self._versions[slot], self._alias_maxima[slot] = connection.version, connection.alias_maximum

    def feed(self, transport: SlotTransport, data: Buffer) -> None:
        self.reactor.feed(transport.slot, transport.generation, data)
        self.soon()

    def ended(self, transport: SlotTransport) -> None:
        self.reactor.foreign_ended(transport.slot, transport.generation)
        self.soon()

    def drained(self, transport: SlotTransport) -> None:
        self.reactor.foreign_drained(transport.slot, transport.generation)
        self.soon()

    def heard_s(self, connection: Connection) -> float:
        """When it was last heard of. Whoever is not listened to is not silent."""
        return math.inf if connection in self._waiting else self.reactor.heard_ms[connection.transport.slot] / 1000

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._loop.remove_reader(self.reactor.fileno())
        self._gateway.flusher.then = _nothing
        self._is_closed = True
        self.reactor.close()

    @property
    def received_bytes(self) -> int:
        return self.reactor.counters().received_bytes

    # A turn

    def soon(self) -> None:
        """There is something to send, or to look at, that no socket tells of."""
        if not self._is_called and not self._is_turning:
            self._is_called = True
            self._loop.call_soon(self._called)

    def _called(self) -> None:
        self._is_called = False
        if not self._is_closed:
            self._readable()

    def _readable(self) -> None:
        """What comes while a frame of publishes is being committed becomes the next turn, which begins with the answers
        to it, or after a while: others need not wait for a slow disk."""
        if not self.joint.under_way or self._is_late:
            self.turn()
            return
        self.reactor.flush()
        if self._timer is None:
            self._loop.remove_reader(self.reactor.fileno())
            self._timer = self._loop.call_later(_LONGEST_WAIT_S, self._go_on, True)

    def committed(self) -> None:
        """The frame is: on to what came meanwhile."""
        self._is_late = False
        self._go_on(False)

    def _go_on(self, is_late: bool) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._is_late = is_late
            self._loop.add_reader(self.reactor.fileno(), self._readable)
        self.soon()

    def turn(self) -> None:
        reactor, flusher = self.reactor, self._gateway.flusher
        self._is_turning = True
        flusher.gather()
        try:
            if reactor.turn():
                self._look()
        finally:
            self._is_turning = False
            flusher.release()
            reactor.flush()

    def _look(self) -> None:
        reactor = self.reactor
        for slot in reactor.clogged:
            if (connection := self._connections.get(slot)) is not None:
                connection.outbox.pause()
        for slot in reactor.drained:
            if (connection := self._connections.get(slot)) is not None:
                connection.outbox.resume()
                connection.pump()
        if reactor.slots:
            self._take_regions()
        for slot in reactor.overfull:
            if (connection := self._connections.get(slot)) is not None and not connection.is_ended:
                self._gateway.counters.throttled["memory"] += 1
                detail = "the server has no memory left for packets that come in pieces"
                connection.fail(ProtocolError(detail, ReasonCode.QUOTA_EXCEEDED, connection.version))
        for slot in reactor.lost:
            self._lost(self._connections.pop(slot))

    def _lost(self, connection: Connection) -> None:
        if (task := self._waiting.pop(connection, None)) is not None:
            task.cancel()
        connection.lost()

    def _take_regions(self) -> None:
        reactor, scanner, options = self.reactor, self.scanner, self._gateway.options
        versions, alias_maxima = reactor.values(self._versions), reactor.values(self._alias_maxima)
        arena, starts, stops = reactor.arena, reactor.starts, reactor.stops
        limits = options.maximum_qos, options.retain_available
        scanner.scan_regions(arena, starts, stops, versions, options.max_packet_bytes, alias_maxima, *limits)
        positions, again = scanner.positions, bytearray(len(starts))
        connections = [self._connections[slot] for slot in reactor.slots]
        if scanner.rows:
            self._take_rows(connections)
        for region in compress(range(len(starts)), scanner.whys):
            self._take_other(connections[region], region, positions, again)
        for region in compress(range(len(starts)), map(ne, positions, stops)):
            if scanner.whys[region] == names.NEEDS_BYTES and not connections[region].is_ended:
                self._await_rest(connections[region], region)
        reactor.taken(positions, again)

    def _await_rest(self, connection: Connection, region: int) -> None:
        """Of a packet that is not there whole, maybe not even its length."""
        reactor, at, size = self.reactor, self.scanner.positions[region], self.scanner.sizes[region]
        if not size or reactor.arena[at] >> 4 not in _SCANNED:
            try:
                read_header(reactor.arena[at : min(reactor.stops[region], at + 5)], connection.version)
            except PacketError as error:
                connection.fail(error)
        if size > _LONG_BYTES:
            reactor.expect(reactor.slots[region], reactor.generations[region], size)

    def _take_rows(self, connections: list[Connection]) -> None:
        """Packets that were scanned, of all regions."""
        scanner, reactor = self.scanner, self.reactor
        firsts = array("i", bytes(4 * (len(connections) + 1)))
        heads, present, regions = scanner.pick((names.HEAD, names.PRESENT, names.REGION))
        kernel.bounds(regions, firsts)
        contents = array("i", bytes(4 * len(connections)))
        kernel.contents(heads, present, regions, contents)
        taken = self.joint.take(connections, heads, regions, contents)
        for region, what in enumerate(contents):
            if not what or (taken[region] and what == kernel.PUBLISHES):
                continue
            start, stop = reactor.starts[region], reactor.stops[region]
            rows = RegionRows(scanner, firsts[region], firsts[region + 1], start)
            data = reactor.arena[start:stop]
            self._run(connections[region], partial(connections[region].take_rows, rows, data, taken[region] != 0))

    def _run(self, connection: Connection, take: partial[Coroutine[None, None, None] | None]) -> None:
        if connection.is_ended:
            return
        try:
            self.wait_for(connection, take())
        except PacketError as error:
            connection.fail(error)
        except Exception as error:
            connection.broke(error)

    def _take_other(self, connection: Connection, region: int, positions: array[int], again: bytearray) -> None:
        """What ended the scan of a region. The next turn goes on behind it."""
        scanner, reactor = self.scanner, self.reactor
        why, at, stop = scanner.whys[region], positions[region], reactor.stops[region]
        if connection.is_ended:
            positions[region] = stop
            return
        if connection in self._waiting:
            return
        again[region] = 1
        data = reactor.arena[at:stop]
        try:
            if why == names.BAD_PACKET:
                raise _fault(data, connection.version, ReasonCode(scanner.reasons[region]))
            if why == names.NOT_SCANNED:
                size = self._decoded(connection, data)
            elif why == names.OTHER_PACKET:
                size = scanner.sizes[region]
                self._take_packet(connection, data[:size])
            else:
                size = 0
                again[region] = why == names.ROWS_FULL
            positions[region] += size
            if why == names.NOT_SCANNED and not size:
                again[region] = 0
        except PacketError as error:
            connection.fail(error)
        except Exception as error:
            connection.broke(error)
        if connection.is_ended:
            positions[region], again[region] = stop, 0

    def _take_packet(self, connection: Connection, data: memoryview) -> None:
        version = None if connection.version is None else Version(connection.version)
        self.wait_for(connection, connection.take(decode(data, version)))

    def _decoded(self, connection: Connection, data: memoryview) -> int:
        """The size of the packet, 0 if it is not there whole. One at a time until the client is let in."""
        limit = self._gateway.options.max_packet_bytes_before_login
        header = read_header(data[:5], connection.version)
        if header is not None and header.packet_bytes > limit:
            raise ProtocolError(
                f"a packet of {header.packet_bytes} bytes before the login, and the limit is {limit}",
                ReasonCode.PACKET_TOO_LARGE,
                connection.version,
            )
        if header is None or header.packet_bytes > len(data):
            return 0
        self._take_packet(connection, data[: header.packet_bytes])
        return header.packet_bytes

    # What takes longer

    def wait_for(self, connection: Connection, work: Coroutine[None, None, None] | None) -> None:
        """Look at nothing else of the client until the work is done."""
        if work is None:
            return
        connection.transport.pause_reading()
        task = self._waiting[connection] = self._loop.create_task(work)
        task.add_done_callback(partial(self._waited, connection))

    def _waited(self, connection: Connection, task: asyncio.Task[None]) -> None:
        if self._waiting.pop(connection, None) is None or task.cancelled():
            return
        slot = connection.transport.slot
        self.reactor.heard_ms[slot] = int(monotonic() * 1000)
        if (error := task.exception()) is not None:
            connection.broke(error)
        if not connection.is_ended and not self._gateway.is_closing:
            connection.transport.resume_reading()


def _fault(data: memoryview, version: Version | None, reason: ReasonCode) -> ProtocolError:
    """What is wrong with the packet that the data begins with. The scanner knows the reason, the decoder says more of a
    packet that is wrong in itself, and not by what was agreed on."""
    kind = PacketType(data[0] >> 4).name if data[0] >> 4 in _KINDS else "packet"
    detail = reason.name.lower().replace("_", " ")
    try:
        header = read_header(data[:5], version)
        if header is not None and header.packet_bytes <= len(data):
            decode(data[: header.packet_bytes], version)
    except PacketError as error:
        detail = error.detail
    return ProtocolError(f"{kind}: {detail}", reason, version)


def _nothing() -> None:
    """There is no reactor any more."""
