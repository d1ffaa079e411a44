"""The reactor in plain Python, for macOS and for installations without a compiler. See reactor.py for what it does."""

from __future__ import annotations

import contextlib
import errno
import selectors
import socket
import time
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import cast

from penstock.core.errors import Closed, InvalidArgument
from penstock.core.ports import Buffer
from penstock.gateways.wire.columns import Typecode, pick, width, zeros
from penstock.gateways.wire.foreign import Foreign
from penstock.gateways.wire.reactor import (
    GENERATIONS,
    MAX_COLUMNS,
    MAX_LISTENERS,
    SMALL_REST_BYTES,
    Accepted,
    Counters,
    ReactorOptions,
    Transport,
)

_READ, _WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE
_MOST_BYTES = 1 << 30
# Of a connection that failed before it was accepted: the next one may be good.
_PASSING = {
    errno.EINTR,
    errno.ECONNABORTED,
    errno.EPROTO,
    errno.EPERM,
    errno.ENETDOWN,
    errno.EHOSTDOWN,
    errno.EHOSTUNREACH,
    errno.ENETUNREACH,
}
_SHORT_OF_MEMORY = {errno.ENOBUFS, errno.ENOMEM}


class _Connection:
    __slots__ = (
        "again",
        "deadline_ms",
        "expected",
        "is_blocked",
        "is_broken",
        "is_clogged",
        "is_last",
        "is_offered",
        "is_open",
        "is_overfull",
        "is_parked",
        "is_told_clogged",
        "kept",
        "served",
        "slot",
        "sock",
        "unsent",
        "watched",
    )

    def __init__(self, slot: int, sock: socket.socket | None) -> None:
        self.slot, self.sock = slot, sock
        self.is_open = True
        """the caller may name it; if not, its last bytes may still go out"""
        self.is_parked = self.is_overfull = self.is_broken = self.is_blocked = False
        self.is_clogged = self.is_told_clogged = False
        self.is_offered = False
        """a region of the turn is its, and not taken"""
        self.is_last = False
        """nothing will be fed any more"""
        self.again = False
        """kept bytes are to be offered"""
        self.expected = self.watched = self.deadline_ms = 0
        self.served = -1
        """the turn in which it had its share"""
        self.kept: Buffer = b""
        self.unsent: bytearray | None = None

    @property
    def may_read(self) -> bool:
        return self.is_open and not self.is_parked and not self.is_overfull

    @property
    def unsent_bytes(self) -> int:
        return len(self.unsent) if self.unsent is not None else 0


class _Listener:
    __slots__ = ("number", "rests_until_ms", "served", "sock")

    def __init__(self, sock: socket.socket, number: int) -> None:
        self.sock, self.number = sock, number
        self.rests_until_ms, self.served = 0, -1


