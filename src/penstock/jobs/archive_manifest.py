"""What an archive holds: its manifest, a JSON file that is the truth about it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import msgspec

from penstock.core.errors import InvalidArgument
from penstock.jobs.files import appearing

NAME = "_manifest.json"
FORMAT = 1


class Range(NamedTuple):
    """Offsets first..end, not including `end`."""

    first: int
    end: int


class ArchivedFile(msgspec.Struct, frozen=True):
    """`path` is below the archive; it has all rows there are at offsets first..end, not including `end`."""

    path: str
    queue: str
    partition: int
    log: int
    """number of the partition's log: a queue that was declared anew has others"""
    date: str
    first: int
    end: int
    rows: int
    size_bytes: int
    sha256: str
    first_ms: int
    last_ms: int


class Coverage(msgspec.Struct, frozen=True):
    """How far a partition is archived."""

    queue: str
    partition: int
    log: int
    covered: tuple[Range, ...] = ()
    lost: tuple[Range, ...] = ()
    """trimmed before they were archived; part of what is covered, as nothing is to be had there any more"""


class Manifest(msgspec.Struct, frozen=True):
    source: str
    """the data directory"""
    namespace: str
    format: int = FORMAT
    partitions: tuple[Coverage, ...] = ()
    files: tuple[ArchivedFile, ...] = ()

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)

    def coverage(self, queue: str, partition: int, log: int) -> Coverage:
        for found in self.partitions:
            if (found.queue, found.partition, found.log) == (queue, partition, log):
                return found
        return Coverage(queue, partition, log)

    def with_piece(
        self, coverage: Coverage, done: Range, files: Iterable[ArchivedFile], lost: Iterable[Range]
    ) -> Manifest:
        """After a piece of that partition was written."""
        changed = msgspec.structs.replace(
            coverage, covered=merged([*coverage.covered, done]), lost=merged([*coverage.lost, *lost])
        )
        others = [each for each in self.partitions if _place(each) != _place(coverage)]
        partitions = tuple(sorted([*others, changed], key=_place))
        return msgspec.structs.replace(self, partitions=partitions, files=(*self.files, *files))


def _place(coverage: Coverage) -> tuple[str, int, int]:
    return coverage.queue, coverage.partition, coverage.log


def merged(ranges: Iterable[Range]) -> tuple[Range, ...]:
    """The same offsets, in as few ranges as it takes."""
    found: list[Range] = []
    for first, end in sorted(ranges):
        if found and first <= found[-1].end:
            found[-1] = Range(found[-1].first, max(found[-1].end, end))
        elif first < end:
            found.append(Range(first, end))
    return tuple(found)


def missing(wanted: Range, covered: Iterable[Range]) -> list[Range]:
    """What of a range is not covered yet."""
    found: list[Range] = []
    at = wanted.first
    for first, end in merged(covered):
        if first >= wanted.end:
            break
        if first > at:
            found.append(Range(at, first))
        at = max(at, end)
    if at < wanted.end:
        found.append(Range(at, wanted.end))
    return found


def read_manifest(archive: Path) -> Manifest | None:
    """None where nothing was archived yet. InvalidArgument for one of a newer version, or that was changed by hand."""
    path = archive / NAME
    try:
        manifest = msgspec.json.decode(path.read_bytes(), type=Manifest)
    except FileNotFoundError:
        return None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidArgument(
            f"{path} is not the manifest of an archive ({error}): restore it, or archive to an empty directory"
        ) from None
    if manifest.format > FORMAT:
        raise InvalidArgument(f"{path} has format {manifest.format}, and {FORMAT} is known here: use a newer Penstock")
    return manifest


def write_manifest(archive: Path, manifest: Manifest) -> None:
    """Durable when this returns; the old one counts until then."""
    with appearing(archive / NAME) as path:
        path.write_bytes(msgspec.json.format(msgspec.json.encode(manifest), indent=1) + b"\n")
