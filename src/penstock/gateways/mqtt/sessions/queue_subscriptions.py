"""A subscription to a queue: which group, from where on, and how it is settled."""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from penstock.broker.auth.patterns import pattern_set, topic_set
from penstock.broker.broker import Broker
from penstock.broker.catalogue.declarations import Declaring
from penstock.broker.queues.group import Group
from penstock.broker.queues.queue import Queue
from penstock.broker.queues.start import EARLIEST, LATEST, Start
from penstock.codecs.mqtt.kinds import Version
from penstock.codecs.mqtt.properties import Properties
from penstock.codecs.mqtt.text import parse_shared
from penstock.core.errors import InvalidArgument, PenstockError
from penstock.gateways.background import Background
from penstock.gateways.mqtt.connection import Connection
from penstock.gateways.mqtt.outbound.queue_consumer import QueueConsumer
from penstock.gateways.mqtt.sessions.session import Session
from penstock.log.upkeep.faults import Telling
from penstock.queues.names import default_group, group_name, queue_address, subscription_address

_EXPLICIT, _BY_ANSWER = "explicit", "puback"
_KNOWN = ("consumer-group", "start", "prefetch", "ack-mode", "durable")
_TRACING, _OWN = ("traceparent", "tracestate"), "x-"
_TRUTH = {"true": True, "false": False}
# Of difflib: one or two letters wrong, left out or swapped.
_ALIKE = 0.75
_MAX_TEXT = 64
_MAX_PREFETCH = 999_999_999


@dataclass(frozen=True, slots=True)
class Terms:
    """What the user properties of SUBSCRIBE say."""

    group: str | None = None
    start: str | None = None
    prefetch: int | None = None
    ack_mode: str | None = None
    is_durable: bool = False

    @classmethod
    def of(cls, properties: Properties, *, is_durable: bool) -> Terms:
        """InvalidArgument for what cannot be read. A client that does not ask for a durable share and gets one need not
        know how to settle: its PUBACK does."""
        said = _said(properties)
        start = said.get("start")
        if start is not None and len(start) > _MAX_TEXT:
            raise InvalidArgument(f"start has {len(start)} characters: write an offset, a time or a duration")
        is_unasked = is_durable and wants_to_be_durable(properties) is None
        ack_mode = said.get("ack-mode", _BY_ANSWER if is_unasked else None)
        return cls(said.get("consumer-group"), start, _prefetch(said), ack_mode, is_durable)

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


def _said(properties: Properties) -> dict[str, str]:
    """InvalidArgument for a property that is not known here, or that is given twice: what a client asks for in vain it
    would miss. Those of tracing, and those that begin with `x-`, are the client's own."""
    said: dict[str, str] = {}
    for name, value in properties.user_properties:
        if name in said and name in _KNOWN:
            raise InvalidArgument(f"user property {name!r} is given twice: give one")
        if name not in _KNOWN and name not in _TRACING and not name.startswith(_OWN):
            known = ", ".join(_KNOWN)
            raise InvalidArgument(
                f"no user property {name[:_MAX_TEXT]!r} here{_nearest(name) or f': there are {known}'}"
            )
        said[name] = value
    return said


def refuse_misspelt(properties: Properties) -> None:
    """InvalidArgument for what looks like a property of a queue's subscription and is none; others are the client's."""
    for name, _ in properties.user_properties:
        if name not in _KNOWN and not name.startswith(_OWN) and (near := _nearest(name)):
            raise InvalidArgument(f"no user property {name[:_MAX_TEXT]!r} here{near}")


def _nearest(name: str) -> str:
    near = difflib.get_close_matches(name[:_MAX_TEXT].lower().replace("_", "-"), _KNOWN, 1, _ALIKE)
    return f": did you mean {near[0]!r}?" if near else ""


def _prefetch(said: Mapping[str, str]) -> int | None:
    text = said.get("prefetch")
    if text is None:
        return None
    if not (text.isascii() and text.isdecimal()) or not text.strip("0"):
        raise InvalidArgument(f"prefetch is {text[:_MAX_TEXT]!r}: give a number, at least 1")
    return min(int(text[:_MAX_TEXT]), _MAX_PREFETCH)


def is_durable_share(topic_filter: str, properties: Properties, within: Sequence[str]) -> bool:
    """Whether a shared subscription is to be a group of a queue: as the client says, else if `within` matches every
    topic that its filter matches."""
    wanted = wants_to_be_durable(properties)
    if wanted is not None or not within:
        return bool(wanted)
    return topic_set(topic_filter).is_within([pattern_set(filter) for filter in within])


def wants_to_be_durable(properties: Properties) -> bool | None:
    """None if the client does not say. InvalidArgument for what is neither true nor false."""
    said = dict(properties.user_properties).get("durable")
    if said is not None and said.lower() not in _TRUTH:
        raise InvalidArgument(f"durable is {said[:_MAX_TEXT]!r}: give true or false")
    return None if said is None else _TRUTH[said.lower()]


