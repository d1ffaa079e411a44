"""Messages for exchanges that become messages of another topic, or of which each goes where its headers say.

What comes through `amq.topic` is of an ordinary topic from there on, whose text ends that of the exchange's topic: its
span begins later, and no byte is copied. Where headers decide, the rows of a topic are those of several from there on,
one for each set of queues, with the same text."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias

from penstock.broker.queues.queue import Queue
from penstock.log.columns import Columns, Spans
from penstock.queues.exchange_headers import NO_HEADERS, Headers, text_headers
from penstock.queues.exchange_topics import TOPIC_EXCHANGE, ExchangeAddress, exchange_address, swapped
from penstock.queues.exchanges import Exchanges, Routed

HeadersOf = Callable[[int], Headers]
Further = Mapping[int, Sequence[bytes]]
"""by row, the keys that a message has beside that of its topic"""
NO_FURTHER: Further = {}
Entry: TypeAlias = "tuple[bytes | None, list[Queue]]"
"""the topic that messages of an exchange are of from there on, and the queues that they go to"""


class Entered(NamedTuple):
    columns: Columns
    topics: list[bytes]
    """those of the topic_index"""
    found: dict[int, list[Queue]]
    """queues by the number of a topic; of the others, their text says it"""


@dataclass(slots=True)
class _Topics:
    """The new ones."""

    texts: list[bytes]
    starts: array[int]
    ends: array[int]
    found: dict[int, list[Queue]]

    def keep(self, text: bytes, start: int, end: int) -> int:
        self.texts.append(text)
        self.starts.append(start)
        self.ends.append(end)
        return len(self.texts) - 1

    def enter(self, topic: bytes | None, queues: list[Queue], text: bytes, start: int, end: int) -> int:
        """As `topic`, if the text of the one it came with ends so."""
        if topic is not None and text.endswith(topic):
            text, start = topic, end - len(topic)
        number = self.keep(text, start, end)
        self.found[number] = queues
        return number


def entered(
    columns: Columns,
    topics: Sequence[bytes],
    space: Exchanges,
    queue: Callable[[str], Queue],
    known: Mapping[bytes, Entry | None],
    headers: HeadersOf | None = None,
    further: Further = NO_FURTHER,
) -> Entered:
    """See Routes.enter(). `known` are topics that enter as a whole, but for rows with further keys."""
    spans, index = columns.topics, columns.topic_index
    assert spans is not None and index is not None
    made, numbers, headers = _Topics([], array("i"), array("i"), {}), index[:], headers or _said_by(columns)
    by_topic: tuple[array[int], array[int]] | None = None
    for topic, text in enumerate(topics):
        place = text, spans.starts[topic], spans.ends[topic]
        if further and (address := exchange_address(text)) is not None:
            order, begins = by_topic = by_topic or columns.by_topic()
            rows = order[begins[topic] : begins[topic + 1]]
            routes = [
                space.route_several(address.exchange, (address.key, *further.get(row, ())), headers(row))
                for row in rows
            ]
            _spread(made, numbers, rows, place, routes, queue)
            continue
        if (entry := known.get(text)) is not None:
            number = made.enter(entry[0], entry[1], *place)
        elif (address := _address(text, space)) is None:
            number = made.keep(*place)
        elif not space.reads_headers(address.exchange):
            routed = space.route(*address)
            number = made.enter(routed.topic, list(map(queue, routed.queues)), *place)
        else:
            order, begins = by_topic = by_topic or columns.by_topic()
            rows = order[begins[topic] : begins[topic + 1]]
            _spread(made, numbers, rows, place, [space.route(*address, headers(row)) for row in rows], queue)
            continue
        if number != topic:
            order, begins = by_topic = by_topic or columns.by_topic()
            for row in order[begins[topic] : begins[topic + 1]]:
                numbers[row] = number
    changed = replace(columns, topic_index=numbers, topics=Spans(made.starts, made.ends))
    return Entered(changed, made.texts, made.found)


def _address(text: bytes, space: Exchanges) -> ExchangeAddress | None:
    """None for topics that are what they say."""
    if (address := exchange_address(text)) is not None:
        return address
    is_read = not text.startswith(b"$") and space.reads_headers(TOPIC_EXCHANGE)
    return ExchangeAddress(TOPIC_EXCHANGE, swapped(text)) if is_read else None


def _spread(
    made: _Topics,
    numbers: array[int],
    rows: Sequence[int],
    place: tuple[bytes, int, int],
    routes: Sequence[Routed],
    queue: Callable[[str], Queue],
) -> None:
    """Each row to the topic of those that go where it goes."""
    known: dict[Routed, int] = {}
    for row, routed in zip(rows, routes, strict=True):
        if (number := known.get(routed)) is None:
            number = known[routed] = made.enter(routed.topic, list(map(queue, routed.queues)), *place)
        numbers[row] = number


def _said_by(columns: Columns) -> HeadersOf:
    spans, source = columns.properties, columns.source
    if spans is None:
        return lambda row: NO_HEADERS
    return lambda row: text_headers(bytes(source[spans.starts[row] : spans.ends[row]]))
