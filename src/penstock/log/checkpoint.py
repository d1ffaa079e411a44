"""The checkpoint file: which part of which segment may be trusted, and where in the journal replay begins."""

from __future__ import annotations

import struct

import msgspec

from penstock.core.errors import DirectoryFormat
from penstock.core.ports import Disk
from penstock.core.types import FilePosition
from penstock.kernels.crc import crc32c
from penstock.log.records import EpochStart, SegmentInfo

PATH = "checkpoint"
_NEW_PATH = "checkpoint.new"
_HEAD = struct.Struct("<4sIQ")
MAGIC = b"PSTC"


class LogState(msgspec.Struct, frozen=True, omit_defaults=True):
    """A log at the checkpoint. All bytes of the segments named here were synced before the checkpoint took its name."""

    number: int
    start: int
    end: int
    epochs: tuple[EpochStart, ...]
    sealed: tuple[SegmentInfo, ...] = ()
    active: SegmentInfo | None = None
    stopped: str = ""
    """why the log takes no records, if it does not"""
    aside: tuple[str, ...] = ()
    """files that hold its frames since it was stopped"""


class Checkpoint(msgspec.Struct, frozen=True):
    start_number: int
    """counts the openings of the directory"""
    first_sequence: int
    """replay begins with this frame"""
    known_durable: int
    next_log_number: int
    clean: bool
    """the directory was closed: there is nothing behind the checkpoint"""
    logs: tuple[LogState, ...]


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Checkpoint)


def write_checkpoint(disk: Disk, checkpoint: Checkpoint) -> None:
    """Replaces the checkpoint; when this returns the new one is durable, before that the old one counts."""
    body = _encoder.encode(checkpoint)
    head = _HEAD.pack(MAGIC, crc32c(body), len(body))
    file = disk.create(_NEW_PATH)
    try:
        file.write(FilePosition(0), [head, body])
        file.sync()
    finally:
        file.close()
    disk.rename(_NEW_PATH, PATH)
    disk.sync_directory("")


def read_checkpoint(disk: Disk) -> Checkpoint | None:
    """None in a directory that never had one."""
    try:
        file = disk.open_read(PATH)
    except FileNotFoundError:
        return None
    data = file.read(FilePosition(0), file.size())
    file.close()
    if len(data) < _HEAD.size:
        raise DirectoryFormat(
            f"the file {PATH!r} is cut short; restore the directory from a backup (`penstock restore`)"
        )
    magic, crc, size = _HEAD.unpack_from(data)
    body = data[_HEAD.size : _HEAD.size + size]
    if magic != MAGIC or len(body) != size or crc32c(body) != crc:
        raise DirectoryFormat(
            f"the file {PATH!r} is damaged: its checksum does not match; "
            f"restore the directory from a backup (`penstock restore`)"
        )
    return _decoder.decode(body)
