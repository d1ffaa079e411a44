"""Segments that a frame makes the ends of several logs, on their way to being shown: in all of them at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from penstock.core.errors import PenstockError
from penstock.core.types import LogNumber, Sequence
from penstock.log.partition import Log


@dataclass(slots=True, eq=False)
class Adoption:
    """The bytes are in no hot tail: readers may be shown them only when the keeper's views have the segments."""

    sequence: Sequence
    logs: list[Log]
    done: Callable[[PenstockError | None], None]
    living: Mapping[LogNumber, Log]
    is_committed: bool = False

    @property
    def is_ready(self) -> bool:
        """A log that was deleted or stopped holds the others back no longer."""
        return self.is_committed and all(
            log.written_sequence > self.sequence or log.fault is not None for log in self.logs
        )

    def reveal(self) -> None:
        for log in self.logs:
            if log.fault is None:
                log.reveal()
        told: dict[Callable[[list[Log]], None], list[Log]] = {}
        for log in self.logs:
            if log.on_commit is not None and log.number in self.living:
                told.setdefault(log.on_commit, []).append(log)
        for on_commit, several in told.items():
            on_commit(several)
        self.done(None)
