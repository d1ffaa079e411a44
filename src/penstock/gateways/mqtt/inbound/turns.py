"""All connections of a gateway, once a turn of the loop: what they sent is received and scanned together, and what they
published is taken and answered together. Everything else is taken connection by connection."""

from __future__ import annotations

import asyncio
import math
from array import array
from collections.abc import Callable, Coroutine
from functools import partial
from itertools import compress
from operator import ne
from time import monotonic

from penstock.broker.feed.feeder import Feeder
from penstock.codecs.mqtt.decode import decode, read_header
from penstock.codecs.mqtt.errors import PacketError, ProtocolError
from penstock.codecs.mqtt.kinds import PacketType, Version
from penstock.codecs.mqtt.reasons import ReasonCode
from penstock.gateways.mqtt.admin.reports import Reports
from penstock.gateways.mqtt.connection import Connection
from penstock.gateways.mqtt.connections import Connections
from penstock.gateways.mqtt.inbound.client_columns import ClientColumns
from penstock.gateways.mqtt.inbound.publishes import Publishes
from penstock.gateways.mqtt.inbound.requests import Requests
from penstock.gateways.mqtt.inbound.scanned import RunOfRows
from penstock.gateways.mqtt.options import CurrentOptions
from penstock.gateways.wire.outbox import Flusher
from penstock.gateways.wire.reactor import Reactor
from penstock.gateways.wire.turn_loop import TurnLoop
from penstock.kernels import mqtt_columns as names
from penstock.kernels import turn as kernel
from penstock.kernels.mqtt_scan import Scanner
from penstock.log.shard import Shard

_LONG_BYTES = 64 << 10
# The scanner looks at the flags of these, whole or not.
_KINDS = frozenset(kind.value for kind in PacketType)
_SCANNED = range(PacketType.PUBLISH, PacketType.PUBCOMP + 1)


