"""What is retained, sent to a client that subscribes: as fast as it takes it."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import AsyncGenerator, Iterator

from penstock.broker.broker import Broker
from penstock.broker.feed.stored import StoredBatch
from penstock.broker.sessions.targets import RETAIN, Targets
from penstock.broker.topics.router import receiver_of
from penstock.broker.topics.subscriptions import Manner, Subscription
from penstock.broker.topics.topics import Topics
from penstock.gateways.background import Background
from penstock.gateways.mqtt.connection import Connection
from penstock.gateways.mqtt.options import CurrentOptions, MqttOptions
from penstock.gateways.mqtt.outbound.packets import Packets
from penstock.kernels.mqtt_encode import SPAN_WORDS, batch_spans
from penstock.log.columns import Columns

_MAX_MESSAGES = 10_000_000


class RetainedMessages:
    def __init__(self, broker: Broker, topics: Topics, options: CurrentOptions, background: Background) -> None:
        self._broker, self._topics, self._options, self._background = broker, topics, options, background

    async def send(self, connection: Connection, subscription: Subscription) -> None:
        """Returns when all of it is sent, or the client takes no more for now: the rest follows when it does."""
        if connection.session.is_stored and subscription.qos:
            await self._store(connection, subscription)
            return
        chunks = self._chunks(connection, subscription)
        async for packets in chunks:
            if not connection.sender.room:
                self._background.spawn(self._send_rest(connection, packets, chunks))
                return
            connection.sender.send(packets)

    async def _send_rest(
        self, connection: Connection, packets: Packets | None, chunks: AsyncGenerator[Packets, None]
    ) -> None:
        while packets is not None and await connection.has_room():
            connection.sender.send(packets)
            packets = await anext(chunks, None)
        await chunks.aclose()

    async def _chunks(self, connection: Connection, subscription: Subscription) -> AsyncGenerator[Packets, None]:
        receiver = receiver_of(connection.session, [subscription])
        receiver.retain_as_published = True
        async for stored, rows in self._found(connection, subscription):
            some = self._packets(connection, stored, rows, receiver.manner())
            for portion in _portions(some, self._options.now):
                yield portion

    async def _found(
        self, connection: Connection, subscription: Subscription
    ) -> AsyncGenerator[tuple[StoredBatch, array[int]], None]:
        if self._topics.retaining:
            # What was published before the subscription is committed before it is looked for.
            await self._broker.shard.drain()
        space = self._topics.retained.spaces.get(connection.session.namespace)
        if space is None or not space.count:
            return
        offsets = await space.matched(subscription.topic_filter.encode(), _MAX_MESSAGES)
        async for stored, rows in space.read(offsets):
            allowed = self._allowed(connection, stored, rows)
            for start in range(0, len(allowed), _AT_ONCE):
                yield stored, allowed[start : start + _AT_ONCE]

    # For sessions that outlive their connection

    async def _store(self, connection: Connection, subscription: Subscription) -> None:
        """They are the session's: sent from what is stored for it, and again if they do not arrive."""
        found = self._found(connection, subscription)
        async for stored, rows in found:
            await self._store_rows(connection, subscription, stored, rows)
            if not self._has_stored_room(connection):
                self._background.spawn(self._store_rest(connection, subscription, found))
                return

    async def _store_rest(
        self,
        connection: Connection,
        subscription: Subscription,
        found: AsyncGenerator[tuple[StoredBatch, array[int]], None],
    ) -> None:
        while not connection.is_ended:
            if not self._has_stored_room(connection):
                await connection.pumped()
                continue
            one = await anext(found, None)
            if one is None:
                return
            await self._store_rows(connection, subscription, *one)
        await found.aclose()

    def _has_stored_room(self, connection: Connection) -> bool:
        stored = connection.session.stored
        return stored is not None and 2 * stored.queued < self._options.now.max_queued_messages

    async def _store_rows(
        self, connection: Connection, subscription: Subscription, stored: StoredBatch, rows: array[int]
    ) -> None:
        session = connection.session
        qos_of = {row: min((stored.batch.native(row) or b"\0")[0], subscription.qos) for row in rows}
        bare = array("i", [row for row in rows if not qos_of[row]])
        if bare:
            receiver = receiver_of(session, [subscription])
            receiver.retain_as_published = True
            connection.sender.send(self._packets(connection, stored, bare, receiver.manner()))
        kept = [row for row in rows if qos_of[row]]
        if kept and session.stored is not None:
            targets = Targets()
            flags = bytes([qos_of[row] | RETAIN for row in kept])
            targets.add(session.stored, array("i", range(len(kept))), flags)
            later = self._broker.timeline.later(stored.batch.header.base_timestamp)
            accepted = self._topics.sessions.accept(_copied(stored, kept, later), targets)
            try:
                if accepted.parts:
                    await self._broker.shard.commit(accepted.parts)
                accepted.taken()
            finally:
                accepted.close()

    def _allowed(self, connection: Connection, stored: StoredBatch, rows: array[int]) -> array[int]:
        may_receive = connection.permissions.may_receive
        return array("i", [row for row in rows if may_receive(stored.batch.topic(row) or b"")])

    def _packets(self, connection: Connection, stored: StoredBatch, rows: array[int], manner: Manner) -> Packets:
        batch = stored.batch
        spans = array("q", bytes(8 * SPAN_WORDS * len(rows)))
        batch_spans(batch.body, batch.layout, rows, spans)
        flags = bytes([RETAIN | (batch.native(row) or b"\0")[0] for row in rows])
        stamp = batch.header.base_timestamp
        return connection.session.audience.encode(batch.body, spans, flags, manner, stamp=stamp)[0]


# Encoded together.
_AT_ONCE = 100


def _portions(packets: Packets, options: MqttOptions) -> Iterator[Packets]:
    """Small enough to wait in a backlog that was empty; a message that is too large for that goes alone."""
    limit_bytes, start, base = min(options.max_queued_bytes, options.max_outbound_bytes), 0, 0
    while start < len(packets):
        stop = min(bisect_right(packets.ends, base + limit_bytes, start), start + options.max_queued_messages)
        stop = max(stop, start + 1)
        yield packets.part(start, stop)
        start, base = stop, packets.ends[stop - 1]


def _copied(stored: StoredBatch, rows: list[int], later: int) -> Columns:
    """`later`: by how much their expiry is, see Timeline.later()."""
    messages = stored.messages(rows)
    return Columns.of(
        [message.value for message in messages],
        topics=[message.topic or b"" for message in messages],
        properties=[message.properties or b"" for message in messages],
        expiry=[message.expiry + later if message.expiry else 0 for message in messages],
    )
