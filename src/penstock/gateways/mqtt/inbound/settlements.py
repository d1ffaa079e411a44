"""`$queue/…/$ack`, `$nack` and `$reject`: settling by publishing."""

from __future__ import annotations

import logging
from array import array
from typing import NamedTuple

from penstock.broker.broker import Broker
from penstock.broker.feed.held import Held
from penstock.broker.feed.settling import Settlement
from penstock.broker.queues.group import Group
from penstock.broker.queues.queue import Queue
from penstock.codecs.mqtt.reasons import ReasonCode
from penstock.core.errors import InvalidArgument, NoSuchGroup, NoSuchQueue, PenstockError
from penstock.core.units import parse_duration
from penstock.gateways.mqtt.admin.reports import Reports
from penstock.gateways.mqtt.connection import Connection
from penstock.gateways.mqtt.inbound.answers import Refused
from penstock.gateways.mqtt.inbound.arrival import Arrived
from penstock.log.columns import Columns
from penstock.queues.names import parse_message_id, queue_address
from penstock.queues.properties import decode_user_properties

_DONE, _AGAIN, _NEVER = b"$ack", b"$nack", b"$reject"
_ANYBODY = -1
_STALE = "stale: the delivery was settled, timed out or taken back before; the message comes again if it is not done"
# What fits the columns that offsets are looked up in.
_MAX_DIGITS = 18
_MAX_DELAY_MS = 3650 * 86_400_000


class _Same(NamedTuple):
    """What settlements have in common that are made together."""

    group: str | None
    delay_ms: int | None
    reason: str
    partition: int


_Named = list[tuple[int, int]]
"""row of the publish, offset"""


class Asked(NamedTuple):
    """What the properties of one such publish say."""

    messages: tuple[tuple[int, int], ...]
    """partition and offset of each"""
    group: str | None
    delay_ms: int | None
    reason: str


class Settlements:
    def __init__(self, broker: Broker, reports: Reports) -> None:
        self._broker, self._reports = broker, reports

    async def take(self, connection: Connection, arrived: Arrived, number: int, topic: bytes) -> dict[int, Refused]:
        """All publishes of one topic: the rows that are refused. Those that say the same are settled together; each is
        answered for itself."""
        rows = arrived.columns.rows_of_topics([number])
        address, _, verb = topic.rpartition(b"/")
        try:
            queue = self._queue(address.decode(), connection.session.namespace)
        except (InvalidArgument, NoSuchQueue) as error:
            return dict.fromkeys(rows, Refused(ReasonCode.TOPIC_NAME_INVALID, str(error)))
        if not connection.permissions.may_consume(queue.name):
            detail = f"{connection.identity.name} may not consume queue {queue.name!r}"
            return dict.fromkeys(rows, Refused(ReasonCode.NOT_AUTHORIZED, detail))
        refused: dict[int, Refused] = {}
        together: dict[_Same, _Named] = {}
        for row in rows:
            try:
                asked = _asked(queue, _properties(arrived.columns, row))
            except InvalidArgument as error:
                refused[row] = Refused(ReasonCode.TOPIC_NAME_INVALID, str(error))
                continue
            for partition, offset in asked.messages:
                same = _Same(asked.group, asked.delay_ms, asked.reason, partition)
                together.setdefault(same, []).append((row, offset))
        for same, named in together.items():
            refused |= await self._settle(connection, queue, verb, same, named)
        return refused

    def _queue(self, address: str, namespace: str) -> Queue:
        """Any path of the queue will do."""
        path = queue_address(address)
        route = self._broker.declaring.bindings_of(namespace).route(address.encode())
        if path is None or route.prefix_queue is None:
            raise NoSuchQueue(address)
        return self._broker.queue(route.prefix_queue, namespace)

    async def _settle(
        self, connection: Connection, queue: Queue, verb: bytes, same: _Same, named: _Named
    ) -> dict[int, Refused]:
        """The rows with a message that could not be settled."""
        unit, left = queue.units.get(same.partition), dict.fromkeys(offset for _, offset in named)
        detail = _STALE
        try:
            if unit is None and not 0 <= same.partition < queue.settings.partitions:
                raise InvalidArgument(f"queue {queue.name!r} has no partition {same.partition}")
            if unit is None:
                raise InvalidArgument(f"queue {queue.name!r} has no such message: nobody wrote to that partition")
            for group, consumer in _holders(connection, queue, same.group):
                group.heard_from(consumer)
                held = group.cursor(unit).held(array("q", left), None, consumer)
                if held:
                    await self._call(verb, Held.named(group, unit, held, None, consumer), same)
                    left = {offset: None for offset in left if offset not in set(held)}
        except (InvalidArgument, NoSuchGroup) as error:
            return dict.fromkeys([row for row, _ in named], Refused(ReasonCode.TOPIC_NAME_INVALID, str(error)))
        except PenstockError as error:
            self._reports.refused(connection.name, "settlement", error, logging.WARNING)
            detail = str(error)
        refused = Refused(ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR, detail)
        return {row: refused for row, offset in named if offset in left}

    def _call(self, verb: bytes, held: Held, same: _Same) -> Settlement:
        settling = self._broker.settling
        if verb == _DONE:
            return settling.ack(held)
        if verb == _AGAIN:
            return settling.fail(held, same.delay_ms, same.reason)
        return settling.reject(held, same.reason)


def _holders(connection: Connection, queue: Queue, name: str | None) -> list[tuple[Group, int]]:
    """Groups, and who may hold messages of each: this client where it consumes them, else whoever does."""
    mine = [
        (consumer.group, consumer.member.number)
        for consumer in connection.deliveries.consumers.values()
        if consumer.queue is queue and name in (None, consumer.group.record.name)
    ]
    if mine:
        return mine
    if name is None:
        raise InvalidArgument(f"this client consumes no group of queue {queue.name!r}: name it as consumer-group")
    found = [(group, _ANYBODY) for group in queue.groups.values() if group.record.name == name]
    if not found:
        raise NoSuchGroup(queue.name, name)
    return found


def _properties(columns: Columns, row: int) -> bytes:
    spans = columns.properties
    return b"" if spans is None else bytes(columns.source[spans.starts[row] : spans.ends[row]])


def _asked(queue: Queue, properties: bytes) -> Asked:
    pairs = decode_user_properties(properties)
    said = dict(pairs)
    named = [parse_message_id(value) for name, value in pairs if name == "message-id"]
    for each in named:
        if each.queue != queue.name or each.incarnation != queue.incarnation:
            raise InvalidArgument(f"message {each} is not of queue {queue.name!r}")
    messages = [(each.partition, each.offset) for each in named]
    if "partition" in said and "offset" in said:
        messages.append((_number(said, "partition"), _number(said, "offset")))
    if not messages:
        raise InvalidArgument("a settlement names its messages: message-id, or partition and offset")
    return Asked(tuple(messages), said.get("consumer-group"), _delay_ms(said.get("delay")), said.get("reason", ""))


def _delay_ms(text: str | None) -> int | None:
    """`0` needs no unit."""
    if text is None or text == "0":
        return None if text is None else 0
    delay_ms = int(1000 * parse_duration(text))
    if delay_ms > _MAX_DELAY_MS:
        raise InvalidArgument(f"delay is {text!r}: at most 3650d")
    return delay_ms


def _number(said: dict[str, str], name: str) -> int:
    text = said[name]
    if not (text.isascii() and text.isdecimal()) or len(text) > _MAX_DIGITS:
        raise InvalidArgument(f"{name} is {text[:40]!r}: give a number of at most {_MAX_DIGITS} digits")
    return int(text)
