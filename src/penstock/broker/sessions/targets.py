"""Who gets which messages of a publish, and the parts of its frame that this makes."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field, replace

from penstock.broker.sessions.messages import MessageLog
from penstock.broker.sessions.options import Policy, SessionOptions
from penstock.broker.sessions.session import Session
from penstock.core.errors import InvalidArgument
from penstock.kernels import session_rows as kernel
from penstock.log.columns import Columns, Spans
from penstock.log.shard import Part

RETAIN = 4
"""flag of a message that is delivered as a retained one; the bits below are the QoS"""
_LAST_FLAGS = 0x3F


class Targets:
    """A session at most once for each row."""

    __slots__ = ("wanted",)

    def __init__(self) -> None:
        self.wanted: list[tuple[Session, array[int], int | bytes]] = []

    def __bool__(self) -> bool:
        return bool(self.wanted)

    def add(self, session: Session, rows: array[int], flags: int | bytes) -> None:
        """`rows` ('i') rise; `flags` (0 to 63) are those of all rows, or a byte for each."""
        self.wanted.append((session, rows, flags))


@dataclass(slots=True)
class Accepted:
    """Room is kept for the messages until close(), which is due when the frame is committed or will not be. Before
    taken() nothing is lost."""

    parts: list[Part] = field(default_factory=list)
    overflowed: list[Session] = field(default_factory=list)
    """those whose clients are to be told to go, once it is taken"""
    _excess: list[tuple[Session, int]] = field(default_factory=list)
    """messages for which a session has no room"""
    _reserved: list[tuple[Session, int, int]] = field(default_factory=list)

    @property
    def dropped(self) -> int:
        """Messages, for each session that had no room for them."""
        return sum([count for _, count in self._excess])

    def taken(self) -> None:
        """Call it once, when the frame can no longer be refused: who had no room for a message has lost it."""
        for session, count in self._excess:
            session.count_dropped(count)

    def close(self) -> None:
        for session, messages, size in self._reserved:
            session.reserved -= messages
            session.reserved_bytes -= size
        self._reserved.clear()


class Pairs:
    """Sessions and rows of one log, as the kernel takes them."""

    __slots__ = ("flags", "ids", "rows", "sessions")

    def __init__(self) -> None:
        self.sessions, self.rows, self.flags = array("i"), array("i"), bytearray()
        self.ids: array[int] | None = None
        """of copies, by row: the ids by which sessions know them"""

    def add(self, session: int, rows: array[int], flags: int | bytes) -> None:
        self.sessions += array("i", [session]) * len(rows)
        self.rows += rows
        self.flags += bytes([flags]) * len(rows) if isinstance(flags, int) else flags[: len(rows)]


def accept(columns: Columns, targets: Targets, options: SessionOptions) -> Accepted:
    """Whoever has no room is dealt with as the policy says."""
    for _, wanted, flags in targets.wanted:
        _check(wanted, flags)
    accepted = Accepted()
    sizes = _row_bytes(columns)
    by_log: dict[MessageLog, Pairs] = {}
    for session, wanted, flags in targets.wanted:
        rows = _admitted(session, wanted, sizes, options, accepted)
        if rows and not session.is_ended:
            by_log.setdefault(session.queue.messages, Pairs()).add(session.number, rows, flags)
    accepted.parts += parts(columns, by_log)
    return accepted


def parts(columns: Columns, by_log: dict[MessageLog, Pairs]) -> list[Part]:
    """The rows that somebody gets, with the lists of those who do in place of their keys. All over one source."""
    sources, end = [columns.source], len(columns.source)
    found: list[Part] = []
    for messages, pairs in by_log.items():
        lists, picked, spans = _lists(pairs, columns.count, end)
        sources.append(lists)
        end += len(lists)
        mine = columns if len(picked) == columns.count else columns.select(picked)
        found.append((messages.log, replace(mine, key=spans, producer_id=0, producer_epoch=0, base_sequence=0)))
    source = b"".join(sources)
    for _, mine in found:
        mine.source = source
    return found


def _lists(pairs: Pairs, rows: int, first_byte: int) -> tuple[memoryview, array[int], Spans]:
    firsts, order = array("i", bytes(4 * rows + 4)), array("i", bytes(4 * len(pairs.rows)))
    count = kernel.count_rows(pairs.rows, firsts)
    kernel.order_by_row(pairs.rows, firsts, order)
    out = bytearray(5 * len(pairs.rows) + 9 * count)
    picked, starts, ends = (array("i", bytes(4 * count)) for _ in range(3))
    size = kernel.write_lists(
        pairs.sessions, pairs.flags, firsts, order, pairs.ids, out, picked, starts, ends, first_byte
    )
    return memoryview(out)[:size], picked, Spans(starts, ends)


def _row_bytes(columns: Columns) -> array[int]:
    topics, properties, value = columns.topics, columns.properties, columns.value
    sizes = array("i", bytes(4 * columns.count))
    kernel.row_bytes(
        columns.topic_index,
        None if topics is None else topics.starts,
        None if topics is None else topics.ends,
        None if properties is None else properties.starts,
        None if properties is None else properties.ends,
        value.starts,
        value.ends,
        sizes,
    )
    return sizes


def _admitted(
    session: Session, rows: array[int], sizes: array[int], options: SessionOptions, accepted: Accepted
) -> array[int]:
    """The rows that are queued for a session."""
    size = kernel.sum_rows(sizes, rows)
    room = options.max_queued_messages - session.queued - session.reserved
    room_bytes = options.max_queued_bytes - session.queued_bytes - session.reserved_bytes
    if len(rows) > room or size > room_bytes:
        if options.policy is Policy.DROP_OLDEST:
            fitting = len(rows) if size <= options.max_queued_bytes else _fitting(rows, sizes, options)
        else:
            fitting = kernel.room_for(sizes, rows, max(room, 0), max(room_bytes, 0))
        if fitting < len(rows):
            accepted._excess.append((session, len(rows) - fitting))
            accepted.overflowed += [session] if options.policy is Policy.DISCONNECT else []
        rows = rows[:fitting]
        size = kernel.sum_rows(sizes, rows)
    session.reserved += len(rows)
    session.reserved_bytes += size
    accepted._reserved.append((session, len(rows), size))
    return rows


def _fitting(rows: array[int], sizes: array[int], options: SessionOptions) -> int:
    """Of rows that are too many bytes for any session, the first ones that are not."""
    return kernel.room_for(sizes, rows, len(rows), options.max_queued_bytes)


def _check(rows: array[int], flags: int | bytes) -> None:
    """InvalidArgument for flags that are not a message's."""
    least, most = (flags, flags) if isinstance(flags, int) else (0, max(flags, default=0))
    if least < 0 or most > _LAST_FLAGS:
        raise InvalidArgument(f"flags of a message for a session are 0 to {_LAST_FLAGS}")
    if not isinstance(flags, int) and len(flags) < len(rows):
        raise InvalidArgument("there are fewer flags than rows for a session")
