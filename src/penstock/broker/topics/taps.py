"""Live messages of topics for those who are no session of any protocol: event streams, dashboards."""

from __future__ import annotations

import logging
import secrets
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import chain

from penstock.core.errors import InvalidArgument
from penstock.kernels.topics import SubscriptionTree
from penstock.log.columns import Columns

logger = logging.getLogger("penstock.broker.topics")

_MAX_ROUTES = 10_000
_SHARE = "$share/"

Take = Callable[[Columns, Sequence[int]], None]
"""gets columns, which are valid during the call only, and the numbers of the rows that are meant"""


@dataclass(slots=True, eq=False)
class Tap:
    """Open until close(), which may be called more than once."""

    namespace: str
    topic_filter: bytes
    take: Take
    _taps: Taps
    is_open: bool = True

    def close(self) -> None:
        self._taps._remove(self)


@dataclass(slots=True, eq=False)
class _Branch:
    """All taps of one filter: however many there are, they are matched once."""

    number: int
    taps: dict[Tap, None] = field(default_factory=dict)


class _Space:
    """Taps of one namespace. Who gets a topic is kept until a filter comes or goes."""

    def __init__(self) -> None:
        self.branches: dict[bytes, _Branch] = {}
        self._numbers: dict[int, _Branch] = {}
        self._next = 0
        self._tree = SubscriptionTree(secrets.randbits(64))
        self._routes: dict[bytes, tuple[_Branch, ...]] = {}
        self._found = array("q")

    def add(self, tap: Tap) -> None:
        branch = self.branches.get(tap.topic_filter)
        if branch is None:
            self._next += 1
            self._tree.add(tap.topic_filter, self._next)
            branch = self.branches[tap.topic_filter] = self._numbers[self._next] = _Branch(self._next)
            self._routes.clear()
        branch.taps[tap] = None

    def remove(self, tap: Tap) -> None:
        branch = self.branches[tap.topic_filter]
        del branch.taps[tap]
        if not branch.taps:
            del self.branches[tap.topic_filter], self._numbers[branch.number]
            self._tree.remove(tap.topic_filter, branch.number)
            self._routes.clear()

    def route(self, topic: bytes) -> tuple[_Branch, ...]:
        found = self._routes.get(topic)
        if found is None:
            if len(self._routes) >= _MAX_ROUTES:
                self._routes.clear()
            del self._found[:]
            self._tree.match(topic, 0, len(topic), self._found)
            found = self._routes[topic] = tuple([self._numbers[number] for number in self._found])
        return found


class Taps:
    """Of one broker, used from its loop. A gateway pushes whatever is published there; ask `count` first, so that it
    costs nothing while nobody listens."""

    def __init__(self) -> None:
        self.count = 0
        """how many are open"""
        self._spaces: dict[str, _Space] = {}

    def tap(self, namespace: str, topic_filter: str, take: Take) -> Tap:
        """What is published from now on to topics that the filter matches, by the rules of MQTT. InvalidArgument for
        what is no filter, or a shared one. A `take` that raises is closed."""
        if topic_filter.startswith(_SHARE):
            raise InvalidArgument("an event stream has no shared subscriptions: leave out $share/<group>/")
        tap = Tap(namespace, topic_filter.encode("utf-8", "surrogatepass"), take, self)
        space = self._spaces.get(namespace) or _Space()
        space.add(tap)
        self._spaces[namespace] = space
        self.count += 1
        return tap

    def push(self, namespace: str, columns: Columns, topics: Sequence[bytes]) -> frozenset[int]:
        """Rows to those who listen; `topics` are those of the columns' topic_index. Taps of one filter get the very
        same rows, one after the other. The numbers of topics that somebody listens to."""
        space = self._spaces.get(namespace)
        if space is None:
            return frozenset()
        wanted: dict[_Branch, list[int]] = {}
        for number, topic in enumerate(topics):
            for branch in space.route(topic):
                wanted.setdefault(branch, []).append(number)
        for branch, numbers in wanted.items():
            some = columns.rows_of_topics(numbers)
            for tap in list(branch.taps):
                self._give(tap, columns, some)
        return frozenset(chain.from_iterable(wanted.values()))

    def _give(self, tap: Tap, columns: Columns, some: Sequence[int]) -> None:
        if not tap.is_open:
            # By another one, in this turn.
            return
        try:
            tap.take(columns, some)
        except Exception:
            # Whoever published must not pay for it.
            logger.exception("tap closed, it failed filter=%s", tap.topic_filter.decode())
            tap.close()

    def _remove(self, tap: Tap) -> None:
        if not tap.is_open:
            return
        tap.is_open = False
        self.count -= 1
        space = self._spaces[tap.namespace]
        space.remove(tap)
        if not space.branches:
            del self._spaces[tap.namespace]
