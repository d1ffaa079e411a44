"""What a topic or filter is about, in words of rules: an action, and the topics that have to be allowed."""

from __future__ import annotations

from typing import NamedTuple

from penstock.broker.auth.patterns import TopicSet, queue_pattern, topic_set
from penstock.broker.auth.rules import Action
from penstock.core.errors import InvalidArgument
from penstock.core.queue_paths import DEAD_LETTER_PREFIX, QUEUE_PREFIX, queue_topic
from penstock.queues.exchange_topics import (
    DEFAULT_EXCHANGE,
    TOPIC_EXCHANGE,
    exchange_address,
    exchange_topic,
    topic_of_key,
)
from penstock.queues.names import check_filter, subscription_address

ADMIN_PREFIX = "$admin/"
SHARE_PREFIX = "$share/"
EXCHANGE_PREFIX = "$exchange/"
SETTLEMENTS = frozenset({"$ack", "$nack", "$reject"})

_QUEUE_PREFIXES = (QUEUE_PREFIX, DEAD_LETTER_PREFIX)
_DEAD_LETTER_SUFFIX = ".dlq"
# A topic of 65,535 bytes could be read in thousands of ways; no name of a queue is meant by such a one.
_MAX_READINGS = 8


class Wanted(NamedTuple):
    """All topics of all sets must be allowed, and none denied. Without an action no rule can allow it."""

    action: Action | None
    topics: tuple[TopicSet, ...]


_IMPOSSIBLE = Wanted(None, ())


def wanted_to_publish(topic: str) -> Wanted:
    """To settle is to consume: `$queue/orders/$ack` asks for the queue that the path before it names."""
    if topic.startswith(ADMIN_PREFIX):
        return Wanted(Action.ADMIN, (topic_set(topic),))
    if topic.startswith(_QUEUE_PREFIXES):
        path, _, last = topic.rpartition("/")
        return _all_readings(Action.CONSUME, path) if last in SETTLEMENTS else _all_readings(Action.PUBLISH, topic)
    if topic.startswith(EXCHANGE_PREFIX):
        return _through_exchange(topic)
    return Wanted(Action.PUBLISH, (topic_set(topic),))


def _through_exchange(topic: str) -> Wanted:
    """The default exchange is a way to a queue, and `amq.topic` one to an ordinary topic: a rule about these counts,
    too."""
    mine = topic_set(topic)
    try:
        address = exchange_address(topic.encode())
    except InvalidArgument:
        return _IMPOSSIBLE
    if address is not None and address.exchange == DEFAULT_EXCHANGE:
        queue = topic_set(queue_topic(address.key.decode("utf-8", "replace")))
        return Wanted(Action.PUBLISH, (mine, queue))
    if address is not None and address.exchange == TOPIC_EXCHANGE and (meant := topic_of_key(address.key)) is not None:
        return Wanted(Action.PUBLISH, (mine, topic_set(meant.decode())))
    return Wanted(Action.PUBLISH, (mine,))


def wanted_to_receive(topic: str) -> Wanted:
    if topic.startswith(ADMIN_PREFIX):
        return Wanted(Action.ADMIN, (topic_set(topic),))
    if topic.startswith(_QUEUE_PREFIXES):
        return _all_readings(Action.CONSUME, topic)
    return Wanted(Action.SUBSCRIBE, (topic_set(topic),))


def wanted_to_subscribe(topic_filter: str) -> Wanted:
    """`$share/g/f` asks for what `f` asks for. A filter below `$queue/` asks for the queue with the name that its path
    spells up to the first wildcard."""
    if topic_filter.startswith(SHARE_PREFIX):
        topic_filter = topic_filter.removeprefix(SHARE_PREFIX).partition("/")[2]
    try:
        check_filter(topic_filter)
        address = subscription_address(topic_filter)
    except InvalidArgument:
        return _IMPOSSIBLE
    if address is not None:
        return _all_readings(Action.CONSUME, queue_pattern(address.path))
    return Wanted(Action.ADMIN if _is_about_admin(topic_filter) else Action.SUBSCRIBE, (topic_set(topic_filter),))


def wanted_to_consume(queue: str) -> Wanted:
    """A queue by its name."""
    return wanted_of_queue(Action.CONSUME, queue)


def wanted_of_queue(action: Action, queue: str) -> Wanted:
    """A queue by its name, and no other."""
    return Wanted(action, (topic_set(queue_topic(queue)),))


def wanted_of_exchange(action: Action, exchange: str, key: bytes = b"") -> Wanted:
    """An exchange by its name, with the routing key of a message or binding where that counts."""
    if action is Action.PUBLISH:
        return _through_exchange(exchange_topic(exchange, key).decode())
    return Wanted(action, (topic_set(exchange_topic(exchange, key).decode()),))


def wanted_to_configure(topic: str) -> Wanted:
    """`$exchange/<name>` or `$queue/<path>`."""
    if topic.startswith(_QUEUE_PREFIXES):
        return _all_readings(Action.CONFIGURE, topic)
    return Wanted(Action.CONFIGURE, (topic_set(topic),))


def _is_about_admin(topic_filter: str) -> bool:
    return topic_filter.split("/", 1)[0] == ADMIN_PREFIX[:-1]


def _all_readings(action: Action, topic: str) -> Wanted:
    """A dead-letter queue can be written in several ways below `$queue/`, and only declared queues tell which one is
    meant: a rule about any of them counts."""
    found = [topic]
    if topic.startswith(QUEUE_PREFIX):
        levels = topic.removeprefix(QUEUE_PREFIX).split("/")
        if levels[0] in ("dlq", "$dlq") and len(levels) > 1:
            found.append(DEAD_LETTER_PREFIX + "/".join(levels[1:]))
            if levels[0] == "dlq":
                levels = [f"dlq%2F{levels[1]}", *levels[2:]]
                found.append(QUEUE_PREFIX + "/".join(levels))
        for place, level in enumerate(levels):
            if level.endswith(_DEAD_LETTER_SUFFIX):
                source = level.removesuffix(_DEAD_LETTER_SUFFIX)
                found.append(DEAD_LETTER_PREFIX + "/".join([*levels[:place], source, *levels[place + 1 :]]))
                found.append(QUEUE_PREFIX + "/".join([*levels[:place], f"{source}%2Edlq", *levels[place + 1 :]]))
            if len(found) > _MAX_READINGS:
                return _IMPOSSIBLE
    return Wanted(action, tuple(map(topic_set, found)))
