"""Taking messages in: whom a topic feeds, who refuses, one frame for all."""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from time import monotonic
from typing import NamedTuple

from penstock.broker.declaring import Declaring
from penstock.broker.dropping import drop_oldest
from penstock.broker.ledger import state_parts
from penstock.broker.publisher import Publisher
from penstock.broker.queue import Placed, Queue
from penstock.broker.settling import Settling
from penstock.broker.unit import Unit
from penstock.core.errors import InvalidArgument, NoSuchQueue, PenstockError
from penstock.core.metrics import Histogram
from penstock.core.types import Purpose
from penstock.kernels import rows
from penstock.log.columns import Columns
from penstock.log.encoded import Rows
from penstock.log.engine import Done
from penstock.log.partition import Log
from penstock.log.shard import Part, Shard, resolve
from penstock.log.spread import Spread
from penstock.queues import dedup, records
from penstock.queues.dedup import Call, Duplicate, Placement
from penstock.queues.names import queue_of_publish_topic


class ProducerCall(NamedTuple):
    """What a producer says of a publish, so that sending it twice stores it once: its rows have the sequences from
    `base_sequence` on."""

    producer: bytes
    epoch: int
    base_sequence: int


class Published(NamedTuple):
    """Where the rows went, partition by partition. Of those taken before, offsets may be -1: no longer remembered."""

    queue: Queue
    placed: list[Placed]
    duplicates: int = 0


class _TakenBefore(Exception):
    def __init__(self, verdict: Duplicate) -> None:
        self.verdict = verdict


