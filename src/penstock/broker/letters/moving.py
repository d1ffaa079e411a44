"""Dead letters of one frame: gathered from stored batches, and as rows of the queues that they go to."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field, replace
from itertools import compress
from typing import NamedTuple

from penstock.broker.feed.stored import StoredBatch
from penstock.broker.publish.publisher import Publisher
from penstock.broker.publish.request import Put
from penstock.broker.publish.routes import Routes
from penstock.broker.queues.queue import Queue
from penstock.core.errors import InvalidArgument, NoSuchExchange
from penstock.kernels import letters as kernel
from penstock.kernels import rows
from penstock.kernels.amqp_death import Deaths
from penstock.kernels.window import Window
from penstock.log.columns import Columns, Spans
from penstock.log.view import amqp091_of, viewed_properties
from penstock.queues.exchange_headers import NO_HEADERS, Headers, text_headers
from penstock.queues.exchange_topics import published_with

_ZERO = array("i", [0])


class Way(NamedTuple):
    """With what letters are published to an exchange."""

    keys: tuple[bytes, ...]
    headers: Headers


@dataclass(frozen=True, slots=True)
class Exchange:
    """To which letters are published, and with which key; None: with those of each."""

    name: str
    key: str | None
    namespace: str
    source: str
    """the queue in which they died"""
    is_automatic: bool
    """Nobody rejected them: they come to no queue twice."""
    deaths: Deaths


@dataclass(slots=True)
class Letters:
    """Of one frame."""

    gathered: kernel.Gathered
    exchange: Exchange | None
    offsets: array[int] = field(default_factory=lambda: array("q"))
    """of those that were there"""

    def add(self, stored: StoredBatch, wanted: array[int], at: int, window: Window) -> int:
        """Those of the wanted offsets, which rise, that are in the batch, from the place `at` on: the place of the
        first that found no room, or is behind the batch."""
        room = len(wanted) - at
        picked = _ZERO * room
        count = kernel.pick(stored.offsets, wanted, at, stored.end, picked)
        offsets = wanted[at : at + count]
        deliveries, failures, firsts = _ZERO * count, _ZERO * count, array("q", bytes(8 * count))
        window.counts(offsets, deliveries, failures, firsts)
        batch, before = stored.batch, self.gathered.rows
        taken = self.gathered.add(batch.body, batch.layout, picked, 0, count, offsets, deliveries, failures, firsts)
        there = picked[:taken]
        if -1 in there:
            self.offsets.extend([offset for offset, row in zip(offsets, there, strict=False) if row >= 0])
            there = array("i", [row for row in there if row >= 0])
        else:
            self.offsets.extend(offsets[:taken])
        if self.exchange is not None and there:
            self._add_deaths(stored, there, before, self.exchange)
        return at + taken

    def _add_deaths(self, stored: StoredBatch, there: array[int], before: int, exchange: Exchange) -> None:
        batch, gathered = stored.batch, self.gathered
        left_ms: array[int] | None = None
        if (expiry := batch.columns(there).expiry) is not None:
            times = batch.timestamps()
            left_ms = array("q", [_left(time, times[row]) for time, row in zip(expiry, there, strict=True)])
        data, spans = amqp091_of(batch, there, left_ms)
        published = [published_with(topic, exchange.source) for topic in gathered.topics]
        numbers = gathered.topic_index[before : gathered.rows]
        exchanges, keys = [address.exchange.encode() for address in published], [address.key for address in published]
        exchange.deaths.add(data, spans.starts, spans.ends, numbers, exchanges, keys)

    def columns(self) -> Columns:
        """All that they have but their expiry."""
        gathered = self.gathered
        count, places = gathered.trimmed(), gathered.places
        pieces: list[bytes | bytearray] = [gathered.whole()]
        key, properties, native, value, end = [places[word :: kernel.WORDS] for word in range(kernel.WORDS)]
        columns = Columns(count, b"", Spans(value, end), _some(key, properties), _some(properties, native))
        columns.native = _some(native, value)
        size = len(pieces[0])
        if self.exchange is not None:
            deaths, ends = self.exchange.deaths.whole(), self.exchange.deaths.places
            pieces.append(deaths)
            shifted = array("i", [size + place for place in ends])
            columns.native = Spans(shifted[:-1], shifted[1:])
            size += len(deaths)
        if gathered.topics != [b""]:
            columns.topic_index = gathered.topic_index
            columns.topics = _behind(pieces, size, gathered.topics)
        columns.source = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        return columns

    def bundle(self, routes: Routes) -> Bundle:
        columns, ways, numbers = self.columns(), list[Way](), array("i")
        if self.exchange is not None:
            ways, numbers = _ways(columns, self.exchange, routes)
        return Bundle(columns, self.offsets, ways, numbers)


@dataclass(slots=True)
class Bundle:
    """Letters as they are stored, on their way into a frame."""

    columns: Columns
    offsets: array[int]
    ways: list[Way]
    """through an exchange; none to a queue"""
    numbers: array[int]
    """which of them each letter takes"""

    def select(self, picked: array[int]) -> Bundle:
        numbers, offsets = array("i"), array("q", [self.offsets[row] for row in picked])
        if self.ways:
            numbers = array("i", [self.numbers[row] for row in picked])
        return Bundle(self.columns.select(picked), offsets, self.ways, numbers)

    def halves(self) -> tuple[Bundle, Bundle]:
        half, count = len(self.offsets) // 2, len(self.offsets)
        return self.select(array("i", range(half))), self.select(array("i", range(half, count)))


@dataclass(slots=True)
class Moved:
    """Letters as rows of queues."""

    puts: list[Put]
    reached: int
    """how many of them get to a queue"""

    @property
    def bytes(self) -> int:
        return sum([put.rows.bytes for put in self.puts])


def to_queue(bundle: Bundle, target: Queue, publisher: Publisher) -> Moved:
    return Moved([Put(target, bundle.columns, publisher)], bundle.columns.count)


def to_exchange(bundle: Bundle, exchange: Exchange, routes: Routes, publisher: Publisher) -> Moved:
    """Through an exchange that may be gone: then they get to nobody."""
    found = [_through(way, exchange, routes) for way in bundle.ways]
    sent, count = _with_topics(bundle, [topic for topic, _ in found]), bundle.columns.count
    by_queue: dict[Queue, bytearray] = {}
    for number, (_, queues) in enumerate(found):
        for queue in queues:
            by_queue.setdefault(queue, bytearray(len(found)))[number] = 1
    puts: list[Put] = []
    reached = bytearray(count)
    for queue, marks in by_queue.items():
        chosen = bytearray(count)
        rows.mark_by_number(memoryview(bundle.numbers), marks, chosen)
        if exchange.is_automatic:
            _leave_out_cycles(sent, queue, exchange, chosen)
        if (taken := chosen.count(1)) == 0:
            continue
        picked = sent if taken == count else sent.select(array("i", compress(range(count), chosen)))
        puts.append(Put(queue, picked, publisher))
        reached = chosen if len(puts) == 1 else bytearray(map(max, reached, chosen))
    return Moved(puts, reached.count(1))


def _leave_out_cycles(columns: Columns, queue: Queue, exchange: Exchange, chosen: bytearray) -> None:
    native, marks = columns.native, bytearray(columns.count)
    assert native is not None
    name = queue.name.encode()
    if exchange.deaths.mark_cycles(columns.source, native.starts, native.ends, name, marks):
        for row in compress(range(columns.count), marks):
            chosen[row] = 0


def _through(way: Way, exchange: Exchange, routes: Routes) -> tuple[bytes, dict[Queue, None]]:
    """The topic that letters have then, and the queues that they get to."""
    topic, found = b"", dict[Queue, None]()
    for number, key in enumerate(way.keys):
        try:
            text, queues = routes.through(exchange.name, key, way.headers, exchange.namespace)
        except (NoSuchExchange, InvalidArgument):
            continue
        topic = text if not number else topic
        found |= dict.fromkeys(queues)
    return topic, found


def _ways(columns: Columns, exchange: Exchange, routes: Routes) -> tuple[list[Way], array[int]]:
    """And of each row the number of its way."""
    reads_headers = _reads_headers(exchange, routes)
    copies = dict(exchange.deaths.copies) if exchange.key is None else {}
    ways, numbers = _by_topic(columns, exchange)
    if not reads_headers and not copies:
        return ways, numbers
    known = {way: number for number, way in enumerate(ways)}
    for row in range(columns.count) if reads_headers else copies:
        headers = _headers(columns, row) if reads_headers else NO_HEADERS
        way = Way((*ways[numbers[row]].keys, *copies.get(row, ())), headers)
        numbers[row] = known.setdefault(way, len(known))
    return list(known), numbers


def _by_topic(columns: Columns, exchange: Exchange) -> tuple[list[Way], array[int]]:
    if exchange.key is not None:
        return [Way((exchange.key.encode(),), NO_HEADERS)], _ZERO * columns.count
    if columns.topics is None or columns.topic_index is None:
        return [Way((published_with(b"", exchange.source).key,), NO_HEADERS)], _ZERO * columns.count
    texts = [bytes(columns.source[start:end]) for start, end in _pairs(columns.topics)]
    ways = {Way((published_with(text, exchange.source).key,), NO_HEADERS): None for text in texts}
    places = {way: number for number, way in enumerate(ways)}
    of_topics = array("i", [places[Way((published_with(text, exchange.source).key,), NO_HEADERS)] for text in texts])
    numbers = columns.topic_index[:]
    rows.take_int32(of_topics, columns.topic_index, numbers)
    return list(ways), numbers


def _reads_headers(exchange: Exchange, routes: Routes) -> bool:
    try:
        return routes.reads_headers(exchange.name, exchange.namespace)
    except NoSuchExchange:
        return False


def _headers(columns: Columns, row: int) -> Headers:
    def field(spans: Spans | None) -> bytes | None:
        return None if spans is None else bytes(columns.source[spans.starts[row] : spans.ends[row]]) or None

    return text_headers(viewed_properties(field(columns.properties), field(columns.native)) or b"")


def _with_topics(bundle: Bundle, texts: list[bytes]) -> Columns:
    columns, pieces = bundle.columns, list[bytes | bytearray]()
    topics = _behind(pieces, len(columns.source), texts)
    source = b"".join((columns.source, *pieces))
    return replace(columns, source=source, topics=topics, topic_index=bundle.numbers)


def _behind(pieces: list[bytes | bytearray], size: int, texts: list[bytes]) -> Spans:
    """Texts behind so many bytes."""
    starts, ends = array("i"), array("i")
    for text in texts:
        starts.append(size)
        size += len(text)
        ends.append(size)
    pieces.extend(texts)
    return Spans(starts, ends)


def _some(starts: array[int], ends: array[int]) -> Spans | None:
    """None for a column in which no row has anything: it is not stored."""
    return None if starts == ends else Spans(starts, ends)


def _pairs(spans: Spans) -> zip[tuple[int, int]]:
    return zip(spans.starts, spans.ends, strict=True)


def _left(expiry: int, time: int) -> int:
    """How long a message was of use when it came, for which 0 stands where it always was."""
    return max(expiry - time, -1) or -1 if expiry else 0
