"""Messages as callers see them. Each is a place in a stored batch: what it carries is read when it is asked for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Generic, TypeVar, overload

from penstock.broker.feed.delivery import Delivery
from penstock.broker.feed.held import Held, together
from penstock.broker.feed.stored import StoredBatch
from penstock.broker.queues.partitioned import PartitionedQueue
from penstock.core.errors import InvalidArgument
from penstock.embedded.outgoing import Headers, Value, one_message
from penstock.embedded.subscription import Subscription
from penstock.kernels import cells
from penstock.log.batch import TIMESTAMP_DELTA, VALUE
from penstock.log.columns import Columns
from penstock.queues.properties import Envelope, unpack

if TYPE_CHECKING:
    from penstock.embedded.bridge import Work


class StoredMessage:
    """A message that was read without being consumed: nothing becomes of it."""

    __slots__ = ("_queue", "_row", "_stored", "partition")

    def __init__(self, queue: PartitionedQueue, partition: int, stored: StoredBatch, row: int) -> None:
        self._queue, self.partition, self._stored, self._row = queue, partition, stored, row

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id}>"

    @property
    def id(self) -> str:
        return f"{self._queue.message_id_prefix(self.partition)}{self.offset}"

    @property
    def queue(self) -> str:
        return self._queue.name

    @property
    def offset(self) -> int:
        return self._stored.offset_of(self._row)

    @property
    def value(self) -> bytes:
        return self._stored.value(self._row)

    @property
    def key(self) -> bytes | None:
        return self._stored.batch.key(self._row)

    @property
    def topic(self) -> str | None:
        """The one it was published to, if it was published by topic."""
        topic = self._stored.batch.topic(self._row)
        return None if topic is None else topic.decode(errors="replace")

    @property
    def timestamp_ms(self) -> int:
        """When it was stored, in ms since 1970."""
        batch = self._stored.batch
        column = batch.fixed_column(TIMESTAMP_DELTA)
        return batch.header.base_timestamp + (0 if column is None else column.cast("i")[self._row])

    @property
    def timestamp(self) -> datetime:
        return datetime.fromtimestamp(self.timestamp_ms / 1000, UTC)

    @property
    def envelope(self) -> Envelope:
        """Headers in their order, and what protocols carry beside them."""
        return unpack(self._stored.view.properties(self._row) or b"")

    @property
    def headers(self) -> dict[str, str]:
        """Of those that occur more than once, the first."""
        found: dict[str, str] = {}
        for name, value in self.envelope.headers:
            found.setdefault(name, value)
        return found

    @property
    def content_type(self) -> str | None:
        return self.envelope.content_type

    @property
    def reply_to(self) -> str | None:
        """The topic for a reply."""
        return self.envelope.reply_to

    @property
    def correlation_id(self) -> bytes | None:
        return self.envelope.correlation_id


class DeliveredMessage(StoredMessage):
    """A message that a group's consumer holds until it is settled, or until its time is over."""

    __slots__ = ("_delivery", "_place", "_subscription", "is_settled")

    def __init__(self, subscription: Subscription, delivery: Delivery, place: int) -> None:
        super().__init__(subscription.queue, delivery.unit.partition, delivery.stored, delivery.rows[place])
        self._subscription, self._delivery, self._place = subscription, delivery, place
        self.is_settled = False
        """by a call on this object"""

    @property
    def group(self) -> str:
        return self._subscription.group.name

    @property
    def delivery_count(self) -> int:
        """1 when it is handed out for the first time."""
        counts = self._delivery.deliveries
        return 1 if counts is None else counts[self._place]

    @property
    def delivery(self) -> Delivery:
        return self._delivery

    @property
    def held(self) -> Held:
        """This message alone, to settle it."""
        return Held(self._delivery, None if len(self._delivery.rows) == 1 else (self._place,))

    @property
    def subscription(self) -> Subscription:
        return self._subscription

    def _answer(self, value: Value, headers: Headers | None) -> Columns:
        envelope = self.envelope
        if envelope.reply_to is None:
            raise InvalidArgument(f"message {self.id} asks for no reply: it has no reply_to")
        return one_message(value, None, headers, topic=envelope.reply_to, correlation_id=envelope.correlation_id)