class SocketReactor:
    """See reactor.Reactor."""

    def __init__(self, options: ReactorOptions) -> None:
        self._options, count = options, options.max_connections
        self.generation, self.listener = zeros("i", count), zeros("i", count)
        self.heard_ms, self.received_bytes, self.high_water = zeros("q", count), zeros("q", count), zeros("q", count)
        self._arena = zeros("B", options.arena_bytes + options.longest_region)
        self.arena = self._arena.toreadonly()
        self._columns = [(self.high_water, options.high_water_bytes)]
        self._connections: dict[int, _Connection] = {}
        """by slot, also those whose last bytes go out"""
        self._free_slots: list[int] = []
        self._begun_slots = self._open_count = 0
        self._listeners: dict[int, _Listener] = {}
        self._foreign = Foreign()
        self._pending: dict[int, None] = {}
        """slots to be served before others, in order: kept bytes to offer, or no room in the last turn"""
        self._dirty: dict[int, None] = {}
        self._changed: dict[int, None] = {}
        """may have become clogged or drained"""
        self._refused: list[int] = []
        self._wanting: list[_Connection] = []
        """have more of a packet to come than all together may hold"""
        self._ended: list[int] = []
        """to be told as lost in the next turn"""
        self._leaving: list[int] = []
        """told; free when their sockets are closed"""
        self._turn = self._used = 0
        self._regions_are_kept: list[bool] = []
        self._are_offered = self._is_turning = self._is_awake = False
        self._counts = asdict(Counters())
        self.unsent_bytes = self.kept_bytes = 0
        self.now_ms = _clock_ms()
        self.slots = self.generations = self.starts = self.stops = array("i")
        self.lost = self.clogged = self.drained = self.overfull = array("i")
        self.accepted: list[Accepted] = []
        self._is_closed = False
        self._selector = selectors.DefaultSelector()
        self._wake_in, self._wake_out = socket.socketpair()
        self._wake_in.setblocking(False)
        self._selector.register(self._wake_in, _READ, None)

    def _check(self) -> None:
        if self._is_closed:
            raise Closed("the reactor is closed")

    def _find(self, slot: int, generation: int) -> _Connection | None:
        self._check()
        if not 0 <= slot < self._options.max_connections:
            raise InvalidArgument(f"no connection has slot {slot}")
        found = self._connections.get(slot)
        return found if found is not None and found.is_open and self.generation[slot] == generation else None

    @property
    def connections(self) -> int:
        self._check()
        return self._open_count

    def counters(self) -> Counters:
        self._check()
        return Counters(**self._counts)

    # Columns

    def add_column(self, typecode: Typecode, initial: int = 0) -> memoryview:
        self._check()
        if len(self._columns) == MAX_COLUMNS:
            raise InvalidArgument(f"a reactor has at most {MAX_COLUMNS} columns")
        if width(typecode) == 4 and not -(1 << 31) <= initial < 1 << 31:
            raise InvalidArgument(f"{initial} is not an int32")
        made = zeros(typecode, self._options.max_connections)
        for slot in range(self._begun_slots):
            made[slot] = initial
        self._columns.append((made, initial))
        return made

    def values(self, column: memoryview) -> array[int]:
        self._check()
        if len(column) != self._options.max_connections:
            raise InvalidArgument("a column has a cell for each slot")
        return pick(column, self.slots)

    # What is watched

    def fileno(self) -> int:
        self._check()
        return cast(selectors.EpollSelector, self._selector).fileno()

    def _wake(self) -> None:
        if not self._is_awake and not self._is_turning:
            self._is_awake = True
            self._wake_out.send(b"\0")

    def _pend(self, connection: _Connection) -> None:
        self._pending[connection.slot] = None
        self._wake()

    def _watch(self, connection: _Connection) -> None:
        if connection.sock is None:
            return
        events = (_READ if connection.may_read else 0) | (_WRITE if connection.is_blocked else 0)
        if events == connection.watched:
            return
        self._counts["watch_changes"] += 1
        if not events:
            self._selector.unregister(connection.sock)
        elif not connection.watched:
            self._selector.register(connection.sock, events, connection)
        else:
            self._selector.modify(connection.sock, events, connection)
        connection.watched = events

    # Connections

    def listen(self, sock: socket.socket, number: int) -> None:
        self._check()
        if len(self._listeners) == MAX_LISTENERS:
            raise InvalidArgument(f"a reactor has at most {MAX_LISTENERS} listeners")
        if number in self._listeners:
            raise InvalidArgument(f"there is a listener {number} already")
        sock.setblocking(False)
        self._listeners[number] = _Listener(sock, number)
        self._selector.register(sock, _READ, self._listeners[number])

    def unlisten(self, number: int) -> None:
        self._check()
        found = self._listeners.pop(number, None)
        if found is not None and not found.rests_until_ms:
            self._selector.unregister(found.sock)

    def add(self, fd: int, number: int, received: Buffer = b"") -> int:
        self._check()
        try:
            sock = socket.socket(fileno=fd)
        except OSError as error:
            raise InvalidArgument(f"no descriptor {fd}") from error
        if (connection := self._begin(sock, number)) is None:
            sock.detach()
            raise self._no_slot()
        if received:
            self._feed(connection, received)
        return connection.slot

    def add_foreign(self, transport: Transport, number: int) -> int:
        self._check()
        if (connection := self._begin(None, number)) is None:
            raise self._no_slot()
        self._foreign.add(connection.slot, transport)
        return connection.slot

    def _no_slot(self) -> InvalidArgument:
        limit = self._options.max_connections
        return InvalidArgument(f"there are {self._open_count} connections, and the limit is {limit}")

    def _has_slot(self) -> bool:
        return bool(self._free_slots) or self._begun_slots < self._options.max_connections

    def _begin(self, sock: socket.socket | None, number: int) -> _Connection | None:
        if not self._has_slot():
            return None
        if not self._free_slots:
            self._free_slots.append(self._begun_slots)
            self._begun_slots += 1
        slot = self._free_slots.pop()
        made = self._connections[slot] = _Connection(slot, sock)
        self.heard_ms[slot], self.received_bytes[slot], self.listener[slot] = self.now_ms, 0, number
        for column, initial in self._columns:
            column[slot] = initial
        if sock is not None:
            sock.setblocking(False)
            with contextlib.suppress(OSError):  # sockets of Unix have no such thing
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._watch(made)
        self._open_count += 1
        return made

    def feed(self, slot: int, generation: int, data: Buffer) -> None:
        connection = self._find(slot, generation)
        if connection is None:
            return
        if connection.sock is not None:
            raise InvalidArgument("only a connection without a socket of its own is fed")
        self._feed(connection, data)
        if self._is_full(connection):
            self._foreign.fill(slot)

    def _feed(self, connection: _Connection, data: Buffer) -> None:
        if connection.is_overfull or not len(data):
            return
        if len(data) > _MOST_BYTES:
            raise InvalidArgument(f"{len(data)} bytes at once")
        self.now_ms = _clock_ms()
        self._heard(connection, len(data))
        if self.kept_bytes + len(data) > self._options.max_pieces_bytes:
            self._refuse(connection)
            return
        self._keep(connection, data)
        connection.again = True
        self._pend(connection)

    def _is_full(self, connection: _Connection) -> bool:
        most = self._options.max_kept_bytes + self._options.per_turn_bytes
        return len(connection.kept) >= max(most, connection.expected)

    def foreign_ended(self, slot: int, generation: int) -> None:
        connection = self._find(slot, generation)
        if connection is not None and connection.sock is None:
            connection.is_last = True
            self._pend(connection)

    def foreign_drained(self, slot: int, generation: int) -> None:
        connection = self._find(slot, generation)
        if connection is not None and connection.sock is None:
            self._note(connection, False)

    # The end

    def is_open(self, slot: int, generation: int) -> bool:
        return self._find(slot, generation) is not None

    def end(self, slot: int, generation: int) -> None:
        connection = self._find(slot, generation)
        if connection is None:
            return
        is_foreign = connection.sock is None
        data = self._take_unsent(connection) if is_foreign else b""
        self._end(connection)
        if is_foreign:
            self._foreign.end(slot, data)

    def abort(self, slot: int, generation: int) -> None:
        connection = self._find(slot, generation)
        if connection is None:
            return
        is_foreign, connection.is_broken = connection.sock is None, True
        self._end(connection)
        if is_foreign:
            self._foreign.abort(slot)

    def _end(self, connection: _Connection) -> None:
        self.now_ms = _clock_ms()
        self._leave(connection)
        self._ended.append(connection.slot)
        self._wake()

    def _leave(self, connection: _Connection) -> None:
        connection.is_open, connection.again = False, False
        self._drop_kept(connection)
        self._open_count -= 1
        connection.deadline_ms = self.now_ms + self._options.linger_ms
        if connection.sock is None or connection.is_broken or not connection.unsent_bytes:
            self._close_socket(connection)
        else:
            self._watch(connection)

    def _close_socket(self, connection: _Connection) -> None:
        self._take_unsent(connection)
        connection.is_blocked = False
        if connection.sock is not None:
            self._watch(connection)
            connection.sock.close()
            connection.sock = None

    def _lose(self, connection: _Connection) -> None:
        """Its peer ended it."""
        self._leave(connection)
        self._lost(connection.slot)

    def _lost(self, slot: int) -> None:
        self.lost.append(slot)
        self._leaving.append(slot)

    def _sweep(self) -> None:
        """Those that the caller was told of before, and whose sockets are closed, are free."""
        leaving, self._leaving = self._leaving, []
        for slot in leaving:
            connection = self._connections[slot]
            if connection.sock is not None and connection.deadline_ms <= self.now_ms:
                self._close_socket(connection)
            if connection.sock is not None or slot in self._pending or slot in self._dirty or slot in self._changed:
                self._leaving.append(slot)
                continue
            del self._connections[slot]
            self.generation[slot] = (self.generation[slot] + 1) & GENERATIONS
            self._free_slots.append(slot)

    def close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        for connection in self._connections.values():
            if connection.sock is not None:
                connection.sock.close()
        self._selector.close()
        self._wake_in.close()
        self._wake_out.close()
        self._connections, self._listeners = {}, {}
        self._foreign.close()

    # A turn

    def turn(self) -> bool:
        self._check()
        self._is_turning = True
        try:
            self._begin_turn()
            self._serve_pending()
            for key, events in self._selector.select(0):
                self._serve(key.data, events)
            self._counts["polls"] += 1
            self._tell_changed()
            self._make_room()
            self.overfull = array("i", [slot for slot in self._refused if self._is_named(slot)])
            self._refused = []
        finally:
            self._is_turning = False
            self._are_offered = bool(self.slots)
        for slot in self.lost:
            self._foreign.abort(slot)
        if self._pending:
            self._wake()
        self.generations = pick(self.generation, self.slots)
        found = (self.slots, self.accepted, self.lost, self.clogged, self.drained, self.overfull)
        is_empty = not any(found)
        self._counts["empty_turns"] += is_empty
        return not is_empty

    def _make_room(self) -> None:
        """Of those who want more than there is, the one that holds most has to go: one a turn, as it makes room."""
        wanting = [connection for connection in self._wanting if connection.is_open]
        self._wanting = []
        if wanting:
            self._refuse(max(wanting, key=lambda each: (len(each.kept), -each.slot)))

    def _is_named(self, slot: int) -> bool:
        found = self._connections.get(slot)
        return found is not None and found.is_open

    def _begin_turn(self) -> None:
        if self._are_offered:
            self._take_all(self.starts, bytes([1]) * len(self.starts))
        self.now_ms = _clock_ms()
        self._turn += 1
        self._counts["turns"] += 1
        if self._is_awake:
            self._wake_in.recv(1)
            self._is_awake = False
        self._used, self._regions_are_kept = 0, []
        self.slots, self.starts, self.stops, self.accepted = array("i"), array("i"), array("i"), []
        self.lost, self.clogged, self.drained = array("i"), array("i"), array("i")
        self.flush()
        self._sweep()
        ended, self._ended = self._ended, []
        for slot in ended:
            self._lost(slot)
        self._end_rests()

    def _serve_pending(self) -> None:
        pending, self._pending = self._pending, {}
        for slot in pending:
            connection = self._connections[slot]
            if not connection.may_read:
                continue
            if self._used >= self._options.arena_bytes:
                self._pend(connection)
            elif connection.again and len(connection.kept) >= max(connection.expected, 1):
                self._offer_kept(connection)
            elif connection.is_last:
                self._lose(connection)
            elif connection.sock is not None:
                self._receive(connection)

    def _serve(self, found: _Connection | _Listener | None, events: int) -> None:
        if found is None:
            return
        if isinstance(found, _Listener):
            self._accept(found)
            return
        if found.is_blocked and events & _WRITE:
            self._send(found)
        if not found.may_read or not events & _READ or found.served == self._turn or found.slot in self._pending:
            return
        if self._used >= self._options.arena_bytes:
            self._pend(found)
        else:
            self._receive(found)

    def _tell_changed(self) -> None:
        changed, self._changed = self._changed, {}
        for slot in changed:
            connection = self._connections[slot]
            if connection.is_open and connection.is_clogged != connection.is_told_clogged:
                connection.is_told_clogged = connection.is_clogged
                (self.clogged if connection.is_clogged else self.drained).append(slot)

    # Listeners

    def _accept(self, listener: _Listener) -> None:
        if listener.served == self._turn or listener.rests_until_ms or listener.number not in self._listeners:
            return
        listener.served = self._turn
        for _ in range(self._options.accepts_per_turn):
            if not self._has_slot():
                self._rest(listener)
                return
            try:
                sock, address = listener.sock.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in _PASSING:
                    continue
                self._rest(listener)
                return
            connection = self._begin(sock, listener.number)
            assert connection is not None
            # Linux has addresses of Unix sockets that are no names.
            name = "" if isinstance(address, bytes) else address
            self.accepted.append(Accepted(connection.slot, listener.number, name))
            self._counts["accepts"] += 1

    def _rest(self, listener: _Listener) -> None:
        """There are neither descriptors nor slots for another connection: who comes waits in the listener's queue."""
        self._selector.unregister(listener.sock)
        listener.rests_until_ms = self.now_ms + self._options.accept_rest_ms
        self._counts["accept_rests"] += 1

    def _end_rests(self) -> None:
        for listener in self._listeners.values():
            if listener.rests_until_ms and listener.rests_until_ms <= self.now_ms:
                self._selector.register(listener.sock, _READ, listener)
                listener.rests_until_ms = 0

    # Regions

    def _heard(self, connection: _Connection, size: int) -> None:
        self.heard_ms[connection.slot] = self.now_ms
        self.received_bytes[connection.slot] += size
        self._counts["received_bytes"] += size

    def _keep(self, connection: _Connection, data: Buffer) -> None:
        if not isinstance(connection.kept, bytearray):
            connection.kept = bytearray(connection.kept)
        connection.kept += data
        self.kept_bytes += len(data)

    def _drop_kept(self, connection: _Connection) -> None:
        self.kept_bytes -= len(connection.kept)
        connection.kept = b""

    def _refuse(self, connection: _Connection) -> None:
        """It holds more than it may: it is not read any more."""
        if not connection.is_overfull:
            connection.is_overfull = True
            self._watch(connection)
            self._refused.append(connection.slot)
            self._wake()

    def _offer(self, connection: _Connection, size: int, is_kept: bool) -> None:
        self.slots.append(connection.slot)
        self.starts.append(self._used)
        self._used += size
        self.stops.append(self._used)
        self._regions_are_kept.append(is_kept)
        connection.is_offered, connection.served = True, self._turn

    def _offer_kept(self, connection: _Connection) -> None:
        """At most the longest region; what is behind stays for the next turn."""
        size = min(len(connection.kept), self._options.longest_region)
        connection.again, connection.expected = False, 0
        self._arena[self._used : self._used + size] = memoryview(connection.kept)[:size]
        self._offer(connection, size, True)

    def _receive_into(self, connection: _Connection, to: memoryview) -> int:
        """The number of bytes; 0 if there are none now, or if the connection is lost."""
        assert connection.sock is not None
        self._counts["receives"] += 1
        try:
            size = connection.sock.recv_into(to)
        except (BlockingIOError, InterruptedError):
            return 0
        except OSError as error:
            if error.errno in _SHORT_OF_MEMORY:
                return 0
            size = 0
        if size:
            self._heard(connection, size)
        else:
            self._lose(connection)
        return size

    def _receive(self, connection: _Connection) -> None:
        before = len(connection.kept)
        connection.served, connection.again = self._turn, False
        if before < connection.expected:
            self._receive_piece(connection)
        elif before > self._options.max_kept_bytes:
            self._refuse(connection)
        else:
            start = self._used + before
            size = self._receive_into(connection, self._arena[start : start + self._options.per_turn_bytes])
            if size:
                self._arena[self._used : start] = connection.kept
                self._drop_kept(connection)
                connection.expected = 0
                self._offer(connection, before + size, False)

    def _receive_piece(self, connection: _Connection) -> None:
        """Of a packet that comes in pieces."""
        more = min(connection.expected - len(connection.kept), self._options.per_turn_bytes)
        if self.kept_bytes + more > self._options.max_pieces_bytes:
            self._wanting.append(connection)
            return
        piece = self._arena[self._used : self._used + more]
        size = self._receive_into(connection, piece)
        if size:
            self._keep(connection, piece[:size])
            if len(connection.kept) >= connection.expected:
                self._offer_kept(connection)

    def taken(self, positions: Sequence[int], again: Buffer | None = None) -> None:
        self._check()
        count = len(self.slots)
        if count and not self._are_offered:
            raise InvalidArgument("the regions of this turn are taken already")
        if len(positions) != count or (again is not None and len(again) != count):
            raise InvalidArgument(f"{len(positions)} positions for {count} regions")
        for position, start, stop in zip(positions, self.starts, self.stops, strict=True):
            if not start <= position <= stop:
                raise InvalidArgument(f"position {position} is outside {start}..{stop}, its region")
        self._take_all(positions, again or bytes(count))
        for slot in list(self._foreign.full):
            if not self._is_full(self._connections[slot]):
                self._foreign.empty(slot)

    def _take_all(self, positions: Sequence[int], again: Iterable[int]) -> None:
        for region, (position, is_again) in enumerate(zip(positions, again, strict=True)):
            connection = self._connections[self.slots[region]]
            if connection.is_offered:
                connection.is_offered = False
                if connection.is_open:
                    self._take(connection, region, position, bool(is_again))
        self._are_offered = False

    def _take(self, connection: _Connection, region: int, position: int, is_again: bool) -> None:
        """What is not taken is kept."""
        start, stop = self.starts[region], self.stops[region]
        if self._regions_are_kept[region]:
            rest = memoryview(connection.kept)[position - start :]
            is_again = is_again or len(rest) > stop - position  # more was kept than fits in a region
            self._drop_kept(connection)
        else:
            rest = self._arena[position:stop]
            if len(rest) > SMALL_REST_BYTES and self.kept_bytes + len(rest) > self._options.max_pieces_bytes:
                connection.again = False
                self._refuse(connection)
                return
        size = len(rest)
        if size:
            self._keep(connection, rest)
        connection.again = bool(size) and (is_again or connection.again)
        if connection.again or connection.is_last:
            self._pend(connection)
        elif size > self._options.max_kept_bytes and size >= connection.expected and not connection.is_parked:
            self._refuse(connection)

    def expect(self, slot: int, generation: int, size: int) -> None:
        connection = self._find(slot, generation)
        if not 0 <= size <= self._options.max_packet_bytes:
            raise InvalidArgument(f"a packet of {size} bytes, and the limit is {self._options.max_packet_bytes}")
        if connection is not None:
            connection.expected = size
            if slot in self._foreign.full and not self._is_full(connection):
                self._foreign.empty(slot)

    def park(self, slot: int, generation: int) -> None:
        connection = self._find(slot, generation)
        if connection is not None and not connection.is_parked:
            connection.is_parked = True
            self._watch(connection)
            if connection.sock is None:
                self._foreign.park(slot)

    def resume(self, slot: int, generation: int) -> None:
        connection = self._find(slot, generation)
        if connection is None or not connection.is_parked:
            return
        connection.is_parked = False
        self._watch(connection)
        if connection.is_offered:
            connection.again = True  # what becomes of its region is not known yet
        elif connection.kept or connection.is_last:
            connection.again = True
            self._pend(connection)
        if connection.sock is None:
            self._foreign.resume(slot)

    # What goes out

    def write(self, slot: int, generation: int, data: Buffer) -> None:
        connection = self._find(slot, generation)
        if connection is not None:
            self._write(connection, data)

    def write_many(
        self,
        slots: Sequence[int],
        generations: Sequence[int],
        data: Buffer,
        starts: Sequence[int],
        stops: Sequence[int],
    ) -> None:
        self._check()
        if not len(slots) == len(generations) == len(starts) == len(stops):
            raise InvalidArgument("each segment has a slot, a generation, a start and a stop")
        for slot, start, stop in zip(slots, starts, stops, strict=True):
            if not 0 <= slot < self._options.max_connections:
                raise InvalidArgument(f"no connection has slot {slot}")
            if not 0 <= start <= stop <= len(data):
                raise InvalidArgument(f"segment {start}..{stop} leaves the buffer")
        view = memoryview(data)
        for slot, generation, start, stop in zip(slots, generations, starts, stops, strict=True):
            self.write(slot, generation, view[start:stop])

    def _write(self, connection: _Connection, data: Buffer) -> None:
        if connection.is_broken or not len(data):
            return
        if connection.unsent is None:
            connection.unsent = bytearray()
        connection.unsent += data
        self.unsent_bytes += len(data)
        self._dirty[connection.slot] = None
        if connection.is_blocked:
            self._measure(connection)

    def flush(self) -> None:
        self._check()
        dirty, self._dirty = self._dirty, {}
        for slot in dirty:
            connection = self._connections[slot]
            if connection.sock is None:
                self._send_foreign(connection)
            elif not connection.is_blocked:
                self._send(connection)

    def _send(self, connection: _Connection) -> None:
        unsent, connection.is_blocked = connection.unsent or bytearray(), False
        assert connection.sock is not None
        while unsent and not connection.is_blocked:
            self._counts["sends"] += 1
            try:
                size = connection.sock.send(unsent)
            except InterruptedError:
                continue
            except OSError as error:
                if not isinstance(error, BlockingIOError) and error.errno not in _SHORT_OF_MEMORY:
                    # Reading tells when a connection is over. That it takes nothing any more ends what is unsent.
                    connection.is_broken = True
                    break
                size = 0
            self._counts["sent_bytes"] += size
            self.unsent_bytes -= size
            connection.is_blocked = size < len(unsent)
            del unsent[:size]
        if not unsent or connection.is_broken:
            self._take_unsent(connection)
        self._measure(connection)
        if not connection.is_open and not connection.is_blocked:
            self._close_socket(connection)
        else:
            self._watch(connection)

    def _send_foreign(self, connection: _Connection) -> None:
        if not connection.is_open or not connection.unsent_bytes:
            return
        slot = connection.slot
        held = self._foreign.write(slot, self._take_unsent(connection))
        if held < 0:
            self._foreign.abort(slot)
            connection.is_broken = True
            self._end(connection)
        elif held > self.high_water[slot]:
            self._note(connection, True)

    def _take_unsent(self, connection: _Connection) -> bytes:
        data = bytes(connection.unsent or b"")
        self.unsent_bytes -= len(data)
        connection.unsent = None
        return data

    def _measure(self, connection: _Connection) -> None:
        high = self.high_water[connection.slot]
        if connection.is_blocked and connection.unsent_bytes > high:
            self._note(connection, True)
        elif connection.is_clogged and connection.unsent_bytes <= high // 4:
            self._note(connection, False)

    def _note(self, connection: _Connection, is_clogged: bool) -> None:
        connection.is_clogged = is_clogged
        if connection.is_clogged != connection.is_told_clogged and connection.is_open:
            self._changed[connection.slot] = None
            self._wake()

    def backlog(self, slot: int, generation: int) -> int:
        connection = self._find(slot, generation)
        if connection is None:
            return 0
        return connection.unsent_bytes + (self._foreign.backlog(slot) if connection.sock is None else 0)


def _clock_ms() -> int:
    return int(time.monotonic() * 1000)
