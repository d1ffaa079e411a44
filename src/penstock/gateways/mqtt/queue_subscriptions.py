"""A subscription to a queue: which group, from where on, and how it is settled."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from penstock.broker.group import Group
from penstock.broker.start import EARLIEST, LATEST, Start
from penstock.codecs.mqtt.kinds import Version
from penstock.codecs.mqtt.properties import Properties
from penstock.codecs.mqtt.text import parse_shared
from penstock.core.errors import InvalidArgument
from penstock.gateways.mqtt.consuming import QueueConsumer
from penstock.queues.names import default_group, group_name, queue_address

if TYPE_CHECKING:
    from penstock.gateways.mqtt.connection import Connection

_EXPLICIT, _BY_ANSWER = "explicit", "puback"


@dataclass(frozen=True, slots=True)
class Terms:
    """What the user properties of SUBSCRIBE say."""

    group: str | None = None
    start: str | None = None
    prefetch: int | None = None
    ack_mode: str | None = None
    is_durable: bool = False

    @classmethod
    def of(cls, properties: Properties) -> Terms:
        said = dict(properties.user_properties)
        prefetch = said.get("prefetch")
        if prefetch is not None and not (prefetch.isascii() and prefetch.isdecimal()):
            raise InvalidArgument(f"prefetch is {prefetch!r}: give a number")
        return cls(
            said.get("consumer-group"),
            said.get("start"),
            None if prefetch is None else int(prefetch),
            said.get("ack-mode"),
            said.get("durable", "").lower() == "true",
        )

    def encoded(self) -> bytes:
        return msgspec.msgpack.encode((self.group, self.start, self.prefetch, self.ack_mode, self.is_durable))

    @classmethod
    def decoded(cls, data: bytes) -> Terms:
        if not data:
            return cls()
        kind = tuple[str | None, str | None, int | None, str | None, bool]
        return cls(*msgspec.msgpack.decode(data, type=kind))

    def settles_by_answer(self, version: Version) -> bool:
        """PUBACK and PUBCOMP settle in MQTT 3.1.1, which has nothing else to settle with."""
        if self.ack_mode not in (None, _EXPLICIT, _BY_ANSWER):
            raise InvalidArgument(f"ack-mode is {self.ack_mode!r}: give {_EXPLICIT} or {_BY_ANSWER}")
        return version is Version.V3_1_1 or self.ack_mode == _BY_ANSWER


async def consume(connection: Connection, filter: str, qos: int, terms: Terms) -> None:
    """From now on; a subscription of the same filter before it ends."""
    session, broker = connection.session, connection.gateway.broker
    by_answer = terms.settles_by_answer(session.version)
    group = await _group(connection, filter, terms)
    consumers = connection.deliveries.consumers
    before = consumers.pop(filter, None)
    if before is not None:
        before.close()
    if connection.is_ended or broker.declaring.queues.get((session.namespace, group.queue.name)) is not group.queue:
        return
    consumers[filter] = QueueConsumer(connection, group, terms.prefetch, qos, by_answer)


async def _group(connection: Connection, filter: str, terms: Terms) -> Group:
    broker, session = connection.gateway.broker, connection.session
    shared = parse_shared(filter)
    if shared is not None and queue_address(shared.filter) is None:
        return await _durable_share(connection, shared.group, shared.filter, terms)
    topic_filter = filter if shared is None else shared.filter
    queue, key_filter = await broker.declaring.subscribed(topic_filter, session.namespace)
    asked = terms.group if shared is None else shared.group
    is_assigned = connection.login.is_assigned
    name = asked or default_group(session.client_id)
    start = Start.parse(terms.start) if terms.start else (LATEST if is_assigned and not asked else EARLIEST)
    return await broker.group(queue, group_name(name, key_filter), start, is_derived=asked is None)


async def _durable_share(connection: Connection, share: str, topic_filter: str, terms: Terms) -> Group:
    """A queue that is bound to the filter, and the share as its group: messages wait while all members are away."""
    broker, namespace = connection.gateway.broker, connection.session.namespace
    name = f"shared/{share}/{hashlib.blake2s(topic_filter.encode(), digest_size=6).hexdigest()}"
    queue = await broker.declare({"name": name, "namespace": namespace, "topics": [topic_filter]}, if_absent=True)
    start = Start.parse(terms.start) if terms.start else EARLIEST
    return await broker.group(queue, group_name(share), start)
