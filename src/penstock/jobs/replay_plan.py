"""What a replay will read, decided once and kept in a file: run again after it was stopped, it goes on where it was,
with the same pieces under the same keys."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import BinaryIO, Protocol

import msgspec

from penstock.core.errors import InvalidArgument
from penstock.jobs.files import appearing
from penstock.jobs.ranges import TimeSpan
from penstock.log.reading.extents import RowMap

# A piece is a commit: enough that syncs do not count, little enough that what is done again costs nothing.
PIECE_ROWS = 50_000


class Place(Protocol):
    @property
    def number(self) -> int: ...
    @property
    def start(self) -> int: ...
    @property
    def end(self) -> int: ...
    @property
    def log(self) -> int | None: ...


class PlannedTable(Protocol):
    """What a plan has to know of a queue."""

    def partitions(self) -> Sequence[Place]: ...
    def row_map(self, partition: int) -> RowMap: ...
    def offset_at_time(self, partition: int, timestamp_ms: int) -> int: ...


class ReplayPiece(msgspec.Struct, frozen=True):
    """Offsets start..stop of a partition, not including `stop`; `rows` is an estimate. `log` tells the partition from
    one of a queue that was created again under the name."""

    partition: int
    start: int
    stop: int
    rows: int
    log: int | None = None


class ReplayPlan(msgspec.Struct, frozen=True):
    """`what` says all that was asked for. Piece i is epoch i of `query`."""

    query: str
    what: dict[str, str]
    pieces: list[ReplayPiece]


class _Done(msgspec.Struct, frozen=True):
    epoch: int
    rows: int


def plan_pieces(table: PlannedTable, span: TimeSpan, piece_rows: int = PIECE_ROWS) -> list[ReplayPiece]:
    """All rows of the time that there are now, partition after partition."""
    found: list[ReplayPiece] = []
    for place in table.partitions():
        start, stop = place.start, place.end
        if span.since_ms is not None:
            start = max(start, table.offset_at_time(place.number, span.since_ms))
        if span.until_ms is not None:
            stop = min(stop, table.offset_at_time(place.number, span.until_ms))
        rows = table.row_map(place.number)
        if start < stop and not rows.is_empty(start, stop):
            pieces = rows.split(start, stop, piece_rows)
            found += [ReplayPiece(place.number, first, end, count, place.log) for first, end, count in pieces]
    return found


class ReplayFile:
    """The plan on its first line, and a line for each piece that is done. One process."""

    def __init__(self, path: Path, plan: ReplayPlan, done: dict[int, int], file: BinaryIO) -> None:
        """As opened() gives it."""
        self.path, self._file = path, file
        self.plan, self.done = plan, done
        """rows that were written, by epoch"""

    @classmethod
    def opened(cls, path: Path, what: dict[str, str], make: Callable[[], list[ReplayPiece]]) -> ReplayFile:
        """That of a replay that was begun, or of one that begins now with the pieces that `make` gives. InvalidArgument
        if the file is of another one."""
        if not path.exists():
            plan = ReplayPlan(f"replay-{uuid.uuid4().hex}", what, make())
            with appearing(path) as unfinished:
                unfinished.write_bytes(msgspec.json.encode(plan) + b"\n")
        plan, done, size = _read(path)
        if plan.what != what:
            asked = ", ".join(f"{name} {value}" for name, value in plan.what.items())
            raise InvalidArgument(
                f"{path} is of another replay that was not finished ({asked}): run that again, remove the file, or "
                f"name another one with --checkpoint"
            )
        file = path.open("r+b")
        file.truncate(size)
        file.seek(size)
        return cls(path, plan, done, file)

    def record(self, epoch: int, rows: int) -> None:
        """Durable when it returns."""
        self._file.write(msgspec.json.encode(_Done(epoch, rows)) + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())
        self.done[epoch] = rows

    def close(self) -> None:
        self._file.close()

    def remove(self) -> None:
        """All of it is done."""
        self.close()
        self.path.unlink()


def _read(path: Path) -> tuple[ReplayPlan, dict[int, int], int]:
    """And how many bytes of it count: a last line that a crash cut short is not there."""
    data = path.read_bytes()
    size = data.rfind(b"\n") + 1
    try:
        head, *lines = data[:size].splitlines()
        plan = msgspec.json.decode(head, type=ReplayPlan)
        done = [msgspec.json.decode(line, type=_Done) for line in lines]
    except (ValueError, msgspec.MsgspecError):
        raise InvalidArgument(
            f"{path} is not the checkpoint of a replay: name another file with --checkpoint"
        ) from None
    return plan, {each.epoch: each.rows for each in done}, size
