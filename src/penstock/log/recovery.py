"""Opening a data directory: checkpoint, then journal. Segments are trusted up to the checkpoint and rewritten behind
it."""

from __future__ import annotations

import errno
import logging
from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from penstock.core.errors import DirectoryFormat, JournalDamaged, LogDamaged, PenstockError
from penstock.core.metrics import ShardMetrics
from penstock.core.ports import Clock, Disk
from penstock.core.types import FilePosition, LogName, LogNumber, Sequence
from penstock.log.catalogue import Catalogue, changes
from penstock.log.checkpoint import Checkpoint, LogState, read_checkpoint, write_checkpoint
from penstock.log.index import index_path, places
from penstock.log.journal import DIRECTORY as JOURNAL_DIRECTORY
from penstock.log.journal import Journal, decode_slot_header
from penstock.log.keeper import Keeper
from penstock.log.names import CATALOGUE_NAME, CATALOGUE_NUMBER, directory_of
from penstock.log.options import ShardOptions
from penstock.log.records import EpochStart, SegmentInfo
from penstock.log.replay import JournalReader, entry_of
from penstock.log.segment_files import SegmentFiles
from penstock.log.segments import segment_path
from penstock.log.table import retire_table
from penstock.log.written import WrittenLog
from penstock.version import VERSION

logger = logging.getLogger("penstock.log.recovery")

FORMAT_PATH = "format"
FORMAT_VERSION = 1
_OTHERS_THINGS = {"lock", "lost+found"}


class DirectoryFormatFile(msgspec.Struct, frozen=True):
    format: int
    created_by: str


@dataclass(slots=True)
class Recovered:
    """An opened directory, before its threads run."""

    keeper: Keeper
    journal: Journal
    catalogue: Catalogue
    faults: dict[LogNumber, PenstockError]
    unclean: bool
    replayed_frames: int
    torn_bytes: int


def recover(disk: Disk, clock: Clock, options: ShardOptions, metrics: ShardMetrics) -> Recovered:
    """Open for writing. The caller holds the directory's lock. Journal files that are read here are never written
    on."""
    begun = clock.monotonic()
    ensure_format(disk)
    disk.watch()
    retire_table(disk)
    checkpoint = read_checkpoint(disk) or _first_checkpoint(disk)
    # A process that was killed may have left it renamed, but not durably; what it no longer names goes from here on.
    disk.sync_directory("")
    files = SegmentFiles(disk, options.keeper.max_open_files, metrics, options.keeper.sync_together_files)
    keeper, catalogue = restore_keeper(disk, clock, options, metrics, files, checkpoint)
    reader = JournalReader(disk, Sequence(checkpoint.first_sequence), Sequence(checkpoint.known_durable))
    if not checkpoint.clean:
        reader.sync_files()
    if checkpoint.first_sequence and not checkpoint.clean and not reader.slots:
        raise JournalDamaged(reader.first, reader.first, "the files of the journal are missing")
    replayed = replay(reader, keeper)
    keeper.flush_all()
    if keeper.has_unwritten:
        raise OSError(errno.ENOSPC, "no room to write what the journal holds to the segments: free some space first")
    faults = check_files(disk, keeper.logs.values())
    cut_leftovers(disk, keeper)
    keeper.checkpoint = msgspec.structs.replace(checkpoint, start_number=checkpoint.start_number + 1, clean=False)
    write_checkpoint(disk, keeper.checkpoint)
    journal = _new_journal(disk, clock, options, metrics, reader, keeper)
    metrics.replayed_frames, metrics.replay_ns = replayed, int((clock.monotonic() - begun) * 1e9)
    _report(reader, replayed, faults)
    own_catalogue = Catalogue(dict(catalogue.declared), dict(catalogue.numbers), catalogue.next_number)
    return Recovered(keeper, journal, own_catalogue, faults, not checkpoint.clean, replayed, reader.torn_bytes)


def refuse_foreign(disk: Disk) -> None:
    """DirectoryFormat for a directory that holds something and is not ours."""
    foreign = [name for name in disk.list("") if name not in _OTHERS_THINGS and not name.startswith(FORMAT_PATH)]
    if foreign and not disk.exists(FORMAT_PATH):
        raise DirectoryFormat(
            f"not a Penstock data directory (it holds {foreign[0]!r} and no file {FORMAT_PATH!r}): "
            f"give an empty one or one of ours"
        )


