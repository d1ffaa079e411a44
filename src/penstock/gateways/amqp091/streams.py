"""Reading a stream: each consumer in a group of its own, from where it asks for. What it answers gives it room for
more and takes nothing from others."""

from __future__ import annotations

from secrets import token_urlsafe

from penstock.broker.queues.group import Group
from penstock.broker.queues.queue import Queue
from penstock.broker.queues.start import EARLIEST, LATEST, Start
from penstock.codecs.amqp091.kinds import Field, Table
from penstock.core.errors import InvalidArgument
from penstock.queues.names import GroupName
from penstock.queues.rabbit_arguments import age_ms

_OFFSET = "x-stream-offset"
_INTEGERS = "bBsuIilL"
_PREFIX = "amq.reader-"


def reader_name() -> GroupName:
    return GroupName(f"{_PREFIX}{token_urlsafe(16)}", None)


def is_reader(group: Group) -> bool:
    return group.key.name.startswith(_PREFIX)


def start_of(queue: Queue, arguments: Table) -> Start:
    """What x-stream-offset asks for: first, last, next, an offset, a time or an age. InvalidArgument."""
    field = arguments.get(_OFFSET)
    if field is None:
        return LATEST
    if field.kind == "T" and isinstance(field.value, int):
        return Start.at_time(1000 * field.value)
    if field.kind in _INTEGERS and isinstance(field.value, int) and field.value >= 0:
        return Start.at_offset(field.value)
    return _named(queue, field)


def _named(queue: Queue, field: Field) -> Start:
    match field.value:
        case "first":
            return EARLIEST
        case "next":
            return LATEST
        case "last":
            return Start("offset", tuple((number, unit.end - 1) for number, unit in queue.units.items()))
        case str(text) if age := age_ms(text):
            return Start.ago(age / 1000)
    raise InvalidArgument(
        f"{_OFFSET} is {field.value!r:.100}: give first, last, next, an offset, a timestamp, or an interval like 1h"
    )
