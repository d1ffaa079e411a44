"""Everything that a data directory holds, checked: bytes, order, and what its records say of each other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path

import msgspec

from penstock.core.errors import ErrorCode, LogDamaged, PenstockError
from penstock.core.queue_paths import is_dead_letter_queue
from penstock.jobs.audit_journal import JournalPiece, JournalResult, check_journal
from penstock.jobs.audit_letters import LetterPiece, LetterResult, Origin, check_letters
from penstock.jobs.audit_log import LogPiece, LogResult, check_log
from penstock.jobs.audit_staging import BOOK, StagingPiece, StagingResult, Target, check_staging
from penstock.jobs.audit_units import UnitPiece, UnitResult, check_unit
from penstock.jobs.declared import Declared, read_declared
from penstock.jobs.directory import DirectoryFacts, LogFacts
from penstock.jobs.findings import MAX_FINDINGS, AuditReport, Checked, Finding, Kind
from penstock.jobs.job import Job
from penstock.jobs.unit_state import UnitLogs
from penstock.log.reading.cuts import DirectoryState
from penstock.queues.names import CONFIGURATION_LOG, partition_of_log

Piece = LogPiece | UnitPiece | LetterPiece | JournalPiece | StagingPiece
Result = LogResult | UnitResult | LetterResult | JournalResult | StagingResult
Bundle = tuple[Piece, ...]
"""what is small is sent together"""

# A quarter of a second of reading: long logs keep all cores at work.
_PIECE_BYTES = 256 << 20
# What a piece costs beside its bytes, in the time in which so many are read.
_PIECE_COST_BYTES = 256 << 10
# What contradicts itself in a live directory may have been changed while it was read.
_LIVE_LOOKS = 3
_STATE_SUFFIX = "/state"


def audit_job(directory: Path) -> Job[Bundle, list[Result], AuditReport]:
    """DirectoryFormat if it is no data directory, LogDamaged if its catalogue cannot be read: damaged_report(). Ends
    with OpenedMeanwhile if somebody opens a directory that nobody had open."""
    facts = DirectoryFacts.of(directory)
    bundles = list(_bundled(_Plan(facts).pieces()))
    pieces = [piece for bundle in bundles for piece in bundle]

    def fold(results: Iterable[list[Result]]) -> AuditReport:
        return _report(facts, pieces, [result for some in results for result in some])

    return Job("auditing", bundles, check_bundle, fold, lambda bundle: sum(map(_size, bundle)))


def damaged_report(directory: Path, error: LogDamaged) -> AuditReport:
    """Of a directory whose catalogue cannot be read, so that nothing in it has a name."""
    finding = Finding(Kind.DAMAGED, error.log, error.file, -1, error.reason, error.position)
    return AuditReport(str(directory), DirectoryState.CRASHED, Checked(), [finding])


def check_bundle(bundle: Bundle) -> list[Result]:
    return list(map(check, bundle))


def check(piece: Piece) -> Result:
    """What contradicts itself in a live directory is looked at again."""
    result = _checked(piece)
    looks = 1
    while result.findings and looks < _LIVE_LOOKS and (again := _again(piece)) is not None:
        result = _checked(again)
        looks += 1
    return result


def _checked(piece: Piece) -> Result:
    if isinstance(piece, LogPiece):
        return check_log(piece)
    if isinstance(piece, UnitPiece):
        return check_unit(piece)
    if isinstance(piece, LetterPiece):
        return check_letters(piece)
    return check_staging(piece) if isinstance(piece, StagingPiece) else check_journal(piece)


def _again(piece: Piece) -> Piece | None:
    """The same of a live directory as it is now; None where looking again tells nothing new. Bytes never change."""
    if isinstance(piece, LogPiece | JournalPiece):
        return None
    facts = DirectoryFacts.of(Path(piece.place.path))
    if not facts.is_live:
        return None
    wanted = _name(piece)
    return next((other for other in _Plan(facts).pieces() if _name(other) == wanted), None)


def _name(piece: Piece) -> tuple[str, str]:
    if isinstance(piece, UnitPiece):
        return "unit", piece.unit.data.name
    return type(piece).__name__, ""


class _Plan:
    def __init__(self, facts: DirectoryFacts) -> None:
        self._facts = facts
        self._declared = self._read_declared()

    def pieces(self) -> Iterator[Piece]:
        """The largest first, so that none is left for the end."""
        yield from sorted(self._logs(), key=_size, reverse=True)
        yield from self._units()
        yield from self._letters()
        if (book := self._facts.logs.get(BOOK)) is not None:
            yield StagingPiece(self._facts.place, book, self._targets())
        if not self._facts.is_live:
            by_number = {int(log.number): log for log in self._facts.logs.values()}
            yield JournalPiece(self._facts.place, by_number, 0)

    def _read_declared(self) -> Declared:
        log = self._facts.logs.get(CONFIGURATION_LOG)
        try:
            return Declared() if log is None else read_declared(self._facts.place.batches(log))
        except LogDamaged:
            return Declared()  # the check of its bytes tells

    def _logs(self) -> Iterator[LogPiece]:
        for log in self._facts.logs.values():
            for first, stop in _groups(log):
                yield LogPiece(self._facts.place, log, first, stop, self._facts.is_live)

    def _units(self) -> Iterator[UnitPiece]:
        for (namespace, name), queue in self._declared.queues.items():
            units = self._units_of(namespace, name)
            groups, messages = tuple(self._declared.groups_of(queue)), {n: unit.data for n, unit in units.items()}
            for unit in units.values():
                if unit.state is not None:
                    yield UnitPiece(self._facts.place, unit, groups, messages)

    def _letters(self) -> Iterator[LetterPiece]:
        origins: dict[int, Origin] = {}
        for (namespace, name), queue in self._declared.queues.items():
            groups = tuple(self._declared.groups_of(queue))
            origins[queue.incarnation] = Origin(queue, groups, self._units_of(namespace, name))
        letters = [log for log in self._facts.logs.values() if log.records and _has_letters(log)]
        if letters:
            yield LetterPiece(self._facts.place, tuple(letters), origins)

    def _targets(self) -> dict[tuple[str, str, int], Target]:
        return {
            (namespace, name, number): Target(unit.data, queue.created_ms)
            for (namespace, name), queue in self._declared.queues.items()
            for number, unit in self._units_of(namespace, name).items()
        }

    def _units_of(self, namespace: str, name: str) -> dict[int, UnitLogs]:
        queue = self._declared.queues[namespace, name]
        found = ((n, UnitLogs.of(self._facts, namespace, name, n)) for n in range(queue.partitions))
        return {number: unit for number, unit in found if unit is not None}


def _has_letters(log: LogFacts) -> bool:
    place = partition_of_log(log.name)
    return place is not None and is_dead_letter_queue(place[1])


def _groups(log: LogFacts) -> Iterator[tuple[int, int]]:
    """Neighbouring segments of about a piece's size; one piece of a log that has none."""
    first = size = 0
    for number, info in enumerate(log.segments):
        size += info.bytes
        if size >= _PIECE_BYTES:
            yield first, number + 1
            first, size = number + 1, 0
    if first < len(log.segments) or not log.segments:
        yield first, len(log.segments)


