"""Files that jobs leave: there whole under their names, or not at all."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from penstock.core.errors import InvalidArgument

COMPRESSIONS = ("zstd", "snappy", "lz4", "gzip", "none")
"""of Parquet files"""

_PREFIX, _SUFFIX = "_", ".unfinished"
# Readers leave it alone: Spark and Arrow pass over names that begin so, DuckDB goes by their ends.


@contextmanager
def appearing(path: Path) -> Iterator[Path]:
    """Where to write a file that takes its name when all of it is on disk; nothing is left if that fails. Directories
    above it are made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(_PREFIX + path.name + _SUFFIX)
    try:
        yield unfinished
        _sync(unfinished, os.O_RDWR)
        unfinished.replace(path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
    sync_directory(path.parent)


def is_unfinished(path: Path) -> bool:
    """One that a crash left: it may be removed."""
    return path.name.startswith(_PREFIX) and path.name.endswith(_SUFFIX)


@contextmanager
def exclusive(directory: Path) -> Iterator[None]:
    """No other job writes to the directory meanwhile, which is made if it is not there. InvalidArgument if one does."""
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / "_lock").open("a+b") as file:
        try:
            fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise InvalidArgument(
                f"another job writes to {directory}: wait for its end, or give another directory"
            ) from None
        yield


def sync_directory(path: Path) -> None:
    _sync(path, os.O_RDONLY)


def _sync(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
