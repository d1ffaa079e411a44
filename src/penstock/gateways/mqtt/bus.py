"""Messages of other gateways to everybody who has a subscription here, as if a client had published them."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from itertools import chain

from penstock.broker.publisher import Publisher
from penstock.core.errors import InvalidArgument
from penstock.gateways.mqtt.arrival import Arrived
from penstock.gateways.mqtt.fanout import Plan, rows_of_topics
from penstock.gateways.mqtt.intake import Intake, Publication
from penstock.gateways.mqtt.options import MqttOptions
from penstock.gateways.mqtt.publishes import is_reserved
from penstock.kernels.topics import check_topic
from penstock.log.columns import Columns

_PUBLISH = 0x30


class MqttBus:
    """`broker.bus.TopicPublisher`."""

    def __init__(self, intake: Intake, options: MqttOptions) -> None:
        self._intake, self._options = intake, options

    async def publish(
        self, columns: Columns, *, qos: int, retain: bool, publisher: Publisher, namespace: str = "default"
    ) -> int:
        if not 0 <= qos <= 2:
            raise InvalidArgument(f"{qos} is no QoS: give 0, 1 or 2")
        if retain and not self._options.retain_available:
            raise InvalidArgument("nothing is retained here (mqtt.retain_available): publish it without retain")
        topics = _topics_of(columns)
        head = _PUBLISH | min(qos, self._options.maximum_qos) << 1 | retain
        # Its headers are nobody's directions, so nothing looks for user properties.
        arrived = Arrived(columns, topics, bytes([head]) * columns.count, array("i", bytes(4 * columns.count)), False)
        reach = await self._intake.publish(Publication(arrived, None, publisher, namespace))
        if len(reach.topics) == len(topics):
            return columns.count
        by_topic = rows_of_topics(columns, sorted(reach.topics)) if reach.topics else ()
        return len(set(chain(by_topic, *_planned(reach.plan))))


def _planned(plan: Plan) -> Iterator[Sequence[int]]:
    """Rows that somebody gets."""
    for _, rows, sessions in plan.live:
        if sessions:
            yield rows
    for _, _, rows, _ in plan.shared:
        yield rows
    for layer in plan.stored:
        for rows, _ in layer.values():
            yield rows


def _topics_of(columns: Columns) -> list[bytes]:
    """Checked, each of them."""
    spans, source = columns.topics, columns.source
    if spans is None or columns.topic_index is None or not columns.count:
        raise InvalidArgument("a publish by topic needs messages, and a topic for each of them")
    topics = [bytes(source[start:end]) for start, end in zip(spans.starts, spans.ends, strict=True)]
    for topic in topics:
        check_topic(topic)
        if is_reserved(topic):
            raise InvalidArgument(f"{topic.decode()!r} is for the broker to publish, or asks it for something")
    return topics
