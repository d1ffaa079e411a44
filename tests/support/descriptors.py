"""What this process has open."""

from __future__ import annotations

from pathlib import Path


def open_descriptors() -> int:
    return sum(1 for _ in Path("/dev/fd").iterdir())
