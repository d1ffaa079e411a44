"""Plain messages for a queue, a few from each of many clients: they are committed together when the turn of the loop is
over, and take a third of the time of the way through columns and plans."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from penstock.broker.broker import Broker
from penstock.broker.queue import Queue
from penstock.codecs.mqtt.kinds import PacketType
from penstock.core.errors import PenstockError
from penstock.gateways.mqtt.intake import Intake
from penstock.gateways.mqtt.router import Router
from penstock.kernels import mqtt_columns as names
from penstock.kernels.mqtt_scan import Scanner

if TYPE_CHECKING:
    from penstock.gateways.mqtt.answers import Answer
    from penstock.gateways.mqtt.connection import Connection

_QOS_0, _QOS_1 = 0x30, 0x32
_COLUMNS = (
    names.HEAD,
    names.PRESENT,
    names.PACKET_ID,
    names.TOPIC_START,
    names.TOPIC_END,
    names.PAYLOAD_START,
    names.PAYLOAD_END,
)
# More messages a receive than that gain nothing from others beside them.
A_FEW = 32
# A message that long costs more than what is saved.
_A_FEW_BYTES = 16 << 10


class JointPublishes:
    """Of all connections. Asks the same as `Publishes` and `Intake` do, and leaves to them what is not so simple:
    properties, QoS 2, retained ones, subscribers beside the queue, several queues, and whatever a queue refuses."""

    def __init__(self, scanner: Scanner, broker: Broker, router: Callable[[str], Router], intake: Intake) -> None:
        self._scanner, self._publishing, self._taps = scanner, broker.publishing, broker.taps
        self._router, self._intake, self._joint = router, intake, broker.publishing.joint

    def take(self, connection: Connection, data: memoryview) -> bool:
        """Whether the rows of the last scan, which are PUBLISHes with one head, are under way; if not, nothing has
        happened. What the client published before must have gone this way or be staged."""
        if self._scanner.rows > A_FEW:
            return False
        heads, present, packet_ids, topic_starts, topic_ends, starts, ends = self._scanner.pick(_COLUMNS)
        first, stop = starts[0], ends[-1]
        if heads[0] not in (_QOS_0, _QOS_1) or stop - first > _A_FEW_BYTES or any(present):
            return False
        topics = [bytes(data[start:end]) for start, end in zip(topic_starts, topic_ends, strict=True)]
        try:
            queue = self._queue(connection, topics)
        except PenstockError:
            return False  # for a topic that can be no queue's: the long way says so
        return queue is not None and self._is_taken(
            connection,
            queue,
            packet_ids if heads[0] == _QOS_1 else None,
            bytes(data[first:stop]),
            [start - first for start in starts],
            [end - first for end in ends],
            topics,
        )

    def _is_taken(
        self,
        connection: Connection,
        queue: Queue,
        packet_ids: array[int] | None,
        data: bytes,
        starts: Sequence[int],
        ends: Sequence[int],
        topics: Sequence[bytes],
    ) -> bool:
        incoming, publishes, count = connection.session.incoming, connection.publishes, len(starts)
        if packet_ids is not None:
            incoming.publish_qos_1(count)
        owed: list[Answer] = []

        def done(error: PenstockError | None) -> None:
            publishes.joint_done(owed, count, error)

        if not self._joint.take(queue, publishes.publisher, data, starts, ends, topics, done):
            if packet_ids is not None:
                incoming.puback(count)
            return False
        if packet_ids is not None:
            owed.append(connection.answers.owe(PacketType.PUBACK, packet_ids))
        self._intake.received += count
        return True

    def _queue(self, connection: Connection, topics: list[bytes]) -> Queue | None:
        """The one that gets all of it; None if that is not all that becomes of it."""
        if self._taps.count:
            return None
        namespace, is_plain, found = connection.session.namespace, connection.publishes.is_plain, None
        router = self._router(namespace)
        for topic in topics if topics.count(topics[0]) < len(topics) else topics[:1]:
            if not is_plain(topic) or not router.route(topic).is_empty:
                return None
            queues = self._publishing.targets_now(topic, namespace)
            if queues is None or len(queues) != 1 or (found is not None and queues[0] is not found):
                return None
            found = queues[0]
        return found
