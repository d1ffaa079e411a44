"""A directory that nobody has open, folded in one thread: to look at it without a change, or to mend it and checkpoint
it."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

from penstock.core.clock import SystemClock
from penstock.core.errors import DirectoryInUse, JournalDamaged, LogDamaged
from penstock.core.metrics import ShardMetrics
from penstock.core.ports import Buffer, Disk
from penstock.core.types import Durability, Generation, LogName, LogNumber
from penstock.core.types import Sequence as FrameSequence
from penstock.log.catalogue import Catalogue, CatalogueChange, changes
from penstock.log.disk import DirectoryLock, RealDisk
from penstock.log.journal.frames import edit_entry
from penstock.log.journal.journal import DIRECTORY as JOURNAL_DIRECTORY
from penstock.log.journal.marks import Mark, newest_mark, write_marks
from penstock.log.journal.replay import JournalReader, entry_of
from penstock.log.journal.salvage import Salvage
from penstock.log.names import CATALOGUE_NAME, CATALOGUE_NUMBER, directory_of
from penstock.log.offline.check import journal_reader, known_checkpoint
from penstock.log.offline.damage import survey
from penstock.log.options import ShardOptions
from penstock.log.reading.bounds import OFFSET_GAP
from penstock.log.records import Declared, Edit, LogSettings, SegmentInfo
from penstock.log.segments.index import index_path, load_index
from penstock.log.segments.keeper import Keeper
from penstock.log.segments.segment_files import SegmentFiles
from penstock.log.segments.segments import segment_path
from penstock.log.segments.written import WrittenLog
from penstock.log.upkeep.checkpoint import Checkpoint, LogState
from penstock.log.upkeep.format_file import has_copies, write_format
from penstock.log.upkeep.recovery import (
    blank_state,
    copied_catalogue,
    cut_leftovers,
    declare_anew,
    emptied,
    read_catalogue,
)

# Logs that were created in frames now lost had numbers that must not be given again; one journal cannot hold so many.
NUMBER_GAP = 1 << 20


class UntouchedFiles(SegmentFiles):
    """Of a fold that only looks: what it would change on disk is left as it is."""

    def create(self, path: str) -> None:
        """Not made."""

    def write(self, path: str, position: int, buffers: Sequence[Buffer], size: int) -> None:
        """Not written."""

    def truncate(self, path: str, size: int) -> None:
        """Not cut."""

    def unlink(self, path: str) -> None:
        """Not removed."""

    def remove_directory(self, directory: str) -> None:
        """Not removed."""


@dataclass(slots=True)
class OfflineShard:
    """Checkpoint and journal, folded. What the fold holds of journal batches lies in mapped files."""

    disk: Disk
    checkpoint: Checkpoint
    keeper: Keeper
    catalogue: Catalogue
    reader: JournalReader
    journal_damage: JournalDamaged | None = None
    catalogue_damage: LogDamaged | None = None
    renamed: list[Declared] = field(default_factory=list)
    """logs whose record in the catalogue was lost: named after their directories, with the default settings"""
    nameless: list[LogNumber] = field(default_factory=list)
    """logs whose record was lost and that have no directory"""
    salvaged: list[str] = field(default_factory=list)
    """what came of frames that are lost, a line each"""

    def skip_offsets(self, logs: Iterable[WrittenLog]) -> None:
        """An offset never names two messages: the logs go on far behind their ends."""
        for log in list(logs):
            self.keeper.take(edit_entry(log.number, Edit(end=log.bounds.end + OFFSET_GAP)))

    def finish(self, next_sequence: FrameSequence) -> None:
        """Make the fold the state of the directory. OSError, with the directory as it was, if that cannot be made
        durable."""
        if self.catalogue_damage is not None:
            declare_anew(self.keeper, self.catalogue, SystemClock())
        self.keeper.taken_sequence = next_sequence
        if not self.keeper.write_checkpoint(clean=True):
            raise OSError(errno.EIO, "no checkpoint could be written; the directory is as it was")
        newest = newest_mark(self.disk)
        generation = max(self.reader.last_generation, newest.generation if newest is not None else Generation(0))
        write_marks(self.disk, Mark(0, generation, next_sequence, next_sequence))
        if has_copies(self.disk):
            write_format(self.disk)
        cut_leftovers(self.disk, self.keeper)
        self._drop_bad_indexes()
        self.keeper.close()

    def _drop_bad_indexes(self) -> None:
        """They are not synced, so a crash may have torn them; readers make new ones."""
        for log in self.keeper.logs.values():
            for segment in log.sealed:
                if load_index(self.disk, segment.path, segment.info) is None:
                    self.disk.unlink(index_path(segment.path))


def directory_lock(disk: Disk) -> AbstractContextManager[object]:
    """DirectoryInUse if a process has the directory open. A simulated disk has no other process."""
    return DirectoryLock.acquire(disk.root) if isinstance(disk, RealDisk) else nullcontext()


def refuse_if_held(disk: Disk) -> None:
    """As directory_lock(), without taking it: for those who write nothing."""
    if isinstance(disk, RealDisk) and (holder := DirectoryLock.holder(disk.root)) is not None:
        raise DirectoryInUse(str(disk.root), str(holder))


def fold(
    disk: Disk,
    files: SegmentFiles,
    prepare: Callable[[Keeper], None] = lambda keeper: None,
    without: frozenset[LogNumber] = frozenset(),
    *,
    go_on: bool = False,
) -> OfflineShard:
    """Checkpoint, then journal; damage of the catalogue or the journal is reported, not raised. `prepare` is called
    between the two; entries of the logs `without` are passed over. With `go_on` the frames behind damage in the journal
    are taken too. Nothing is flushed."""
    checkpoint = known_checkpoint(disk)
    shard = _restored(disk, files, checkpoint)
    prepare(shard.keeper)
    if go_on:
        shard.salvaged = _salvaged(shard)
        return shard
    try:
        for frame in shard.reader.frames():
            for log, kind, data in frame.entries:
                if log not in without:
                    shard.keeper.take(entry_of(log, kind, data))
            shard.keeper.taken_sequence = FrameSequence(frame.sequence + 1)
    except JournalDamaged as error:
        shard.journal_damage = error
    return shard


def _salvaged(shard: OfflineShard) -> list[str]:
    """Take every frame that is left; what was found elsewhere and what is lost."""
    salvage, reader, told = Salvage(shard.disk, shard.keeper), shard.reader, 0
    for frame in reader.surviving_frames():
        if len(reader.lost) > told:
            told = len(reader.lost)
            salvage.frames_lost()
        for entry in [entry_of(*row) for row in frame.entries]:
            if salvage.make_way(entry):
                shard.keeper.take(entry)
        shard.keeper.taken_sequence = FrameSequence(frame.sequence + 1)
    if len(reader.lost) > told:
        salvage.frames_lost()
    salvage.finish()
    return salvage.lines


def segment_files(disk: Disk, *, look_only: bool) -> SegmentFiles:
    kind = UntouchedFiles if look_only else SegmentFiles
    return kind(disk, ShardOptions().keeper.max_open_files, ShardMetrics())


def infos(state: LogState | None) -> list[SegmentInfo]:
    if state is None:
        return []
    return [*state.sealed, state.active] if state.active is not None else list(state.sealed)


def _restored(disk: Disk, files: SegmentFiles, checkpoint: Checkpoint) -> OfflineShard:
    clock, options, metrics = SystemClock(), ShardOptions(), ShardMetrics()
    states = {LogNumber(state.number): state for state in checkpoint.logs}
    catalogue, damage, lost = _catalogue(disk, checkpoint, states)
    catalogue.next_number = LogNumber(max(catalogue.next_number, checkpoint.next_log_number))
    version = 0
    if damage is not None:
        states[CATALOGUE_NUMBER], version = emptied(states.get(CATALOGUE_NUMBER) or blank_state(CATALOGUE_NUMBER))
    logs = {
        number: WrittenLog.restored(
            files, clock, LogName(record.name), record.settings, states.get(number) or blank_state(number)
        )
        for number, record in catalogue.declared.items()
    }
    logs[CATALOGUE_NUMBER].next_version = version
    first = FrameSequence(checkpoint.first_sequence)
    keeper = Keeper(disk, clock, options.keeper, metrics, files, checkpoint, logs, catalogue, first)
    if damage is not None:
        keeper.replace(logs[CATALOGUE_NUMBER])
    reader = journal_reader(disk, checkpoint)
    renamed = [catalogue.declared[number] for number in lost if number in catalogue.declared]
    nameless = [number for number in lost if number not in catalogue.declared]
    return OfflineShard(disk, checkpoint, keeper, catalogue, reader, None, damage, renamed, nameless)


def _catalogue(
    disk: Disk, checkpoint: Checkpoint, states: dict[LogNumber, LogState]
) -> tuple[Catalogue, LogDamaged | None, list[LogNumber]]:
    """The catalogue as it was at the checkpoint; if it is damaged, what its good batches, the checkpoint's list of logs
    and the names of their directories say, and which logs had no record left."""
    state = states.get(CATALOGUE_NUMBER)
    try:
        return read_catalogue(disk, state), None, []
    except LogDamaged as error:
        damage = error
    if (copy := copied_catalogue(checkpoint)) is not None:
        return copy, damage, []
    catalogue = Catalogue()
    for info in infos(state):
        path = segment_path(directory_of(CATALOGUE_NAME, CATALOGUE_NUMBER), info.base, info.version)
        for good in survey(disk, CATALOGUE_NUMBER, path, info).batches:
            for change in changes(good.data):
                catalogue.apply(change)
    for number in set(catalogue.declared) - set(states) - {CATALOGUE_NUMBER}:
        catalogue.apply(CatalogueChange(number, None))
    lost = sorted(set(states) - set(catalogue.declared))
    found = dict(_named_directories(disk, "logs"))
    for number in lost:
        if number in found:
            catalogue.apply(CatalogueChange(number, Declared(number, found[number], LogSettings())))
    return catalogue, damage, lost


def _named_directories(disk: Disk, path: str) -> list[tuple[LogNumber, str]]:
    """(number, name of the log) of every log's directory. A label that was too long for a directory stays shortened."""
    found: list[tuple[LogNumber, str]] = []
    for label in disk.list(path):
        name, at, number = label.rpartition("@")
        if not at:
            found += [(n, f"{_part(label)}/{rest}") for n, rest in _named_directories(disk, f"{path}/{label}")]
        elif number.isdigit():
            found.append((LogNumber(int(number)), _part(name)))
    return found


def _part(label: str) -> str:
    return "." + label[3:] if label.startswith("%2E") else label


def loses_offsets(log: WrittenLog) -> bool:
    """Whether an unclean stop may have cost the log records that were acknowledged."""
    return log.settings.durability is not Durability.COMMIT and not log.stopped


def empty_journal(disk: Disk) -> None:
    """Remove its files, which a checkpoint covers. The highest name first: a new file is named after how many there
    are."""
    for name in reversed(disk.list(JOURNAL_DIRECTORY)):
        disk.unlink(f"{JOURNAL_DIRECTORY}/{name}")
        disk.sync_directory(JOURNAL_DIRECTORY)
