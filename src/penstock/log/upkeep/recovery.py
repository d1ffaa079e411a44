"""Opening a data directory: checkpoint, then journal. Segments are trusted up to the checkpoint and rewritten behind
it."""

from __future__ import annotations

import errno
import logging
from collections.abc import Iterable
from dataclasses import dataclass, replace

import msgspec

from penstock.core.errors import JournalDamaged, LogDamaged, PenstockError
from penstock.core.metrics import ShardMetrics
from penstock.core.ports import Clock, Disk
from penstock.core.types import Compression, LogName, LogNumber, Sequence
from penstock.log import batch as batches
from penstock.log.catalogue import Catalogue, CatalogueChange, changes, declared_columns
from penstock.log.journal.frames import Entry, edit_entry
from penstock.log.journal.journal import Journal
from penstock.log.journal.marks import newest_mark
from penstock.log.journal.replay import JournalReader, entry_of
from penstock.log.names import CATALOGUE_NAME, CATALOGUE_NUMBER, directory_of
from penstock.log.offline.check import journal_reader, known_checkpoint, small_file_faults
from penstock.log.options import ShardOptions
from penstock.log.reading.bounds import OFFSET_GAP
from penstock.log.reading.table import retire_table
from penstock.log.records import Declared, Edit, EpochStart, SegmentInfo
from penstock.log.segments.aside import DIRECTORY as ASIDE_DIRECTORY
from penstock.log.segments.aside import files_of_nobody
from penstock.log.segments.index import index_path, places
from penstock.log.segments.keeper import Keeper
from penstock.log.segments.segment_files import SegmentFiles
from penstock.log.segments.segments import segment_path
from penstock.log.segments.written import WrittenLog
from penstock.log.upkeep.checkpoint import Checkpoint, LogState, write_checkpoint
from penstock.log.upkeep.format_file import ensure_format, upgrade

logger = logging.getLogger("penstock.log.recovery")

# A file that has to be written anew puts the checkpoint off; a second try finds it mended.
_CHECKPOINT_TRIES = 3


@dataclass(slots=True)
class Recovered:
    """An opened directory, before its threads run."""

    keeper: Keeper
    journal: Journal
    catalogue: Catalogue
    faults: dict[LogNumber, PenstockError]
    options: ShardOptions
    """as they were asked for, with frames that hold what is stored"""
    unclean: bool
    replayed_frames: int
    torn_bytes: int


def recover(disk: Disk, clock: Clock, options: ShardOptions, metrics: ShardMetrics) -> Recovered:
    """Open for writing. The caller holds the directory's lock. Journal files that are read here are never written
    on."""
    begun = clock.monotonic()
    found = ensure_format(disk)
    disk.watch()
    retire_table(disk)
    mended = small_file_faults(disk)
    checkpoint = known_checkpoint(disk)
    # A process that was killed may have left it renamed, but not durably; what it no longer names goes from here on.
    disk.sync_directory("")
    files = SegmentFiles(disk, options.keeper.max_open_files, metrics, options.keeper.sync_together_files)
    keeper, catalogue, damage = restore_keeper(disk, clock, options, metrics, files, checkpoint)
    reader = journal_reader(disk, checkpoint)
    if not checkpoint.clean:
        reader.sync_files()
    if checkpoint.first_sequence and not checkpoint.clean and not reader.slots:
        raise JournalDamaged(reader.first, reader.first, "the files of the journal are missing")
    was_stopped = {log.number: log.stopped for log in keeper.logs.values() if log.stopped}
    put_back = keeper.put_back_aside()
    for log in put_back:
        logger.warning("putting back what was kept aside log=%s reason=%s", log.name, was_stopped[log.number])
    replayed = replay(reader, keeper)
    if damage is not None:
        declare_anew(keeper, catalogue, clock)
    keeper.flush_all()
    if keeper.has_unwritten:
        raise OSError(errno.ENOSPC, "no room to write what the journal holds to the segments: free some space first")
    faults = check_files(disk, keeper.logs.values())
    cut_leftovers(disk, keeper)
    keeper.checkpoint = msgspec.structs.replace(
        keeper.checkpoint,
        start_number=checkpoint.start_number + 1,
        clean=False,
        serial=checkpoint.serial + 1,
    )
    options = _holding(options, keeper.largest_commit)
    # Before the checkpoint: whatever a directory with one has taken, its marks are there.
    journal = _new_journal(disk, clock, options, metrics, reader, keeper)
    write_checkpoint(disk, keeper.checkpoint)
    upgrade(disk, found)
    for fault in mended:
        logger.warning("damaged file written anew file=%s reason=%s", fault.file, fault.reason)
    if damage is not None:
        logger.error("catalogue written anew from the checkpoint file=%s reason=%s", damage.file, damage.reason)
    if put_back or damage is not None:
        _keep_what_was_put_back(keeper)
    metrics.replayed_frames, metrics.replay_ns = replayed, int((clock.monotonic() - begun) * 1e9)
    stopped = [log for log in keeper.logs.values() if log.stopped]
    metrics.logs_stopped = len(stopped)
    _report(reader, replayed, faults, stopped)
    own_catalogue = Catalogue(dict(catalogue.declared), dict(catalogue.numbers), catalogue.next_number)
    unclean = not checkpoint.clean
    return Recovered(keeper, journal, own_catalogue, faults, options, unclean, replayed, reader.torn_bytes)


