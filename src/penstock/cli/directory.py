"""What kind of directory a command was given: is it ours, and does somebody have it open?"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from pathlib import Path

from penstock.core.errors import DirectoryFormat
from penstock.log.disk import DirectoryLock, LockHolder, RealDisk
from penstock.log.offline.check import known_checkpoint
from penstock.log.upkeep.format_file import FORMAT_PATH, is_ours, read_format


class State(enum.Enum):
    LIVE = "live"
    """another process has it open for writing"""
    CLOSED = "closed"
    CRASHED = "crashed"
    """nobody has it open, and it was not closed: opening it will replay the journal"""


@dataclass(frozen=True, slots=True)
class DataDirectory:
    """A directory as it was found. Taking it changes nothing and holds nothing."""

    path: Path
    format: int
    created_by: str
    state: State
    holder: LockHolder | None

    @classmethod
    def at(cls, path: Path) -> DataDirectory:
        """DirectoryFormat if it is not a data directory, or one that only a newer Penstock can read."""
        disk = RealDisk(path)
        if not is_ours(disk):
            raise DirectoryFormat(
                f"{path} is not a data directory of Penstock, it has no file {FORMAT_PATH!r}: check the path"
            )
        found = read_format(disk)
        state, holder = _state_of(path)
        return cls(path, found.format, found.created_by, state, holder)

    def __str__(self) -> str:
        if self.state is State.LIVE:
            return f"live: held by {self.holder}"
        return "closed" if self.state is State.CLOSED else "crashed: it was not closed, opening it replays the journal"


def _state_of(path: Path) -> tuple[State, LockHolder | None]:
    if (holder := DirectoryLock.holder(path)) is not None:
        return State.LIVE, holder
    checkpoint = known_checkpoint(RealDisk(path))
    # Somebody may have opened it between the two looks, which takes the mark of a clean stop away.
    if (holder := DirectoryLock.holder(path)) is not None:
        return State.LIVE, holder
    return State.CLOSED if checkpoint.clean else State.CRASHED, None
