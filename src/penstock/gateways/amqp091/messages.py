"""Publishes that a scan found, as the broker takes them: columns over a copy of the bytes, topics behind them."""

from __future__ import annotations

import secrets
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from penstock.codecs.amqp091.kinds import Field
from penstock.codecs.amqp091.wire import Reader
from penstock.core.ports import Buffer
from penstock.gateways.amqp091.routes import Routes
from penstock.kernels import amqp_columns as names
from penstock.kernels import amqp_tables, mqtt_rows, rows
from penstock.kernels.amqp_deliver import SPAN_WORDS
from penstock.kernels.amqp_scan import Scanner, mark_native
from penstock.kernels.amqp_turn import expiries, longest_time, union
from penstock.log.columns import Columns, Spans
from penstock.queues.exchange_headers import NO_HEADERS, Headers, Value

_PICKED = (
    names.FLAGS,
    names.PRESENT,
    names.ROUTE_START,
    names.ROUTE_END,
    names.PROPS_START,
    names.PROPS_END,
    names.HEADERS_START,
    names.HEADERS_END,
    names.BODY_START,
    names.BODY_END,
)
_ZERO = array("i", [0])
_BAD_EXPIRATION = -2
_LONGEST_EXPIRATION_MS = 10 * 365 * 86_400_000


@dataclass(slots=True)
class Messages:
    """The source is their own."""

    columns: Columns
    topics: list[bytes]
    routes: list[bytes]
    """what the topics were made of"""
    flags: array[int]
    present: array[int]
    every: int
    """bits of `flags` that any of them has"""
    has: int
    """and of `present`"""
    route_spans: Spans
    properties: Spans
    headers: Spans
    bad_expirations: list[int]
    """rows with one that says no time"""
    further: dict[int, tuple[bytes, ...]] = field(default_factory=dict)
    """by row, keys beside that of the method"""

    @property
    def count(self) -> int:
        return self.columns.count

    @property
    def index(self) -> array[int]:
        """The number of each row's topic."""
        assert self.columns.topic_index is not None
        return self.columns.topic_index

    def topics_of(self, start: int, stop: int) -> Iterable[int]:
        """The numbers of those that rows start to stop - 1 have."""
        if len(self.topics) == 1 or stop - start == self.count:
            return range(len(self.topics))
        return set(self.index[start:stop])

    def select(self, picked: array[int]) -> Messages:
        """Some of the rows, with all topics."""
        return Messages(
            self.columns.gather(picked),
            self.topics,
            self.routes,
            _taken(self.flags, picked),
            _taken(self.present, picked),
            self.every,
            self.has,
            self.route_spans.take(picked),
            self.properties.take(picked),
            self.headers.take(picked),
            [],
            {place: self.further[row] for place, row in enumerate(picked) if row in self.further},
        )

    def headers_of(self, row: int) -> Headers:
        """As exchanges look at them."""
        start, end = self.headers.starts[row], self.headers.ends[row]
        return NO_HEADERS if start == end else Headers(bytes(self.columns.source[start:end]), table_values, False)

    def carried(self, row: int) -> bytes:
        """Its properties, flags and values."""
        return bytes(self.columns.source[self.properties.starts[row] : self.properties.ends[row]])

    def replace_properties(self, row: int, data: bytes) -> None:
        """With a headers table that exchanges are not shown any more."""
        source, native = self.columns.source, self.columns.native
        assert isinstance(source, bytearray) and native is not None
        native.starts[row] = len(source)
        source += bytes([names.NATIVE_KIND]) + data
        native.ends[row] = len(source)
        self.properties.starts[row], self.properties.ends[row] = native.starts[row] + 1, native.ends[row]

    def property_text(self, row: int, at: int) -> str:
        """The short string that begins there."""
        source = self.columns.source
        return bytes(source[at + 1 : at + 1 + source[at]]).decode("utf-8", "replace")

    def frame_spans(self, picked: Sequence[int]) -> array[int]:
        """Where these rows are, as amqp_deliver wants them: routes and all else are spans of the source."""
        value, spans = self.columns.value, array("q", bytes(8 * SPAN_WORDS * len(picked)))
        columns = (self.route_spans, self.properties, value)
        for place, row in enumerate(picked):
            at = SPAN_WORDS * place
            for number, column in enumerate(columns):
                spans[at + 2 * number], spans[at + 2 * number + 1] = column.starts[row], column.ends[row]
        return spans


