"""What a reactor is: it accepts, receives from and sends to all connections of all stream doors, once a turn.

A connection is a *slot*, a small number that is used again, together with its *generation*, which tells the connections
of a slot apart: what names a connection that is gone is ignored. A *region* is what a turn brings of one connection:
`arena[start:stop]`, with what was not taken of earlier turns in front. One thread calls a reactor."""

from __future__ import annotations

import socket
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from penstock.core.errors import InvalidArgument
from penstock.core.ports import Buffer
from penstock.gateways.wire.columns import Typecode

Address = tuple[str, int] | tuple[str, int, int, int] | str
"""as accept() gives it; a string for sockets of Unix"""

GENERATIONS = 0x3FFFFFFF
"""The highest; 0 comes behind it."""
MAX_LISTENERS, MAX_COLUMNS = 16, 64
SMALL_REST_BYTES = 4096
"""Of a packet's beginning, which every connection may leave lying, whatever others do."""


@dataclass(frozen=True, slots=True)
class ReactorOptions:
    max_connections: int = 65_536
    arena_bytes: int = 8 << 20
    """of a turn; exceeded by the last region at most"""
    per_turn_bytes: int = 128 << 10
    """received from one connection in a turn, so that nobody keeps others waiting"""
    max_kept_bytes: int = 64 << 10
    """left of a region for the next one, unless a longer packet is expected"""
    max_packet_bytes: int = 8 << 20
    """the longest packet that may be expected"""
    max_pieces_bytes: int = 256 << 20
    """kept for all connections together"""
    high_water_bytes: int = 4 << 20
    """unsent bytes of a connection at which it is clogged; a quarter of them and it is drained. See `high_water`."""
    linger_ms: int = 5_000
    """for what is unsent when a connection ends"""
    accepts_per_turn: int = 256
    accept_rest_ms: int = 1_000
    """no connection is accepted for so long when there are no descriptors or slots for one"""

    def __post_init__(self) -> None:
        if not 1 <= self.max_connections <= 1 << 24:
            raise InvalidArgument("a reactor has 1 to 2**24 connections")
        if min(self.arena_bytes, self.per_turn_bytes, self.accepts_per_turn) < 1 or self.accepts_per_turn > 1 << 16:
            raise InvalidArgument("a turn has room for at least a byte and for 1 to 65,536 new connections")
        if min(self.max_kept_bytes, self.max_packet_bytes, self.max_pieces_bytes, self.high_water_bytes) < 0:
            raise InvalidArgument("a limit is below 0")
        if self.arena_bytes + self.longest_region > 1 << 30:
            raise InvalidArgument("the arena and the longest packet are over 1 GiB together")

    @property
    def longest_region(self) -> int:
        return max(self.max_kept_bytes + self.per_turn_bytes, self.max_packet_bytes)


class Accepted(NamedTuple):
    slot: int
    listener: int
    address: Address


@dataclass(frozen=True, slots=True)
class Counters:
    turns: int = 0
    empty_turns: int = 0
    polls: int = 0
    receives: int = 0
    sends: int = 0
    received_bytes: int = 0
    sent_bytes: int = 0
    accepts: int = 0
    accept_rests: int = 0
    """how often there were no descriptors or slots for another connection"""
    watch_changes: int = 0


class Transport(Protocol):
    """What carries the bytes of a connection that has no socket of its own here: one of asyncio's, for TLS, or what
    stands in for one."""

    def write(self, data: bytes) -> None: ...

    def close(self) -> None: ...

    def abort(self) -> None: ...

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def get_write_buffer_size(self) -> int: ...


