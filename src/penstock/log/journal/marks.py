"""How far the journal reaches, known from another place than the journal: which file it began last, and up to which
frame it was synced. So a journal file that is gone, zeroed or cut is seen.

A mark says only what is durable, so it is never ahead of the journal. It is synced when a file begins; in between it is
written after each sync of the journal and not synced itself: after `kill -9` it is exact, after a power cut it may be
as old as what the system had not written yet."""

from __future__ import annotations

import logging
import struct
from dataclasses import dataclass

from penstock.core.ports import Disk, File
from penstock.core.types import FilePosition, Generation, Sequence
from penstock.kernels.crc import crc32c
from penstock.log.upkeep.copies import BadCopy, Copies, FileFault, copy_paths, read_copies

logger = logging.getLogger("penstock.log.journal")

PATH = "synced"
MAGIC = b"PSTS"
_AFTER_CRC = struct.Struct("<QQQQ")
_WHOLE = struct.Struct("<4sIQQQQ")
# One sector, written in place: it is there as it was or as it is to be.
_FILE_BYTES = 512
_BEGINNING = FilePosition(0)
DAMAGED = "it is damaged: its checksum does not match"


@dataclass(frozen=True, slots=True)
class Mark:
    slot: int
    """the number of the file that was begun last"""
    generation: Generation
    first_sequence: Sequence
    """its first frame"""
    synced: Sequence
    """frames below were durable"""


def encode_mark(mark: Mark) -> bytes:
    """Without the zeros that follow in its file."""
    rest = _AFTER_CRC.pack(mark.slot, mark.generation, mark.first_sequence, mark.synced)
    return MAGIC + crc32c(rest).to_bytes(4, "little") + rest


def decode_mark(data: bytes) -> Mark:
    if len(data) < _WHOLE.size:
        raise BadCopy("it is cut short")
    magic, crc, slot, generation, first, synced = _WHOLE.unpack_from(data)
    if magic != MAGIC or crc32c(data[8 : _WHOLE.size]) != crc:
        raise BadCopy(DAMAGED)
    return Mark(slot, Generation(generation), Sequence(first), Sequence(synced))


def read_marks(disk: Disk) -> Copies[Mark]:
    return read_copies(disk, PATH, decode_mark)


def newest_mark(disk: Disk) -> Mark | None:
    """None if there is none that can be read."""
    return max(read_marks(disk).found, key=lambda mark: (mark.generation, mark.synced), default=None)


def mark_faults(disk: Disk) -> list[FileFault]:
    """One of them may be torn by a crash while it was written, by an opening too: that is what the other is for. But
    no crash removes or shortens it."""
    copies = read_marks(disk)
    return [fault for fault in copies.faults if fault.reason != DAMAGED or not copies.found]


def write_marks(disk: Disk, mark: Mark) -> None:
    """Both copies; durable when this returns."""
    marks = Marks(disk)
    try:
        marks.open(mark)
    finally:
        marks.close()


class Marks:
    """Of an open journal; whoever writes the journal writes them."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._files: list[File] = []
        self._wanted_files = len(copy_paths(PATH))
        self._turn = 0
        self._place = 0, 0, 0
        """the file that was begun last, its generation and its first frame"""
        self._failed = False

    @property
    def are_open(self) -> bool:
        return len(self._files) == self._wanted_files

    def open(self, mark: Mark) -> None:
        """Both say `mark` when this returns. After an OSError it can be tried again."""
        are_new = False
        self.close()
        for path in copy_paths(PATH):
            is_new = not self._disk.exists(path)
            are_new |= is_new
            file = self._disk.create(path) if is_new else self._disk.open(path)
            self._files.append(file)
            file.write(FilePosition(0), [encode_mark(mark).ljust(_FILE_BYTES, b"\0")])
            file.sync()
        if are_new:
            self._disk.sync_directory("")
        self._place = mark.slot, mark.generation, mark.first_sequence

    def begin(self, mark: Mark) -> None:
        """The journal begins a file, whose header is durable; so is this when it returns."""
        self._place, self._failed = (mark.slot, mark.generation, mark.first_sequence), False
        self._write(mark).sync()

    def advance(self, synced: Sequence) -> None:
        """The journal was synced. Not knowing it elsewhere is no reason to stop."""
        files = self._files
        if self._failed or len(files) != self._wanted_files:
            return
        self._turn = turn = 1 - self._turn
        rest = _AFTER_CRC.pack(*self._place, synced)
        try:
            files[turn].write(_BEGINNING, [MAGIC + crc32c(rest).to_bytes(4, "little") + rest])
        except OSError as error:
            self._failed = True
            logger.warning("journal not marked, damage of its last file may go unseen error=%s", error)

    def close(self) -> None:
        for file in self._files:
            file.close()
        self._files = []

    def _write(self, mark: Mark) -> File:
        self._turn = 1 - self._turn
        file = self._files[self._turn]
        file.write(FilePosition(0), [encode_mark(mark)])
        return file