class Publishing:
    """Used from the loop. A call returns when all is committed in every queue it goes to; if one of them refuses, none
    takes it."""

    def __init__(
        self, shard: Shard, declaring: Declaring, settling: Settling, now: Callable[[], int], auto_create: bool
    ) -> None:
        self._shard, self._declaring, self._settling, self._now = shard, declaring, settling, now
        self._auto_create = auto_create
        self.latency = Histogram()
        """of messages, from the call to their commit"""

    def _took(self, begun_s: float, count: int) -> None:
        self.latency.observe(monotonic() - begun_s, count)

    async def put(
        self,
        queue: Queue,
        columns: Columns,
        publisher: Publisher,
        partition: int | None = None,
        producer: ProducerCall | None = None,
    ) -> Published:
        """Into one queue, whatever its bindings."""
        begun_s = monotonic()
        await queue.gate.enter()
        try:
            if producer is not None:
                queue.check(columns)
                return await self._put_once(queue, columns, publisher, partition, producer)
            await self._make_room(queue, columns)
            numbers, spread = await self._spread(queue, columns, publisher, partition)
            offsets = await self._shard.commit_spread(spread)
        finally:
            queue.gate.leave()
        queue.published += columns.count
        self._took(begun_s, columns.count)
        return Published(queue, list(map(Placed, numbers, offsets, spread.counts)))

    def put_now(
        self, queue: Queue, columns: Columns, publisher: Publisher, partition: int | None = None
    ) -> tuple[list[Placed], asyncio.Future[None]] | None:
        """put(), staged in this turn of the loop: where the rows go, and their commit. None if it would have to wait,
        PenstockError if the queue refuses: nothing was staged then."""
        return self._put_now(queue, columns, lambda: queue.gather(columns, publisher, partition))

    def put_placed_now(
        self, queue: Queue, columns: Columns, numbers: list[int], counts: array[int]
    ) -> tuple[list[Placed], asyncio.Future[None]] | None:
        """put_now() of rows that stand in the order of the partitions they go to, so many to each."""
        return self._put_now(queue, columns, lambda: (numbers, counts, columns))

    def _put_now(
        self, queue: Queue, columns: Columns, place: Callable[[], tuple[list[int], array[int], Columns]]
    ) -> tuple[list[Placed], asyncio.Future[None]] | None:
        self.refuse(queue, columns)
        if not queue.gate.enter_now():
            return None
        committed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        placed = None
        try:
            queue.used_ms = self._now()
            if queue.admit(columns.count):
                placed = self._stage_put(queue, *place(), committed)
        finally:
            if placed is None:
                queue.gate.leave()
        return None if placed is None else (placed, committed)

    def _stage_put(
        self,
        queue: Queue,
        numbers: list[int],
        counts: array[int],
        columns: Columns,
        committed: asyncio.Future[None],
    ) -> list[Placed] | None:
        begun_s = monotonic()
        logs = list[Log]()
        for number in numbers:
            unit = queue.units.get(number)
            if unit is None:
                return None
            logs.append(unit.data)

        def done(error: PenstockError | None) -> None:
            queue.gate.leave()
            if error is None:
                queue.published += columns.count
                self._took(begun_s, columns.count)
            resolve(committed, error)

        offsets = self._shard.stage_now(Spread(columns, counts, logs), done)
        return None if offsets is None else list(map(Placed, numbers, offsets, counts))

    async def publish(self, columns: Columns, publisher: Publisher, namespace: str = "default") -> list[Published]:
        """By the topics of the rows. NoSuchQueue for a `$queue/…` topic of no queue where none may be made; ordinary
        topics that feed no queue are passed over."""
        routed = await self._routed(columns, namespace)
        return await self.publish_into(list(routed.items()), publisher) if routed else []

    async def publish_into(
        self, wanted: Sequence[tuple[Queue, Columns]], publisher: Publisher, others: Sequence[Part] = ()
    ) -> list[Published]:
        """Into each queue its rows, and `others` into their logs, in one frame."""
        if len(wanted) == 1 and not others:
            return [await self.put(*wanted[0], publisher)]
        begun_s = monotonic()
        found: list[tuple[Queue, list[tuple[int, Columns]]]] = []
        parts: list[Part] = []
        async with passing([queue for queue, _ in wanted]):
            for queue, mine in wanted:
                self.refuse(queue, mine)
            for queue, mine in wanted:
                some, placed = await self.accept(queue, mine, publisher, None)
                parts += some
                found.append((queue, placed))
            offsets = iter(await self._shard.commit([*parts, *others]))
        published = []
        for queue, placed in found:
            rows_taken = sum([mine.count for _, mine in placed])
            queue.published += rows_taken
            self._took(begun_s, rows_taken)
            published.append(Published(queue, [Placed(p, next(offsets), mine.count) for p, mine in placed]))
        return published

    def publish_now(
        self, wanted: Sequence[tuple[Queue, Columns]], publisher: Publisher, others: Sequence[Part], done: Done
    ) -> bool:
        """Into each queue its rows, and `others` into their logs, one frame, staged in this turn of the loop: what the
        columns refer to may change afterwards. `done` is called when it is committed, or with what went wrong.
        False if it would have to wait, PenstockError if a queue refuses: nothing was staged then."""
        for queue, mine in wanted:
            self.refuse(queue, mine)
        entered: list[Queue] = []
        is_staged = False
        try:
            if (
                self._are_admitted_now(wanted, entered)
                and (placed := _placed_now(wanted, publisher, others)) is not None
            ):
                is_staged = self._shard.stage_now(placed, self._leaving(wanted, done)) is not None
        finally:
            if not is_staged:
                _leave(entered)
        if is_staged:
            for queue, mine in wanted:
                queue.published += mine.count
        return is_staged

    def _leaving(self, wanted: Sequence[tuple[Queue, Columns]], done: Done) -> Done:
        """What follows the commit of what was staged just now."""
        begun_s, count = monotonic(), sum([mine.count for _, mine in wanted])

        def committed(error: PenstockError | None) -> None:
            for queue, _ in wanted:
                queue.gate.leave()
            if error is None and count:
                self._took(begun_s, count)
            done(error)

        return committed

    def _are_admitted_now(self, wanted: Sequence[tuple[Queue, Columns]], entered: list[Queue]) -> bool:
        """False if a gate is closed or room has to be made. Those whose gates were passed are added to `entered`."""
        now = self._now()
        for queue, mine in wanted:
            if not queue.gate.enter_now():
                return False
            entered.append(queue)
            queue.used_ms = now
            if not queue.admit(mine.count):
                return False
        return True

    def targets_now(self, topic: bytes, namespace: str = "default") -> list[Queue] | None:
        """The queues that a topic feeds; None if it names one that would have to be made, or must not be."""
        route = self._declaring.bindings_of(namespace).route(topic)
        if topic.startswith(b"$") and route.prefix_queue is None and queue_of_publish_topic(topic.decode()) is not None:
            return None
        return [self._declaring.queue(name, namespace) for name in route.queues]

    async def targets(self, topic: bytes, namespace: str = "default") -> list[Queue]:
        """The queues that a topic feeds, one made if it names one that is not there."""
        route = self._declaring.bindings_of(namespace).route(topic)
        found = [self._declaring.queue(name, namespace) for name in route.queues]
        if route.prefix_queue is None and (name := queue_of_publish_topic(topic.decode())) is not None:
            if not self._auto_create:
                raise NoSuchQueue(name)
            found.append(await self._declaring.ensure(name, namespace))
        return found

    async def _routed(self, columns: Columns, namespace: str) -> dict[Queue, Columns]:
        topics = columns.topics
        if topics is None or columns.topic_index is None:
            raise InvalidArgument("a publish by topic needs a topic for each message")
        wanted: dict[Queue, bytearray] = {}
        for number, (start, end) in enumerate(zip(topics.starts, topics.ends, strict=True)):
            for queue in await self.targets(bytes(columns.source[start:end]), namespace):
                wanted.setdefault(queue, bytearray(len(topics.starts)))[number] = 1
        return {queue: _rows_of(columns, columns.topic_index, marks) for queue, marks in wanted.items()}

    def refuse(self, queue: Queue, columns: Rows) -> None:
        """Raise what the queue refuses them with. Changes nothing, so that all queues can be asked first."""
        queue.check(columns)
        if not queue.has_room(columns.count):
            raise queue.full()

    async def accept(
        self, queue: Queue, columns: Columns, publisher: Publisher, partition: int | None
    ) -> tuple[list[Part], list[tuple[int, Columns]]]:
        """The parts of the frame, for which room was made; raises what the queue refuses."""
        await self._make_room(queue, columns)
        placed = queue.place(columns, publisher, partition)
        logs = await self.logs(queue, [number for number, _ in placed], columns.count)
        return [(log, mine) for log, (_, mine) in zip(logs, placed, strict=True)], placed

    async def _make_room(self, queue: Queue, columns: Columns) -> None:
        self.refuse(queue, columns)
        await self.make_room(queue, columns.count)

    async def make_room(self, queue: Queue, count: int) -> None:
        """For messages that the queue does not refuse."""
        self.note_use(queue)
        if not queue.admit(count):
            await drop_oldest(queue, count, self._settling)

    def note_use(self, queue: Queue) -> None:
        queue.used_ms = self._now()

    def note_published(self, queue: Queue, count: int, begun_s: float) -> None:
        queue.published += count
        self._took(begun_s, count)

    async def _spread(
        self, queue: Queue, columns: Columns, publisher: Publisher, partition: int | None
    ) -> tuple[list[int], Spread]:
        """The partitions they go to, and their rows over the logs of these."""
        numbers, counts, gathered = queue.gather(columns, publisher, partition)
        return numbers, Spread(gathered, counts, await self.logs(queue, numbers, columns.count))

    async def logs(self, queue: Queue, numbers: Sequence[int], expected: int) -> list[Log]:
        """Those of partitions, made if they are not there. Meanwhile the messages for them count already."""
        units = queue.units
        queue.expected += expected
        try:
            return [(units.get(number) or await queue.unit(number)).data for number in numbers]
        finally:
            queue.expected -= expected

    async def _put_once(
        self, queue: Queue, columns: Columns, publisher: Publisher, partition: int | None, producer: ProducerCall
    ) -> Published:
        begun_s = monotonic()
        unit = await queue.unit(queue.producer_partition(producer.producer))
        known = unit.producers.check(*producer, columns.count)
        if isinstance(known, Duplicate):
            return await self._rest(queue, columns, publisher, partition, producer, known)
        parts, placed = await self.accept(queue, columns, publisher, partition)
        numbers = _partitions_of(queue, columns, placed, publisher.partition(queue))

        def late() -> Sequence[Part]:
            """At the moment at which offsets are given away, so that what is remembered is where the rows are."""
            verdict = unit.producers.check(*producer, columns.count)
            if isinstance(verdict, Duplicate):
                raise _TakenBefore(verdict)
            where = [Placement(number, queue.units[number].data.end, mine.count) for number, mine in placed]
            call = Call.scattered(*producer, where, numbers)
            unit.producers.apply(call, self._now())
            return _call_part(unit, call)

        try:
            offsets = await self._shard.commit(parts, Purpose.PUBLISH, late)
        except _TakenBefore as found:
            verdict = found.verdict
        else:
            queue.published += columns.count
            self._took(begun_s, columns.count)
            mine = offsets[: len(placed)]  # the last is that of the record about the call
            return Published(queue, [Placed(p, o, c.count) for (p, c), o in zip(placed, mine, strict=True)])
        return await self._rest(queue, columns, publisher, partition, producer, verdict)

    async def _rest(
        self,
        queue: Queue,
        columns: Columns,
        publisher: Publisher,
        partition: int | None,
        producer: ProducerCall,
        verdict: Duplicate,
    ) -> Published:
        """The first rows were taken before: wait until they are committed, and take the others."""
        taken = list(_placed(verdict))
        if verdict.rows == columns.count:
            await self._shard.drain()
            return Published(queue, taken, verdict.rows)
        fresh = columns.select(array("i", range(verdict.rows, columns.count)))
        following = producer._replace(base_sequence=producer.base_sequence + verdict.rows)
        published = await self._put_once(queue, fresh, publisher, partition, following)
        return Published(queue, taken + published.placed, verdict.rows + published.duplicates)


