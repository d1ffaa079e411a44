"""Who may publish to which topic, asked for all rows of a turn at once: what was granted is remembered in a table that
kernels look into, until rules change."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence

from penstock.broker.auth.access import Access
from penstock.broker.auth.permissions import Permissions
from penstock.kernels import turn as kernel

# 65,536 pairs of a connection and a topic, 1 MiB. Who has more is asked again now and then.
_ZERO, _NOT_SEEN = array("i", [0]), array("i", [-1])
_TABLE = array("q", [-1]) * (kernel.GRANT_WORDS << 16)
# Names of topics by which grants are remembered: some 10 MB. Numbers are never used again.
_MOST_TOPICS, _LAST_NUMBER = 100_000, 1 << 30


class Grants:
    """Used from the loop."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._version = access.version
        self._table = _TABLE[:]
        self._numbers: dict[bytes, int] = {}
        self._next = 0

    def refused(
        self,
        regions: array[int],
        topic_index: array[int],
        topics: Sequence[bytes],
        slots: array[int],
        generations: array[int],
        permissions: Callable[[int], Permissions],
    ) -> list[int]:
        """Regions with a row whose publisher may not publish to its topic. The permissions of a region are asked for
        each pair of it and a topic that is not remembered."""
        if self._access.version != self._version:
            self._version, self._table = self._access.version, _TABLE[:]
        try:
            numbers = array("i", map(self._numbers.__getitem__, topics))
        except KeyError:
            numbers = array("i", map(self._number, topics))
        rows, seen = _ZERO * len(regions), _NOT_SEEN * len(topics)
        unknown = kernel.ungranted(regions, topic_index, slots, generations, numbers, seen, self._table, rows)
        if not unknown:
            return []
        found: dict[int, None] = {}
        for row in rows[:unknown]:
            region, topic = regions[row], topic_index[row]
            mine = permissions(region)
            if not mine.may_publish(topics[topic]):
                found[region] = None
            elif mine.are_lasting:
                kernel.grant(slots[region], generations[region], numbers[topic], self._table)
        return list(found)

    def _number(self, topic: bytes) -> int:
        number = self._numbers.get(topic)
        if number is None:
            if len(self._numbers) >= _MOST_TOPICS:
                self._numbers = {}
            if self._next >= _LAST_NUMBER:
                self._next, self._numbers, self._table = 0, {}, _TABLE[:]
            self._next += 1
            number = self._numbers[topic] = self._next
        return number
