"""Looking at the messages of a queue: nothing is held, counted or settled by it."""

from __future__ import annotations

import heapq
from collections import deque
from typing import Annotated, Literal

import msgspec

from penstock.broker.queues.queue import Queue
from penstock.broker.queues.unit import Unit
from penstock.codecs.http.messages import BrowsedMessages, Message
from penstock.codecs.http.shapes import Offsets, ReadingPlace, TopicFilter
from penstock.core.errors import InvalidArgument
from penstock.gateways.http.messages.cursors import Vector
from penstock.gateways.http.messages.message_rows import message_of
from penstock.gateways.http.messages.partition_parts import parse_start, place_of, read_part
from penstock.gateways.http.server.exchange import Exchange, Query
from penstock.gateways.http.server.pages import DEFAULT, MOST
from penstock.gateways.http.server.reply import Reply, json_reply
from penstock.gateways.http.server.rights import Right
from penstock.gateways.http.server.routes import API, Route
from penstock.log.batch import Row
from penstock.queues.bindings import filter_mask
from penstock.queues.names import check_filter, plain_filter

# Of one answer: what is over it is told in `next`.
_ANSWER_BYTES = 4 << 20
# Rows that the filter may pass over in one request.
_PASSED_OVER = 10_000
# Held while the partitions are merged: of all of them, and of each.
_HELD_ROWS = 4096
_PART_ROWS = 64


class BrowseQuery(Query, frozen=True, kw_only=True, forbid_unknown_fields=True):
    partition: Annotated[int, msgspec.Meta(ge=0)] | None = None
    """all of them without it, merged by their times"""
    start: ReadingPlace = msgspec.field(name="from", default="earliest")
    """earliest, latest, offset:17, a time like 2026-01-31T12:00:00Z, or a duration like 2h: that long ago"""
    until: ReadingPlace | None = None
    """messages before that time or offset"""
    filter: TopicFilter | None = None
    """over the routing key, as that of a group"""
    limit: Annotated[int, msgspec.Meta(ge=1, le=MOST)] = DEFAULT
    cursor: Offsets | None = None
    """`next` of the answer before; it goes before `from`"""
    encoding: Literal["auto", "base64"] = "auto"


async def browse(exchange: Exchange) -> Reply:
    exchange.require_browse(exchange.queue_name)
    query, queue = exchange.query(BrowseQuery), exchange.queue()
    broker = exchange.ports.broker
    if query.cursor is not None:
        place = Vector.parse(query.cursor)
    else:
        place = await place_of(parse_start(query.start), queue, broker)
    stop = Vector.end_of(queue) if query.until is None else await place_of(parse_start(query.until), queue, broker)
    looking = _Looking(queue, _units(queue, query.partition), place, stop, _checked(query.filter))
    messages = await looking.messages(query.limit, query.encoding == "base64")
    return json_reply(BrowsedMessages(messages, looking.place.text if looking.has_more else None))


class _Walk:
    """Through one partition."""

    def __init__(
        self, queue: Queue, unit: Unit, offset: int, stop: int, topic_filter: str | None, part_rows: int
    ) -> None:
        self.unit, self.next, self._part_rows = unit, offset, part_rows
        self.passed_over = 0
        self._queue, self._offset, self._stop, self._filter = queue, max(offset, unit.start), stop, topic_filter
        self._ready: deque[Row] = deque()

    @property
    def has_more(self) -> bool:
        return bool(self._ready) or self._offset < self._stop

    async def first(self, may_pass_over: int) -> Row | None:
        """The one that pop() would give; None at the end, or after so many that the filter passed over."""
        while not self._ready and self._offset < self._stop and may_pass_over > 0:
            part = await read_part(self.unit, self._offset, self._stop, self._part_rows)
            self._offset = part.next
            self._ready.extend(self._wanted(part.rows))
            passed_over = len(part.rows) - len(self._ready)
            self.passed_over += passed_over
            may_pass_over -= passed_over
        if not self._ready:
            self.next = self._offset
        return self._ready[0] if self._ready else None

    def pop(self) -> Row:
        row = self._ready.popleft()
        self.next = row.offset + 1
        return row

    def _wanted(self, rows: list[Row]) -> list[Row]:
        if self._filter is None or not rows:
            return rows
        marks = filter_mask(self._filter, [self._queue.routing_key(row.topic or b"") for row in rows])
        return [row for row, mark in zip(rows, marks, strict=True) if mark]


class _Looking:
    """Of one request."""

    def __init__(self, queue: Queue, units: list[Unit], place: Vector, stop: Vector, topic_filter: str | None) -> None:
        self._queue, self._place = queue, place
        part_rows = min(_PART_ROWS, max(1, _HELD_ROWS // max(1, len(units))))
        self._walks = [
            _Walk(queue, unit, place[unit.partition], stop[unit.partition], topic_filter, part_rows) for unit in units
        ]

    @property
    def has_more(self) -> bool:
        return any(walk.has_more for walk in self._walks)

    @property
    def place(self) -> Vector:
        """Behind what was given out."""
        return Vector({**self._place.offsets, **{walk.unit.partition: walk.next for walk in self._walks}})

    async def messages(self, limit: int, is_base64: bool) -> list[Message]:
        """The oldest that come next, up to the limit and to what an answer may hold."""
        found: list[Message] = []
        size = 0
        times = [(row.timestamp, i) for i in range(len(self._walks)) if (row := await self._peek(i)) is not None]
        heapq.heapify(times)
        while times and len(found) < limit and size < _ANSWER_BYTES:
            number = heapq.heappop(times)[1]
            walk = self._walks[number]
            row, partition = walk.pop(), walk.unit.partition
            size += len(row.value) + len(row.key or b"") + len(row.properties or b"") + len(row.native or b"")
            prefix = self._queue.message_id_prefix(partition)
            found.append(message_of(prefix, self._queue.name, partition, row, is_base64))
            if (following := await self._peek(number)) is not None:
                heapq.heappush(times, (following.timestamp, number))
        return found

    async def _peek(self, number: int) -> Row | None:
        return await self._walks[number].first(_PASSED_OVER - sum([walk.passed_over for walk in self._walks]))


def _units(queue: Queue, partition: int | None) -> list[Unit]:
    if partition is None:
        return [queue.units[number] for number in sorted(queue.units)]
    if partition >= queue.settings.partitions:
        raise InvalidArgument(f"queue {queue.name!r} has no partition {partition}, it has {queue.settings.partitions}")
    return [unit for number, unit in queue.units.items() if number == partition]


def _checked(topic_filter: str | None) -> str | None:
    if topic_filter is not None:
        check_filter(topic_filter)
    return plain_filter(topic_filter)


ROUTES = (
    Route(
        "GET",
        f"{API}/queues/{{queue}}/messages",
        browse,
        Right.LOGIN,
        "Messages",
        "Browse messages without consuming them",
        "Messages that are committed, the oldest first. Give `next` back as `cursor` for those that follow.",
        query=BrowseQuery,
        answers={200: BrowsedMessages},
    ),
)