def _holding(options: ShardOptions, commit_bytes: int) -> ShardOptions:
    journal = options.journal.holding(commit_bytes)
    if journal == options.journal:
        return options
    logger.warning(
        "journal_file_size is too small for messages that are stored, larger files are used "
        "journal_file_size=%d used=%d max_frame=%d",
        options.journal.file_bytes,
        journal.file_bytes,
        journal.max_frame_bytes,
    )
    return replace(options, journal=journal)


def restore_keeper(
    disk: Disk, clock: Clock, options: ShardOptions, metrics: ShardMetrics, files: SegmentFiles, checkpoint: Checkpoint
) -> tuple[Keeper, Catalogue, LogDamaged | None]:
    """Every log as the checkpoint has it, and what was wrong with the catalogue, if the checkpoint had to stand in for
    it. LogDamaged if it cannot."""
    states = {LogNumber(state.number): state for state in checkpoint.logs}
    damage: LogDamaged | None = None
    version = 0
    try:
        catalogue = read_catalogue(disk, states.get(CATALOGUE_NUMBER))
    except LogDamaged as error:
        if (copy := copied_catalogue(checkpoint)) is None:
            raise
        catalogue, damage = copy, error
        states[CATALOGUE_NUMBER], version = emptied(states[CATALOGUE_NUMBER])
    catalogue.next_number = LogNumber(max(catalogue.next_number, checkpoint.next_log_number))
    logs = {
        number: WrittenLog.restored(
            files, clock, LogName(declared.name), declared.settings, states.get(number) or blank_state(number)
        )
        for number, declared in catalogue.declared.items()
    }
    logs[CATALOGUE_NUMBER].next_version = version
    first, named = Sequence(checkpoint.first_sequence), _named(checkpoint, catalogue)
    keeper = Keeper(disk, clock, options.keeper, metrics, files, named, logs, catalogue, first)
    if damage is not None:
        keeper.replace(logs[CATALOGUE_NUMBER])
    return keeper, catalogue, damage


def copied_catalogue(checkpoint: Checkpoint) -> Catalogue | None:
    """The catalogue by the names and settings that the checkpoint has of every log; None if it lacks some."""
    catalogue = Catalogue()
    for state in checkpoint.logs:
        if state.settings is None:
            return None
        number = LogNumber(state.number)
        catalogue.apply(CatalogueChange(number, Declared(state.number, state.name, state.settings)))
    return catalogue


def emptied(catalogue: LogState) -> tuple[LogState, int]:
    """The catalogue without the records of its damaged files, and the version of the files that will replace them."""
    infos = [*catalogue.sealed, *([catalogue.active] if catalogue.active is not None else [])]
    version = 1 + max((info.version for info in infos), default=0)
    return msgspec.structs.replace(catalogue, start=catalogue.end, sealed=(), active=None), version


def declare_anew(keeper: Keeper, catalogue: Catalogue, clock: Clock) -> None:
    """The new catalogue begins behind a gap with a record for every log there is."""
    records = [record for number, record in catalogue.declared.items() if number != CATALOGUE_NUMBER]
    log = keeper.logs[CATALOGUE_NUMBER]
    keeper.take(edit_entry(CATALOGUE_NUMBER, Edit(end=log.bounds.end + OFFSET_GAP)))
    if not records:
        return
    first, count, now = log.bounds.end, len(records), clock.now_ms()
    batch = batches.encode(declared_columns(records), Compression.NONE)
    batches.seal(batch, first, log.bounds.epoch, max(now, log.last_timestamp))
    keeper.take(Entry(CATALOGUE_NUMBER, batch, None, first, first + count, count, now, now))


def _named(checkpoint: Checkpoint, catalogue: Catalogue) -> Checkpoint:
    """What an older format left out of it."""
    if all(state.settings is not None for state in checkpoint.logs):
        return checkpoint
    declared = catalogue.declared
    states = [
        msgspec.structs.replace(state, name=known.name, settings=known.settings)
        if (known := declared.get(LogNumber(state.number))) is not None
        else state
        for state in checkpoint.logs
    ]
    return msgspec.structs.replace(checkpoint, logs=tuple(states))


def blank_state(number: LogNumber) -> LogState:
    return LogState(number, 0, 0, (EpochStart(0, 0, 0),))


def read_catalogue(disk: Disk, state: LogState | None) -> Catalogue:
    """The catalogue as far as it is checkpointed."""
    catalogue = Catalogue()
    segments = [*state.sealed, *([state.active] if state.active is not None else [])] if state is not None else []
    for info in segments:
        path = segment_path(directory_of(CATALOGUE_NAME, CATALOGUE_NUMBER), info.base, info.version)
        _fold_catalogue(disk, path, info, catalogue)
    return catalogue