class Turns:
    """Used from the loop."""

    def __init__(
        self,
        reactor: Reactor,
        scanner: Scanner,
        columns: ClientColumns,
        connections: Connections,
        publishes: Publishes,
        requests: Requests,
        gone: Callable[[Connection], None],
        shard: Shard,
        feeder: Feeder,
        flusher: Flusher,
        options: CurrentOptions,
        reports: Reports,
    ) -> None:
        """`gone` is told of clients that were let in."""
        self.reactor, self.scanner, self.columns, self.publishes = reactor, scanner, columns, publishes
        self._all, self._connections = connections, connections.by_slot
        self._requests, self._gone = requests, gone
        self._options, self._reports = options, reports
        self._waiting: dict[Connection, asyncio.Task[None]] = {}
        """what has to be done before anything else of the client is looked at"""
        self.loop = TurnLoop(reactor, flusher, shard, feeder, connections.open, self._look)
        publishes.loop = self.loop

    def heard_s(self, connection: Connection) -> float:
        """When it was last heard of. Whoever is not listened to is not silent."""
        return math.inf if connection in self._waiting else self.reactor.heard_ms[connection.transport.slot] / 1000

    # A turn

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
                self._reports.throttled["memory"] += 1
                detail = "the server has no memory left for packets that come in pieces"
                connection.fail(ProtocolError(detail, ReasonCode.QUOTA_EXCEEDED, connection.version))
        for slot in reactor.lost:
            self._lost(slot)

    def _lost(self, slot: int) -> None:
        if (task := self._waiting.pop(self._connections[slot], None)) is not None:
            task.cancel()
        if (connection := self._all.lost(slot)).is_known:
            self._gone(connection)

    def _take_regions(self) -> None:
        reactor, scanner, options = self.reactor, self.scanner, self._options.now
        starts, stops = reactor.starts, reactor.stops
        versions, alias_maxima = reactor.values(self.columns.versions), reactor.values(self.columns.alias_maxima)
        limits = options.max_packet_bytes, alias_maxima, options.maximum_qos, options.retain_available
        scanner.scan_regions(reactor.arena, starts, stops, versions, *limits)
        positions, again = scanner.positions, bytearray(len(starts))
        if scanner.rows:
            self._take_rows(len(starts))
        if positions != stops:
            self._take_rest(positions, again)
        reactor.taken(positions, again)

    def _take_rest(self, positions: array[int], again: bytearray) -> None:
        """What a scan left of regions: packets that it does not take, and the beginnings of others."""
        reactor, whys = self.reactor, self.scanner.whys
        for region in compress(range(len(positions)), whys):
            self._take_other(self._connections[reactor.slots[region]], region, positions, again)
        for region in compress(range(len(positions)), map(ne, positions, reactor.stops)):
            if whys[region] == names.NEEDS_BYTES:
                self._await_rest(self._connections[reactor.slots[region]], region)

    def _await_rest(self, connection: Connection, region: int) -> None:
        """Of a packet that is not there whole, maybe not even its length."""
        reactor, at, size = self.reactor, self.scanner.positions[region], self.scanner.sizes[region]
        if connection.is_ended:
            return
        if not size or reactor.arena[at] >> 4 not in _SCANNED:
            try:
                read_header(reactor.arena[at : min(reactor.stops[region], at + 5)], connection.version)
            except PacketError as error:
                connection.fail(error)
        self._expect(region, size)

    def _expect(self, region: int, size: int) -> None:
        """The rest of a packet of this size: a long one does not fit a region in pieces."""
        if size > _LONG_BYTES:
            self.reactor.expect(self.reactor.slots[region], self.reactor.generations[region], size)

    def _take_rows(self, count: int) -> None:
        """Packets that were scanned, of so many regions."""
        heads, present, regions = self.scanner.pick((names.HEAD, names.PRESENT, names.REGION))
        contents = array("i", bytes(4 * count))
        every = kernel.contents(heads, present, regions, contents)
        if every & kernel.ACKNOWLEDGES:
            self._take_acknowledgements(regions, contents)
        if every & kernel.PUBLISHES:
            try:
                self._take_publishes(heads, regions, contents, every)
            except Exception as error:
                # A mistake of ours: those whom it may be about pay for it, and nobody else.
                for slot in compress(self.reactor.slots, [what & kernel.PUBLISHES for what in contents]):
                    self._connections[slot].broke(error)

    def _take_publishes(self, heads: array[int], regions: array[int], contents: array[int], every: int) -> None:
        try:
            self.publishes.take(heads, regions, contents, every)
        finally:
            for connection, work in self.publishes.waiting():
                self._wait_for(connection, work)

    def _take_acknowledgements(self, regions: array[int], contents: array[int]) -> None:
        firsts = array("i", bytes(4 * (len(contents) + 1)))
        kernel.bounds(regions, firsts)
        for region, what in enumerate(contents):
            if what & kernel.ACKNOWLEDGES:
                connection = self._connections[self.reactor.slots[region]]
                rows = RunOfRows(self.scanner, firsts[region], firsts[region + 1])
                self._run(connection, partial(connection.take_acknowledgements, rows))

    def _run(self, connection: Connection, take: partial[Coroutine[None, None, None] | None]) -> None:
        if connection.is_ended:
            return
        try:
            self._wait_for(connection, take())
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
                size = self._decoded(connection, region, data)
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
        self._wait_for(connection, self._requests.take(connection, decode(data, version)))

    def _decoded(self, connection: Connection, region: int, data: memoryview) -> int:
        """The size of the packet, 0 if it is not there whole. One at a time until the client is let in."""
        limit = self._options.now.max_packet_bytes_before_login
        header = read_header(data[:5], connection.version)
        if header is not None and header.packet_bytes > limit:
            raise ProtocolError(
                f"a packet of {header.packet_bytes} bytes before the login, and the limit is {limit}",
                ReasonCode.PACKET_TOO_LARGE,
                connection.version,
            )
        if header is None:
            return 0
        if header.packet_bytes > len(data):
            self._expect(region, header.packet_bytes)
            return 0
        self._take_packet(connection, data[: header.packet_bytes])
        return header.packet_bytes

    # What takes longer

    def _wait_for(self, connection: Connection, work: Coroutine[None, None, None] | None) -> None:
        """Look at nothing else of the client until the work is done. What it waits for already comes first."""
        if work is None:
            return
        if (before := self._waiting.get(connection)) is not None:
            work = _after(before, work)
        connection.transport.pause_reading()
        task = self._waiting[connection] = asyncio.get_running_loop().create_task(work)
        task.add_done_callback(partial(self._waited, connection))

    def _waited(self, connection: Connection, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            connection.broke(error)
        if task.cancelled() or self._waiting.get(connection) is not task:
            return
        del self._waiting[connection]
        slot = connection.transport.slot
        self.reactor.heard_ms[slot] = int(monotonic() * 1000)
        if not connection.is_ended and not self._all.is_closing:
            connection.transport.resume_reading()


async def _after(before: asyncio.Task[None], work: Coroutine[None, None, None]) -> None:
    try:
        await before
    except BaseException:
        work.close()
        raise
    await work


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
