"""The last value of each key of a queue as a table: nothing is shuffled, since a key lives in one partition; where keys
have moved because partitions were added, only these are compared."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import msgspec

from penstock.core.clock import SystemClock
from penstock.core.errors import InvalidArgument
from penstock.jobs.files import COMPRESSIONS, appearing, exclusive, sync_directory
from penstock.jobs.finished import FinishedFile
from penstock.jobs.job import Job, Progress, Runner, run
from penstock.jobs.ranges import QueueRange, plan_queue
from penstock.jobs.snapshot_write import (
    ContestPiece,
    SiftPiece,
    SnapshotPiece,
    WrittenPart,
    decide_contest,
    part_path,
    sift_part,
    write_part,
)
from penstock.queues.names import DEFAULT_NAMESPACE
from penstock.tables.table import TableDirectory

NAME = "_snapshot.json"
_WORK, _PLAN, _FINISHED = "_unfinished", "plan.json", "finished.jsonl"


@dataclass(frozen=True, slots=True)
class SnapshotRequest:
    directory: Path
    queue: str
    target: Path
    namespace: str = DEFAULT_NAMESPACE
    compression: str = "zstd"


class SnapshotPlan(msgspec.Struct, frozen=True):
    """Kept beside what is not finished: a run that goes on reads the same rows."""

    directory: str
    namespace: str
    queue: str
    compression: str
    partitions: int
    taken_ms: int
    ranges: tuple[QueueRange, ...]

    @property
    def rows(self) -> int:
        return sum(each.rows for each in self.ranges)

    @property
    def size_bytes(self) -> int:
        return sum(each.size_bytes for each in self.ranges)


class SnapshotReport(msgspec.Struct, frozen=True):
    """As _snapshot.json keeps it beside the table."""

    target: str
    queue: str
    namespace: str
    taken_ms: int
    rows: int
    """one a key, without tombstones"""
    moved_keys: int
    """older rows of keys that were found in several partitions"""
    unkeyed: int
    """rows without a key, which are in no snapshot"""
    offsets: dict[int, int]
    """up to where each partition was read"""


def plan_snapshot(request: SnapshotRequest) -> SnapshotPlan:
    """Of a run that was stopped, what it had planned. Changes nothing. NoSuchQueue, DirectoryFormat."""
    if request.compression not in COMPRESSIONS:
        raise InvalidArgument(f"no compression {request.compression!r}: there are {', '.join(COMPRESSIONS)}")
    opened = TableDirectory(request.directory)
    with closing(opened):
        table = opened.table(request.queue, request.namespace)
        queue, partitions = table.queue, len(table.partitions())
    question = str(request.directory.resolve()), request.namespace, queue, request.compression
    begun = _begun(request.target)
    if begun is not None and (begun.directory, begun.namespace, begun.queue, begun.compression) == question:
        return begun
    ranges = plan_queue(request.directory.resolve(), queue, request.namespace, split_rows=None)
    return SnapshotPlan(*question, partitions, SystemClock().now_ms(), tuple(ranges))


def snapshot(request: SnapshotRequest, runner: Runner, progress: Progress | None = None) -> SnapshotReport:
    """Replace the table in `target`, a part after the other, when all parts are written. InvalidArgument if something
    else is there."""
    target = request.target
    _refuse_foreign(target)
    with exclusive(target):
        plan = plan_snapshot(request)
        work = target.resolve() / _WORK
        _begin(work, plan)
        pieces = [SnapshotPiece(each, plan.partitions, str(work), plan.compression) for each in plan.ranges]
        finished: FinishedFile[SnapshotPiece, WrittenPart] = FinishedFile(
            work / _FINISHED, str(plan.taken_ms), WrittenPart, lambda piece: str(piece.source.partition)
        )
        job = Job("reading", pieces, write_part, list[WrittenPart], lambda piece: piece.source.rows)
        with closing(finished):
            parts = run(job, runner, progress, finished)
        rows, moved = _decided(plan, work, parts, runner, progress)
        report = _report(request, plan, parts, rows, moved)
        # From here on parts leave the place where a run that goes on would look for them.
        finished.remove()
        _show(target, work, parts, report)
        return report


def _refuse_foreign(target: Path) -> None:
    """What is not a snapshot is not written over."""
    if target.exists() and any(not path.name.startswith(("_", "part-")) for path in target.iterdir()):
        raise InvalidArgument(f"{target} holds something else than a snapshot: give another directory")


def _begun(target: Path) -> SnapshotPlan | None:
    try:
        return msgspec.json.decode((target / _WORK / _PLAN).read_bytes(), type=SnapshotPlan)
    except FileNotFoundError:
        return None


def _begin(work: Path, plan: SnapshotPlan) -> None:
    if _begun(work.parent) == plan:
        return
    if work.exists():
        shutil.rmtree(work)
    with appearing(work / _PLAN) as path:
        path.write_bytes(msgspec.json.encode(plan))


def _decided(
    plan: SnapshotPlan, work: Path, parts: list[WrittenPart], runner: Runner, progress: Progress | None
) -> tuple[int, int]:
    """Rows of the table, and how many older ones of keys that have moved were left out."""
    homes = sorted({home for part in parts for home in part.strays})
    if not homes:
        return sum(part.rows for part in parts), 0
    by_partition = {each.partition: each for each in plan.ranges}
    contests = [ContestPiece(_range(plan, by_partition, home), str(work), _found_in(parts, home)) for home in homes]
    decide = Job("comparing moved keys", contests, decide_contest, _sum, lambda piece: 1)
    moved = run(decide, runner, progress)
    sifts = [SiftPiece(str(work), part.partition, tuple(homes), plan.compression) for part in parts]
    sift = Job("leaving out older rows", sifts, sift_part, _sum, lambda piece: 1)
    return run(sift, runner, progress), moved


def _sum(counts: Iterable[int]) -> int:
    return sum(counts)


def _found_in(parts: list[WrittenPart], home: int) -> tuple[int, ...]:
    return tuple(part.partition for part in parts if home in part.strays)


def _range(plan: SnapshotPlan, known: dict[int, QueueRange], partition: int) -> QueueRange:
    """Of a partition; an empty one where it has no rows yet."""
    return known.get(partition, QueueRange(plan.directory, plan.namespace, plan.queue, partition, 0, 0, 0))


def _report(
    request: SnapshotRequest, plan: SnapshotPlan, parts: Iterable[WrittenPart], rows: int, moved: int
) -> SnapshotReport:
    unkeyed = sum(part.unkeyed for part in parts)
    offsets = {each.partition: each.stop for each in plan.ranges}
    place = str(request.target), plan.queue, plan.namespace, plan.taken_ms
    return SnapshotReport(*place, rows, moved, unkeyed, offsets)


def _show(target: Path, work: Path, parts: list[WrittenPart], report: SnapshotReport) -> None:
    """Each part takes the place of the one before it; stopped here, the next run begins anew."""
    shown = {part_path(target, part.partition) for part in parts}
    for part in parts:
        part_path(work, part.partition).replace(part_path(target, part.partition))
    for old in set(target.glob("part-*.parquet")) - shown:
        old.unlink()
    sync_directory(target)
    with appearing(target / NAME) as path:
        path.write_bytes(msgspec.json.format(msgspec.json.encode(report), indent=1) + b"\n")
    shutil.rmtree(work)
