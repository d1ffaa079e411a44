"""What several callers put in one turn of the loop, staged at its end as one frame."""

from __future__ import annotations

import asyncio
from array import array
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from functools import partial
from itertools import chain
from typing import NamedTuple, TypeAlias

from penstock.broker.publish.commit import Intake
from penstock.broker.publish.placement import Steps, take_back, unkeyed
from penstock.broker.publish.publisher import Publisher
from penstock.broker.publish.request import PublishRequest, Put, PutFields
from penstock.broker.queues.queue import Placed, Queue
from penstock.core.errors import Closed, PenstockError
from penstock.kernels import hashing
from penstock.log.columns import Columns
from penstock.log.shard import resolve

# Of a frame's 16 MiB, with room for what is stored beside the bytes that are counted.
_TOGETHER_BYTES = 4 << 20
_ROW_BYTES = 64
_ZERO = array("i", [0])

Told = Callable[[Placed | None, BaseException | None], None]
"""where the message went, or what went wrong; called once, on the loop"""


class Row(NamedTuple):
    """One message; its expiry is in ms since 1970, 0 for never."""

    value: bytes
    key: bytes | None = None
    properties: bytes | None = None
    expiry: int = 0
    topic: bytes | None = None
    native: bytes | None = None


_VALUE_ALONE = Row(b"")[1:]


def columns_of(rows: Sequence[Row]) -> Columns:
    """What no row has is no column."""
    if len(rows) == 1 and rows[0][1:] == _VALUE_ALONE:
        return Columns.of([rows[0].value])
    values, keys, properties, expiries, topics, natives = zip(*rows, strict=True) if rows else ((),) * 6
    return Columns.of(
        values,
        keys=_filled(keys),
        properties=_filled(properties),
        expiry=expiries if any(expiries) else None,
        topics=_filled(topics),
        native=_filled(natives),
    )


def _filled(column: Sequence[bytes | None]) -> list[bytes] | None:
    return None if column.count(None) == len(column) else [each or b"" for each in column]


class _Put(NamedTuple):
    row: Row
    publisher: Publisher
    partition: int | None
    told: Told

    def fail(self, error: BaseException) -> None:
        """Each gets an error of its own: threads add to it where they raise it."""
        self.told(None, copy(error))


_Wanted: TypeAlias = Mapping[Queue, Sequence[_Put]]


class _Flight(NamedTuple):
    """What is under way in one frame, in the order of its rows."""

    queues: list[Queue]
    puts: list[_Put]


