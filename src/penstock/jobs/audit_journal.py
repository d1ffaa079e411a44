"""The journal of a directory that nobody has open: its frames, and the records that logs should have from them."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from struct import Struct

from penstock.core.errors import LogDamaged
from penstock.jobs.directory import LogFacts, Place
from penstock.jobs.findings import Checked, Finding, Kind
from penstock.log.batch import read_header
from penstock.log.disk import RealDisk
from penstock.log.header import CRC_AT
from penstock.log.journal.frames import Entry
from penstock.log.journal.replay import entry_of
from penstock.log.offline.damage import readable_frames
from penstock.log.offline.inspect import FoldedDirectory
from penstock.log.records import Edit

_CRC = Struct("<I")


@dataclass(frozen=True, slots=True)
class JournalPiece:
    """`logs` are those that must have what the journal has, by number."""

    place: Place
    logs: dict[int, LogFacts]
    size_bytes: int


@dataclass(frozen=True, slots=True)
class JournalResult:
    findings: list[Finding]
    checked: Checked


def check_journal(piece: JournalPiece) -> JournalResult:
    """Frames stay in the journal's files for a while after they were written to segments: what they hold must be in
    its log, unless it was trimmed, cut or given up by a repair since."""
    opened = piece.place.opened()
    assert isinstance(opened, FoldedDirectory)
    findings = [Finding(Kind.JOURNAL, "", "journal", -1, problem) for problem in opened.journal.problems]
    findings += [Finding(Kind.COPY, "", fault.file, -1, fault.reason) for fault in opened.faults]
    seen: dict[int, _Seen] = {}
    frames = 0
    for frame in readable_frames(RealDisk(Path(piece.place.path))):
        frames += 1
        for number, kind, data in frame.entries:
            if number in piece.logs:
                seen.setdefault(number, _Seen()).take(entry_of(number, kind, data))
    for number, entries in seen.items():
        log = piece.logs[number]
        if not log.may_have_holes and not log.stopped:
            findings += _lacking(piece.place, log, entries)
    return JournalResult(findings, Checked(journal_frames=frames))


@dataclass(slots=True)
class _Seen:
    """Batches that frames brought to a log, less those that later edits took away."""

    firsts: array[int] = field(default_factory=lambda: array("q"))
    ends: array[int] = field(default_factory=lambda: array("q"))
    crcs: array[int] = field(default_factory=lambda: array("I"))

    def take(self, entry: Entry) -> None:
        edit = entry.edit
        if isinstance(edit, Edit):
            while edit.end is not None and self.ends and self.ends[-1] > edit.end:
                for column in (self.firsts, self.ends, self.crcs):
                    column.pop()
            return
        self.firsts.append(entry.first)
        self.ends.append(entry.end)
        self.crcs.append(_CRC.unpack_from(entry.data, CRC_AT)[0])


def _lacking(place: Place, log: LogFacts, seen: _Seen) -> Iterator[Finding]:
    """Batches in the middle that are gone leave a gap, which the check of the log tells; here it is the end, and what
    was put in place of others."""
    behind = [at for at, end in enumerate(seen.ends) if end > log.end and not log.is_skipped(seen.firsts[at])]
    if behind:
        first, end = seen.firsts[behind[0]], seen.ends[behind[-1]]
        reason = f"the journal brought offsets {first}..{end}, and the log ends at {log.end}"
        yield Finding(Kind.GAP, log.name, log.file_at(log.end - 1), log.end, reason)
    crcs = dict(zip(seen.firsts, seen.crcs, strict=True))
    with suppress(LogDamaged):  # told by the check of the log
        for data in place.batches(log, max(log.start, seen.firsts[0])) if seen.firsts else ():
            offset = read_header(data).base_offset
            if crcs.get(offset, crc := _CRC.unpack_from(data, CRC_AT)[0]) != crc:
                reason = f"the batch at offset {offset} is another one than the journal brought there"
                yield Finding(Kind.BOOKS, log.name, log.file_at(offset), offset, reason)
