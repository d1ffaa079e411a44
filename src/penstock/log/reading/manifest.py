"""The list of a log's sealed segments for readers in other processes, beside the segments. Recovery never reads it."""

from __future__ import annotations

import msgspec

from penstock.core.ports import Disk
from penstock.core.types import FilePosition
from penstock.log.records import SegmentInfo

NAME = "manifest"


class Manifest(msgspec.Struct, frozen=True):
    """Belongs to the row of the table with the same start number and list version, and to no other."""

    start_number: int
    list_version: int
    sealed: tuple[SegmentInfo, ...]


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Manifest)


def write_manifest(disk: Disk, directory: str, manifest: Manifest) -> None:
    """Replaces the old one; not synced, for it means nothing after the process that wrote it."""
    path = f"{directory}/{NAME}"
    file = disk.create(f"{path}.new")
    try:
        file.write(FilePosition(0), [_encoder.encode(manifest)])
    finally:
        file.close()
    disk.rename(f"{path}.new", path)


def read_manifest(disk: Disk, directory: str) -> Manifest | None:
    """None when it is absent or not whole, as an older life may have left it."""
    try:
        file = disk.open_read(f"{directory}/{NAME}")
    except FileNotFoundError:
        return None
    try:
        return _decoder.decode(file.read(FilePosition(0), file.size()))
    except msgspec.DecodeError:
        return None
    finally:
        file.close()
