"""Which query commits under the name of a pipeline: one at a time, so that no lost checkpoint begins anew unseen."""

from __future__ import annotations

from collections.abc import Collection

from penstock.broker.staging.owners import Owner
from penstock.broker.staging.records import Change, PipelineKey, PipelineRecord
from penstock.core.errors import InvalidArgument, PipelineKnown

MAX_PIPELINES = 10_000


class Pipelines:
    """Used from the loop."""

    def __init__(self) -> None:
        self._bound: dict[str, PipelineRecord] = {}

    def owner(self, name: str) -> str:
        """Its mark; empty where it is nobody's."""
        known = self._bound.get(name)
        return "" if known is None else known.owner

    def query(self, name: str) -> str | None:
        """That commits under it."""
        known = self._bound.get(name)
        return None if known is None else known.query

    def refuse(self, name: str, query: str, is_reset: bool, by: Owner) -> None:
        """NotAuthorised for a name that is somebody else's; PipelineKnown if another query commits under that name,
        unless that is meant."""
        known = self._bound.get(name)
        if known is None and len(self._bound) >= MAX_PIPELINES:
            raise InvalidArgument(f"{MAX_PIPELINES} pipelines are known, {name!r} would be one more: use fewer names")
        if known is not None:
            by.require(known.owner, f"pipeline {name!r}")
            if known.query != query and not is_reset:
                raise PipelineKnown(name, known.query, query)

    def binding(self, name: str, query: str, owner: str) -> list[tuple[PipelineKey, PipelineRecord]]:
        """What the book has to say when the name is bound; nothing if it says so already. It stays whose it is until it
        is reset."""
        known = self._bound.get(name)
        if known is not None and known.query == query and (known.owner or not owner):
            return []
        return [(PipelineKey(name), PipelineRecord(query, owner))]

    def release(self, name: str) -> list[Change]:
        """It is nobody's from now on, and stands for the same query."""
        known = self._bound.get(name)
        if known is None or not known.owner:
            return []
        record = PipelineRecord(known.query)
        self.restore(PipelineKey(name), record)
        return [(PipelineKey(name), record)]

    def restore(self, key: PipelineKey, record: PipelineRecord) -> None:
        self._bound[key.name] = record

    def forget(self, queries: Collection[str]) -> list[PipelineKey]:
        """Those of queries that are forgotten themselves."""
        gone = self.of_queries(queries)
        for key in gone:
            del self._bound[key.name]
        return gone

    def of_queries(self, queries: Collection[str]) -> list[PipelineKey]:
        return [PipelineKey(name) for name, record in self._bound.items() if record.query in queries] if queries else []
