"""All connections of a gateway, once a turn of the loop: what they sent is received and scanned together, and what they
published is taken together. Everything else is taken method by method, in the order of its channel."""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Coroutine, Sequence
from functools import partial
from itertools import compress

from penstock.broker.broker import Broker
from penstock.broker.feed.begun import begun
from penstock.codecs.amqp091.assembly import Received, fault_at
from penstock.codecs.amqp091.decode import Frame, Need, is_protocol_header, read_frame
from penstock.codecs.amqp091.encode import content_frames, frame_bytes
from penstock.codecs.amqp091.errors import AmqpError, Fault
from penstock.codecs.amqp091.kinds import FrameType
from penstock.codecs.amqp091.methods import ChannelClose, ChannelCloseOk, ChannelOpen, ChannelOpenOk, Method
from penstock.codecs.amqp091.state import ChannelState, Handling, State
from penstock.core.ports import Buffer
from penstock.gateways.amqp091.channel import Channel
from penstock.gateways.amqp091.checks import Run
from penstock.gateways.amqp091.columns import ConnectionColumns
from penstock.gateways.amqp091.connection import Connection
from penstock.gateways.amqp091.connections import Connections
from penstock.gateways.amqp091.login import Closed, Login
from penstock.gateways.amqp091.modes import Modes
from penstock.gateways.amqp091.options import CurrentOptions
from penstock.gateways.amqp091.publishes import Publishes
from penstock.gateways.amqp091.reports import Reports
from penstock.gateways.amqp091.requests import Requests
from penstock.gateways.amqp091.settlements import METHODS, Settlements
from penstock.gateways.wire.outbox import Flusher
from penstock.gateways.wire.reactor import Reactor
from penstock.gateways.wire.turn_loop import TurnLoop
from penstock.kernels import amqp_columns as names
from penstock.kernels import amqp_turn as kernel
from penstock.kernels.amqp_scan import Scanner

# Rows of a turn; the smallest frame takes 8 bytes. What does not fit is looked at in the next one.
TURN_ROWS = 32_768
_LARGEST_ROW_BODY = 64 << 10
_LONG_BYTES = 64 << 10
# Of what was put together here, as large as any peer's may be.
_ANY_FRAME = (1 << 30) - 8
# Frames that no scan takes, of one connection in one turn.
_MOST_OTHER = 256
_PUBLISH = (60, 40)
Work = Coroutine[object, None, None]


