"""Messages for exchanges that become messages of another topic, or of which each goes where its headers say.

What comes through `amq.topic` is of an ordinary topic from there on, whose text ends that of the exchange's topic: its
span begins later, and no byte is copied. Where headers decide, the rows of a topic are those of several from there on,
one for each set of queues, with the same text."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from penstock.broker.queues.queue import Queue
from penstock.log.columns import Columns, Spans
from penstock.queues.exchange_headers import NO_HEADERS, Headers, text_headers
from penstock.queues.exchange_topics import TOPIC_EXCHANGE, ExchangeAddress, exchange_address, swapped
from penstock.queues.exchanges import Exchanges, Routed

HeadersOf = Callable[[int], Headers]


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

    def enter(self, routed: Routed, queues: list[Queue], text: bytes, start: int, end: int) -> int:
        """The topic that a message is of from now on."""
        if routed.topic is not None and text.endswith(routed.topic):
            text, start = routed.topic, end - len(routed.topic)
        number = self.keep(text, start, end)
        self.found[number] = queues
        return number


def entered(
    columns: Columns,
    topics: Sequence[bytes],
    space: Exchanges,
    queue: Callable[[str], Queue],
    headers: HeadersOf | None = None,
) -> Entered:
    """See Routes.enter()."""
    spans, index = columns.topics, columns.topic_index
    assert spans is not None and index is not None
    order, begins = columns.by_topic()
    headers = headers or _said_by(columns)
    made, numbers = _Topics([], array("i"), array("i"), {}), index[:]
    for topic, text in enumerate(topics):
        place = text, spans.starts[topic], spans.ends[topic]
        address = _address(text, space)
        routed = None if address is None or space.reads_headers(address.exchange) else space.route(*address)
        rows = order[begins[topic] : begins[topic + 1]]
        if address is not None and routed is None:
            _spread(made, numbers, rows, place, [space.route(*address, headers(row)) for row in rows], queue)
            continue
        if routed is None or routed.topic is None:
            number = made.keep(*place)
        else:
            number = made.enter(routed, list(map(queue, routed.queues)), *place)
        for row in rows:
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
            number = known[routed] = made.enter(routed, list(map(queue, routed.queues)), *place)
        numbers[row] = number


def _said_by(columns: Columns) -> HeadersOf:
    spans, source = columns.properties, columns.source
    if spans is None:
        return lambda row: NO_HEADERS
    return lambda row: text_headers(bytes(source[spans.starts[row] : spans.ends[row]]))