def replay(reader: JournalReader, keeper: Keeper) -> int:
    """Fold the journal; how many frames there were."""
    count = 0
    for frame in reader.frames():
        for log, kind, data in frame.entries:
            keeper.largest_commit = max(keeper.largest_commit, len(data))
            keeper.take(entry_of(log, kind, data))
        keeper.taken_sequence = Sequence(frame.sequence + 1)
        count += 1
    return count


def _keep_what_was_put_back(keeper: Keeper) -> None:
    """Once a checkpoint names it, it needs no file aside; if none can be written, those stay, and it is tried again
    with the next one."""
    for _ in range(_CHECKPOINT_TRIES):
        if keeper.write_checkpoint():
            return


def check_files(disk: Disk, logs: Iterable[WrittenLog]) -> dict[LogNumber, PenstockError]:
    """Logs whose files are missing or shorter than the checkpoint and the journal say."""
    faults: dict[LogNumber, PenstockError] = {}
    for number, damage in short_files(disk, logs).items():
        faults[number] = damage
        logger.error("log damaged log=%s file=%s bytes=%d %s", damage.log, damage.file, damage.position, damage.reason)
    return faults


def short_files(disk: Disk, logs: Iterable[WrittenLog]) -> dict[LogNumber, LogDamaged]:
    """The first file of each log that has not all the bytes that were written to it."""
    found: dict[LogNumber, LogDamaged] = {}
    for log in logs:
        if log.stopped:
            continue  # what is kept aside of it may have taken files away
        for path, written_bytes in log.written_files():
            size = _size(disk, path)
            if size < written_bytes:
                found[log.number] = LogDamaged(log.name, path, size, f"it should have {written_bytes} bytes")
                break
    return found


def cut_leftovers(disk: Disk, keeper: Keeper) -> None:
    """What a crash left beyond the recovered end of a log, and files no log knows."""
    for path in files_of_nobody(disk, keeper.logs.values()):
        disk.unlink(path)
        keeper.files.directory_changed(ASIDE_DIRECTORY)
    for log in keeper.logs.values():
        if log.stopped:
            continue  # what is kept aside of it may name files: they are for its repair
        known = {*log.paths(), *log.outlived}
        known |= {index_path(segment.path) for segment in log.sealed}
        for name in disk.list(log.directory):
            if name.endswith((".seg", ".idx")) and f"{log.directory}/{name}" not in known:
                disk.unlink(f"{log.directory}/{name}")
                keeper.files.directory_changed(log.directory)
        active = log.active
        if active is not None and active.exists and _size(disk, active.path) > active.written_bytes:
            keeper.files.truncate(active.path, active.written_bytes)


def _fold_catalogue(disk: Disk, path: str, info: SegmentInfo, catalogue: Catalogue) -> None:
    try:
        file = disk.open_read(path)
    except FileNotFoundError:
        raise LogDamaged(CATALOGUE_NAME, path, 0, "the file is missing") from None
    data = file.map()[: info.bytes]
    file.close()
    position = 0
    try:
        for place in places(data, 0, len(data)):
            position = place.position + place.bytes
            for change in changes(data[place.position : position]):
                catalogue.apply(change)
    except PenstockError as error:
        raise LogDamaged(CATALOGUE_NAME, path, position, str(error)) from error
    if position != info.bytes:
        raise LogDamaged(CATALOGUE_NAME, path, position, "the batches end before the checkpoint")


def _new_journal(
    disk: Disk, clock: Clock, options: ShardOptions, metrics: ShardMetrics, reader: JournalReader, keeper: Keeper
) -> Journal:
    mark = newest_mark(disk)
    journal = Journal(
        disk,
        clock,
        options.journal,
        metrics,
        last_generation=max(reader.last_generation, mark.generation if mark is not None else reader.last_generation),
        next_sequence=reader.end,
        used=reader.used,
        free=reader.free,
        slots=reader.slots,
    )
    keeper.taken_sequence = reader.end
    keeper.journal = journal
    journal.make_space = keeper.make_space
    journal.open()
    return journal


def _size(disk: Disk, path: str) -> int:
    try:
        file = disk.open_read(path)
    except FileNotFoundError:
        return 0
    try:
        return file.size()
    finally:
        file.close()


def _report(
    reader: JournalReader, replayed: int, faults: dict[LogNumber, PenstockError], stopped: list[WrittenLog]
) -> None:
    if reader.torn_bytes:
        logger.warning("torn journal tail cut sequence=%d bytes=%d", reader.end, reader.torn_bytes)
    logger.info(
        "directory opened replayed_frames=%d next_sequence=%d damaged_logs=%d stopped_logs=%d",
        replayed,
        reader.end,
        len(faults),
        len(stopped),
    )
    for log in stopped:
        logger.error("log stays stopped log=%s reason=%s", log.name, log.stopped)
