"""Limits that the system puts on this process, for as long as a test needs them."""

from __future__ import annotations

import os
import resource
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def files_end_at(size: int) -> Iterator[None]:
    """For no longer than it takes: what the test run itself says may go to a file that is longer."""
    with _limited(resource.RLIMIT_FSIZE, size):
        yield


@contextmanager
def descriptors_left(count: int) -> Iterator[None]:
    """So many files can be opened, and no more."""
    held: list[int] = []
    try:
        while len(held) <= count:
            held.append(os.dup(0))
        limit = held[count]
        for descriptor in held:
            os.close(descriptor)
        held.clear()
        with _limited(resource.RLIMIT_NOFILE, limit):
            yield
    finally:
        for descriptor in held:
            os.close(descriptor)


@contextmanager
def _limited(kind: int, limit: int) -> Iterator[None]:
    old = resource.getrlimit(kind)
    resource.setrlimit(kind, (limit, old[1]))
    try:
        yield
    finally:
        resource.setrlimit(kind, old)


@contextmanager
def small_file_system(place: Path, size: str) -> Iterator[None]:
    """`place` is one, in memory; skips the test where nothing can be mounted."""
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", place], capture_output=True, text=True
    )
    if mounted.returncode:
        pytest.skip(f"a full disk needs the right to mount a tmpfs: {mounted.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", place], check=True)