@asynccontextmanager
async def passing(queues: Iterable[Queue]) -> AsyncIterator[None]:
    """Through the gates of several queues, all in the same order, so that nobody waits for each other."""
    entered: list[Queue] = []
    try:
        for queue in sorted(set(queues), key=lambda queue: queue.incarnation):
            await queue.gate.enter()
            entered.append(queue)
        yield
    finally:
        for queue in entered:
            queue.gate.leave()


def _placed_now(
    wanted: Sequence[tuple[Queue, Columns]], publisher: Publisher, others: Sequence[Part]
) -> Spread | list[Part] | None:
    """The parts of the frame, as a spread where that can be; None if a partition does not exist yet."""
    parts: list[Part] = []
    for queue, mine in wanted:
        numbers, counts, gathered = queue.gather(mine, publisher)
        logs = [unit.data for unit in map(queue.units.get, numbers) if unit is not None]
        if len(logs) < len(numbers):
            return None
        spread = Spread(gathered, counts, logs)
        if len(wanted) == 1 and not others:
            return spread
        parts += spread.parts()
    return [*parts, *others]


def _leave(queues: Sequence[Queue]) -> None:
    for queue in queues:
        queue.gate.leave()


def _rows_of(columns: Columns, topic_index: array[int], marks: bytearray) -> Columns:
    if all(marks):
        return columns
    chosen = bytearray(columns.count)
    rows.mark_by_number(memoryview(topic_index), marks, chosen)
    return columns.select(array("i", [row for row, mark in enumerate(chosen) if mark]))


def _partitions_of(queue: Queue, columns: Columns, placed: list[tuple[int, Columns]], unkeyed: int) -> Sequence[int]:
    """The partition of each row."""
    if len(placed) == 1:
        return [placed[0][0]] * columns.count
    return columns.partitions(queue.settings.partitions, unkeyed)


def _call_part(unit: Unit, call: Call) -> list[Part]:
    record = records.encode(records.call(dedup.encode(call)))
    unit.records_since_snapshot += 1
    unit.bytes_since_snapshot += len(record)
    return list(state_parts({unit: [record]}))


def _placed(verdict: Duplicate) -> list[Placed]:
    """Runs of rows that lie behind each other."""
    runs: list[Placed] = []
    for partition, offset in zip(*verdict.offsets(), strict=True):
        last = runs[-1] if runs else None
        if last is not None and last.partition == partition and (offset < 0 or offset == last.base_offset + last.rows):
            runs[-1] = last._replace(rows=last.rows + 1)
        else:
            runs.append(Placed(partition, offset, 1))
    return runs
