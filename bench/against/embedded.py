"""A queue inside the process, against a table in SQLite and against persist-queue: what is put and acknowledged is on
the disk when the call returns, on all sides."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import penstock
from bench.against.rivals import PersistQueue, Rival, SqliteQueue
from bench.measure import Benchmark, Comparison, Run, Series, Target, interleaved
from bench.path.load import BATCH_MESSAGES, MESSAGE_BYTES

_CALLERS = 64
_PARTITIONS = 10
_WAIT_S = 30.0


class PenstockQueue:
    """With the settings that a queue has by default: ten partitions, `commit`."""

    name = "Penstock"

    def __init__(self, directory: Path) -> None:
        self._database = penstock.open(directory)
        self._database.declare("work", partitions=_PARTITIONS)
        self._consumer = self._database.consume("work", "bench", prefetch=1000)

    def cycle(self, value: bytes) -> bytes:
        self._database.put("work", value)
        message = self._consumer.get(_WAIT_S)
        assert message is not None
        message.ack()
        return message.value

    def cycle_many(self, values: list[bytes]) -> list[bytes]:
        self._database.put_many("work", values)
        found: list[bytes] = []
        while len(found) < len(values):
            messages = self._consumer.get_many(len(values) - len(found), _WAIT_S)
            assert len(messages)
            self._consumer.ack_many(messages)
            found += messages.values()
        return found

    def close(self) -> None:
        self._consumer.close()
        self._database.close()


class PenstockTasks:
    """The same for tasks of one event loop."""

    def __init__(self, directory: Path) -> None:
        self._runner = asyncio.Runner()
        self._runner.run(self._open(directory))

    def at_once(self, times: int) -> float:
        return self._runner.run(self._at_once(_values(_CALLERS * times)))

    def close(self) -> None:
        self._runner.run(self._close())
        self._runner.close()

    async def _open(self, directory: Path) -> None:
        self._database = await penstock.open_async(directory)
        await self._database.declare("work", partitions=_PARTITIONS)
        self._consumer = self._database.consume("work", "bench", prefetch=1000)

    async def _at_once(self, values: list[bytes]) -> float:
        found: list[bytes] = []
        begun = time.perf_counter()
        await asyncio.gather(*[self._call(values[i::_CALLERS], found) for i in range(_CALLERS)])
        took = time.perf_counter() - begun
        assert sorted(found) == sorted(values)
        return took / len(values)

    async def _call(self, values: list[bytes], found: list[bytes]) -> None:
        for value in values:
            await self._database.put("work", value)
            message = await self._consumer.get(_WAIT_S)
            assert message is not None
            await message.ack()
            found.append(message.value)

    async def _close(self) -> None:
        await self._consumer.close()
        await self._database.close()


def run(settings: Run) -> list[Comparison]:
    directory = settings.directory
    mine, tasks = PenstockQueue(directory / "penstock"), PenstockTasks(directory / "tasks")
    rivals: list[Rival] = [SqliteQueue(directory / "sqlite"), PersistQueue(directory / "persist-queue")]
    one, many, each = settings.size(200, 5), settings.size(10, 2), settings.size(10, 2)
    batch, cycle = f"{BATCH_MESSAGES} messages, one transaction a side: a message", "put + take + ack of a message"
    compared = partial(_compared, settings, rivals)
    found = [
        *compared(partial(_one_by_one, one), {cycle: (partial(_one_by_one, one, mine), 1.0)}),
        *compared(partial(_in_batches, many), {batch: (partial(_in_batches, many, mine), 5.0)}),
        *compared(
            partial(_at_once, each),
            {
                f"{cycle}, {_CALLERS} tasks": (partial(tasks.at_once, each), 10.0),
                f"{cycle}, {_CALLERS} threads": (partial(_at_once, each, mine), None),
            },
        ),
    ]
    tasks.close()
    for queue in (mine, *rivals):
        queue.close()
    return found


def _compared(
    settings: Run,
    rivals: list[Rival],
    measure: Callable[[Rival], float],
    subjects: dict[str, tuple[Callable[[], float], float | None]],
) -> list[Comparison]:
    """Seconds a message, of Penstock in each way and of each of the others, who have threads where there are several
    callers."""
    calls = {name: call for name, (call, _) in subjects.items()}
    samples = interleaved(settings.rounds, calls | {rival.name: partial(measure, rival) for rival in rivals})
    return [
        _comparison(Series(name, samples[name]), Series(rival.name, samples[rival.name]), asked)
        for name, (_, asked) in subjects.items()
        for rival in rivals
    ]


def _comparison(mine: Series, other: Series, asked: float | None) -> Comparison:
    rates = f"{1 / mine.spread.median:,.0f} against {1 / other.spread.median:,.0f}"
    target = None if asked is None else Target(">=", asked)
    return Comparison(mine, other, target=target, notes={"messages a second": rates})


def _one_by_one(times: int, queue: Rival) -> float:
    values = _values(times)
    begun = time.perf_counter()
    found = [queue.cycle(value) for value in values]
    took = time.perf_counter() - begun
    assert found == values
    return took / times


def _in_batches(times: int, queue: Rival) -> float:
    values = _values(BATCH_MESSAGES)
    begun = time.perf_counter()
    found = [queue.cycle_many(values) for _ in range(times)]
    took = time.perf_counter() - begun
    assert all(batch == values for batch in found)
    return took / (times * BATCH_MESSAGES)


def _at_once(times: int, queue: Rival) -> float:
    """Each caller takes what comes, its own message or another's; all are taken in the end, each once."""
    values = _values(_CALLERS * times)
    found: list[bytes] = []

    def call(mine: list[bytes]) -> None:
        found.extend([queue.cycle(value) for value in mine])

    callers = [threading.Thread(target=call, args=[values[i::_CALLERS]]) for i in range(_CALLERS)]
    begun = time.perf_counter()
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    took = time.perf_counter() - begun
    assert sorted(found) == sorted(values)
    return took / len(values)


def _values(count: int) -> list[bytes]:
    return [os.urandom(MESSAGE_BYTES) for _ in range(count)]


BENCHMARK = Benchmark("embedded", "a durable queue in the process, against SQLite and persist-queue", run)
