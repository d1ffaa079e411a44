"""Committed epochs of staged rows against the messages they became."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from penstock.core.errors import LogDamaged
from penstock.core.types import LogName
from penstock.jobs.directory import LogFacts, Place
from penstock.jobs.findings import Checked, Finding, Kind
from penstock.log.batch import Batch
from penstock.log.names import log_name

BOOK: LogName = log_name("@staging", "book")
"""as the broker names it (broker/staging/book.py)"""
_COMMIT = b"commit:"


class PlacedRows(NamedTuple):
    """Of an epoch, the rows of one partition."""

    namespace: str
    queue: str
    partition: int
    base_offset: int
    rows: int


class CommittedEpoch(msgspec.Struct, frozen=True):
    committed_ms: int
    placed: tuple[PlacedRows, ...]


@dataclass(frozen=True, slots=True)
class Target:
    """A partition that rows may have gone to."""

    log: LogFacts
    created_ms: int
    """of its queue: what was committed before went to another one of that name"""


@dataclass(frozen=True, slots=True)
class StagingPiece:
    place: Place
    book: LogFacts
    targets: dict[tuple[str, str, int], Target]

    @property
    def size_bytes(self) -> int:
        return self.book.size_bytes


@dataclass(frozen=True, slots=True)
class StagingResult:
    findings: list[Finding]
    checked: Checked


def check_staging(piece: StagingPiece) -> StagingResult:
    """Every row of a committed epoch was stored, and no two epochs have the same offsets."""
    found: dict[bytes, CommittedEpoch] = {}
    with suppress(LogDamaged):  # told by the check of the book
        for data in piece.place.batches(piece.book):
            for row in Batch.parse(data, verify=False):
                if (row.key or b"").startswith(_COMMIT):
                    _note(found, row.key or b"", row.value)
    return StagingResult([*_missing(piece, found), *_twice(piece, found)], Checked())


def _note(found: dict[bytes, CommittedEpoch], key: bytes, value: bytes) -> None:
    if value:
        found[key] = msgspec.json.decode(value, type=CommittedEpoch)
    else:
        found.pop(key, None)


def _places(piece: StagingPiece, epoch: CommittedEpoch) -> Iterator[tuple[Target, PlacedRows]]:
    """In partitions of queues that are still the same."""
    for rows in epoch.placed:
        target = piece.targets.get((rows.namespace, rows.queue, rows.partition))
        if target is not None and target.created_ms <= epoch.committed_ms:
            yield target, rows


def _missing(piece: StagingPiece, found: dict[bytes, CommittedEpoch]) -> Iterator[Finding]:
    for key, epoch in found.items():
        for target, rows in _places(piece, epoch):
            end = rows.base_offset + rows.rows
            if end > target.log.end:
                reason = (
                    f"{_text(key)} put offsets {rows.base_offset}..{end} there, and the log ends at {target.log.end}"
                )
                yield Finding(Kind.STAGED, target.log.name, "", rows.base_offset, reason)


def _twice(piece: StagingPiece, found: dict[bytes, CommittedEpoch]) -> Iterator[Finding]:
    claims: dict[str, list[tuple[int, int, bytes]]] = {}
    for key, epoch in found.items():
        for target, rows in _places(piece, epoch):
            claim = rows.base_offset, rows.base_offset + rows.rows, key
            claims.setdefault(target.log.name, []).append(claim)
    for log, ranges in claims.items():
        reached, by = -1, b""
        for first, end, key in sorted(ranges):
            if first < reached:
                reason = f"{_text(by)} and {_text(key)} both have offset {first}"
                yield Finding(Kind.STAGED, log, "", first, reason)
            reached, by = (end, key) if end > reached else (reached, by)


def _text(key: bytes) -> str:
    epoch, _, query = key.removeprefix(_COMMIT).decode(errors="replace").partition(":")
    return f"epoch {epoch} of query {query!r}"