class JointPuts:
    """Used from the loop. To stage 32 messages alone takes 38 us of processor time each, together 7, over ten
    partitions. While a frame with rows of a queue is under way, what else comes for that queue waits: it could not be
    durable sooner, and comes together. Nobody else is held up."""

    def __init__(self, intake: Intake) -> None:
        self._intake = intake
        self._loop = asyncio.get_running_loop()
        self._waiting: dict[Queue, list[_Put]] = {}
        self._flights: dict[int, _Flight] = {}
        self._under_way: Counter[Queue] = Counter()
        """how many flights have rows of it"""
        self._is_called = False
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def is_busy(self) -> bool:
        """Whether who comes now would meet others; for any thread."""
        return bool(self._flights or self._waiting)

    def put(self, queue: Queue, row: Row, publisher: Publisher, partition: int | None, told: Told) -> None:
        """Messages of one publisher to one queue stay in order."""
        waiting = self._waiting.get(queue)
        if waiting is None:
            waiting = self._waiting[queue] = []
            if queue not in self._under_way:
                self._call()
        waiting.append(_Put(row, publisher, partition, told))

    async def put_and_wait(self, queue: Queue, row: Row, publisher: Publisher, partition: int | None = None) -> Placed:
        """Committed when it returns. Cancelling the wait does not stop the put."""
        placed: asyncio.Future[Placed] = self._loop.create_future()
        self.put(queue, row, publisher, partition, partial(_resolve, placed))
        return await placed

    def refuse(self, error: BaseException) -> None:
        """The loop has ended: nobody else tells those who wait."""
        left = list(chain(*self._waiting.values(), *(flight.puts for flight in self._flights.values())))
        self._waiting.clear()
        self._flights.clear()
        for put in left:
            put.fail(error)

    def _call(self) -> None:
        if not self._is_called:
            self._is_called = True
            self._loop.call_soon(self._end_turn)

    def _end_turn(self) -> None:
        self._is_called = False
        wanted, size = dict[Queue, list[_Put]](), 0
        for queue in [queue for queue in self._waiting if queue not in self._under_way]:
            if size >= _TOGETHER_BYTES:
                self._call()
                break
            puts = self._waiting.pop(queue)
            taken = 0
            for (value, key, properties, _, topic, native), _, _, _ in puts:
                if size >= _TOGETHER_BYTES:
                    break
                beside = len(key or b"") + len(properties or b"") + len(topic or b"") + len(native or b"")
                size += len(value) + beside + _ROW_BYTES
                taken += 1
            if taken < len(puts):
                self._waiting[queue] = puts[taken:]
            wanted[queue] = puts[:taken]
        if wanted:
            self._stage(wanted)

    def _stage(self, wanted: _Wanted) -> None:
        """Together if all of them can be taken at once; else queue by queue, and then one by one, so that whom a
        refusal is about is found out and the others are stored all the same."""
        try:
            is_staged = self._stage_together(wanted)
        except Exception as error:
            # A mistake of ours, which each of them reports: nobody else would end them.
            for put in chain(*wanted.values()):
                put.fail(error)
            return
        if is_staged:
            return
        for queue, puts in wanted.items():
            if len(wanted) > 1:
                self._stage({queue: puts})
            else:
                self._stage_each(queue, puts)

    def _stage_together(self, wanted: _Wanted) -> bool:
        # Asked first: each of them is counted as refused when it is put by itself.
        if sum(map(len, wanted.values())) == 1 or not all(q.has_room(len(puts)) for q, puts in wanted.items()):
            return False
        steps: Steps = []
        is_staged = False
        try:
            placed = [_placed(queue, puts, steps) for queue, puts in wanted.items()]
            fields, rows = [put for put, _ in placed], [put for _, puts in placed for put in puts]
            is_staged = self._try_stage(fields, _Flight(list(wanted), rows))
        except PenstockError:
            return False
        finally:
            if not is_staged:
                take_back(steps)
        return is_staged

    def _stage_each(self, queue: Queue, puts: Sequence[_Put]) -> None:
        """Behind one that has to wait all others do: they stay in order."""
        has_to_wait = False
        for put in puts:
            wanted = Put(queue, columns_of((put.row,)), put.publisher, put.partition)
            flight = _Flight([queue], [put])
            try:
                has_to_wait = has_to_wait or not self._try_stage((wanted,), flight)
            except Exception as error:
                put.fail(error)
                continue
            if has_to_wait:
                self._begin(flight)
                task = self._loop.create_task(self._put(wanted, flight))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    def _try_stage(self, puts: Sequence[PutFields], flight: _Flight) -> bool:
        committed = self._loop.create_future()
        frame = self._intake.try_stage(puts, partial(resolve, committed))
        if frame is None:
            return False
        self._begin(flight)
        placed = frame.placed()
        committed.add_done_callback(lambda done: self._end(flight, placed, done.exception()))
        return True

    async def _put(self, put: Put, flight: _Flight) -> None:
        try:
            [published] = await self._intake.stage(PublishRequest((put,)))
        except asyncio.CancelledError:
            self._end(flight, (), Closed("the broker was closed while the message waited"))
        except Exception as error:
            self._end(flight, (), error)
        else:
            self._end(flight, published.placed, None)

    def _begin(self, flight: _Flight) -> None:
        self._flights[id(flight)] = flight
        self._under_way.update(flight.queues)

    def _end(self, flight: _Flight, placed: Sequence[Placed], error: BaseException | None) -> None:
        if self._flights.pop(id(flight), None) is None:
            return
        for queue in flight.queues:
            self._under_way[queue] -= 1
            if not self._under_way[queue]:
                del self._under_way[queue]
                if queue in self._waiting:
                    self._call()
        if error is not None:
            for put in flight.puts:
                put.fail(error)
            return
        following = iter(flight.puts)
        for partition, base, count in placed:
            for offset in range(base, base + count):
                next(following).told(Placed(partition, offset, 1), None)


def _placed(queue: Queue, puts: Sequence[_Put], steps: Steps) -> tuple[PutFields, Sequence[_Put]]:
    """Rows in the order of partitions, and the puts in that of rows: each goes where it would go without others.
    InvalidArgument for a partition that the queue has not."""
    columns, publisher = columns_of([put.row for put in puts]), puts[0].publisher
    if len(puts) == 1:
        return (queue, columns, publisher, puts[0].partition, None, None), puts
    partitions = queue.settings.partitions
    numbers = columns.partitions(partitions)
    for number, (row, publisher, partition, _) in enumerate(puts):
        if partition is not None:
            numbers[number] = queue.existing(partition)
        elif not row.key:
            numbers[number] = unkeyed(queue, publisher, steps)
    counts, order = _ZERO * partitions, _ZERO * len(puts)
    hashing.scatter(numbers, counts, order)
    used = [number for number, count in enumerate(counts) if count]
    placed = used, array("i", [counts[number] for number in used])
    return (queue, columns.gather(order), publisher, None, None, placed), [puts[row] for row in order]


def _resolve(future: asyncio.Future[Placed], placed: Placed | None, error: BaseException | None) -> None:
    if future.done():
        return
    if placed is None:
        future.set_exception(error or Closed("nobody knows what became of the message"))
    else:
        future.set_result(placed)
