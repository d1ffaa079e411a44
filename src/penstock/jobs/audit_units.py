"""What groups and producers of a partition were recorded to have done, against the messages that are there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from penstock.core.errors import InvalidArgument, LogDamaged
from penstock.jobs.directory import LogFacts, Place
from penstock.jobs.findings import Checked, Finding, Kind
from penstock.jobs.unit_state import UnitFold, UnitLogs, UnitState
from penstock.log.reading.bounds import OFFSET_GAP
from penstock.queues.declared import GroupRecord
from penstock.queues.dedup import FORGOTTEN_AFTER_MS, Call
from penstock.queues.records import Kind as RecordKind
from penstock.queues.records import StateRecord, entries_of, ranges_of

# A group with millions of messages that wait is looked at as far as this.
_MAX_WAITING = 1_000_000


@dataclass(frozen=True, slots=True)
class UnitPiece:
    """A partition, its groups, and the messages of the whole queue, by partition."""

    place: Place
    unit: UnitLogs
    groups: tuple[GroupRecord, ...]
    messages: dict[int, LogFacts]

    @property
    def size_bytes(self) -> int:
        logs = self.unit.state, self.unit.snapshots
        return sum(log.size_bytes for log in logs if log is not None)


@dataclass(frozen=True, slots=True)
class UnitResult:
    findings: list[Finding]
    checked: Checked


def check_unit(piece: UnitPiece) -> UnitResult:
    """Findings where the state log lost something, or says what the messages contradict. A state log that cannot be
    read is told by the check of its bytes, and nothing is concluded from it here."""
    check = _UnitCheck(piece)
    try:
        state = check.run()
    except LogDamaged:
        return UnitResult(check.findings, Checked(groups=len(piece.groups)))
    except InvalidArgument as error:
        log = piece.unit.state
        reason = f"a record cannot be understood: {error}"
        finding = Finding(Kind.SETTLEMENT, "" if log is None else log.name, "", check.offset, reason)
        return UnitResult([*check.findings, finding], Checked(groups=len(piece.groups)))
    findings = [*check.findings, *_lost(piece, state), *_waiting(piece, state), *_calls(piece, state)]
    counts = Checked(groups=len(piece.groups), settlements=check.records, producer_calls=len(state.calls))
    return UnitResult(findings, counts)


class _UnitCheck(UnitFold):
    """Looks at every record before it is applied."""

    def __init__(self, piece: UnitPiece) -> None:
        super().__init__(piece.place, piece.unit, piece.groups)
        self.findings: list[Finding] = []
        self.records, self.offset = 0, -1
        self._data = piece.unit.data
        self._names = {group.number: str(group.key) for group in piece.groups}

    def seen(self, record: StateRecord, offset: int) -> None:
        self.records += 1
        self.offset = offset
        if record.kind is RecordKind.CALL or record.group not in self._names:
            return
        reached, words = self.state.cursors[record.group].window.next, record.words
        if record.kind is RecordKind.DELIVERED:
            # A fold begins where the log does: what was trimmed since was handed out below that.
            if words[0] < reached and reached > self._data.start and offset >= 0:
                self._found(record, f"has handed out up to {words[0]}, and before that up to {reached}")
            self._reaches(record, max([words[0], *[stop for _, stop in ranges_of(words, 1)]]))
        elif record.kind is RecordKind.PLACED:
            self._reaches(record, words[0])
        elif record.kind is RecordKind.SETTLED:
            self._settles(record, reached)
        else:
            self._reaches(record, max([entry.offset + 1 for entry in entries_of(record)], default=0))

    def _reaches(self, record: StateRecord, stop: int) -> None:
        if stop > self._data.end:
            self._found(record, f"names messages up to offset {stop}, and there are none from {self._data.end} on")

    def _settles(self, record: StateRecord, reached: int) -> None:
        stop = max([stop for _, stop in ranges_of(record.words)], default=0)
        if stop > reached:
            self._found(record, f"settles up to offset {stop} what was handed out up to {reached}")

    def _found(self, record: StateRecord, reason: str) -> None:
        log = self.unit.state if self.offset >= 0 else self.unit.snapshots
        name, file = ("", "") if log is None else (log.name, log.file_at(self.offset))
        text = f"group {self._names[record.group]!r} {reason}"
        self.findings.append(Finding(Kind.SETTLEMENT, name, file, self.offset, text))


def _lost(piece: UnitPiece, state: UnitState) -> Iterator[Finding]:
    """The state log must reach back to the snapshot, or to its own beginning where there is none."""
    log = piece.unit.state
    if log is None or log.start <= state.replay_from:
        return
    what = f"the newest whole snapshot ends at {state.replay_from}" if state.snapshot_ms else "there is no snapshot"
    reason = f"settlements are lost: the state log begins at offset {log.start}, and {what}"
    yield Finding(Kind.SETTLEMENT, log.name, log.file_at(log.start), log.start, reason)


def _waiting(piece: UnitPiece, state: UnitState) -> Iterator[Finding]:
    """What a group waits for must be there, unless it was trimmed, compacted away, or given up by a repair."""
    data = piece.unit.data
    if data.may_have_holes:
        return
    names = {group.number: str(group.key) for group in piece.groups}
    for number, cursor in state.cursors.items():
        for offset in cursor.window.offsets(-1, _MAX_WAITING):
            if data.start <= offset < data.end and _is_in_hole(data, offset):
                reason = f"group {names[number]!r} waits for offset {offset}, where there is no message"
                yield Finding(Kind.SETTLEMENT, data.name, data.file_at(offset), offset, reason)
                break


def _is_in_hole(data: LogFacts, offset: int) -> bool:
    """Between two segments, and not in offsets that were passed over on purpose."""
    if data.is_skipped(offset) or any(info.base <= offset < info.end for info in data.segments):
        return False
    after = min((info.base for info in data.segments if info.base > offset), default=data.end)
    before = max((info.end for info in data.segments if info.end <= offset), default=data.start)
    return (after - before) % OFFSET_GAP != 0


def _calls(piece: UnitPiece, state: UnitState) -> Iterator[Finding]:
    """A producer's calls must have gone to messages that are there, in the order of their sequences, each sequence
    once."""
    last: dict[bytes, tuple[Call, int]] = {}
    for call, time_ms in state.calls:
        yield from _placed(piece, call)
        known = last.get(call.producer)
        if known is not None and known[0] != call:
            yield from _following(piece, *known, call, time_ms)
        last[call.producer] = call, time_ms


def _placed(piece: UnitPiece, call: Call) -> Iterator[Finding]:
    for partition, base_offset, rows in call.placements:
        log = piece.messages.get(partition)
        if log is None or base_offset + rows > log.end:
            end = 0 if log is None else log.end
            reason = (
                f"sequences {call.base_sequence}..{call.end_sequence} of producer {_text(call)} went to offsets "
                f"{base_offset}..{base_offset + rows} of partition {partition}, which ends at {end}"
            )
            yield _finding(piece, Kind.PRODUCER, base_offset, reason)


def _following(piece: UnitPiece, before: Call, before_ms: int, call: Call, time_ms: int) -> Iterator[Finding]:
    if call.epoch != before.epoch or time_ms - before_ms >= FORGOTTEN_AFTER_MS:
        return
    if call.base_sequence < before.end_sequence:
        reason = (
            f"sequences {call.base_sequence}..{min(call.end_sequence, before.end_sequence)} of producer {_text(call)} "
            f"are stored twice"
        )
        yield _finding(piece, Kind.DUPLICATE, call.placements[0].base_offset, reason)
        return
    places = {placement.partition: placement for placement in before.placements}
    for partition, base_offset, _ in call.placements:
        earlier = places.get(partition)
        if earlier is not None and base_offset < earlier.base_offset + earlier.rows:
            reason = (
                f"sequence {call.base_sequence} of producer {_text(call)} lies before sequence {before.base_sequence} "
                f"in partition {partition}"
            )
            yield _finding(piece, Kind.ORDER, base_offset, reason)


def _finding(piece: UnitPiece, kind: Kind, offset: int, reason: str) -> Finding:
    data = piece.unit.data
    return Finding(kind, data.name, data.file_at(offset), offset, reason)


def _text(call: Call) -> str:
    return repr(call.producer.decode(errors="backslashreplace"))
