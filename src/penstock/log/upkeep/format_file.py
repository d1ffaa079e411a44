"""The file `format`: which version of the format a directory has, and that it is one of ours at all."""

from __future__ import annotations

import logging

import msgspec

from penstock.core.errors import DirectoryFormat
from penstock.core.ports import Disk
from penstock.kernels.crc import crc32c
from penstock.log.upkeep.copies import BadCopy, Copies, FileFault, copy_paths, read_copies, write_copies
from penstock.version import VERSION

logger = logging.getLogger("penstock.log.format")

FORMAT_PATH = "format"
FORMAT_VERSION = 2
_UNCHECKED_VERSION = 1
"""has no checksum, no copies of small files, and no marks of the journal"""
_OTHERS_THINGS = {"lock", "lost+found"}


class FormatFile(msgspec.Struct, frozen=True, omit_defaults=True):
    format: int
    created_by: str
    crc32c: int | None = None
    """of both, with a space between"""

    @property
    def has_copies(self) -> bool:
        return self.format > _UNCHECKED_VERSION


def is_ours(disk: Disk) -> bool:
    return any(map(disk.exists, copy_paths(FORMAT_PATH)))


def refuse_foreign(disk: Disk) -> None:
    """DirectoryFormat for a directory that holds something and is not ours."""
    foreign = [name for name in disk.list("") if name not in _OTHERS_THINGS and not name.startswith(FORMAT_PATH)]
    if foreign and not is_ours(disk):
        raise DirectoryFormat(
            f"not a Penstock data directory (it holds {foreign[0]!r} and no file {FORMAT_PATH!r}): "
            f"name an empty directory, or a data directory"
        )


def read_format(disk: Disk) -> FormatFile:
    """DirectoryFormat if there is none, if none can be read, or if a newer Penstock wrote it."""
    copies = _read(disk)
    if copies.is_absent:
        raise DirectoryFormat(f"not a Penstock data directory: it has no file {FORMAT_PATH!r}")
    if not copies.found:
        raise DirectoryFormat(
            f"the files that say which format the directory has are damaged ({'; '.join(map(str, copies.faults))}): "
            f"restore it from a backup (`penstock restore`), or copy the file {FORMAT_PATH!r} from a directory that "
            f"the same version wrote"
        )
    newest = max(copies.found, key=lambda found: found.format)
    if newest.format > FORMAT_VERSION:
        raise DirectoryFormat(
            f"the directory has format {newest.format}, this is Penstock {VERSION} which knows up to {FORMAT_VERSION}: "
            f"use the newer version that wrote it ({newest.created_by})"
        )
    return newest


def has_copies(disk: Disk) -> bool:
    """Whether small files of the directory are there twice, and its journal is marked."""
    return any(found.has_copies for found in _read(disk).found)


def format_faults(disk: Disk) -> list[FileFault]:
    copies = _read(disk)
    return copies.faults if any(found.has_copies for found in copies.found) else []


def ensure_format(disk: Disk) -> FormatFile:
    """Make an empty directory ours; refuse one that is not, or that a newer Penstock wrote."""
    refuse_foreign(disk)
    if not is_ours(disk):
        disk.make_directory("")
        write_format(disk)
    return read_format(disk)


def write_format(disk: Disk) -> None:
    found = FormatFile(FORMAT_VERSION, VERSION)
    write_copies(disk, FORMAT_PATH, [encode_format(msgspec.structs.replace(found, crc32c=_checksum(found)))])


def encode_format(found: FormatFile) -> bytes:
    return msgspec.json.encode(found) + b"\n"


def upgrade(disk: Disk, found: FormatFile) -> None:
    """The last step of the first opening by this version: what it adds to the directory is there by now."""
    if found.format < FORMAT_VERSION:
        write_format(disk)
        logger.info("directory upgraded format=%d to=%d", found.format, FORMAT_VERSION)
    elif len(_read(disk).found) < len(copy_paths(FORMAT_PATH)):
        write_format(disk)


def _read(disk: Disk) -> Copies[FormatFile]:
    return read_copies(disk, FORMAT_PATH, _decode)


def _decode(data: bytes) -> FormatFile:
    try:
        found = msgspec.json.decode(data, type=FormatFile)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise BadCopy(f"it is damaged ({error})") from None
    if found.crc32c is None and found.format == _UNCHECKED_VERSION:
        return found
    if found.crc32c != _checksum(found):
        raise BadCopy("it is damaged: its checksum does not match")
    return found


def _checksum(found: FormatFile) -> int:
    return crc32c(f"{found.format} {found.created_by}".encode())
