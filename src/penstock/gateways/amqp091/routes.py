"""Exchange and routing key as a method says them, and as the topic that the broker stores; and back."""

from __future__ import annotations

from penstock.core.queue_paths import DEAD_LETTER_PREFIX, QUEUE_PREFIX, queue_of_path
from penstock.queues.exchange_topics import (
    DEFAULT_EXCHANGE,
    TOPIC_EXCHANGE,
    exchange_address,
    exchange_topic,
    swapped,
)

_QUEUE_PREFIX, _DEAD_LETTER_PREFIX = QUEUE_PREFIX.encode(), DEAD_LETTER_PREFIX.encode()
_MOST_KNOWN = 50_000
_LONGEST = 255


def exchange_and_key(route: bytes) -> tuple[str, bytes]:
    """Of the two short strings, one behind the other."""
    end = 1 + route[0]
    return route[1:end].decode(), route[end + 1 :]


class Routes:
    """Remembers what it was asked, both ways."""

    def __init__(self) -> None:
        self._topics: dict[bytes, bytes] = {}
        self._routes: dict[bytes, bytes] = {}

    def topic(self, route: bytes) -> bytes:
        found = self._topics.get(route)
        if found is None:
            if len(self._topics) >= _MOST_KNOWN:
                self._topics.clear()
            found = self._topics[route] = exchange_topic(*exchange_and_key(route))
        return found

    def route(self, topic: bytes) -> bytes:
        """As a consumer is told where a message came from. What no short string holds is cut off."""
        found = self._routes.get(topic)
        if found is None:
            if len(self._routes) >= _MOST_KNOWN:
                self._routes.clear()
            exchange, key = _come_by(topic)
            name, key = exchange.encode()[:_LONGEST], key[:_LONGEST]
            found = self._routes[topic] = bytes([len(name)]) + name + bytes([len(key)]) + key
        return found


def _come_by(topic: bytes) -> tuple[str, bytes]:
    if (address := exchange_address(topic)) is not None:
        return address
    if topic.startswith((_QUEUE_PREFIX, _DEAD_LETTER_PREFIX)):
        return DEFAULT_EXCHANGE, queue_of_path(topic.decode().removeprefix(QUEUE_PREFIX)).encode()
    return TOPIC_EXCHANGE, swapped(topic)
