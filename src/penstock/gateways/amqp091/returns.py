"""basic.return: mandatory messages that nobody gets."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.broker.broker import Broker
from penstock.broker.topics.topics import Topics
from penstock.codecs.amqp091.errors import Reply
from penstock.gateways.amqp091.messages import Messages
from penstock.gateways.amqp091.shares import Share
from penstock.kernels import amqp_columns as names
from penstock.kernels.amqp_deliver import returns
from penstock.queues.exchange_topics import exchange_address


class Returns:
    """For all connections."""

    def __init__(self, broker: Broker, topics: Topics) -> None:
        self._broker, self._topics = broker, topics

    def tell(self, messages: Messages, shares: Sequence[Share], namespace: str) -> None:
        """Before they are confirmed."""
        if not messages.every & names.MANDATORY:
            return
        feeds = [self._feeds(topic, namespace) for topic in messages.topics]
        start = 0
        for share in shares:
            stop = start + len(share.places)
            rows = [
                row
                for row in range(start, stop)
                if messages.flags[row] & names.MANDATORY and not self._reaches(messages, row, feeds, namespace)
            ]
            if rows:
                share.connection.outbox.write(returned(messages, rows, share))
            start = stop

    def _feeds(self, topic: bytes, namespace: str) -> bool | None:
        """Whether messages of it reach somebody; None where their headers decide."""
        address = exchange_address(topic)
        assert address is not None
        space = self._broker.exchanges.of(namespace)
        if space.reads_headers(address.exchange):
            return None
        routed = space.route(*address)
        return bool(routed.queues) or (routed.topic is not None and self._has_subscribers(routed.topic, namespace))

    def _reaches(self, messages: Messages, row: int, feeds: Sequence[bool | None], namespace: str) -> bool:
        topic, further = messages.index[row], messages.further.get(row, ())
        if (known := feeds[topic]) is not None and (known or not further):
            return known
        address = exchange_address(messages.topics[topic])
        assert address is not None
        keys = address.key, *further
        routed = self._broker.exchanges.of(namespace).route_several(address.exchange, keys, messages.headers_of(row))
        return bool(routed.queues) or (routed.topic is not None and self._has_subscribers(routed.topic, namespace))

    def _has_subscribers(self, topic: bytes, namespace: str) -> bool:
        return bool(self._topics.router(namespace).routes([topic]))


def returned(messages: Messages, rows: Sequence[int], share: Share) -> bytes:
    """Frames that give these back."""
    encoder = returns(share.channel.number, Reply.NO_ROUTE, b"NO_ROUTE", share.connection.frame_max)
    source = messages.columns.source
    return bytes(encoder.encode(source, messages.frame_spans(rows), source))