class QueueSubscriptions:
    """`dismissed` is awaited beside connections when the queue or the group of a consumer was deleted."""

    def __init__(
        self,
        broker: Broker,
        background: Background,
        telling: Telling,
        dismissed: Callable[[Connection, QueueConsumer], Coroutine[object, object, object]],
    ) -> None:
        self.broker, self.background, self.telling, self.dismissed = broker, background, telling, dismissed

    async def consume(
        self, connection: Connection, filter: str, qos: int, terms: Terms, made: list[Queue] | None = None
    ) -> None:
        """From now on; a subscription of the same filter before it ends. A queue that is made for it is added to
        `made`."""
        session, broker = connection.session, self.broker
        by_answer = terms.settles_by_answer(session.version)
        group = await self._group(connection, filter, terms, made)
        group.refuse_in_use()
        consumers = connection.deliveries.consumers
        before = consumers.pop(filter, None)
        if before is not None:
            before.close()
        if connection.is_ended or broker.declaring.queues.get((session.namespace, group.queue.name)) is not group.queue:
            return
        session.keep(filter, group)
        owner = _Owner(self, connection, connection.is_assigned and terms.group is None and group.record.is_derived)
        line = connection.deliveries.line
        consumers[filter] = QueueConsumer(broker, line, group, terms.prefetch, qos, by_answer, owner)

    async def _group(self, connection: Connection, filter: str, terms: Terms, made: list[Queue] | None) -> Group:
        broker, session = self.broker, connection.session
        shared = parse_shared(filter)
        if shared is not None and queue_address(shared.filter) is None:
            return await self._durable_share(session.namespace, shared.group, shared.filter, terms, made)
        topic_filter = filter if shared is None else shared.filter
        asked = terms.group if shared is None else shared.group
        is_assigned = connection.is_assigned
        name = asked or (session.client_id if is_assigned else default_group(session.client_id))
        start = Start.parse(terms.start) if terms.start else (LATEST if is_assigned and not asked else EARLIEST)
        group_name(name)  # before a queue is made for it
        queue, key_filter = await broker.declaring.subscribed(
            topic_filter, session.namespace, made, may_make=connection.makes_queues
        )
        return await broker.group(queue, group_name(name, key_filter), start, is_derived=asked is None)

    async def _durable_share(
        self, namespace: str, share: str, topic_filter: str, terms: Terms, made: list[Queue] | None
    ) -> Group:
        """A queue that is bound to the filter, and the share as its group: messages wait while all members are away."""
        declaring, name = self.broker.declaring, _share_queue(share, topic_filter)
        settings = declaring.settings_for(name, {"name": name, "namespace": namespace, "topics": [topic_filter]})
        queue = await declaring.declared(settings, is_auto=True, made=made)
        start = Start.parse(terms.start) if terms.start else EARLIEST
        return await self.broker.group(queue, group_name(share), start)


class _Owner:
    """Of the consumer of one client and filter. With `ends_group`, nobody else is meant to be in the group, and it ends
    with the last consumer."""

    __slots__ = ("_connection", "_ends_group", "_subscriptions")

    def __init__(self, subscriptions: QueueSubscriptions, connection: Connection, ends_group: bool) -> None:
        self._subscriptions, self._connection, self._ends_group = subscriptions, connection, ends_group

    @property
    def name(self) -> str:
        return self._connection.name

    def closed(self, consumer: QueueConsumer) -> None:
        if self._ends_group and not consumer.group.is_wanted:
            self._subscriptions.background.spawn(self._end(consumer.group))

    async def _end(self, group: Group) -> None:
        if not group.is_deleted:
            await self._subscriptions.broker.declaring.delete_group(group)

    def dismissed(self, consumer: QueueConsumer) -> None:
        if not self._connection.is_ended:
            self._subscriptions.background.spawn(self._subscriptions.dismissed(self._connection, consumer))

    def broke(self, consumer: QueueConsumer, error: BaseException) -> None:
        """Then the client pays for it."""
        if isinstance(error, PenstockError):
            text = "consumer stopped queue=%s group=%s error=%s"
            self._subscriptions.telling.warn("consumer", text, consumer.queue.name, consumer.group.name, error)
        self._connection.broke(error)


def group_before(declaring: Declaring, session: Session, filter: str, terms: Terms) -> Group | None:
    """The group that a session of before consumed through a filter, if it is there; none is made."""
    shared = parse_shared(filter)
    topic_filter = filter if shared is None else shared.filter
    if (address := subscription_address(topic_filter)) is None:
        name = None if shared is None else _share_queue(shared.group, topic_filter)
        key = None if shared is None else group_name(shared.group)
    else:
        name = declaring.queue_of(address, session.namespace)
        asked = terms.group if shared is None else shared.group
        key_filter = None if name is None else address.filter_for(name)
        # An id that the broker made up has no `-`: it is a group's name as it is.
        key = group_name(asked or default_group(session.client_id), key_filter)
    queue = None if name is None else declaring.queues.get((session.namespace, name))
    return None if queue is None or key is None else queue.groups.get(key)


def _share_queue(share: str, topic_filter: str) -> str:
    return f"shared/{share}/{hashlib.blake2s(topic_filter.encode(), digest_size=6).hexdigest()}"