class Reactor(Protocol):
    """What a turn brought stays until the next one. Columns by slot never move: a kernel or a door may hold them.

    Every call that names a connection ignores one that is gone, raises InvalidArgument for a slot that cannot be, and
    Closed when the reactor is closed."""

    # What the last turn brought

    @property
    def arena(self) -> memoryview: ...

    @property
    def slots(self) -> array[int]:
        """Of the regions, at most one for a connection; `generations`, `starts` and `stops` go with it."""
        ...

    @property
    def generations(self) -> array[int]: ...

    @property
    def starts(self) -> array[int]: ...

    @property
    def stops(self) -> array[int]: ...

    @property
    def accepted(self) -> list[Accepted]: ...

    @property
    def lost(self) -> array[int]:
        """Slots of connections that are over, once each, whoever ended them, and behind their last region. The slot is
        the caller's until the next turn begins."""
        ...

    @property
    def clogged(self) -> array[int]:
        """Slots with more unsent bytes than `high_water` says."""
        ...

    @property
    def drained(self) -> array[int]:
        """Slots that were clogged, and have a quarter of that or less."""
        ...

    @property
    def overfull(self) -> array[int]:
        """Slots that hold more unfinished bytes than they may, by themselves or with all others: of those who want more
        than is left for all, the one that holds most, one a turn. They are not read any more: answer and end them."""
        ...

    @property
    def now_ms(self) -> int:
        """Of the monotonic clock, when the turn began."""
        ...

    # Columns by slot

    @property
    def generation(self) -> memoryview: ...

    @property
    def listener(self) -> memoryview:
        """The number of the listener, or the one that add() was given."""
        ...

    @property
    def heard_ms(self) -> memoryview:
        """When bytes came last, by the clock of now_ms; at first when the connection began."""
        ...

    @property
    def received_bytes(self) -> memoryview: ...

    @property
    def high_water(self) -> memoryview:
        """A door may set it."""
        ...

    def add_column(self, typecode: Typecode, initial: int = 0) -> memoryview:
        """A column of a door: `i` (int32) or `q` (int64) by slot, with `initial` when a connection begins."""
        ...

    def values(self, column: memoryview) -> array[int]:
        """Of the column, for the connections of the regions, in their order."""
        ...

    # Connections

    def fileno(self) -> int:
        """Readable whenever there is something to do. Deadlines are looked at in turn(): call it once a second too."""
        ...

    def listen(self, sock: socket.socket, number: int) -> None:
        """Accept from a listening socket, which stays the caller's."""
        ...

    def unlisten(self, number: int) -> None:
        """Stop accepting; before the socket is closed."""
        ...

    def add(self, fd: int, number: int, received: Buffer = b"") -> int:
        """The slot of a connection that was accepted elsewhere; `received` are bytes that were read from it already.
        The descriptor is the reactor's from then on. InvalidArgument if all slots are taken."""
        ...

    def add_foreign(self, transport: Transport, number: int) -> int:
        """The slot of a connection whose bytes come and go by a transport."""
        ...

    def feed(self, slot: int, generation: int, data: Buffer) -> None:
        """Bytes that its transport received: a region of the next turn."""
        ...

    def foreign_ended(self, slot: int, generation: int) -> None:
        """Its transport is gone: the connection is lost when what was fed is offered."""
        ...

    def foreign_drained(self, slot: int, generation: int) -> None:
        """Its transport has sent what it had (resume_writing)."""
        ...

    # A turn

    def turn(self) -> bool:
        """Accept, receive and send what can be, once for everyone. Whether there is anything to look at. Regions that
        were not taken are offered again."""
        ...

    def taken(self, positions: Sequence[int], again: Buffer | None = None) -> None:
        """How far each region is taken, as positions in the arena; the rest is kept. Where `again` is not 0, the next
        turn offers the rest without new bytes."""
        ...

    def expect(self, slot: int, generation: int, size: int) -> None:
        """A packet of so many bytes has begun: what is kept of it is offered when it is there whole."""
        ...

    def park(self, slot: int, generation: int) -> None:
        """Do not read from it: its peer is held back. Its end is not seen either."""
        ...

    def resume(self, slot: int, generation: int) -> None:
        """What is kept is offered in the next turn, and it is read again."""
        ...

    # What goes out

    def write(self, slot: int, generation: int, data: Buffer) -> None:
        """The bytes are copied, and leave with the next flush() or turn()."""
        ...

    def write_many(
        self,
        slots: Sequence[int],
        generations: Sequence[int],
        data: Buffer,
        starts: Sequence[int],
        stops: Sequence[int],
    ) -> None:
        """data[starts[i]:stops[i]] to slots[i]. Sequences of int32."""
        ...

    def flush(self) -> None: ...

    def backlog(self, slot: int, generation: int) -> int:
        """Its unsent bytes."""
        ...

    @property
    def unsent_bytes(self) -> int:
        """Of all connections, without what transports hold."""
        ...

    @property
    def kept_bytes(self) -> int:
        """Received by all connections and not taken."""
        ...

    # The end

    def is_open(self, slot: int, generation: int) -> bool: ...

    def end(self, slot: int, generation: int) -> None:
        """When its peer has taken what is unsent, or after `linger_ms`. Nothing is read from or written to it any more,
        and the next turn tells that it is lost."""
        ...

    def abort(self, slot: int, generation: int) -> None:
        """At once."""
        ...

    @property
    def connections(self) -> int: ...

    def counters(self) -> Counters: ...

    def close(self) -> None:
        """Every connection ends at once, and nobody is told."""
        ...
