"""Dead letters against the messages they were made from, and against the settlements that moved them."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field

from penstock.core.errors import InvalidArgument, LogDamaged
from penstock.jobs.directory import LogFacts, Place
from penstock.jobs.findings import Checked, Finding, Kind
from penstock.jobs.unit_state import UnitFold, UnitLogs, UnitState
from penstock.log.batch import Batch
from penstock.queues.deadletter import DeadLetter, from_properties
from penstock.queues.declared import GroupRecord, QueueRecord


@dataclass(frozen=True, slots=True)
class Origin:
    """A queue that letters may have come from."""

    queue: QueueRecord
    groups: tuple[GroupRecord, ...]
    units: dict[int, UnitLogs]


@dataclass(frozen=True, slots=True)
class LetterPiece:
    place: Place
    logs: tuple[LogFacts, ...]
    origins: dict[int, Origin]
    """by incarnation; letters of queues that were deleted since have none"""

    @property
    def size_bytes(self) -> int:
        return sum(log.size_bytes for log in self.logs)


@dataclass(frozen=True, slots=True)
class LetterResult:
    findings: list[Finding]
    checked: Checked


def check_letters(piece: LetterPiece) -> LetterResult:
    """What cannot be read is told by the check of the bytes."""
    check = _LetterCheck(piece)
    for log in piece.logs:
        with suppress(LogDamaged):
            check.run(log)
    return LetterResult(check.findings, Checked(dead_letters=check.letters))


@dataclass(slots=True)
class _LetterCheck:
    piece: LetterPiece
    findings: list[Finding] = field(default_factory=list)
    letters: int = 0
    _states: dict[tuple[int, int], UnitState | None] = field(default_factory=dict)

    def run(self, log: LogFacts) -> None:
        for data in self.piece.place.batches(log):
            for row in Batch.parse(data, verify=False):
                facts = from_properties(row.properties or b"")
                if facts is not None:
                    self.letters += 1
                    self._letter(log, row.offset, facts)

    def _letter(self, log: LogFacts, offset: int, letter: DeadLetter) -> None:
        source = letter.source
        if (origin := self.piece.origins.get(source.incarnation)) is None:
            return
        unit = origin.units.get(source.partition)
        if unit is None or source.offset >= unit.data.end:
            end = 0 if unit is None else unit.data.end
            self._found(Kind.DEAD_LETTER, log, offset, f"it was made from {source}, and that partition ends at {end}")
        elif self._is_unsettled(origin, unit, letter):
            reason = f"group {str(letter.group)!r} moved {source} here, and its settlement of that is lost"
            self._found(Kind.SETTLEMENT, log, offset, reason)

    def _is_unsettled(self, origin: Origin, unit: UnitLogs, letter: DeadLetter) -> bool:
        """Whether the group still has the message, which it settled in the frame that moved it. A group that was
        declared or moved since begins anew; what a snapshot has taken in cannot be told from that."""
        group = next((each for each in origin.groups if each.key == letter.group), None)
        if group is None or group.created_ms > letter.moved_ms or letter.source.offset < unit.data.start:
            return False
        state = self._state(origin, unit)
        if state is None or state.snapshot_ms >= letter.moved_ms:
            return False
        if state.placed_ms.get(group.number, -1) >= letter.moved_ms:
            return False
        return not state.is_settled(group.number, letter.source.offset)

    def _state(self, origin: Origin, unit: UnitLogs) -> UnitState | None:
        """None where it cannot be read, which is told elsewhere."""
        key = origin.queue.incarnation, unit.partition
        if key not in self._states:
            try:
                self._states[key] = UnitFold(self.piece.place, unit, origin.groups).run()
            except (LogDamaged, InvalidArgument):
                self._states[key] = None
        return self._states[key]

    def _found(self, kind: Kind, log: LogFacts, offset: int, reason: str) -> None:
        self.findings.append(Finding(kind, log.name, log.file_at(offset), offset, reason))