class Messenger:
    """One for all connections of a loop: it has the scratch space."""

    def __init__(self, room: int, routes: Routes) -> None:
        self._routes = routes
        self._seed = secrets.randbits(64)
        self._table = array("i", bytes(4 * 6 * room))
        self._firsts = array("i", bytes(4 * room))

    def read(self, scanner: Scanner, data: Buffer, numbers: array[int] | range, now_ms: int) -> Messages:
        """Rows of these numbers, which are all publishes."""
        if isinstance(numbers, range):
            picked = scanner.pick_part(_PICKED, numbers.start, numbers.stop)
        else:
            picked = scanner.pick_rows(_PICKED, numbers)
        flags, present, starts, ends, props, props_ends, headers, headers_ends, bodies, body_ends = picked
        count = len(flags)
        has, source, index = union(present), bytearray(data), _ZERO * count
        route_spans = Spans(starts, ends)
        if count > 1:
            found = mqtt_rows.group_topics(
                source, starts, ends, None, None, self._seed, self._table, index, self._firsts
            )
            distinct = route_spans.take(self._firsts[:found])
        else:
            distinct = route_spans
        routes = [bytes(source[start:end]) for start, end in zip(distinct.starts, distinct.ends, strict=True)]
        topics = list(map(self._routes.topic, routes))
        columns = Columns(count, source, Spans(bodies, body_ends), topic_index=index, topics=_behind(source, topics))
        bad: list[int] = []
        if has & names.HAS_EXPIRATION:
            columns.expiry, bad = _expiry(scanner, source, numbers, now_ms)
        if has:
            native = props[:]
            mark_native(source, array("i", [names.PUBLISH]) * count, native)
            columns.native = Spans(native, props_ends)
        return Messages(
            columns,
            topics,
            routes,
            flags,
            present,
            union(flags),
            has,
            route_spans,
            Spans(props, props_ends),
            Spans(headers, headers_ends),
            bad,
        )


def _behind(source: bytearray, topics: Sequence[bytes]) -> Spans:
    starts, ends = array("i"), array("i")
    for topic in topics:
        starts.append(len(source))
        source += topic
        ends.append(len(source))
    return Spans(starts, ends)


def column(scanner: Scanner, numbers: array[int] | range, which: int) -> array[int]:
    """One of the columns that few messages need."""
    if isinstance(numbers, range):
        return scanner.pick_part((which,), numbers.start, numbers.stop)[0]
    return scanner.pick_rows((which,), numbers)[0]


def _expiry(
    scanner: Scanner, source: bytearray, numbers: array[int] | range, now_ms: int
) -> tuple[array[int], list[int]]:
    places = column(scanner, numbers, names.EXPIRATION_AT)
    left = array("q", bytes(8 * len(places)))
    bad: list[int] = []
    if amqp_tables.decimal_texts(source, places, left) or longest_time(left) > _LONGEST_EXPIRATION_MS:
        bad = [row for row, time in enumerate(left) if time == _BAD_EXPIRATION or time > _LONGEST_EXPIRATION_MS]
    out = array("q", bytes(8 * len(places)))
    expiries(left, now_ms, out)
    return out, bad


def _taken(values: array[int], picked: array[int]) -> array[int]:
    out = picked[:]
    rows.take_int32(values, picked, out)
    return out


@lru_cache(1024)
def table_values(data: bytes) -> Mapping[str, Value]:
    """A table without its length, in the values that bindings are compared with."""
    fields = Reader(len(data).to_bytes(4, "big") + data).table("headers")
    return {name: plain_value(field) for name, field in fields.items()}


def plain_value(field: Field) -> Value:
    """Without the letter of its type."""
    value = field.value
    if isinstance(value, Mapping):
        return {name: plain_value(inner) for name, inner in value.items()}
    if isinstance(value, tuple):
        return [plain_value(inner) for inner in value]
    if isinstance(value, (bool, int, float, str, bytes)) or value is None:
        return value
    return str(value)
