"""Which epochs of which query were committed: so many of each, for so long after its last one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator

from penstock.broker.staging.records import CommitRecord, EpochKey
from penstock.core.errors import EpochForgotten, InvalidArgument

EPOCHS_KEPT = 100
QUERY_KEPT_MS = 30 * 24 * 3600 * 1000
# A query is a checkpoint of a Spark job: far beyond what one broker serves, it bounds what a client can make it hold.
MAX_QUERIES = 10_000
# One more takes the place of that which has committed nothing for the longest time, if that was as long ago as this.
QUIET_MS = 24 * 3600 * 1000
# A write of its own repeats its commit only while its answer is missing, and never stages rows anew: forgotten too
# early, a repetition is refused, as its stages are gone, and nothing is there twice.
MAX_SINGLE, SINGLE_KEPT_MS = 10_000, 24 * 3600 * 1000


class Epochs:
    """Used from the loop."""

    def __init__(self) -> None:
        self._queries: dict[str, dict[int, CommitRecord]] = {}
        """those that committed last at the end"""
        self._single: dict[str, tuple[EpochKey, CommitRecord]] = {}
        """of writes that are a query each, in the order of their commits"""

    def find(self, key: EpochKey) -> CommitRecord | None:
        if (record := self._queries.get(key.query, {}).get(key.epoch)) is not None:
            return record
        single = self._single.get(key.query)
        return single[1] if single is not None and single[0] == key else None

    def known(self, query: str) -> list[int]:
        """The epochs of a query that are remembered, rising."""
        single = self._single.get(query)
        return sorted({*self._queries.get(query, {}), *([] if single is None else [single[0].epoch])})

    def newest(self, query: str) -> tuple[EpochKey, CommitRecord] | None:
        """The last epoch of a query: its record says whose the query is."""
        known = self._queries.get(query)
        if not known:
            return self._single.get(query)
        epoch = max(known)
        return EpochKey(query, epoch), known[epoch]

    def queues(self, query: str) -> list[tuple[str, str]]:
        """Namespace and name of those that its epochs went to."""
        records = [record for epoch in self.known(query) if (record := self.find(EpochKey(query, epoch))) is not None]
        return list(dict.fromkeys((place.namespace, place.queue) for record in records for place in record.placed))

    def last(self) -> list[tuple[EpochKey, CommitRecord]]:
        """Of each query the epoch that was committed last: it says how long the query is remembered."""
        found = list(self._single.values())
        for query, known in self._queries.items():
            epoch = max(known, key=lambda epoch: known[epoch].committed_ms)
            found.append((EpochKey(query, epoch), known[epoch]))
        return found

    def refuse(self, key: EpochKey, is_single: bool, now_ms: int) -> None:
        """EpochForgotten for an epoch of which it is no longer known whether it was committed, InvalidArgument if there
        is no room for another query."""
        known = self._queries.get(key.query)
        if known is None and not is_single and len(self._queries) >= MAX_QUERIES and not self._has_quiet(now_ms):
            raise InvalidArgument(
                f"{MAX_QUERIES} queries have committed epochs in the last 24 hours, query {key.query!r} would be one "
                f"more: use the query id of a checkpoint, or say that it is a single write"
            )
        if known is not None and len(known) >= EPOCHS_KEPT and key.epoch < (oldest := min(known)):
            raise EpochForgotten(key.query, key.epoch, oldest)

    def remember(self, key: EpochKey, record: CommitRecord) -> list[EpochKey]:
        """The epochs that are forgotten for it."""
        gone = self.forgotten_for(key, record.is_single)
        if record.is_single:
            self._single.pop(key.query, None)
            self._single[key.query] = key, record
        else:
            known = self._queries.pop(key.query, {})
            known[key.epoch] = record
            self._queries[key.query] = known
        for each in gone:
            self._forget(each)
        return gone

    def forgotten_for(self, key: EpochKey, is_single: bool) -> list[EpochKey]:
        """Those that are forgotten when it is remembered."""
        if is_single:
            others = [other for query, (other, _) in self._single.items() if query != key.query]
            before = self._single.get(key.query, (key,))[0]
            return [*([before] if before != key else []), *others[: max(0, len(others) + 1 - MAX_SINGLE)]]
        known = self._queries.get(key.query)
        if known is None and len(self._queries) >= MAX_QUERIES:
            first = next(iter(self._queries))
            return [EpochKey(first, epoch) for epoch in self._queries[first]]
        epochs = sorted({*(known or ()), key.epoch})
        return [EpochKey(key.query, epoch) for epoch in epochs[:-EPOCHS_KEPT]]

    def left_without(self, gone: Collection[EpochKey], key: EpochKey) -> set[str]:
        """The queries of which nothing is remembered once these are forgotten for `key`."""
        counts = Counter(each.query for each in gone if each.query != key.query)
        return {query for query, count in counts.items() if count == self._remembered(query)}

    def _remembered(self, query: str) -> int:
        return len(self._queries.get(query, ())) + (query in self._single)

    def _forget(self, key: EpochKey) -> None:
        single = self._single.get(key.query)
        if single is not None and single[0] == key:
            del self._single[key.query]
        elif (known := self._queries.get(key.query)) is not None:
            known.pop(key.epoch, None)
            if not known:
                del self._queries[key.query]

    def expire(self, now_ms: int) -> list[EpochKey]:
        """Forget the queries whose last commit was long ago; the keys that are gone."""
        old = [key for key, record in self._single.values() if record.committed_ms + SINGLE_KEPT_MS <= now_ms]
        for key in old:
            self._forget(key)
        return old + [key for query in list(self._queries) for key in self._expired(query, now_ms)]

    def _expired(self, query: str, now_ms: int) -> Iterator[EpochKey]:
        known = self._queries[query]
        if _last_ms(known) + QUERY_KEPT_MS <= now_ms:
            del self._queries[query]
            yield from (EpochKey(query, epoch) for epoch in known)

    def _has_quiet(self, now_ms: int) -> bool:
        return _last_ms(next(iter(self._queries.values()))) + QUIET_MS <= now_ms


def _last_ms(known: dict[int, CommitRecord]) -> int:
    return max([record.committed_ms for record in known.values()])
