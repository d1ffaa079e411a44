"""The report of a queue: its rows counted range by range, its groups partition by partition, its dead letters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.errors import InvalidArgument, NoSuchQueue
from penstock.core.queue_paths import dead_letter_queue, is_dead_letter_queue
from penstock.jobs.declared import Declared, read_declared
from penstock.jobs.directory import DirectoryFacts, Place
from penstock.jobs.job import Job
from penstock.jobs.ranges import QueueRange, TimeSpan, plan_queue
from penstock.jobs.report_counts import RowCounts, counted
from penstock.jobs.report_groups import GroupCounts, count_groups
from penstock.jobs.unit_state import UnitLogs
from penstock.queues import deadletter
from penstock.queues.declared import GroupRecord
from penstock.queues.names import CONFIGURATION_LOG
from penstock.tables.table import TableDirectory
from penstock.tables.text import text

_BETWEEN = "\x1f"
# What a partition's groups cost to look at, in rows, for progress.
_UNIT_SIZE = 100_000


@dataclass(frozen=True, slots=True)
class RowsPiece:
    queue: str
    rows: QueueRange


@dataclass(frozen=True, slots=True)
class UnitPiece:
    queue: str
    place: Place
    unit: UnitLogs
    groups: tuple[GroupRecord, ...]
    span: TimeSpan


@dataclass(frozen=True, slots=True)
class LettersPiece:
    """Dead letters of one queue among those of `rows`."""

    queue: str
    rows: QueueRange


Piece = RowsPiece | UnitPiece | LettersPiece


@dataclass(slots=True)
class QueueReport:
    """Of one piece, or of all of a queue."""

    queue: str
    rows: RowCounts = field(default_factory=RowCounts)
    groups: dict[str, GroupCounts] = field(default_factory=dict)
    letters: Counter[tuple[str, str]] = field(default_factory=Counter)
    """dead letters by reason and group"""

    def merge(self, other: QueueReport) -> None:
        self.rows.merge(other.rows)
        for group, counts in other.groups.items():
            self.groups.setdefault(group, GroupCounts()).merge(counts)
        self.letters.update(other.letters)


def plan_report(
    directory: Path, queues: Sequence[str], namespace: str, span: TimeSpan
) -> Job[Piece, QueueReport, list[QueueReport]]:
    """Of these queues, or of all but dead-letter queues if none is named. DirectoryFormat, NoSuchQueue."""
    tables = TableDirectory(directory)
    try:
        known = tables.queues(namespace)
    finally:
        tables.close()
    chosen = list(dict.fromkeys(queues)) or [queue for queue in known if not is_dead_letter_queue(queue)]
    if not chosen:
        raise InvalidArgument(f"{directory} has no queue in namespace {namespace!r}: there is nothing to report")
    for queue in chosen:
        if queue not in known:
            raise NoSuchQueue(queue)
    pieces = [piece for queue in chosen for piece in _rows_pieces(directory, queue, namespace, span, known)]
    pieces += _unit_pieces(directory, chosen, namespace, span)
    return Job("report", pieces, work, partial(_folded, tuple(chosen)), _size)


def work(piece: Piece) -> QueueReport:
    """One piece, anywhere."""
    found = QueueReport(piece.queue)
    if isinstance(piece, UnitPiece):
        found.groups = count_groups(piece.place, piece.unit, piece.groups, piece.span)
    elif isinstance(piece, RowsPiece):
        for batch in piece.rows.read(RowCounts.COLUMNS, skip_trimmed=True):
            found.rows.add(batch)
    else:
        for batch in piece.rows.read(["headers"], skip_trimmed=True):
            found.letters.update(_letters(batch.column("headers"), piece.queue))
    return found


def _folded(queues: Sequence[str], results: Iterable[QueueReport]) -> list[QueueReport]:
    found = {queue: QueueReport(queue) for queue in queues}
    for result in results:
        found[result.queue].merge(result)
    return list(found.values())


def _rows_pieces(directory: Path, queue: str, namespace: str, span: TimeSpan, known: Sequence[str]) -> list[Piece]:
    pieces: list[Piece] = [RowsPiece(queue, rows) for rows in plan_queue(directory, queue, namespace, span)]
    if (letters := dead_letter_queue(queue)) in known:
        pieces += [LettersPiece(queue, rows) for rows in plan_queue(directory, letters, namespace, span)]
    return pieces


def _unit_pieces(directory: Path, queues: Sequence[str], namespace: str, span: TimeSpan) -> list[Piece]:
    facts = DirectoryFacts.of(directory)
    declared = _declared(facts)
    pieces: list[Piece] = []
    for queue in queues:
        record = declared.queues.get((namespace, queue))
        if record is None or not (groups := tuple(declared.groups_of(record))):
            continue
        units = [UnitLogs.of(facts, namespace, queue, number) for number in range(record.partitions)]
        pieces += [UnitPiece(queue, facts.place, unit, groups, span) for unit in units if unit is not None]
    return pieces


def _declared(facts: DirectoryFacts) -> Declared:
    log = facts.logs.get(CONFIGURATION_LOG)
    return Declared() if log is None else read_declared(facts.place.batches(log))


def _letters(headers: pa.Array, queue: str) -> Counter[tuple[str, str]]:
    """By reason and group; of a dead-letter queue that several share, those of one."""
    rows = pa.table(
        {
            "row": pc.list_parent_indices(headers),
            "key": headers.flatten().field("key"),
            "value": text(headers.flatten().field("value")),
        }
    )
    facts = [_fact(rows, name) for name in (deadletter.QUEUE, deadletter.REASON, deadletter.GROUP)]
    joined = facts[0].join(facts[1], "row").join(facts[2], "row")
    own = joined.filter(pc.equal(joined.column(deadletter.QUEUE), queue))
    pairs = pc.binary_join_element_wise(own.column(deadletter.REASON), own.column(deadletter.GROUP), _BETWEEN)
    found: Counter[tuple[str, str]] = Counter()
    for pair, count in counted(pairs).items():
        reason, _, group = pair.partition(_BETWEEN)
        found[reason, group] += count
    return found


def _fact(rows: pa.Table, name: str) -> pa.Table:
    """Its first value in each row that has it."""
    own = rows.filter(pc.equal(rows.column("key"), name))
    first = own.group_by("row", use_threads=False).aggregate([("value", "first")])
    return first.rename_columns({"row": "row", "value_first": name})


def _size(piece: Piece) -> int:
    return _UNIT_SIZE if isinstance(piece, UnitPiece) else piece.rows.rows
