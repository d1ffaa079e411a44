"""One damaged or stopped log: what of it is good, which part of that a way of mending keeps, and how it is written
anew."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Literal

import msgspec

from penstock.core.clock import SystemClock
from penstock.core.errors import LogDamaged
from penstock.core.ports import Disk
from penstock.log.journal.frames import Entry
from penstock.log.offline.damage import Damage, survey
from penstock.log.reading.bounds import OFFSET_GAP, Bounds
from penstock.log.records import Edit, EpochStart, SegmentInfo
from penstock.log.segments.segment_files import SegmentFiles
from penstock.log.segments.segments import ActiveSegment, written_version_after
from penstock.log.segments.written import WrittenLog
from penstock.log.upkeep.checkpoint import LogState

LogMethod = Literal["cut", "skip", "rebuild"]

_WRITE_BYTES = 8 << 20


@dataclass(frozen=True, slots=True)
class Stretch:
    """One segment as the fold has it: `batches` are its good ones, `pending` of them only in the journal yet."""

    path: str
    info: SegmentInfo
    batches: list[Entry]
    damages: list[Damage]
    pending: int
    sealed: bool
    in_file: bool

    @property
    def is_written_anew(self) -> bool:
        return bool(self.damages) or not self.sealed


@dataclass(frozen=True, slots=True)
class Revived:
    """A log that had been stopped, with what was kept aside of it put back into the fold."""

    reason: str
    aside: tuple[str, ...]
    damage: LogDamaged | None


@dataclass(slots=True)
class Mend:
    """What is to be done to one log. `left` says why it cannot be, in which case nothing is."""

    log: WrittenLog
    method: LogMethod
    damages: list[Damage]
    kept: list[Stretch]
    end: int
    revived: Revived | None = None
    dropped: list[Entry] = field(default_factory=list)
    """batches that are good and are left out, and lie in no file that is kept aside"""
    files_aside: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)

    @property
    def loses_records(self) -> bool:
        return self.method != "rebuild" and bool(self.damages or (self.revived and self.revived.damage))

    @property
    def bounds(self) -> Bounds:
        """Of the mended log. One that lost records goes on behind a gap, beyond every offset it ever gave away."""
        old = self.log.bounds
        bounds = Bounds(old.start, old.end, old.epochs)
        if self.loses_records:
            bounds.apply(Edit(end=self.end))
            for damage in self.damages if self.method == "skip" else ():
                bounds.epochs = with_hole(bounds.epochs, max(damage.first, old.start), damage.end)
            gaps = 1 + (old.end - self.end) // OFFSET_GAP
            bounds.apply(Edit(end=self.end + gaps * OFFSET_GAP))
        return bounds

    def findings(self) -> list[str]:
        lines = [f"log {self.log.name}: {damage}" for damage in self.damages]
        if self.revived is not None:
            lines.append(f"log {self.log.name}: it was stopped ({self.revived.reason})")
            if self.revived.damage is not None:
                lines.append(f"log {self.log.name}: what was kept aside is damaged: {self.revived.damage.reason}")
        return lines

    def actions(self) -> list[str]:
        if self.left:
            return []
        name, lines = self.log.name, [f"keep {path} aside" for path in self.files_aside]
        if self.revived is not None:
            lines.append(f"log {name}: put back what was kept aside of it and take records again")
        lines += [f"log {name}: {self._said(damage)}" for damage in self.damages]
        if self.loses_records:
            lines.append(f"log {name}: go on at offset {self.bounds.end}, so that no offset names two messages")
        return lines

    def _said(self, damage: Damage) -> str:
        offsets = f"offsets {damage.first}..{damage.end}"
        if damage.end <= self.log.bounds.start:
            return f"leave out {offsets}, which are below its start"
        if self.method == "rebuild":
            return f"write {offsets} anew from the journal"
        if self.method == "skip":
            return f"take out {offsets} and keep the rest"
        return f"end at offset {self.end}, {self.log.bounds.end - self.end} offsets behind it are dropped"


def with_hole(epochs: list[EpochStart], first: int, end: int) -> list[EpochStart]:
    """The epoch table of a log whose records first..end were lost: that is a gap like any other."""
    if first >= end:
        return epochs
    before = [epoch for epoch in epochs if epoch.start <= first]
    inside = [epoch for epoch in epochs if first < epoch.start <= end]
    after = [epoch for epoch in epochs if epoch.start > end]
    return [*before, EpochStart((before + inside)[-1].epoch, end, first), *after]


def stretches_of(disk: Disk, log: WrittenLog) -> list[Stretch]:
    """Its segments, every batch of their files checked."""
    found: list[Stretch] = []
    for segment in log.sealed:
        seen = survey(disk, log.number, segment.path, segment.info)
        found.append(Stretch(segment.path, segment.info, seen.batches, seen.damages, 0, sealed=True, in_file=True))
    unsealed = [*log.full, log.active] if log.active is not None else log.full
    return found + [_unsealed(disk, log, segment) for segment in unsealed]


def _unsealed(disk: Disk, log: WrittenLog, segment: ActiveSegment) -> Stretch:
    info, pending = segment.info(), list(segment.pending)
    if not segment.exists or not segment.written_bytes:
        return Stretch(segment.path, info, pending, [], len(pending), sealed=False, in_file=False)
    end = pending[0].first if pending else info.end
    in_file = msgspec.structs.replace(info, end=end, bytes=segment.written_bytes)
    seen = survey(disk, log.number, segment.path, in_file)
    return Stretch(
        segment.path, info, [*seen.batches, *pending], seen.damages, len(pending), sealed=False, in_file=True
    )


def plan_mend(
    log: WrittenLog, stretches: list[Stretch], method: LogMethod, revived: Revived | None, journal: Iterable[Entry]
) -> Mend | None:
    """None for a log that needs nothing. `journal` holds the batches of the log that may fill what is missing."""
    damages = [damage for stretch in stretches for damage in stretch.damages]
    if not damages and revived is None:
        return None
    mend = Mend(log, method, damages, stretches, log.bounds.end, revived)
    mend.files_aside = [damage.path for damage in damages if damage.reason != "the file is missing"]
    if revived is not None and revived.damage is not None:
        missing = revived.damage.file if revived.damage.reason == "the file is missing" else ""
        mend.files_aside += [path for path in revived.aside if path != missing]
    if method == "cut":
        _cut(mend, stretches)
    elif method == "rebuild":
        _fill(mend, {entry.first: entry for entry in journal})
    mend.files_aside = list(dict.fromkeys(mend.files_aside))
    return mend


def _cut(mend: Mend, stretches: list[Stretch]) -> None:
    start = mend.log.bounds.start
    at = next((i for i, stretch in enumerate(stretches) if any(d.end > start for d in stretch.damages)), None)
    if at is None:
        return
    broken = stretches[at]
    cut = next(damage.first for damage in broken.damages if damage.end > start)
    mend.end = max(cut, start)
    head = replace(
        broken,
        info=msgspec.structs.replace(broken.info, end=cut),
        batches=[batch for batch in broken.batches if batch.end <= cut],
        pending=0,
        sealed=False,
    )
    mend.kept = [*stretches[:at], head]
    for stretch in stretches[at:]:
        mend.dropped += stretch.batches[len(stretch.batches) - stretch.pending :]
        if stretch.in_file and not stretch.damages:
            mend.files_aside.append(stretch.path)


def _fill(mend: Mend, journal: dict[int, Entry]) -> None:
    if mend.revived is not None and mend.revived.damage is not None:
        mend.left.append(f"log {mend.log.name}: not all that was kept aside can be read; cut or skip keeps what can")
    mend.kept = [_filled(mend, stretch, journal) if stretch.damages else stretch for stretch in mend.kept]


def _filled(mend: Mend, stretch: Stretch, journal: dict[int, Entry]) -> Stretch:
    batches = list(stretch.batches)
    for damage in stretch.damages:
        if damage.end <= mend.log.bounds.start:
            continue
        offset = damage.first
        while offset < damage.end and (entry := journal.get(offset)) is not None and entry.end <= damage.end:
            batches.append(entry)
            offset = entry.end
        if offset < damage.end:
            mend.left.append(
                f"log {mend.log.name}: offsets {offset}..{damage.end} are no longer in the journal; "
                f"cut or skip mends without them"
            )
    return replace(stretch, batches=sorted(batches, key=lambda entry: entry.first))


def write_anew(mend: Mend, files: SegmentFiles) -> WrittenLog:
    """The mended log. Its new files are synced; they count once a checkpoint names them."""
    log, clock, bounds = mend.log, SystemClock(), mend.bounds
    version = written_version_after(max([log.next_version, *(stretch.info.version for stretch in mend.kept)]))
    sealed = [
        _written(stretch, log.directory, version, files) if stretch.is_written_anew else stretch.info
        for stretch in mend.kept
        if stretch.batches or not stretch.is_written_anew
    ]
    state = LogState(log.number, bounds.start, bounds.end, tuple(bounds.epochs), tuple(sealed))
    return WrittenLog.restored(files, clock, log.name, log.settings, state)


def _written(stretch: Stretch, directory: str, version: int, files: SegmentFiles) -> SegmentInfo:
    segment = ActiveSegment(directory, stretch.info.base, version, stretch.info.base, 0.0)
    files.unlink(segment.path)  # what a repair that was interrupted left
    files.create(segment.path)
    for batch in stretch.batches:
        segment.append(batch)
        if segment.pending_bytes >= _WRITE_BYTES:
            _write(segment, files)
    _write(segment, files)
    files.sync(segment.path)
    return msgspec.structs.replace(segment.info(), end=stretch.info.end)


def _write(segment: ActiveSegment, files: SegmentFiles) -> None:
    files.write(segment.path, segment.written_bytes, segment.pending_data, segment.pending_bytes)
    segment.written()