def _bundled(pieces: Iterable[Piece]) -> Iterator[Bundle]:
    bundle: list[Piece] = []
    size = 0
    for piece in pieces:
        bundle.append(piece)
        size += _size(piece) + _PIECE_COST_BYTES
        if size >= _PIECE_BYTES:
            yield tuple(bundle)
            bundle, size = [], 0
    if bundle:
        yield tuple(bundle)


def _size(piece: Piece) -> int:
    return piece.size_bytes


class OpenedMeanwhile(PenstockError):
    code = ErrorCode.DIRECTORY_IN_USE

    def __init__(self, directory: str) -> None:
        super().__init__(f"{directory} was opened by another process while it was audited: audit it again")
        self.directory = directory


def _report(facts: DirectoryFacts, pieces: list[Piece], done: list[Result]) -> AuditReport:
    if facts.has_changed():
        raise OpenedMeanwhile(facts.path)
    findings = [finding for result in done for finding in result.findings]
    findings += [_stopped(log) for log in facts.logs.values() if log.stopped]
    findings += _times_between(pieces, done)
    findings = list(map(_as_settlement, findings))
    checked = Checked()
    for result in done:
        checked = checked.plus(result.checked)
    more = max(0, len(findings) - MAX_FINDINGS)
    return AuditReport(facts.path, facts.state, checked, findings[:MAX_FINDINGS], more)


def _stopped(log: LogFacts) -> Finding:
    return Finding(Kind.STOPPED, log.name, "", log.end, log.stopped)


def _times_between(pieces: list[Piece], results: list[Result]) -> Iterator[Finding]:
    """Of neighbouring pieces of one log, the second must not begin before the first ends."""
    by_log: dict[str, list[tuple[LogPiece, LogResult]]] = {}
    for piece, result in zip(pieces, results, strict=True):
        if isinstance(piece, LogPiece) and isinstance(result, LogResult) and result.first_ms >= 0:
            by_log.setdefault(result.log, []).append((piece, result))
    for parts in by_log.values():
        for (_, before), (piece, after) in pairwise(sorted(parts, key=lambda part: part[0].first)):
            if after.first_ms < before.last_ms:
                reason = f"its time {after.first_ms} is before {before.last_ms}, that of the record before it"
                info = piece.segments[0]
                yield Finding(Kind.ORDER, piece.log.name, piece.log.path(info), info.base, reason)


def _as_settlement(finding: Finding) -> Finding:
    """What a state log lost is what groups did."""
    if finding.kind is not Kind.GAP or not finding.log.endswith(_STATE_SUFFIX):
        return finding
    reason = f"settlements are lost: {finding.reason}"
    return msgspec.structs.replace(finding, kind=Kind.SETTLEMENT, reason=reason)
