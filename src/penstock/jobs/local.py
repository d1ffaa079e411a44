"""Pieces done on this machine: one after the other in this process, or in processes of their own."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from multiprocessing import get_context, parent_process
from multiprocessing.process import BaseProcess
from typing import TypeVar

from penstock.core.errors import InvalidArgument
from penstock.core.processors import processors
from penstock.jobs.job import Runner

Piece = TypeVar("Piece")
Result = TypeVar("Result")

# A process takes half a second to start and import Arrow: what is read faster than that is read here.
WORTH_A_PROCESS_BYTES = 512 << 20


class InThisProcess:
    """One after the other, in the caller's thread."""

    def results(self, work: Callable[[Piece], Result], pieces: Sequence[Piece]) -> Iterator[tuple[int, Result]]:
        for number, piece in enumerate(pieces):
            yield number, work(piece)


class InProcesses:
    """Spawned ones, which end with the job: forked ones would inherit locks that Arrow's threads hold."""

    def __init__(self, processes: int) -> None:
        if processes < 1:
            raise InvalidArgument(f"{processes} processes cannot do anything: write 1 or more")
        self._processes = processes

    def results(self, work: Callable[[Piece], Result], pieces: Sequence[Piece]) -> Iterator[tuple[int, Result]]:
        if not pieces:
            return
        count = min(self._processes, len(pieces))
        pool = ProcessPoolExecutor(count, get_context("spawn"), initializer=_end_with_parent)
        with pool:
            numbers: dict[Future[Result], int] = {pool.submit(work, piece): at for at, piece in enumerate(pieces)}
            try:
                for future in as_completed(numbers):
                    yield numbers[future], future.result()
            finally:
                pool.shutdown(wait=True, cancel_futures=True)


def _end_with_parent() -> None:
    """A process of a pool whose parent was killed would wait for work for ever."""
    parent = parent_process()
    if parent is not None:
        threading.Thread(target=_exit_after, args=[parent], daemon=True).start()


def _exit_after(parent: BaseProcess) -> None:
    parent.join()
    os._exit(1)


def runner_for(size_bytes: int, pieces: int, processes: int | None = None) -> Runner:
    """Of a job of that size: as many processes as asked for, or as are worth starting."""
    if processes is None:
        processes = max(1, min(processors(), pieces, size_bytes // WORTH_A_PROCESS_BYTES))
    return InThisProcess() if processes == 1 else InProcesses(processes)
