"""Which queues a topic feeds, and which messages a filter on the routing key lets through."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from penstock.core.queue_paths import DEAD_LETTER_PREFIX, QUEUE_PREFIX, other_topics, own_topics, queue_topic
from penstock.kernels.topics import SubscriptionTree, check_filter
from penstock.queues import names

_QUEUE_ROOT = QUEUE_PREFIX.encode()
_DEAD_LETTER_ROOT = DEAD_LETTER_PREFIX.encode()
# 10,000 topics of at most 512 bytes: a client that invents topics fills about 7 MB and then empties the cache.
_CACHED_ROUTES = 10_000
_CACHED_TOPIC_BYTES = 512
_CACHED_FILTERS = 256
_CACHED_PREFIXES = 4096
# No queue's topic is longer, three bytes for each of its name, so 65,535 slashes are not taken off level by level.
_MAX_PREFIX_BYTES = 1024
# A level before filter and key: there a key that begins with `$` is like any other, and the empty key is the parent.
_KEY_ROOT = b"k"


class Route(NamedTuple):
    """`queues` has each queue once, `prefix_queue` first: the one addressed by name. It is None for an ordinary topic,
    and for a `$queue/…` or `$dlq/…` topic while no queue is declared on its path."""

    queues: tuple[str, ...]
    prefix_queue: str | None
    routing_key: bytes


class Bindings:
    """The bindings of one namespace. One thread at a time.

    A topic below `$queue/` or `$dlq/` goes to the queue with the longest declared name on its path, by whole levels,
    and like any other topic to every queue with a filter that matches it whole."""

    def __init__(self, seed: int = 0) -> None:
        """`seed` as for SubscriptionTree."""
        self.version = 0
        """for caches of routes elsewhere: changes with every declare and drop that may change a route for which
        somebody has asked since it changed last: most queues that come and go by the thousands are nobody's route"""
        self.beyond: Callable[[bytes], Iterable[str]] | None = None
        """queues that an ordinary topic feeds by other ways than filters: see Exchanges; call changed() with it"""
        self._tree = SubscriptionTree(seed)
        self._filters: dict[str, tuple[bytes, ...]] = {}
        self._numbers: dict[str, int] = {}
        self._names: dict[int, str] = {}
        self._next_number = 0
        self._prefixes: dict[bytes, str] = {}
        self._others: dict[bytes, str] = {}
        """further ways to write a queue, where no other has it as its own"""
        self._routes: dict[bytes, Route] = {}
        self._asked: set[str] = set()
        """queues that were found by their address since the version changed"""
        self._has_missed = False
        """since then an address was asked for that is no queue's"""

    def __contains__(self, queue: str) -> bool:
        return queue in self._filters

    def declare(self, queue: str, topics: Sequence[str] = ()) -> None:
        """Bind a queue to its own address and to these filters, instead of those it had. InvalidArgument, and nothing
        changed, if the name or a filter is none."""
        names.check_queue_name(queue)
        filters = tuple(dict.fromkeys(map(_checked_filter, topics)))
        is_quiet = not (filters or self._has_missed or queue in self._filters) and _stands_alone(queue)
        if queue in self._filters:
            self._unbind(queue)
        number = self._next_number
        self._next_number += 1
        self._filters[queue], self._numbers[queue], self._names[number] = filters, number, queue
        for prefix in own_topics(queue):
            self._prefixes[prefix.encode()] = queue
        for prefix in other_topics(queue):
            self._others[prefix.encode()] = queue
        for topic_filter in filters:
            self._tree.add(topic_filter, number)
        if not is_quiet:
            self.changed()

    def drop(self, queue: str) -> bool:
        """False if the queue is not declared."""
        if queue not in self._filters:
            return False
        is_quiet = not self._filters[queue] and queue not in self._asked and _stands_alone(queue)
        self._unbind(queue)
        if not is_quiet:
            self.changed()
        return True

    def asked(self, queue: str) -> bool:
        """Whether there is a queue of that name, for one who remembers it as long as the version stays."""
        is_there = queue in self._filters
        if is_there:
            self._asked.add(queue)
        else:
            self._has_missed = True
        return is_there

    def filters(self, queue: str) -> list[str]:
        """Those it was declared with."""
        return [topic_filter.decode() for topic_filter in self._filters[queue]]

    def queues_below(self, name: str) -> list[str]:
        """Declared queues whose path begins with all levels of `name`, sorted: they take topics that it would get."""
        below = queue_topic(name) + "/"
        return sorted(queue for queue in self._filters if "/" in queue and queue_topic(queue).startswith(below))

    def addressed(self, topic: bytes) -> str | None:
        """The declared queue whose topic this is, without anything behind it."""
        return self._prefixes.get(topic) or self._others.get(topic)

    def route(self, topic: bytes) -> Route:
        """Remembered until a binding changes. The topic is not checked."""
        if (known := self._routes.get(topic)) is not None:
            return known
        found = self._find(topic)
        if len(topic) <= _CACHED_TOPIC_BYTES:
            if len(self._routes) >= _CACHED_ROUTES:
                self._routes.clear()
            self._routes[topic] = found
        return found

    def _find(self, topic: bytes) -> Route:
        bound = self.bound(topic)
        if self.beyond is not None and not topic.startswith(b"$"):
            bound = list(dict.fromkeys([*bound, *self.beyond(topic)]))
        prefix = self._longest_prefix(topic)
        if prefix is None:
            self._has_missed |= topic.startswith(b"$")
            return Route(tuple(bound), None, topic)
        queue = self._prefixes.get(prefix) or self._others[prefix]
        self._asked.add(queue)
        return Route(tuple(dict.fromkeys([queue, *bound])), queue, topic[len(prefix) + 1 :])

    def bound(self, topic: bytes) -> list[str]:
        """Queues with a filter that matches the topic."""
        numbers = array("q")
        self._tree.match(topic, 0, len(topic), numbers)
        return [self._names[number] for number in sorted(set(numbers))]

    def bound_to_all(self) -> list[str]:
        """Queues with the filter `#`. Looks at all of them."""
        return [queue for queue, filters in self._filters.items() if b"#" in filters]

    def _longest_prefix(self, topic: bytes) -> bytes | None:
        if not topic.startswith((_QUEUE_ROOT, _DEAD_LETTER_ROOT)):
            return None
        prefix = topic if len(topic) <= _MAX_PREFIX_BYTES else topic[: _MAX_PREFIX_BYTES + 1].rpartition(b"/")[0]
        while prefix and prefix not in self._prefixes and prefix not in self._others:
            prefix = prefix.rpartition(b"/")[0]
        return prefix or None

    def _unbind(self, queue: str) -> None:
        number = self._numbers.pop(queue)
        del self._names[number]
        for topic_filter in self._filters.pop(queue):
            self._tree.remove(topic_filter, number)
        for prefix in own_topics(queue):
            del self._prefixes[prefix.encode()]
        for prefix in other_topics(queue):
            del self._others[prefix.encode()]

    def changed(self) -> None:
        """Routes may be others now."""
        self.version += 1
        self._routes.clear()
        self._asked.clear()
        self._has_missed = False


