"""The journal of a shard: preallocated files used in turn, one sequential write and one sync per group commit.

Files are *slots* (`journal/0003`), never renamed; the header of a slot says which generation it holds and the
sequence number
its frames begin with. A slot is free again once every frame in it lies below the checkpoint; its stale contents are
told
apart by their generation, which the checksum of every frame covers."""

from __future__ import annotations

import contextlib
import errno
import logging
import struct
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count

from penstock.core.errors import InvalidArgument
from penstock.core.metrics import ShardMetrics
from penstock.core.ports import Buffer, Clock, Disk, File
from penstock.core.types import FilePosition, Generation, Sequence
from penstock.kernels.crc import crc32c
from penstock.log.journal.frames import MAX_FRAME_BYTES, Frame, encode_frame
from penstock.log.journal.marks import Mark, Marks
from penstock.log.upkeep.faults import Telling, out_of_memory

logger = logging.getLogger("penstock.log.journal")
telling = Telling(logger)

DIRECTORY = "journal"
# Frames begin on their own page, so that no write of a frame ever touches the header.
FILE_HEADER_BYTES = 4096
# Less would not take a commit worth the name, nor the settings of a log.
MIN_FRAME_BYTES = 4096
# More than a move to the dead letters or back adds to a message; of small frames an eighth is left for that.
_MOVE_BYTES = 256 << 10
MAGIC = b"PSTJ"
VERSION = 1
_AFTER_CRC = struct.Struct("<IIQQ")
_WHOLE = struct.Struct("<4sIIIQQ")
# The header is there twice, in two sectors of its page.
HEADER_COPIES_AT = (0, 512)


