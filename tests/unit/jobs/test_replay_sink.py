"""Pieces that are prepared side by side become messages in their order, once, also where the queue is full."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
import pytest

from penstock.core.errors import InvalidArgument, PenstockError, QueueFull
from penstock.jobs.replay_plan import ReplayFile, ReplayPiece
from penstock.jobs.replay_sink import Patience, Preparing, Writing

Piece = TypeVar("Piece")
Result = TypeVar("Result")

_PIECES = [ReplayPiece(0, 10 * number, 10 * number + 10, 10) for number in range(6)]
_WITHOUT_PAUSE = Patience(wait_s=1, pause_s=0.01)


class _LastFirst:
    """All at once, the last piece done first."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def results(self, work: Callable[[Piece], Result], pieces: Sequence[Piece]) -> Iterator[tuple[int, Result]]:
        self.asked.append(len(pieces))
        for number in reversed(range(len(pieces))):
            yield number, work(pieces[number])


class _Room:
    """A queue that takes so many pieces until one of them is committed; then they are consumed at once."""

    def __init__(self, pieces: int = 100, broken: int | None = None) -> None:
        self._pieces, self._broken = pieces, broken
        self.staged: set[int] = set()
        self.committed: list[int] = []

    def prepare(self, query: str, epoch: int, batches: Iterator[pa.RecordBatch]) -> int:
        if epoch == self._broken:
            raise InvalidArgument("broken")
        if len(self.staged) >= self._pieces:
            raise QueueFull("again", self._pieces, self._pieces)
        self.staged.add(epoch)
        return epoch

    def commit(self, query: str, epoch: int, prepared: int) -> int:
        assert epoch == prepared
        self.staged.remove(epoch)
        self.committed.append(epoch)
        return 10

    def discard(self, prepared: int) -> None:
        self.staged.remove(prepared)


@pytest.fixture
def file(tmp_path: Path) -> Iterator[ReplayFile]:
    opened = ReplayFile.opened(tmp_path / "again.replay", {"to": "again"}, lambda: _PIECES)
    yield opened
    opened.close()


def written(file: ReplayFile, room: _Room, patience: Patience = _WITHOUT_PAUSE) -> list[int]:
    """How many pieces were asked for at a time."""
    runner = _LastFirst()
    work = Preparing(lambda piece: iter(()), file.plan.query, room.prepare)
    Writing(file, room, patience, lambda what, done, total: None).run(work, runner)
    return runner.asked


def test_pieces_are_committed_in_their_order_however_they_are_done(file: ReplayFile) -> None:
    room = _Room()
    assert written(file, room) == [6]
    assert room.committed == [0, 1, 2, 3, 4, 5] == list(file.done)


def test_what_is_done_is_not_done_again(file: ReplayFile) -> None:
    file.record(0, 10)
    file.record(3, 10)
    room = _Room()
    assert written(file, room) == [4]
    assert room.committed == [1, 2, 4, 5]


def test_later_pieces_that_fill_the_queue_give_way_to_earlier_ones(file: ReplayFile) -> None:
    room = _Room(pieces=2)
    asked = written(file, room, Patience(wait_s=0))
    assert asked[:2] == [6, 1]
    assert room.committed == [0, 1, 2, 3, 4, 5] and not room.staged


def test_a_queue_that_stays_full_ends_it_with_its_reason(file: ReplayFile) -> None:
    room = _Room(pieces=0)
    with pytest.raises(QueueFull):
        written(file, room, Patience(wait_s=0.02, pause_s=0.01))
    assert not room.staged and not file.done


def test_a_piece_that_fails_leaves_nothing_staged(file: ReplayFile) -> None:
    room = _Room(broken=1)
    with pytest.raises(PenstockError, match="broken"):
        written(file, room)
    assert not room.staged and not room.committed
