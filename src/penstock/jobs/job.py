"""A job: pieces that can be done anywhere, the function that does one, and what their results make together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

Piece = TypeVar("Piece")
Result = TypeVar("Result")
Total = TypeVar("Total")
Known = TypeVar("Known", contravariant=True)

Progress = Callable[[str, int, int], None]
"""(what is being done, how much of it is done, how much there is), called as often as one likes"""


@dataclass(frozen=True, slots=True)
class Job(Generic[Piece, Result, Total]):
    """`work` and the pieces are pickled: `work` is a function of a module, or an instance of a class of one, and all
    that it needs is in its piece. Pieces know nothing of each other, and may be done at once and in any order; one that
    was done and whose result was lost is done again, and must then leave the same behind."""

    name: str
    pieces: Sequence[Piece]
    work: Callable[[Piece], Result]
    fold: Callable[[Iterable[Result]], Total]
    """takes the results in the order of the pieces"""
    size: Callable[[Piece], int]
    """what progress counts, in any unit"""


class Runner(Protocol):
    """Where pieces are done."""

    def results(self, work: Callable[[Piece], Result], pieces: Sequence[Piece]) -> Iterator[tuple[int, Result]]:
        """Number of each piece and its result, as they are done. What a piece raises is raised here, and what is not
        begun yet is left undone."""
        ...


class Finished(Protocol[Known, Result]):
    """What remembers pieces that were done, so that a job that was stopped goes on where it was."""

    def result(self, piece: Known) -> Result | None: ...

    def record(self, piece: Known, result: Result) -> None:
        """Durable when it returns."""
        ...


def run(
    job: Job[Piece, Result, Total],
    runner: Runner,
    progress: Progress | None = None,
    finished: Finished[Piece, Result] | None = None,
) -> Total:
    """Every piece that is not finished yet, and what they all make together. `progress` and `finished` are called in
    this thread."""
    tell = progress or _silent
    results: dict[int, Result] = {}
    for number, piece in enumerate(job.pieces):
        if finished is not None and (known := finished.result(piece)) is not None:
            results[number] = known
    left = [number for number in range(len(job.pieces)) if number not in results]
    sizes = list(map(job.size, job.pieces))
    total, done = sum(sizes), sum(sizes[number] for number in results)
    tell(job.name, done, total)
    for at, result in runner.results(job.work, [job.pieces[number] for number in left]):
        number = left[at]
        if finished is not None:
            finished.record(job.pieces[number], result)
        results[number] = result
        done += sizes[number]
        tell(job.name, done, total)
    return job.fold(results[number] for number in range(len(job.pieces)))


def _silent(what: str, done: int, total: int) -> None:
    """Nobody asked for progress."""
