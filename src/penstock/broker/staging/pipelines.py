"""Which query commits under the name of a pipeline: one at a time, so that no lost checkpoint begins anew unseen."""

from __future__ import annotations

from collections.abc import Collection

from penstock.broker.staging.records import Change, PipelineKey, PipelineRecord
from penstock.core.errors import InvalidArgument, PipelineKnown

MAX_PIPELINES = 10_000


class Pipelines:
    """Used from the loop."""

    def __init__(self) -> None:
        self._queries: dict[str, str] = {}

    def refuse(self, name: str, query: str, is_reset: bool) -> None:
        """PipelineKnown if another query commits under that name, unless that is meant."""
        known = self._queries.get(name)
        if known is None and len(self._queries) >= MAX_PIPELINES:
            raise InvalidArgument(f"{MAX_PIPELINES} pipelines are known, {name!r} would be one more: use fewer names")
        if known is not None and known != query and not is_reset:
            raise PipelineKnown(name, known, query)

    def bind(self, name: str, query: str) -> list[Change]:
        """What the book has to say; nothing if it says so already."""
        if self._queries.get(name) == query:
            return []
        self.restore(PipelineKey(name), PipelineRecord(query))
        return [(PipelineKey(name), PipelineRecord(query))]

    def restore(self, key: PipelineKey, record: PipelineRecord) -> None:
        self._queries[key.name] = record.query

    def forget(self, queries: Collection[str]) -> list[PipelineKey]:
        """Those of queries that are forgotten themselves."""
        gone = [name for name, query in self._queries.items() if query in queries]
        for name in gone:
            del self._queries[name]
        return [PipelineKey(name) for name in gone]
