"""What the book of staging says: which rows are staged, which epochs of a query were committed, and where, and which
query a pipeline's name stands for."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

_STAGE, _COMMIT, _PIPELINE = "stage", "commit", "pipeline"


class StagedRange(msgspec.Struct, frozen=True):
    """What one call of stage() stored. Names it until it is committed or collected; the broker looks up all the rest
    in its own records."""

    log: int
    first: int
    rows: int
    size_bytes: int

    @property
    def place(self) -> StagePlace:
        return StagePlace(self.log, self.first)


class StagePlace(NamedTuple):
    """The number of a side log, which is never used again, and the first offset of the rows in it."""

    log: int
    first: int

    def __str__(self) -> str:
        return f"{self.log}:{self.first}"


class StageRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """`partition`: where the rows are to go; None: by their keys. `owner`: who staged them (`Owner.mark`)."""

    incarnation: int
    rows: int
    size_bytes: int
    staged_ms: int
    writer: str = ""
    partition: int | None = None
    owner: str = ""


class StagedPlace(msgspec.Struct, frozen=True, array_like=True):
    """Rows of a commit that became messages of one partition, with the offsets from `base_offset` on."""

    namespace: str
    queue: str
    partition: int
    base_offset: int
    rows: int


class CommitRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """`owner`: whose query it is (`Owner.mark`). `is_single`: of a write whose query has no other epoch, and which
    stages nothing again."""

    committed_ms: int
    placed: tuple[StagedPlace, ...]
    owner: str = ""
    is_single: bool = False


class EpochKey(NamedTuple):
    """What makes a commit itself: said again, it is answered and not done again."""

    query: str
    epoch: int


class PipelineKey(NamedTuple):
    name: str


class PipelineRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    query: str
    owner: str = ""


BookKey = StagePlace | EpochKey | PipelineKey
BookRecord = StageRecord | CommitRecord | PipelineRecord
Change = tuple[BookKey, BookRecord | None]
"""None: it is gone"""


def time_of(record: BookRecord) -> int:
    if isinstance(record, CommitRecord):
        return record.committed_ms
    return record.staged_ms if isinstance(record, StageRecord) else 0


def moved(record: BookRecord, shift_ms: int) -> BookRecord:
    """With its time so much later: the book has wall times, everybody else running time."""
    if isinstance(record, CommitRecord):
        return msgspec.structs.replace(record, committed_ms=record.committed_ms + shift_ms)
    if isinstance(record, StageRecord):
        return msgspec.structs.replace(record, staged_ms=record.staged_ms + shift_ms)
    return record


def encode_key(key: BookKey) -> bytes:
    if isinstance(key, EpochKey):
        return f"{_COMMIT}:{key.epoch}:{key.query}".encode()
    if isinstance(key, PipelineKey):
        return f"{_PIPELINE}:0:{key.name}".encode()
    return f"{_STAGE}:{key.log}:{key.first}".encode()


def decode_key(data: bytes) -> BookKey:
    kind, number, rest = data.decode().split(":", 2)
    if kind == _PIPELINE:
        return PipelineKey(rest)
    return EpochKey(rest, int(number)) if kind == _COMMIT else StagePlace(int(number), int(rest))


def encode_record(record: BookRecord | None) -> bytes:
    return b"" if record is None else msgspec.json.encode(record)


def decode_record(key: BookKey, data: bytes) -> BookRecord:
    if isinstance(key, EpochKey):
        return msgspec.json.decode(data, type=CommitRecord)
    if isinstance(key, PipelineKey):
        return msgspec.json.decode(data, type=PipelineRecord)
    return msgspec.json.decode(data, type=StageRecord)