@dataclass(frozen=True, slots=True)
class JournalOptions:
    file_bytes: int = 32 << 20
    limit_bytes: int = 1 << 30
    max_frame_bytes: int = MAX_FRAME_BYTES

    def __post_init__(self) -> None:
        if self.max_frame_bytes < MIN_FRAME_BYTES:
            raise InvalidArgument(
                f"journal files of {self.file_bytes} bytes are too small: "
                f"give them {FILE_HEADER_BYTES + MIN_FRAME_BYTES} at least"
            )
        if self.file_bytes < FILE_HEADER_BYTES + self.max_frame_bytes:
            raise InvalidArgument(
                f"journal files of {self.file_bytes} bytes cannot hold a frame of {self.max_frame_bytes}"
            )
        if self.limit_bytes < 3 * self.file_bytes:
            raise InvalidArgument(
                f"a journal of {self.limit_bytes} bytes has no room for three files of {self.file_bytes}"
            )

    def holding(self, commit_bytes: int) -> JournalOptions:
        """With frames that take a message of so many bytes again, and what is added to it when it is moved."""
        wanted = min(MAX_FRAME_BYTES, commit_bytes + min(commit_bytes // 7, _MOVE_BYTES))
        if wanted <= self.max_frame_bytes:
            return self
        file_bytes = max(self.file_bytes, FILE_HEADER_BYTES + wanted)
        return JournalOptions(file_bytes, max(self.limit_bytes, 3 * file_bytes), wanted)


@dataclass(frozen=True, slots=True)
class SlotHeader:
    generation: Generation
    first_sequence: Sequence


@dataclass(slots=True)
class UsedSlot:
    """A slot that still holds frames a recovery would need."""

    path: str
    end_sequence: Sequence


def encode_slot_header(header: SlotHeader) -> bytes:
    rest = _AFTER_CRC.pack(VERSION, 0, header.generation, header.first_sequence)
    return MAGIC + crc32c(rest).to_bytes(4, "little") + rest


def decode_slot_header(data: bytes) -> SlotHeader | None:
    """None for a slot that was never used, or whose header was torn before any frame was acknowledged from it."""
    if len(data) < _WHOLE.size:
        return None
    magic, crc, version, _, generation, first = _WHOLE.unpack_from(data)
    if magic != MAGIC or version != VERSION or crc32c(data[8 : _WHOLE.size]) != crc:
        return None
    return SlotHeader(Generation(generation), Sequence(first))


def encode_slot_page(header: SlotHeader) -> bytes:
    """The header and its copy, from the beginning of the file on."""
    encoded = encode_slot_header(header)
    return encoded.ljust(HEADER_COPIES_AT[1], b"\0") + encoded


def decode_slot_page(data: bytes) -> SlotHeader | None:
    """The newer one, where a crash or damage left two that differ; None if neither is whole."""
    found = [header for at in HEADER_COPIES_AT if (header := decode_slot_header(data[at:])) is not None]
    return max(found, key=lambda header: header.generation, default=None)


class Journal:
    """Written by one thread at a time, mostly the storage thread; release() and prepare() are the keeper's. One order
    of frames, no gaps."""

    def __init__(
        self,
        disk: Disk,
        clock: Clock,
        options: JournalOptions,
        metrics: ShardMetrics,
        *,
        last_generation: Generation,
        next_sequence: Sequence,
        used: list[UsedSlot],
        free: list[str],
        slots: int,
    ) -> None:
        self._disk, self._clock, self._options, self._metrics = disk, clock, options, metrics
        self._generation = last_generation
        self.make_space: Callable[[], None] = lambda: None
        """called when every slot is in use; returns after a release()"""
        self._used = deque(used)
        self._free = deque(free)
        self._slots = slots
        self._allocating = threading.Lock()
        """both threads may find that a slot is missing"""
        self._marks = Marks(disk)
        self._unfinished: str | None = None
        """a file that could not be made whole, and perhaps not be removed"""
        self._file: File | None = None
        self._path = ""
        self._position = FilePosition(0)
        self.next_sequence = next_sequence
        """first sequence not yet written"""
        self.synced_sequence = next_sequence
        """first sequence not known to be durable"""

    def open(self) -> None:
        """Begin a new file of a higher generation: what recovery has read is never written on."""
        self._disk.make_directory(DIRECTORY)
        self._disk.sync_directory("")
        # A file that an earlier process allocated may be listed without its name being durable.
        self._disk.sync_directory(DIRECTORY)
        self._free = deque(path for path in self._free if self._is_whole(path))
        self._begin_file()

    def write(self, frames: list[Frame]) -> int:
        """Write as many of the frames as the current file has room for; how many that were. Durable after sync()."""
        file, position, metrics = self._file, self._position, self._metrics
        assert file is not None
        room = self._options.file_bytes - position
        buffers: list[Buffer] = []
        taken = size = 0
        try:
            for frame in frames:
                if size + frame.bytes > room:
                    break
                buffers += encode_frame(frame, self._generation, self.synced_sequence)
                size += frame.bytes
                taken += 1
        except MemoryError as error:
            raise out_of_memory() from error
        if taken:
            file.write(position, buffers)
            self._position = FilePosition(position + size)
            self.next_sequence = Sequence(frames[taken - 1].sequence + 1)
            metrics.journal_writes += 1
            metrics.journal_bytes += size
        return taken

    def sync(self) -> float:
        """Everything written is durable when this returns: the time at which it does."""
        assert self._file is not None
        monotonic, synced = self._clock.monotonic, self.next_sequence
        begun = monotonic()
        if self.synced_sequence == synced:
            return begun
        self._file.sync()
        self.synced_sequence = synced
        self._marks.advance(synced)
        ended, metrics = monotonic(), self._metrics
        took_s = ended - begun
        took_ns = int(took_s * 1e9)
        metrics.journal_syncs += 1
        metrics.journal_sync_s.observe(took_s)
        metrics.journal_sync_ns += took_ns
        if took_ns > metrics.journal_sync_ns_max:
            metrics.journal_sync_ns_max = took_ns
        return ended

    def roll(self) -> None:
        """Go on in the next file. The current one is synced first: a successor's header says that all before it is
        durable. After an OSError that can pass, the journal is as it was."""
        assert self._file is not None
        self.sync()
        file, used = self._file, UsedSlot(self._path, self.next_sequence)
        self._begin_file()
        file.close()
        self._used.append(used)
        self._metrics.journal_rolls += 1

    def release(self, below: Sequence) -> None:
        """A checkpoint covers every frame below: slots that hold nothing else are free."""
        while self._used and self._used[0].end_sequence <= below:
            self._free.append(self._used.popleft().path)

    def prepare(self) -> None:
        """Have one spare slot ready, so that rolling does not wait for its allocation; also for a full disk."""
        if not self._free and (path := self._try_allocate()) is not None:
            self._free.append(path)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
        self._marks.close()

    def has_room(self, size: int) -> bool:
        """Whether the current file takes so many bytes of frames."""
        return size <= self._options.file_bytes - self._position

    @property
    def has_free_file(self) -> bool:
        return bool(self._free)

    @property
    def _max_slots(self) -> int:
        return self._options.limit_bytes // self._options.file_bytes

    def _begin_file(self) -> None:
        path = self._take_slot()
        try:
            file = self._begun(path)
        except OSError:
            self._free.append(path)  # none of its frames counts: whoever takes it writes another header
            raise
        self._path, self._file, self._position = path, file, FilePosition(FILE_HEADER_BYTES)

    def _begun(self, path: str) -> File:
        file = self._disk.open(path)
        try:
            # One that was tried before may have left its header in another file.
            self._generation = Generation(self._generation + 1)
            header = SlotHeader(self._generation, self.next_sequence)
            file.write(FilePosition(0), [encode_slot_page(header)])
            file.sync()
            # From here on the file has to be there: frames in it may be acknowledged.
            slot = int(path.rpartition("/")[2])
            mark = Mark(slot, self._generation, self.next_sequence, self.next_sequence)
            self._marks.begin(mark) if self._marks.are_open else self._marks.open(mark)
        except OSError:
            file.close()
            raise
        return file

    def _take_slot(self) -> str:
        if not self._free and (path := self._try_allocate()) is not None:
            return path
        if not self._free:
            self._metrics.journal_waits += 1
            self.make_space()
        if not self._free:
            raise OSError(errno.ENOSPC, "no journal file is free")
        return self._free.popleft()

    def _try_allocate(self) -> str | None:
        """A slot, made anew unless one was made meanwhile; None if the journal is as large as it may be, or none can be
        made: on a full disk, say. One that is in use is free again after a checkpoint."""
        with self._allocating:
            if self._free:
                return self._free.popleft()
            if self._slots >= self._max_slots:
                return None
            try:
                return self._allocate()
            except OSError as error:
                telling.warn(
                    "allocate", "no further journal file yet, tried again files=%d error=%s", self._slots, error
                )
                return None

    def _is_whole(self, path: str) -> bool:
        """A crash in the middle of its allocation leaves a file short; if it cannot be filled up, it is no use."""
        file = self._disk.open(path)
        try:
            if file.size() < self._options.file_bytes:
                file.allocate(self._options.file_bytes)
        except OSError as error:
            logger.warning("journal file cannot be filled up file=%s error=%s", path, error)
            return False
        finally:
            file.close()
        return True

    def _allocate(self) -> str:
        names = (f"{DIRECTORY}/{number:04d}" for number in count())
        path = self._unfinished or next(name for name in names if not self._disk.exists(name))
        self._unfinished = path
        try:
            self._fill(path)
            self._disk.sync_directory(DIRECTORY)
        except OSError:
            with contextlib.suppress(OSError):  # the next one takes its place
                self._disk.unlink(path)
            raise
        self._unfinished = None
        self._slots += 1
        return path

    def _fill(self, path: str) -> None:
        file = self._disk.create(path)
        try:
            file.allocate(self._options.file_bytes)
        finally:
            file.close()