class Message(DeliveredMessage):
    """For threads: each call waits until it is durable. A settlement raises StaleSettlement, with nothing changed, if
    the message was taken back meanwhile; it comes again."""

    __slots__ = ()

    def ack(self) -> None:
        """Acknowledge."""
        self._subscription.ack_and_wait(self)

    def retry(self, delay: float | None = None, reason: str = "") -> None:
        """Not done: it comes again after so many seconds, by default those of the queue's retry policy. After too many
        failures it becomes a dead letter, with the reason of the last one."""
        self._run(self._subscription.retry(self, delay, reason))

    def dead_letter(self, reason: str = "") -> None:
        """Never to be done: it is moved to the dead letters, which tell the reason."""
        self._run(self._subscription.reject(self, reason))

    def extend(self) -> None:
        """Still at work: the time of what this consumer holds of the partition begins anew, up to ten times the queue's
        delivery_timeout in all. That of a claimed message is its own."""
        self._run(self._subscription.extend(self))

    def reply(self, value: Value, headers: Headers | None = None) -> None:
        """Publish the answer to the topic that the message names. It is not settled by that."""
        self._run(self._subscription.publish(self._answer(value, headers)))

    def _run(self, work: Work[None]) -> None:
        self._subscription.runtime.run(work)


class AsyncMessage(DeliveredMessage):
    """As Message, for tasks: what its calls return is awaited."""

    __slots__ = ()

    async def ack(self) -> None:
        await self._subscription.runtime.ask_and_wait(self._subscription.ack_one(self))

    async def retry(self, delay: float | None = None, reason: str = "") -> None:
        await self._wait(self._subscription.retry(self, delay, reason))

    async def dead_letter(self, reason: str = "") -> None:
        await self._wait(self._subscription.reject(self, reason))

    async def extend(self) -> None:
        await self._wait(self._subscription.extend(self))

    async def reply(self, value: Value, headers: Headers | None = None) -> None:
        await self._wait(self._subscription.publish(self._answer(value, headers)))

    async def _wait(self, work: Work[None]) -> None:
        await self._subscription.runtime.wait(work)


M = TypeVar("M", bound=DeliveredMessage)


class MessageBatch(Sequence[M], Generic[M]):
    """Messages taken together. They are made one by one when they are looked at; settling all of them, or reading all
    values, makes none."""

    __slots__ = ("_count", "_kind", "_subscription", "deliveries")

    def __init__(self, subscription: Subscription, kind: type[M], deliveries: list[Delivery]) -> None:
        self._subscription, self._kind, self.deliveries = subscription, kind, deliveries
        self._count = sum([len(delivery) for delivery in deliveries])

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> M: ...
    @overload
    def __getitem__(self, index: slice) -> list[M]: ...
    def __getitem__(self, index: int | slice) -> M | list[M]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(self._count))]
        place = index + self._count if index < 0 else index
        for delivery in self.deliveries:
            if 0 <= place < len(delivery):
                return self._kind(self._subscription, delivery, place)
            place -= len(delivery)
        raise IndexError(index)

    def __iter__(self) -> Iterator[M]:
        for delivery in self.deliveries:
            for place in range(len(delivery)):
                yield self._kind(self._subscription, delivery, place)

    def values(self) -> list[bytes]:
        """Of all messages, in order."""
        found: list[bytes] = []
        for delivery in self.deliveries:
            found += _values(delivery)
        return found


def held_of(messages: Iterable[DeliveredMessage]) -> list[Held]:
    """To settle them."""
    if isinstance(messages, MessageBatch):
        return [Held(delivery) for delivery in messages.deliveries]
    places = []
    for message in messages:
        message.is_settled = True
        places.append((message._delivery, message._place))
    return together(places)


def _values(delivery: Delivery) -> list[bytes]:
    column = delivery.stored.batch.var_column(VALUE)
    if column is None:
        return [b""] * len(delivery)
    _, offsets, data = column
    return cells.cut(data, offsets.cast("i"), delivery.rows)
