"""The checkpoint file: which part of which segment may be trusted, and where in the journal replay begins."""

from __future__ import annotations

import struct

import msgspec

from penstock.core.errors import DirectoryFormat
from penstock.core.ports import Disk
from penstock.kernels.crc import crc32c
from penstock.log.records import EpochStart, LogSettings, SegmentInfo
from penstock.log.upkeep.copies import MISSING, BadCopy, FileFault, read_copies, write_copies

PATH = "checkpoint"
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
    name: str = ""
    settings: LogSettings | None = None
    """as in the catalogue, of which this is the other copy"""
    aside_bytes: tuple[int, ...] = ()
    """of the last of those files, so many as there are numbers: those before were written when nobody noted it"""
    aside_end: int = 0
    """the end of the log with all that is in them, if it was noted"""


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
    serial: int = 0
    """one more with each; of two copies that differ the greater counts"""
    largest_commit: int = 0
    """no message that is stored is larger, not compressed: frames have to hold it when it is moved"""


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Checkpoint)


def write_checkpoint(disk: Disk, checkpoint: Checkpoint) -> None:
    """Replaces both copies; when this returns the new ones are durable, before that the old ones count or the new."""
    write_copies(disk, PATH, encode_checkpoint(checkpoint))


def encode_checkpoint(checkpoint: Checkpoint) -> list[bytes]:
    body = _encoder.encode(checkpoint)
    return [_HEAD.pack(MAGIC, crc32c(body), len(body)), body]


def read_checkpoint(disk: Disk) -> Checkpoint | None:
    """None in a directory that never had one; DirectoryFormat if neither copy is whole."""
    copies = read_copies(disk, PATH, decode_checkpoint)
    if copies.found:
        return max(copies.found, key=lambda checkpoint: checkpoint.serial)
    if copies.is_absent:
        return None
    raise DirectoryFormat(
        f"no copy of the checkpoint can be read ({'; '.join(map(str, copies.faults))}): "
        f"restore the directory from a backup (`penstock restore`)"
    )


def checkpoint_faults(disk: Disk) -> list[FileFault]:
    """Copies that are damaged or gone."""
    copies = read_copies(disk, PATH, decode_checkpoint)
    if all(checkpoint.serial == 0 for checkpoint in copies.found):
        return [fault for fault in copies.faults if fault.reason != MISSING]  # format 1 has one
    return copies.faults


def decode_checkpoint(data: bytes) -> Checkpoint:
    if len(data) < _HEAD.size:
        raise BadCopy("it is cut short")
    magic, crc, size = _HEAD.unpack_from(data)
    body = data[_HEAD.size : _HEAD.size + size]
    if magic != MAGIC or len(body) != size or crc32c(body) != crc:
        raise BadCopy("it is damaged: its checksum does not match")
    return _decoder.decode(body)
