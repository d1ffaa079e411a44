"""Jobs: every piece once, results in order, what is finished is not done again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import TypeVar

import pytest
from tests.support.live_tables import LiveTables

from penstock.core.errors import InvalidArgument, NoSuchQueue
from penstock.jobs.finished import FinishedFile
from penstock.jobs.job import Job, run
from penstock.jobs.local import InProcesses, InThisProcess, runner_for
from penstock.jobs.ranges import TimeSpan, plan_queue

Piece = TypeVar("Piece")
Result = TypeVar("Result")


def doubled(number: int) -> int:
    if number == 13:
        raise NoSuchQueue("thirteen")
    return 2 * number


def job(*pieces: int) -> Job[int, int, list[int]]:
    return Job("doubling", pieces, doubled, list, lambda piece: piece)


class Backwards:
    """A runner whose last piece is done first."""

    def results(self, work: Callable[[Piece], Result], pieces: Sequence[Piece]) -> Iterator[tuple[int, Result]]:
        for number in reversed(range(len(pieces))):
            yield number, work(pieces[number])


@pytest.mark.parametrize("runner", [InThisProcess(), Backwards()])
def test_results_are_folded_in_the_order_of_the_pieces(runner: InThisProcess | Backwards) -> None:
    assert run(job(3, 1, 2), runner) == [6, 2, 4]
    assert run(job(), runner) == []


def test_processes_do_the_same_and_their_errors_are_raised_here() -> None:
    assert run(job(3, 1, 2), InProcesses(2)) == [6, 2, 4]
    with pytest.raises(NoSuchQueue, match="thirteen"):
        run(job(1, 13, 2), InProcesses(1))
    with pytest.raises(InvalidArgument, match="write 1 or more"):
        InProcesses(0)


def test_progress_counts_the_size_of_pieces() -> None:
    told: list[tuple[str, int, int]] = []
    run(job(3, 1), InThisProcess(), lambda *said: told.append(said))
    assert told == [("doubling", 0, 4), ("doubling", 3, 4), ("doubling", 4, 4)]


def finished_file(path: Path, question: str = "double") -> FinishedFile[int, int]:
    return FinishedFile(path, question, int, str)


def test_pieces_that_are_finished_are_not_done_again(tmp_path: Path) -> None:
    path = tmp_path / "finished"
    with closing(finished_file(path)) as finished, pytest.raises(NoSuchQueue):
        run(job(1, 2, 13, 3), InThisProcess(), finished=finished)
    with closing(finished_file(path)) as finished:
        assert finished.count == 2
        told: list[int] = []
        assert run(job(1, 2, 3), InThisProcess(), lambda what, done, total: told.append(done), finished) == [2, 4, 6]
        assert told == [3, 6]


def test_a_line_that_a_crash_cut_short_is_done_again(tmp_path: Path) -> None:
    path = tmp_path / "finished"
    with closing(finished_file(path)) as finished:
        run(job(1, 2), InThisProcess(), finished=finished)
    path.write_bytes(path.read_bytes()[:-3])
    with closing(finished_file(path)) as finished:
        assert (finished.result(1), finished.result(2)) == (2, None)
        finished.record(2, 4)
    with closing(finished_file(path)) as finished:
        assert finished.count == 2


def test_what_was_done_for_another_question_is_forgotten(tmp_path: Path) -> None:
    path = tmp_path / "finished"
    with closing(finished_file(path)) as finished:
        finished.record(1, 2)
    with closing(finished_file(path, "treble")) as finished:
        assert finished.count == 0
        finished.remove()
    assert not path.exists()


def test_little_is_done_in_this_process_and_much_in_several() -> None:
    assert isinstance(runner_for(1 << 20, 100), InThisProcess)
    assert isinstance(runner_for(1 << 20, 100, 2), InProcesses)
    assert isinstance(runner_for(100 << 30, 1), InThisProcess)


def test_a_queue_becomes_ranges_that_cover_every_row_once(tmp_path: Path) -> None:
    live = LiveTables(tmp_path)
    logs = [live.create("orders", number) for number in (0, 2)]
    for log in logs:
        live.fill(log, 5)
    live.trim(logs[0], 4)
    ranges = plan_queue(tmp_path, "orders", split_rows=4)
    offsets = [
        (each.partition, offset)
        for each in ranges
        for batch in each.read(["offset"])
        for offset in batch.column(0).to_pylist()
    ]
    assert sorted(offsets) == [*((0, offset) for offset in range(4, 15)), *((2, offset) for offset in range(15))]
    assert len(ranges) > 4
    assert len(plan_queue(tmp_path, "orders", split_rows=None)) == 2
    assert plan_queue(tmp_path, "orders", span=TimeSpan(until_ms=0)) == []
    live.close()