class Turns:
    """Used from the loop."""

    def __init__(
        self,
        broker: Broker,
        reactor: Reactor,
        columns: ConnectionColumns,
        connections: Connections,
        login: Login,
        requests: Requests,
        publishes: Publishes,
        settlements: Settlements,
        modes: Modes,
        flusher: Flusher,
        options: CurrentOptions,
        reports: Reports,
    ) -> None:
        self._broker, self.reactor, self._columns, self._all = broker, reactor, columns, connections
        self._connections, self._scanner = connections.by_slot, Scanner(TURN_ROWS)
        self._login, self._requests, self._publishes, self._settlements = login, requests, publishes, settlements
        self._modes, self._options, self._reports = modes, options, reports
        self.loop = TurnLoop(reactor, flusher, broker.shard, broker.feeder, connections.open, self._look)
        publishes.loop, publishes.wait = self.loop, self.wait

    def heard_s(self, connection: Connection) -> float:
        return self.reactor.heard_ms[connection.transport.slot] / 1000

    # A turn

    def _look(self) -> None:
        reactor = self.reactor
        for slot in reactor.clogged:
            if (connection := self._connections.get(slot)) is not None:
                connection.outbox.pause()
        for slot in reactor.drained:
            if (connection := self._connections.get(slot)) is not None:
                connection.outbox.resume()
                for channel in connection.channels.values():
                    channel.pump()
        if reactor.slots:
            self._take_regions()
        for slot in reactor.overfull:
            if (connection := self._connections.get(slot)) is not None and not connection.is_ended:
                self._reports.throttled["memory"] += 1
                detail = "the server has no memory left for frames that come in pieces"
                connection.fail(AmqpError(Fault.INTERNAL, 0, detail=detail))
        for slot in reactor.lost:
            self._all.lost(slot)

    def _take_regions(self) -> None:
        reactor, scanner, columns = self.reactor, self._scanner, self._columns
        starts, stops = reactor.starts, reactor.stops
        maxima, assembling = reactor.values(columns.frame_maxima), reactor.values(columns.assembling)
        scanner.scan_regions(reactor.arena, starts, stops, maxima, _LARGEST_ROW_BODY, assembling)
        whys, positions, sizes, again = scanner.whys, scanner.positions, scanner.sizes, bytearray(len(starts))
        if scanner.rows:
            connections = [self._connections[slot] for slot in reactor.slots]
            self._take_rows(connections, reactor.arena[: max(stops)], starts)
        for region in compress(range(len(starts)), whys):
            connection = self._connections[reactor.slots[region]]
            positions[region], again[region] = self._take_other(
                connection, whys[region], positions[region], stops[region]
            )
        for region, why in enumerate(whys):
            if why == names.NEEDS_BYTES and sizes[region] > _LONG_BYTES:
                reactor.expect(reactor.slots[region], reactor.generations[region], sizes[region])
        reactor.taken(positions, again)

    # What was scanned

    def _take_rows(self, connections: Sequence[Connection], data: Buffer, starts: Sequence[int]) -> None:
        """Rows of a scan of the data; those of region i are of connection i, and begin at starts[i]."""
        scanner = self._scanner
        kinds, channels, regions, ends = scanner.pick((names.KIND, names.CHANNEL, names.REGION, names.ROW_END))
        firsts = array("i", bytes(4 * len(kinds)))
        count = kernel.runs(kinds, channels, regions, firsts)
        publishing: list[Run] = []
        for first, stop in zip(firsts[:count], [*firsts[1:count], len(kinds)], strict=True):
            region, kind = regions[first], kinds[first]
            connection = connections[region]
            if kind == names.HEARTBEAT or (channel := self._channel(connection, channels[first], kind)) is None:
                continue
            begin = ends[first - 1] if first and regions[first - 1] == region else starts[region]
            run = Run(connection, channel, first, stop)
            try:
                if channel.waiting is not None:
                    self._keep(connection, channel, data[begin : ends[stop - 1]])
                elif kind != names.PUBLISH:
                    self._settle(run)
                elif channel.transaction is not None:
                    self._modes.gather(scanner, data, run, data[begin : ends[stop - 1]])
                else:
                    publishing.append(run)
            except Exception as error:
                connection.broke(error, channel.number)
        if publishing:
            try:
                self._publishes.take(scanner, data, publishing)
            except Exception as error:
                # A mistake of ours: those whom it may be about pay for it, and nobody else.
                for connection in dict.fromkeys([run.connection for run in publishing]):
                    connection.broke(error)

    def _channel(self, connection: Connection, number: int, kind: int) -> Channel | None:
        """Where such a row is taken; None if it is not."""
        if connection.is_ended:
            return None
        try:
            handling = connection.order.of_channel(number, _PUBLISH if kind == names.PUBLISH else METHODS[kind])
        except AmqpError as error:
            connection.fail(error)
            return None
        return connection.channels.get(number) if handling is Handling.TAKE else None

    def _settle(self, run: Run) -> None:
        kinds, flags = self._scanner.pick_part((names.KIND, names.FLAGS), run.first, run.stop)
        self._settlements.take(run.channel, kinds, flags, self._scanner.tags(run.first, run.stop))

    # What was not

    def _take_other(self, connection: Connection, why: int, at: int, stop: int) -> tuple[int, bool]:
        """What ended the scan of a region: how far it is taken, and whether the next turn goes on at once."""
        if connection.is_ended and not connection.order.is_running and connection.order.state is not State.CLOSING:
            return stop, False
        if connection.waiting is not None:
            return at, False
        data = self.reactor.arena
        try:
            if why == names.BAD_FRAME:
                raise fault_at(data, at, stop, connection.frame_max)
            if why == names.NOT_SCANNED:
                at = self._take_handshake(connection, data, at, stop)
            elif why == names.OTHER_FRAME:
                at = self._take_frames(connection, data, at, stop)
        except Closed as error:
            self._reports.turned_away(connection.peer, str(error))
            connection.close()
        except Exception as error:
            connection.broke(error)
        if connection.order.state is State.CLOSED or connection.is_lost:
            return stop, False
        if why == names.BAD_FRAME:
            return stop, False
        is_next = why != names.NOT_SCANNED or connection.order.is_running
        return at, is_next and at < stop and connection.waiting is None

    def _take_handshake(self, connection: Connection, data: memoryview, at: int, stop: int) -> int:
        """Frame by frame, until the client is let in."""
        if not connection.is_greeted:
            is_ours = is_protocol_header(data[at:stop])
            if is_ours is Need.DATA:
                return at
            if not is_ours:
                connection.greet_again()
                return stop
            self._login.greet(connection)
            at += 8
        while not _is_done_with_handshake(connection):
            frame = read_frame(data, at, stop, connection.frame_max)
            if not isinstance(frame, Frame):
                break
            self._take_frame(connection, frame)
            at += frame.size
        return at

    def _take_frames(self, connection: Connection, data: memoryview, at: int, stop: int) -> int:
        """The first, and those behind it that no scan would take either."""
        for number in range(_MOST_OTHER):
            if number and not self._is_other(connection, data, at, stop):
                break
            frame = read_frame(data, at, stop, connection.frame_max)
            if not isinstance(frame, Frame):
                break
            at += frame.size
            try:
                self._take_frame(connection, frame)
            except Exception as error:
                connection.broke(error)
            if connection.waiting is not None or connection.order.state is State.CLOSED:
                break
        return at

    def _is_other(self, connection: Connection, data: memoryview, at: int, stop: int) -> bool:
        if stop - at < _LEAST_METHOD or connection.is_ended:
            return False
        channel = int.from_bytes(data[at + 1 : at + 3], "big")
        if connection.assembly.expects(channel) is not FrameType.METHOD:
            return True
        return data[at] == FrameType.METHOD and bytes(data[at + 7 : at + 11]) not in _SCANNED_METHODS

    def _take_frame(self, connection: Connection, frame: Frame) -> None:
        number = frame.channel
        channel = connection.channels.get(number)
        if channel is not None and channel.waiting is not None:
            self._keep(connection, channel, frame_bytes(frame))
            return
        if frame.type is not FrameType.METHOD and self._is_late(connection, number):
            return
        try:
            received = connection.assembly.take(frame)
        finally:
            connection.note_assembling()
        if received is None:
            return
        if received.content is not None:
            self._take_content(connection, received)
        else:
            self._take_method(connection, number, received.method)

    def _is_late(self, connection: Connection, number: int) -> bool:
        """The rest of a content whose channel is gone: its client did not know yet."""
        is_closing = connection.order.channel(number) is ChannelState.CLOSING or connection.is_ended
        return is_closing and connection.assembly.expects(number) is FrameType.METHOD

    def _take_content(self, connection: Connection, received: Received) -> None:
        content, number = received.content, received.channel
        assert content is not None
        method_number = received.method.class_id, received.method.method_id
        if connection.order.of_channel(number, method_number) is not Handling.TAKE:
            return
        if method_number != _PUBLISH:
            raise AmqpError(Fault.UNIMPLEMENTED, 0, method_number)
        data = content_frames(number, received.method, content.properties, content.body, _ANY_FRAME)
        self._take_bytes(connection, data, _ANY_FRAME, len(data), 0)

    def _take_method(self, connection: Connection, number: int, method: Method) -> None:
        handling = connection.follow(number, method)
        if handling is Handling.IGNORE:
            return
        if handling is Handling.ANSWER:
            if isinstance(method, ChannelClose):
                connection.close_channel_ok(number)
            else:
                self._begin(connection, None, self._requests.on_connection(connection, method))
            return
        if number == 0:
            self._begin(connection, None, self._requests.on_connection(connection, method))
        elif isinstance(method, ChannelOpen):
            connection.open_channel(Channel(number, self._broker.session(), self._broker.settling))
            connection.send(number, ChannelOpenOk())
        elif not isinstance(method, ChannelCloseOk):
            channel = connection.channels[number]
            self._begin(connection, channel, self._requests.on_channel(connection, channel, method))

    # What takes longer

    def _begin(self, connection: Connection, channel: Channel | None, work: Work) -> None:
        task = begun(work)
        if isinstance(task, asyncio.Task):
            self._wait_for(connection, channel, task)

    def wait(self, connection: Connection, channel: Channel, work: Coroutine[None, None, None]) -> None:
        """Look at nothing else of the channel until the work is done. What it waits for already comes first."""
        if (before := channel.waiting) is not None:
            work = _after(before, work)
        self._wait_for(connection, channel, asyncio.get_running_loop().create_task(work))

    def _wait_for(self, connection: Connection, channel: Channel | None, task: asyncio.Task[None]) -> None:
        if channel is None:
            connection.waiting = task
            connection.transport.pause_reading()
        else:
            channel.waiting = task
        task.add_done_callback(partial(self._waited, connection, channel))

    def _waited(self, connection: Connection, channel: Channel | None, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        waits_for = connection.waiting if channel is None else channel.waiting
        if waits_for is task and channel is None:
            connection.waiting = None
        elif waits_for is task and channel is not None:
            channel.waiting = None
        if isinstance(error, Closed):
            self._reports.turned_away(connection.peer, str(error))
            connection.close()
        elif error is not None:
            connection.broke(error, 0 if channel is None else channel.number)
        if waits_for is not task or connection.is_lost or self._all.is_closing:
            return  # something else comes before what was sent meanwhile
        if channel is None:
            connection.transport.resume_reading()
        elif channel.is_open:
            self._take_backlog(connection, channel)

    def _keep(self, connection: Connection, channel: Channel, frames: Buffer) -> None:
        """For when the channel has done what it waits for."""
        limit = self._options.now.max_backlog_bytes
        was_full = len(channel.backlog) > limit
        channel.backlog += frames
        if len(channel.backlog) > limit and not was_full:
            connection.parked += 1
            connection.transport.pause_reading()

    def _take_backlog(self, connection: Connection, channel: Channel) -> None:
        data = bytes(channel.backlog)
        channel.backlog.clear()
        if len(data) > self._options.now.max_backlog_bytes:
            connection.parked -= 1
            if not connection.parked:
                connection.transport.resume_reading()
        try:
            self._take_bytes(connection, data, connection.frame_max, _LARGEST_ROW_BODY, connection.assembly.assembling)
        except Exception as error:
            connection.broke(error, channel.number)
        self.loop.soon()

    def _take_bytes(self, connection: Connection, data: bytes, frame_max: int, max_body: int, assembling: int) -> None:
        """Whole frames of one channel, as if they came now."""
        scanner, at = self._scanner, 0
        while at < len(data) and not connection.is_ended:
            scanner.scan(data, at, len(data), frame_max, max_body, assembling)
            begin, at, why = at, scanner.position, scanner.why
            if scanner.rows:
                self._take_rows([connection], data, [begin])
            if why == names.OTHER_FRAME:
                frame = read_frame(data, at, len(data), frame_max)
                assert isinstance(frame, Frame)
                at += frame.size
                try:
                    self._take_frame(connection, frame)
                except Exception as error:
                    connection.broke(error)
                assembling = connection.assembly.assembling
            elif why != names.ROWS_FULL:
                break


def _is_done_with_handshake(connection: Connection) -> bool:
    is_over = connection.order.is_running or connection.order.state is State.CLOSED
    return is_over or connection.is_lost or connection.waiting is not None


_LEAST_METHOD = 12
_SCANNED_METHODS = frozenset(bytes([0, 60, 0, method]) for method in (40, 80, 90, 120))


async def _after(before: asyncio.Task[None], work: Coroutine[None, None, None]) -> None:
    try:
        await asyncio.wait([before])
    except BaseException:
        work.close()
        raise
    await work
