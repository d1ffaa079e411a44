"""What is retained, sent to a client that subscribes: as fast as it takes it."""

from __future__ import annotations

from array import array
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING

from penstock.broker.retained.retained import Retained
from penstock.broker.stored import StoredBatch
from penstock.gateways.mqtt.packets import Packets
from penstock.gateways.mqtt.router import Manner, receiver_of
from penstock.gateways.mqtt.subscription import Subscription
from penstock.kernels.mqtt_encode import SPAN_WORDS, batch_spans

if TYPE_CHECKING:
    from penstock.gateways.mqtt.connection import Connection

_PUBLISH, _RETAIN = 0x30, 0x01
_MAX_MESSAGES = 10_000_000


class RetainedMessages:
    def __init__(self, retained: Retained) -> None:
        self._retained = retained

    async def send(self, connection: Connection, subscription: Subscription) -> None:
        """Returns when all of it is sent, or the client takes no more for now: the rest follows when it does."""
        chunks = self._chunks(connection, subscription)
        async for packets in chunks:
            connection.sender.send(packets)
            if not connection.sender.room:
                connection.gateway.spawn(self._send_rest(connection, chunks))
                return

    async def _send_rest(self, connection: Connection, chunks: AsyncGenerator[Packets, None]) -> None:
        while await connection.has_room():
            packets = await anext(chunks, None)
            if packets is None:
                return
            connection.sender.send(packets)
        await chunks.aclose()

    async def _chunks(self, connection: Connection, subscription: Subscription) -> AsyncGenerator[Packets, None]:
        if connection.gateway.intake.retaining:
            # What was published before the subscription is committed before it is looked for.
            await connection.gateway.broker.shard.drain()
        space = self._retained.spaces.get(connection.session.namespace)
        if space is None or not space.count:
            return
        offsets = await space.matched(subscription.topic_filter.encode(), _MAX_MESSAGES)
        receiver = receiver_of(connection.session, [subscription])
        receiver.retain_as_published = True
        async for stored, rows in space.read(offsets):
            allowed = self._allowed(connection, stored, rows)
            for start in range(0, len(allowed), _AT_ONCE):
                yield self._packets(connection, stored, allowed[start : start + _AT_ONCE], receiver.manner())

    def _allowed(self, connection: Connection, stored: StoredBatch, rows: array[int]) -> array[int]:
        may_receive = connection.permissions.may_receive
        return array("i", [row for row in rows if may_receive(stored.batch.topic(row) or b"")])

    def _packets(self, connection: Connection, stored: StoredBatch, rows: array[int], manner: Manner) -> Packets:
        batch = stored.batch
        spans = array("q", bytes(8 * SPAN_WORDS * len(rows)))
        batch_spans(batch.body, batch.layout, rows, spans)
        heads = bytes([_PUBLISH | _RETAIN | (batch.native(row) or b"\0")[0] << 1 for row in rows])
        return connection.gateway.fanout.encode_spans(batch.body, spans, heads, manner)


# Small enough to wait in a backlog that was empty.
_AT_ONCE = 100
