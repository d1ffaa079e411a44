"""Rows of pieces in files, from the processes that make them to the one that has the directory open."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from penstock.core.errors import InvalidArgument
from penstock.jobs.replay_rows import OUTGOING

_SUFFIX = ".arrow"


@dataclass(frozen=True, slots=True)
class SpooledPiece:
    path: str

    def read(self) -> Iterator[pa.RecordBatch]:
        with pa.OSFile(self.path) as file, pa.ipc.open_stream(file) as reader:
            yield from reader

    def remove(self) -> None:
        Path(self.path).unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class Spool:
    """A directory that every process sees under this path. A file for each try: tasks may be tried again while the
    first one still writes."""

    directory: str

    def __call__(self, query: str, epoch: int, batches: Iterator[pa.RecordBatch]) -> SpooledPiece:
        path = Path(self.directory) / f"{epoch}-{uuid.uuid4().hex}{_SUFFIX}"
        try:
            file = pa.OSFile(str(path), "wb")
        except FileNotFoundError:
            raise InvalidArgument(
                f"{self.directory} is not there for a process that does a piece: give a --checkpoint in a directory "
                f"that all of them see under the same path"
            ) from None
        with file, pa.ipc.new_stream(file, OUTGOING) as writer:
            for batch in batches:
                writer.write_batch(batch)
        return SpooledPiece(str(path))


@contextmanager
def spool(directory: Path) -> Iterator[Spool]:
    """Empty at first, whatever a run that was killed left there, and gone at the end."""
    remove_spool(directory)
    directory.mkdir(exist_ok=True)
    try:
        yield Spool(str(directory.resolve()))
    finally:
        remove_spool(directory)


def remove_spool(directory: Path) -> None:
    """If it is there. What is not ours stays."""
    for path in directory.glob(f"*{_SUFFIX}"):
        path.unlink()
    if directory.is_dir() and not any(directory.iterdir()):
        directory.rmdir()
