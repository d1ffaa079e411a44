"""Live messages of topics for those who are no session of any protocol: event streams, dashboards."""

from __future__ import annotations

import logging
import secrets
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain

from penstock.core.errors import InvalidArgument
from penstock.kernels import rows
from penstock.kernels.topics import SubscriptionTree
from penstock.log.columns import Columns

logger = logging.getLogger("penstock.broker.taps")

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
    number: int
    _taps: Taps
    is_open: bool = True

    def close(self) -> None:
        self._taps._remove(self)


class _Space:
    """Taps of one namespace. Who gets a topic is kept until one comes or goes."""

    def __init__(self) -> None:
        self.taps: dict[int, Tap] = {}
        self._tree = SubscriptionTree(secrets.randbits(64))
        self._routes: dict[bytes, tuple[Tap, ...]] = {}
        self._found = array("q")

    def add(self, tap: Tap) -> None:
        self._tree.add(tap.topic_filter, tap.number)
        self.taps[tap.number] = tap
        self._routes.clear()

    def remove(self, tap: Tap) -> None:
        del self.taps[tap.number]
        self._tree.remove(tap.topic_filter, tap.number)
        self._routes.clear()

    def route(self, topic: bytes) -> tuple[Tap, ...]:
        found = self._routes.get(topic)
        if found is None:
            if len(self._routes) >= _MAX_ROUTES:
                self._routes.clear()
            del self._found[:]
            self._tree.match(topic, 0, len(topic), self._found)
            found = self._routes[topic] = tuple([self.taps[number] for number in self._found])
        return found


class Taps:
    """Of one broker, used from its loop. A gateway pushes whatever is published there; ask `count` first, so that it
    costs nothing while nobody listens."""

    def __init__(self) -> None:
        self.count = 0
        """how many are open"""
        self._spaces: dict[str, _Space] = {}
        self._next = 0

    def tap(self, namespace: str, topic_filter: str, take: Take) -> Tap:
        """What is published from now on to topics that the filter matches, by the rules of MQTT. InvalidArgument for
        what is no filter, or a shared one. A `take` that raises is closed."""
        if topic_filter.startswith(_SHARE):
            raise InvalidArgument("an event stream has no shared subscriptions: leave out $share/<group>/")
        self._next += 1
        tap = Tap(namespace, topic_filter.encode("utf-8", "surrogatepass"), take, self._next, self)
        space = self._spaces.get(namespace) or _Space()
        space.add(tap)
        self._spaces[namespace] = space
        self.count += 1
        return tap

    def push(self, namespace: str, columns: Columns, topics: Sequence[bytes]) -> frozenset[int]:
        """Rows to those who listen; `topics` are those of the columns' topic_index. The numbers of topics that
        somebody listens to."""
        space = self._spaces.get(namespace)
        if space is None:
            return frozenset()
        wanted: dict[Tap, list[int]] = {}
        for number, topic in enumerate(topics):
            for tap in space.route(topic):
                wanted.setdefault(tap, []).append(number)
        together: dict[tuple[int, ...], list[Tap]] = {}
        for tap, numbers in wanted.items():
            together.setdefault(tuple(numbers), []).append(tap)
        for same, taps in together.items():
            some = _rows_of(columns, same, len(topics))
            for tap in taps:
                self._give(tap, columns, some)
        return frozenset(chain.from_iterable(together))

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
        if not space.taps:
            del self._spaces[tap.namespace]


def _rows_of(columns: Columns, numbers: Sequence[int], topics: int) -> Sequence[int]:
    if len(numbers) == topics or columns.topic_index is None:
        return range(columns.count)
    marks, chosen = bytearray(topics), bytearray(columns.count)
    for number in numbers:
        marks[number] = 1
    rows.mark_by_number(memoryview(columns.topic_index), marks, chosen)
    return [row for row, mark in enumerate(chosen) if mark]