def ensure_format(disk: Disk) -> None:
    """Make an empty directory ours; refuse one that is not, or that a newer Penstock wrote."""
    refuse_foreign(disk)
    if not disk.exists(FORMAT_PATH):
        _write_format(disk)
        return
    file = disk.open_read(FORMAT_PATH)
    data = file.read(FilePosition(0), 4096)
    file.close()
    found = _decode_format(data).format
    if found > FORMAT_VERSION:
        raise DirectoryFormat(
            f"the directory has format {found}, this is Penstock {VERSION} which knows up to {FORMAT_VERSION}: "
            f"use the newer version that wrote it"
        )


def _decode_format(data: bytes) -> DirectoryFormatFile:
    try:
        return msgspec.json.decode(data, type=DirectoryFormatFile)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise DirectoryFormat(
            f'the file {FORMAT_PATH!r} is damaged ({error}); it should read {{"format": 1, …}}'
        ) from None


def restore_keeper(
    disk: Disk, clock: Clock, options: ShardOptions, metrics: ShardMetrics, files: SegmentFiles, checkpoint: Checkpoint
) -> tuple[Keeper, Catalogue]:
    """Every log as the checkpoint has it."""
    states = {LogNumber(state.number): state for state in checkpoint.logs}
    catalogue = read_catalogue(disk, states.get(CATALOGUE_NUMBER))
    catalogue.next_number = LogNumber(max(catalogue.next_number, checkpoint.next_log_number))
    logs = {
        number: WrittenLog.restored(
            files, clock, LogName(declared.name), declared.settings, states.get(number) or blank_state(number)
        )
        for number, declared in catalogue.declared.items()
    }
    first = Sequence(checkpoint.first_sequence)
    return Keeper(disk, clock, options.keeper, metrics, files, checkpoint, logs, catalogue, first), catalogue


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
            keeper.take(entry_of(log, kind, data))
        keeper.taken_sequence = Sequence(frame.sequence + 1)
        count += 1
    return count


def check_files(disk: Disk, logs: Iterable[WrittenLog]) -> dict[LogNumber, PenstockError]:
    """Logs whose files are missing or shorter than the checkpoint and the journal say."""
    faults: dict[LogNumber, PenstockError] = {}
    for log in logs:
        state = log.state()
        for info in [*state.sealed, *([state.active] if state.active is not None else [])]:
            path = segment_path(log.directory, info.base, info.version)
            size = _size(disk, path)
            if size < info.bytes:
                faults[log.number] = LogDamaged(log.name, path, size, f"it should have {info.bytes} bytes")
                logger.error("log damaged log=%s file=%s bytes=%d expected=%d", log.name, path, size, info.bytes)
                break
    return faults


def cut_leftovers(disk: Disk, keeper: Keeper) -> None:
    """What a crash left beyond the recovered end of a log, and files no log knows."""
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


def _first_checkpoint(disk: Disk) -> Checkpoint:
    if any(_is_used_slot(disk, name) for name in disk.list(JOURNAL_DIRECTORY)):
        raise DirectoryFormat(
            "the file 'checkpoint' is missing though the journal has been used; restore the directory from a backup"
        )
    return Checkpoint(0, 0, 0, 1, True, ())


def _is_used_slot(disk: Disk, name: str) -> bool:
    file = disk.open_read(f"{JOURNAL_DIRECTORY}/{name}")
    header = decode_slot_header(file.read(FilePosition(0), 64))
    file.close()
    return header is not None


def _new_journal(
    disk: Disk, clock: Clock, options: ShardOptions, metrics: ShardMetrics, reader: JournalReader, keeper: Keeper
) -> Journal:
    journal = Journal(
        disk,
        clock,
        options.journal,
        metrics,
        last_generation=reader.last_generation,
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


def _write_format(disk: Disk) -> None:
    disk.make_directory("")
    file = disk.create(f"{FORMAT_PATH}.new")
    file.write(FilePosition(0), [msgspec.json.encode(DirectoryFormatFile(FORMAT_VERSION, VERSION)) + b"\n"])
    file.sync()
    file.close()
    disk.rename(f"{FORMAT_PATH}.new", FORMAT_PATH)
    disk.sync_directory("")


def _size(disk: Disk, path: str) -> int:
    try:
        file = disk.open_read(path)
    except FileNotFoundError:
        return 0
    try:
        return file.size()
    finally:
        file.close()


def _report(reader: JournalReader, replayed: int, faults: dict[LogNumber, PenstockError]) -> None:
    if reader.torn_bytes:
        logger.warning("torn journal tail cut sequence=%d bytes=%d", reader.end, reader.torn_bytes)
    logger.info(
        "directory opened replayed_frames=%d next_sequence=%d damaged_logs=%d", replayed, reader.end, len(faults)
    )
