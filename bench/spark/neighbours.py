"""Work beside a broker that must not be felt there: on one core, at the lowest priority, while it is told to."""

from __future__ import annotations

import multiprocessing
import os
import time
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from typing import ParamSpec

from bench.mqtt.ring import PAYLOAD_BYTES
from bench.mqtt.servers import cpu_seconds_of, runnable_threads_of
from bench.process import BenchmarkFailed
from bench.spark.stage import spark_session

P = ParamSpec("P")
Step = Callable[[], int]
"""Seconds of work, done over and over; what it returns is kept."""

_LOWEST_PRIORITY = 19
_SAMPLES, _SAMPLE_EVERY_S = 100, 0.02
# The JVM compiles what it runs often: bench/spark/batch.py.
_WARM_UPS = 4
# More than a processor's caches hold, so that memory is read and not only the processor kept busy.
_BURNT_BYTES, _BURNS_A_STEP = 32 << 20, 50


@dataclass(slots=True)
class Work:
    """What was done in one round: the results of the steps, and how long the round and its processors' time were."""

    results: list[int] = field(default_factory=list)
    seconds: float = 0.0
    cpu_s: float = 0.0


class Neighbour:
    """One process, and those that it starts. Steps follow each other without a pause; close() it."""

    def __init__(self, opened: Callable[P, AbstractContextManager[Step]], *args: P.args, **kwargs: P.kwargs) -> None:
        """`opened` is called in the process. It returns when that is ready to work."""
        context = multiprocessing.get_context("spawn")
        self._mine, its = context.Pipe()
        self._process = context.Process(target=_serve, args=(its, opened, args, kwargs))
        self._process.start()
        its.close()
        self._answer()

    @contextmanager
    def at_work(self) -> Iterator[Work]:
        """In the body a step is under way, from before it begins until after it ended; the work is complete then."""
        done = Work()
        self._tell(True)
        self._answer()
        cpu_s, begun = self._cpu_seconds(), time.monotonic()
        try:
            yield done
        finally:
            done.seconds, done.cpu_s = time.monotonic() - begun, self._cpu_seconds() - cpu_s
            self._tell(True)
            done.results += self._answer()

    def runnable_threads(self) -> int:
        """How many of its threads want the core while it works: the median of looks over two seconds."""
        with self.at_work():
            found = [self._look() for _ in range(_SAMPLES)]
        return max(round(median(found)), 1)

    def close(self) -> None:
        if self._process.is_alive():
            self._tell(False)
        self._process.join()
        self._mine.close()

    def _look(self) -> int:
        time.sleep(_SAMPLE_EVERY_S)
        return runnable_threads_of(self._pid)

    def _cpu_seconds(self) -> float:
        return cpu_seconds_of(self._pid)

    @property
    def _pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    def _tell(self, is_to_work: bool) -> None:
        try:
            self._mine.send(is_to_work)
        except BrokenPipeError:
            raise self._ended() from None

    def _answer(self) -> list[int]:
        try:
            answer: list[int] = self._mine.recv()
        except EOFError:
            raise self._ended() from None
        return answer

    def _ended(self) -> BenchmarkFailed:
        self._process.join()
        return BenchmarkFailed(f"what ran beside the broker ended with {self._process.exitcode}")


def _serve(
    asked: Connection,
    opened: Callable[..., AbstractContextManager[Step]],
    args: tuple[object, ...],
    kwargs: dict[str, object],
) -> None:
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    os.nice(_LOWEST_PRIORITY)
    with opened(*args, **kwargs) as step:
        asked.send([])
        while asked.recv():
            step()
            asked.send([])
            results = [step()]
            while not asked.poll():
                results.append(step())
            asked.recv()
            asked.send(results)


@contextmanager
def spark_reading(data: Path, queue: str, place: Path) -> Iterator[Step]:
    """Spark with one task at a time, which reads a whole queue from its directory: all columns of all rows that are
    there by then, counted."""
    with spark_session(place, "local[1]") as spark:

        def read() -> int:
            rows = spark.read.format("penstock").option("queue", queue).load(str(data))
            found = rows.selectExpr("count(*)", "coalesce(sum(length(value)), 0)").first()
            if found is None or found[1] != found[0] * PAYLOAD_BYTES:
                raise BenchmarkFailed(f"values have {PAYLOAD_BYTES} bytes each, Spark reads rows and bytes {found}")
            return int(found[0])

        for _ in range(_WARM_UPS):
            read()
        yield read


@contextmanager
def burning(threads: int) -> Iterator[Step]:
    """So many threads that use the processor and read memory, and do nothing else."""
    fuel = bytes(_BURNT_BYTES)
    with ThreadPoolExecutor(threads) as pool:

        def burn() -> int:
            return sum(pool.map(lambda _: _burn(fuel), range(threads)))

        yield burn


def _burn(fuel: bytes) -> int:
    """The interpreter is let go for the time of a checksum."""
    for _ in range(_BURNS_A_STEP):
        zlib.crc32(fuel)
    return _BURNS_A_STEP
