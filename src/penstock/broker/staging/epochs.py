"""Which epochs of which query were committed: so many of each, for so long after its last one."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.broker.staging.records import CommitRecord, EpochKey
from penstock.core.errors import EpochForgotten, InvalidArgument

EPOCHS_KEPT = 100
QUERY_KEPT_MS = 30 * 24 * 3600 * 1000
# A query is a checkpoint of a Spark job: far beyond what one broker serves, it bounds what a client can make it hold.
MAX_QUERIES = 10_000


class Epochs:
    """Used from the loop."""

    def __init__(self) -> None:
        self._queries: dict[str, dict[int, CommitRecord]] = {}

    def find(self, key: EpochKey) -> CommitRecord | None:
        return self._queries.get(key.query, {}).get(key.epoch)

    def known(self, query: str) -> list[int]:
        """The epochs of a query that are remembered, rising."""
        return sorted(self._queries.get(query, {}))

    def refuse(self, key: EpochKey) -> None:
        """EpochForgotten for an epoch of which it is no longer known whether it was committed."""
        known = self._queries.get(key.query)
        if known is None and len(self._queries) >= MAX_QUERIES:
            raise InvalidArgument(
                f"{MAX_QUERIES} queries have committed epochs in the last 30 days, query {key.query!r} would be one "
                f"more: use the query id of a checkpoint, not a new one for every epoch"
            )
        if known is not None and len(known) >= EPOCHS_KEPT and key.epoch < (oldest := min(known)):
            raise EpochForgotten(key.query, key.epoch, oldest)

    def remember(self, key: EpochKey, record: CommitRecord) -> list[EpochKey]:
        """The epochs that are forgotten for it."""
        known = self._queries.setdefault(key.query, {})
        known[key.epoch] = record
        gone = sorted(known)[:-EPOCHS_KEPT]
        for epoch in gone:
            del known[epoch]
        return [EpochKey(key.query, epoch) for epoch in gone]

    def expire(self, now_ms: int) -> list[EpochKey]:
        """Forget the queries whose last commit was long ago; the keys that are gone."""
        return [key for query in list(self._queries) for key in self._expired(query, now_ms)]

    def _expired(self, query: str, now_ms: int) -> Iterator[EpochKey]:
        known = self._queries[query]
        if max([record.committed_ms for record in known.values()]) + QUERY_KEPT_MS <= now_ms:
            del self._queries[query]
            yield from (EpochKey(query, epoch) for epoch in known)
