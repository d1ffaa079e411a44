"""Frames of a stopped log, kept aside in files of their own: a journal of that log alone, which goes on where the
checkpoint has its segments. What is kept aside is part of the log; the opening puts it back."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Protocol

from penstock.core.errors import CorruptFrame, LogDamaged
from penstock.core.ports import Disk
from penstock.core.types import Durability, FilePosition, Generation, LogNumber, Sequence
from penstock.log.journal.frames import (
    Entry,
    Frame,
    FrameScratch,
    encode_frame,
    frame_bytes,
    read_entries,
    read_frame_header,
)
from penstock.log.journal.replay import entry_of
from penstock.log.segments.written import WrittenLog

DIRECTORY = "aside"
NOT_PUT_BACK = "what was kept aside cannot be put back"
# Beside them lie the directories in which a repair keeps what it took out.
_OF_A_LOG = re.compile(r"\d+\.\d+(\.\d+)?")


def write_aside(disk: Disk, path: str, entries: list[Entry]) -> int:
    """A frame for each entry, in a file that is synced; syncing its directory is the caller's. The file's bytes."""
    disk.make_directory(path.rpartition("/")[0])
    file = disk.create(path)
    try:
        position = 0
        for sequence, entry in enumerate(entries):
            frame = Frame(Sequence(sequence), Durability.COMMIT, [entry], frame_bytes([entry]))
            file.write(FilePosition(position), encode_frame(frame, Generation(0), Sequence(0)))
            position += frame.bytes
        file.sync()
    finally:
        file.close()
    return position


def unused_path(disk: Disk, number: LogNumber, sequence: Sequence) -> str:
    """For frames of a log below `sequence`. A file that a checkpoint may name is never written again."""
    path, again = f"{DIRECTORY}/{number}.{sequence}", 0
    while disk.exists(path):
        again += 1
        path = f"{DIRECTORY}/{number}.{sequence}.{again}"
    return path


def read_aside(
    disk: Disk, log: str, paths: tuple[str, ...], sizes: tuple[int, ...]
) -> tuple[list[Entry], LogDamaged | None]:
    """What was kept of a stopped log, up to the first thing that cannot be read, or is not there: `sizes` are those of
    the last files."""
    entries: list[Entry] = []
    for path, size in zip(paths, (*(0 for _ in paths[len(sizes) :]), *sizes), strict=True):
        try:
            file = disk.open_read(path)
        except FileNotFoundError:
            return entries, LogDamaged(log, path, 0, "the file is missing")
        try:
            data = file.map()
        finally:
            file.close()
        position, scratch = 0, FrameScratch()
        try:
            while position < len(data):
                header = read_frame_header(data, position)
                entries += [entry_of(*row) for row in read_entries(data, position, header, scratch)]
                position += header.bytes
        except CorruptFrame as error:
            return entries, LogDamaged(log, path, position, error.reason)
        if position < size:
            return entries, LogDamaged(log, path, position, f"it should have {size} bytes")
    return entries, None


def put_back(disk: Disk, log: WrittenLog) -> LogDamaged | None:
    """Fold what was kept aside into the log, as far as it can be read; nothing is written yet. What the rest lacks."""
    entries, damage = read_aside(disk, log.name, log.aside, log.aside_bytes)
    log.stopped, log.aside, log.aside_bytes, log.base = "", (), (), None
    for entry in entries:
        log.take(entry)
    return damage


class Stoppable(Protocol):
    """A log, or what a checkpoint says of one."""

    @property
    def number(self) -> int: ...
    @property
    def stopped(self) -> str: ...
    @property
    def aside(self) -> tuple[str, ...]: ...


def stopped_logs(logs: Iterable[Stoppable]) -> dict[LogNumber, str]:
    """Of each stopped log, why, where its frames are, and what to do: what every look at a directory has to say."""
    return {LogNumber(log.number): _told(log) for log in logs if log.stopped}


def _told(log: Stoppable) -> str:
    place = f"kept in {', '.join(log.aside)}" if log.aside else "in the journal"
    cure = "`penstock log repair` keeps what can be read"
    if NOT_PUT_BACK not in log.stopped:
        cure = "opening the directory puts them back: start the server again, or use `penstock log repair`"
    return f"it was stopped ({log.stopped}); its newest frames are {place}: {cure}"


def files_of_nobody(disk: Disk, logs: Iterable[WrittenLog]) -> list[str]:
    """What a crash left: written, and named by no checkpoint yet, or put back, and not yet removed."""
    known = {path for log in logs for path in (*log.aside, *log.outlived)}
    paths = (f"{DIRECTORY}/{name}" for name in disk.list(DIRECTORY) if _OF_A_LOG.fullmatch(name))
    return [path for path in paths if path not in known]
