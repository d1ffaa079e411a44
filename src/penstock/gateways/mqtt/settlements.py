"""`$queue/…/$ack`, `$nack` and `$reject`: settling by publishing."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from penstock.broker.broker import Broker
from penstock.broker.group import Group
from penstock.broker.queue import Queue
from penstock.broker.settling import Settled
from penstock.broker.unit import Unit
from penstock.codecs.mqtt.reasons import ReasonCode
from penstock.core.errors import InvalidArgument, NoSuchGroup, NoSuchQueue, PenstockError
from penstock.core.units import parse_duration
from penstock.gateways.mqtt.arrival import Arrived
from penstock.gateways.mqtt.fanout import rows_of_topics
from penstock.queues.names import group_name, parse_message_id, queue_address
from penstock.queues.properties import decode_user_properties

if TYPE_CHECKING:
    from penstock.gateways.mqtt.connection import Connection

_DONE, _AGAIN, _NEVER = b"$ack", b"$nack", b"$reject"
_ANYBODY = -1


class Asked(NamedTuple):
    """What the properties of one such publish say."""

    messages: tuple[tuple[int, int], ...]
    """partition and offset of each"""
    group: str | None
    delay_ms: int | None
    reason: str


class Settlements:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    async def take(self, connection: Connection, arrived: Arrived, number: int, topic: bytes) -> ReasonCode:
        """All publishes of one topic. Success if every one named deliveries that are current; else the last refusal."""
        address, _, verb = topic.rpartition(b"/")
        try:
            queue = self._queue(address.decode(), connection.session.namespace)
            if not connection.permissions.may_consume(queue.name):
                return ReasonCode.NOT_AUTHORIZED
            asked = [_asked(queue, properties) for properties in _properties(arrived, number)]
            return await self._settle(connection, queue, verb, asked)
        except (InvalidArgument, NoSuchQueue):
            return ReasonCode.TOPIC_NAME_INVALID
        except PenstockError:
            return ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR

    def _queue(self, address: str, namespace: str) -> Queue:
        """Any path of the queue will do."""
        path = queue_address(address)
        route = self._broker.declaring.bindings_of(namespace).route(address.encode())
        if path is None or route.prefix_queue is None:
            raise NoSuchQueue(address)
        return self._broker.queue(route.prefix_queue, namespace)

    async def _settle(self, connection: Connection, queue: Queue, verb: bytes, asked: Iterable[Asked]) -> ReasonCode:
        """Those that say the same are settled together."""
        together: dict[tuple[str | None, int | None, str, int], list[int]] = {}
        for each in asked:
            for partition, offset in each.messages:
                together.setdefault((each.group, each.delay_ms, each.reason, partition), []).append(offset)
        stale = 0
        for (name, delay_ms, reason, partition), offsets in together.items():
            unit = queue.units.get(partition)
            if unit is None:
                raise InvalidArgument(f"queue {queue.name!r} has no partition {partition}")
            group, consumer = _held_by(connection, queue, name)
            settled = await self._call(verb, group, unit, array("q", offsets), consumer, delay_ms, reason)
            stale += settled.stale
        return ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR if stale else ReasonCode.SUCCESS

    async def _call(
        self,
        verb: bytes,
        group: Group,
        unit: Unit,
        offsets: array[int],
        consumer: int,
        delay_ms: int | None,
        reason: str,
    ) -> Settled:
        settling = self._broker.settling
        if verb == _DONE:
            return await settling.ack(group, unit, offsets, None, consumer)
        if verb == _AGAIN:
            return await settling.fail(group, unit, offsets, None, consumer, delay_ms, reason)
        return await settling.reject(group, unit, offsets, None, consumer, reason)


def _held_by(connection: Connection, queue: Queue, name: str | None) -> tuple[Group, int]:
    """The group, and who holds its messages: this client if it consumes the group, else whoever does."""
    for consumer in connection.deliveries.consumers.values():
        if consumer.queue is queue and name in (None, consumer.group.record.name):
            return consumer.group, consumer.member.number
    if name is None:
        raise InvalidArgument(f"this client consumes no group of queue {queue.name!r}: name it as consumer-group")
    found = [group for key, group in queue.groups.items() if key == group_name(name)]
    if not found:
        raise NoSuchGroup(queue.name, name)
    return found[0], _ANYBODY


def _properties(arrived: Arrived, number: int) -> list[bytes]:
    columns = arrived.columns
    if columns.properties is None:
        raise InvalidArgument("a settlement names its messages in user properties: message-id, or partition and offset")
    spans, source = columns.properties, columns.source
    return [bytes(source[spans.starts[row] : spans.ends[row]]) for row in rows_of_topics(columns, [number])]


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
    delay = said.get("delay")
    delay_ms = None if delay is None else int(1000 * parse_duration(delay))
    return Asked(tuple(messages), said.get("consumer-group"), delay_ms, said.get("reason", ""))


def _number(said: dict[str, str], name: str) -> int:
    text = said[name]
    if not (text.isascii() and text.isdecimal()):
        raise InvalidArgument(f"{name} is {text!r}: give a number")
    return int(text)
