"""The plan of a replay is made once, and what is done is known after a crash."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from penstock.core.errors import DiskLow, InvalidArgument, PenstockError
from penstock.jobs.ranges import TimeSpan
from penstock.jobs.replay_plan import ReplayFile, ReplayPiece, plan_pieces
from penstock.jobs.replay_sink import Patience
from penstock.log.reading.extents import Extent, RowMap

_WHAT = {"from": "orders", "to": "again"}
_PIECES = [ReplayPiece(0, 0, 10, 10), ReplayPiece(0, 10, 20, 10)]


@dataclass(frozen=True)
class _Place:
    number: int
    start: int
    end: int
    log: int = 7
    extents: tuple[Extent, ...] | None = None


@dataclass(frozen=True)
class _Table:
    places: list[_Place]

    def partitions(self) -> list[_Place]:
        return self.places

    def row_map(self, partition: int) -> RowMap:
        place = next(each for each in self.places if each.number == partition)
        whole = (Extent(place.start, place.end, place.end - place.start),)
        return RowMap(whole if place.extents is None else place.extents, place.start, place.end)

    def offset_at_time(self, partition: int, timestamp_ms: int) -> int:
        return timestamp_ms


def test_pieces_cover_every_offset_once() -> None:
    table = _Table([_Place(0, 5, 105), _Place(1, 0, 0), _Place(2, 0, 7)])
    pieces = plan_pieces(table, TimeSpan(), piece_rows=30)
    covered = [(piece.partition, offset) for piece in pieces for offset in range(piece.start, piece.stop)]
    assert covered == [(0, offset) for offset in range(5, 105)] + [(2, offset) for offset in range(7)]
    assert max(piece.stop - piece.start for piece in pieces) <= 30


def test_a_gap_of_offsets_makes_neither_pieces_without_end_nor_large_ones() -> None:
    extents = Extent(0, 100, 100), Extent(1 << 32, (1 << 32) + 20, 20)
    pieces = plan_pieces(_Table([_Place(0, 0, 1 << 33, extents=extents)]), TimeSpan(), piece_rows=30)
    assert [(piece.start, piece.stop) for piece in pieces] == [(0, 30), (30, 60), (60, 90), (90, 1 << 33)]
    assert [piece.rows for piece in pieces] == [30] * 4


def test_a_time_chooses_offsets() -> None:
    pieces = plan_pieces(_Table([_Place(0, 5, 105)]), TimeSpan(20, 40))
    assert [(piece.start, piece.stop, piece.log) for piece in pieces] == [(20, 40, 7)]
    assert plan_pieces(_Table([_Place(0, 5, 105)]), TimeSpan(200, 300)) == []


def test_a_replay_that_was_stopped_goes_on_with_the_same_plan(tmp_path: Path) -> None:
    path = tmp_path / "again.replay"
    first = ReplayFile.opened(path, _WHAT, lambda: _PIECES)
    first.record(0, 10)
    first.close()
    with path.open("ab") as file:
        file.write(b'{"epoch": 1, "ro')
    again = ReplayFile.opened(path, _WHAT, pytest.fail)
    assert (again.plan, again.done) == (first.plan, {0: 10})
    again.record(1, 9)
    again.close()
    last = ReplayFile.opened(path, _WHAT, pytest.fail)
    assert last.done == {0: 10, 1: 9}
    last.remove()
    assert not path.exists()


def test_two_replays_have_different_keys(tmp_path: Path) -> None:
    one, other = (ReplayFile.opened(tmp_path / name, _WHAT, lambda: _PIECES) for name in ("a", "b"))
    assert one.plan.query != other.plan.query
    one.close()
    other.close()


def test_the_file_of_another_replay_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "again.replay"
    ReplayFile.opened(path, _WHAT, lambda: _PIECES).close()
    with pytest.raises(InvalidArgument, match=r"another replay that was not finished \(from orders, to again\)"):
        ReplayFile.opened(path, {**_WHAT, "since": "2h"}, pytest.fail)
    path.write_bytes(b"something else\n")
    with pytest.raises(InvalidArgument, match="not the checkpoint of a replay"):
        ReplayFile.opened(path, _WHAT, pytest.fail)
    path.write_bytes(b"")
    with pytest.raises(InvalidArgument, match="not the checkpoint of a replay"):
        ReplayFile.opened(path, _WHAT, pytest.fail)


def test_a_full_queue_is_waited_for_and_nothing_else() -> None:
    tries: list[PenstockError] = [DiskLow(1, 2), DiskLow(1, 2)]

    def write() -> int:
        if tries:
            raise tries.pop()
        return 5

    assert Patience(wait_s=1, pause_s=0.001).tried(write) == 5
    tries.append(DiskLow(1, 2))
    with pytest.raises(DiskLow):
        Patience(wait_s=0).tried(write)
    tries.append(InvalidArgument("wrong"))
    with pytest.raises(InvalidArgument):
        Patience(wait_s=60).tried(write)