def _stands_alone(queue: str) -> bool:
    """Its topic is no other's, and none is below another's."""
    topics = own_topics(queue)
    return len(topics) == 1 and topics[0].count("/") == 1 and not other_topics(queue)


def routing_key(queue: str, topic: bytes) -> bytes:
    """What follows the queue's name in a topic that addresses it; the whole topic where a filter bound it."""
    for prefix in _all_prefixes(queue):
        if topic == prefix or topic.startswith(prefix + b"/"):
            return topic[len(prefix) + 1 :]
    return topic


class KeyFilter:
    """A filter on routing keys, ready to be asked often. A key may begin with `$`; the empty key, of a message sent to
    the queue's bare name, is matched by `#` alone."""

    def __init__(self, text: str) -> None:
        self._tree = SubscriptionTree()
        self._tree.add(_KEY_ROOT + b"/" + _checked_filter(text), 0)

    def mask(self, keys: Sequence[bytes]) -> bytearray:
        """A byte for each key: 1 where it matches."""
        topics = [_key_topic(key) for key in keys]
        starts, ends, filled = array("i"), array("i"), 0
        for topic in topics:
            starts.append(filled)
            filled += len(topic)
            ends.append(filled)
        counts = array("i", [0]) * len(topics)
        self._tree.match_many(b"".join(topics), starts, ends, counts, array("q"))
        return bytearray(counts.tolist())


def filter_mask(filter: str, topics: Sequence[bytes]) -> bytearray:
    """See KeyFilter.mask(), for the distinct topics of a batch; the filters used last are kept ready."""
    return _key_filter(filter).mask(topics)


@lru_cache(_CACHED_FILTERS)
def _key_filter(text: str) -> KeyFilter:
    return KeyFilter(text)


def _key_topic(key: bytes) -> bytes:
    return _KEY_ROOT + b"/" + key if key else _KEY_ROOT


def _checked_filter(text: str) -> bytes:
    names.check_filter(text)
    topic_filter = text.encode()
    check_filter(topic_filter)
    return topic_filter


@lru_cache(_CACHED_PREFIXES)
def _all_prefixes(queue: str) -> tuple[bytes, ...]:
    """The topics that address a queue by name; more may follow behind a `/`."""
    return tuple(topic.encode() for topic in (*own_topics(queue), *other_topics(queue)))
