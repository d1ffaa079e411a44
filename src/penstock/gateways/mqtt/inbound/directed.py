"""Messages whose user properties say more than where they go: a partition, a producer's sequence, or what is not there
yet."""

from __future__ import annotations

from array import array
from itertools import compress

from penstock.broker.publish.request import ProducerCall
from penstock.core.errors import InvalidArgument
from penstock.gateways.mqtt.inbound.arrival import Arrived
from penstock.kernels.mqtt_rows import find_user_property
from penstock.log.columns import Columns
from penstock.queues.properties import PublishProperty, decode_user_properties

_OF_PRODUCERS = (PublishProperty.SEQUENCE, PublishProperty.PRODUCER_EPOCH)
_DIRECTIONS = (PublishProperty.PARTITION, PublishProperty.PRODUCER_ID, *_OF_PRODUCERS)
_LATER = (
    PublishProperty.DELAY,
    PublishProperty.DELIVER_AT,
    PublishProperty.PRIORITY,
    PublishProperty.SCHEMA_ID,
)
# What fits the columns that sequences are kept in.
_MAX_DIGITS = 18
_ALL = tuple(name.value.encode() for name in (*_DIRECTIONS, *_LATER))


def directed_rows(arrived: Arrived) -> list[int]:
    """Messages that have to be looked at on their own."""
    properties = arrived.columns.properties
    if not arrived.has_user_properties or properties is None:
        return []
    source, found = arrived.columns.source, dict[int, None]()
    for name in _ALL:
        starts, ends = array("i", bytes(4 * arrived.count)), array("i", bytes(4 * arrived.count))
        if find_user_property(source, properties.starts, properties.ends, name, starts, ends):
            found |= dict.fromkeys(compress(range(arrived.count), ends))
    return list(found)


def directions(columns: Columns, login: str) -> tuple[int | None, ProducerCall | None]:
    """The partition and the place in a producer's sequence of a single message of that login. InvalidArgument for what
    cannot be read, or is not there yet: it must not pass for an ordinary message."""
    spans = columns.properties
    if spans is None:
        return None, None
    said = dict(decode_user_properties(bytes(columns.source[spans.starts[0] : spans.ends[0]])))
    for name in _LATER:
        if name.value in said:
            raise InvalidArgument(f"{name.value} is not in this version: publish without it")
    partition = _number(said, PublishProperty.PARTITION) if PublishProperty.PARTITION.value in said else None
    producer = said.get(PublishProperty.PRODUCER_ID.value)
    if producer is None:
        for name in _OF_PRODUCERS:
            if name.value in said:
                wanted = PublishProperty.PRODUCER_ID.value
                raise InvalidArgument(f"{name.value} without {wanted}: name the producer too, or publish without both")
        return partition, None
    epoch = _number(said, PublishProperty.PRODUCER_EPOCH, 0)
    return partition, ProducerCall.owned(login, producer, epoch, _number(said, PublishProperty.SEQUENCE))


def _number(said: dict[str, str], name: PublishProperty, default: int | None = None) -> int:
    text = said.get(name.value)
    if text is None and default is not None:
        return default
    if text is None or not (text.isascii() and text.isdecimal()) or len(text) > _MAX_DIGITS:
        raise InvalidArgument(f"{name.value} is {text and text[:40]!r}: give a number of at most {_MAX_DIGITS} digits")
    return int(text)
