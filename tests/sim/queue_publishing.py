"""Who publishes in a walk: connections, producers that send twice, transactions, and sinks that stage."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from tests.sim.queue_world import NAME, Row, Seen, Staged, World

from penstock.broker.feed.held import Held
from penstock.broker.publish.request import ProducerCall, Published
from penstock.broker.queues.queue import Placed
from penstock.core.errors import FencedProducer, OutOfOrder, QueueFull, StaleSettlement
from penstock.log.columns import Columns

KEYS = [b"", b"", b"a", b"b", b"c", b"d"]
ROUTING_KEYS = [b"", b"a", b"a/b", b"b", b"b/c"]
QUERY = "sink"
_HOUR_MS = 3_600_000


@dataclass(slots=True)
class Producer:
    id: bytes
    epoch: int = 0
    placed: list[tuple[int, int]] = field(default_factory=list)
    """partition and offset of each sequence of the epoch"""
    last_ms: int = 0


class Publishing:
    def __init__(self, world: World) -> None:
        self.world, self.values, self.epochs = world, 0, 0
        self.producers: list[Producer] = []
        self.committed: dict[int, object] = {}
        """what was answered, by epoch"""

    def _rows(self, most: int = 8) -> list[Row]:
        draw, rows = self.world.random, list[Row]()
        is_routed, is_expiring = draw.random() < 0.7, draw.random() < 0.2
        for _ in range(draw.randint(1, most)):
            self.values += 1
            routing_key = draw.choice(ROUTING_KEYS) if is_routed else b""
            expiry_ms = self.world.now + draw.choice([5_000, 500_000]) if is_expiring and draw.random() < 0.5 else 0
            rows.append(Row(draw.choice(KEYS), b"%d" % self.values, routing_key, expiry_ms))
        return rows

    def _target(self) -> int | None:
        draw = self.world.random
        return draw.randrange(self.world.partitions) if draw.random() < 0.2 else None

    # Connections

    async def publish(self) -> None:
        world, rows, partition = self.world, self._rows(), self._target()
        publisher, columns = world.random.choice(world.publishers), columns_of(rows)
        numbers = self._numbers(columns, partition, publisher.partition(world.queue))
        world.say(f"publish {list(zip(numbers, rows, strict=True))}")
        if not world.has_room(len(rows)):
            with pytest.raises(QueueFull):
                await world.stage.broker.publishing.put(world.queue, columns, publisher, partition)
            return
        world.make_room(len(rows))
        published = await world.stage.broker.publishing.put(world.queue, columns, publisher, partition)
        self._note(rows, numbers, published.placed)

    def _numbers(self, columns: Columns, partition: int | None, unkeyed: int) -> list[int]:
        if partition is not None:
            return [partition] * columns.count
        return list(columns.partitions(self.world.partitions, unkeyed))

    def _note(self, rows: list[Row], numbers: list[int], placed: Sequence[Placed]) -> list[tuple[int, int]]:
        """Where each row is now."""
        following, found = {each.partition: each.base_offset for each in placed}, list[tuple[int, int]]()
        for number, row in zip(numbers, rows, strict=True):
            found.append((number, following[number]))
            self.world.published(number, following[number], row)
            following[number] += 1
        return found

    async def transact(self, chosen: Sequence[Seen]) -> None:
        """A message that was worked on, and what came of it."""
        world, rows = self.world, self._rows(3)
        publisher, columns = world.publishers[0], columns_of(rows)
        numbers = self._numbers(columns, None, publisher.partition(world.queue))
        delivery = chosen[0].delivery
        assert delivery is not None
        transaction = world.stage.broker.transaction(publisher)
        transaction.put(world.queue, columns)
        offsets = array("q", [seen.message.offset for seen in chosen])
        counts = array("i", [seen.count for seen in chosen])
        transaction.ack(Held.named(delivery.group, delivery.unit, offsets, counts, delivery.consumer))
        world.say(f"transaction {list(zip(numbers, rows, strict=True))} for {delivery.unit.partition}:{list(offsets)}")
        if not world.has_room(len(rows)):
            with pytest.raises(QueueFull):
                await transaction.commit()
            return
        model = world.groups[chosen[0].group]
        if not all(model.is_current(seen.message, seen.holder, seen.count) for seen in chosen):
            with pytest.raises(StaleSettlement):
                await transaction.commit()
            return
        [published] = await transaction.commit()
        # What is dropped for it is dropped when it is staged, and may be what it acknowledges.
        world.make_room(len(rows))
        for seen in chosen:
            if model.is_current(seen.message, seen.holder, seen.count):
                model.ack(seen.message)
        model.settled_by(chosen[0].holder, delivery.unit.partition, world.now)
        self._note(rows, numbers, published.placed)

    # Producers

    async def produce(self) -> None:
        """The next rows of a producer, some of which may have been sent before."""
        world, producer, rows = self.world, self._producer(), self._rows()
        taken = len(producer.placed)
        base = world.random.choice([taken, taken, max(taken - world.random.randint(1, 12), 0), taken + 1])
        call = ProducerCall(producer.id, producer.epoch, base)
        columns = columns_of(rows)
        world.say(f"produce {call} {[(row.key, row.value) for row in rows]}")
        if base > taken and taken:
            with pytest.raises(OutOfOrder):
                await self._put(columns, call)
            return
        base = min(base, taken)
        call = call._replace(base_sequence=base)
        known = min(taken - base, len(rows))
        fresh = rows[known:]
        if fresh and not world.has_room(len(fresh)):
            with pytest.raises(QueueFull):
                await self._put(columns, call)
            return
        if fresh:
            world.make_room(len(fresh))
        published = await self._put(columns, call)
        self._produced(producer, base, known, fresh, published)

    def _producer(self) -> Producer:
        """Of those that were heard of within a day; now and then one that begins anew."""
        world, draw = self.world, self.world.random
        self.producers = [each for each in self.producers if world.now - each.last_ms < 20 * _HOUR_MS]
        if not self.producers or draw.random() < 0.1:
            self.values += 1
            self.producers.append(Producer(b"producer %d" % self.values, last_ms=world.now))
        producer = draw.choice(self.producers)
        if producer.placed and draw.random() < 0.1:
            producer.epoch, producer.placed = producer.epoch + 1, []
        return producer

    async def _put(self, columns: Columns, call: ProducerCall) -> Published:
        world = self.world
        return await world.stage.broker.publishing.put(world.queue, columns, world.publishers[0], None, call)

    def _produced(self, producer: Producer, base: int, known: int, fresh: list[Row], published: Published) -> None:
        assert published.duplicates == known
        placed, answered = list(published.placed), list[tuple[int, int]]()
        while len(answered) < known:
            partition, offset, count = placed.pop(0)
            answered += [(partition, offset + i) for i in range(count)]
        assert answered == producer.placed[base : base + known], "a duplicate was answered otherwise"
        if fresh:
            unkeyed = self.world.publishers[0].partition(self.world.queue)
            numbers = self._numbers(columns_of(fresh), None, unkeyed)
            producer.placed += self._note(fresh, numbers, placed)
            producer.last_ms = self.world.now

    async def produce_as_before(self) -> None:
        """Of an epoch that is over."""
        found = [producer for producer in self.producers if producer.epoch and producer.placed]
        if found:
            producer = self.world.random.choice(found)
            with pytest.raises(FencedProducer):
                await self._put(columns_of(self._rows(1)), ProducerCall(producer.id, producer.epoch - 1, 0))

    # Sinks

    async def stage(self) -> None:
        world, rows, partition = self.world, self._rows(), self._target()
        writer = world.random.choice(["", "w"])
        world.say(f"stage {rows}")
        staging, columns = world.stage.broker.staging, columns_of(rows)
        if not world.has_room(len(rows)):
            with pytest.raises(QueueFull):
                await staging.stage(world.queue, columns, writer=writer, partition=partition)
            return
        place = await staging.stage(world.queue, columns, writer=writer, partition=partition)
        world.staged.append(Staged(place, rows, world.now))

    async def commit(self) -> None:
        """An epoch of one or more stages, or once more one that was committed."""
        world = self.world
        if self.committed and world.random.random() < 0.2:
            await self._commit_again()
            return
        chosen = world.staged[: world.random.randint(1, 3)]
        if not chosen:
            return
        self.epochs += 1
        rows = {row.value: row for staged in chosen for row in staged.rows}
        world.say(f"epoch {self.epochs} of {sorted(rows)}")
        world.drop(len(rows))
        answer = await world.stage.broker.staging.commit(QUERY, self.epochs, [staged.place for staged in chosen])
        world.staged = [staged for staged in world.staged if staged not in chosen]
        self.committed[self.epochs] = answer.placed
        assert not answer.is_repeated and sum(place.rows for place in answer.placed) == len(rows)
        for place in answer.placed:
            await self._find(place.partition, place.base_offset, place.rows, rows)
        assert not rows, f"{sorted(rows)} are nowhere"

    async def _find(self, partition: int, first: int, count: int, rows: dict[bytes, Row]) -> None:
        """What lies there are some of these rows, in the order in which they were staged."""
        order, unit, last = list(rows), self.world.queue.units[partition], -1
        for offset in range(first, first + count):
            stored = await unit.stored(offset)
            assert stored is not None and stored.holds(offset)
            value = stored.batch.value(stored.row_from(offset))
            assert order.index(value) > last, f"{value!r} is out of order"
            last = order.index(value)
            self.world.published(partition, offset, rows.pop(value))

    async def _commit_again(self) -> None:
        epoch = self.world.random.choice(list(self.committed)[-20:])
        answer = await self.world.stage.broker.staging.commit(QUERY, epoch, [])
        assert answer.is_repeated and answer.placed == self.committed[epoch]

    async def abandon(self, older_than_ms: int = -1) -> None:
        """Before the broker does it by itself."""
        world = self.world
        old = [staged for staged in world.staged if world.now - staged.staged_ms > older_than_ms]
        if old:
            world.say(f"abandon {len(old)}")
            assert await world.stage.broker.staging.abandon([staged.place for staged in old]) == len(old)
            world.staged = [staged for staged in world.staged if staged not in old]


def columns_of(rows: Sequence[Row]) -> Columns:
    keys = [row.key for row in rows]
    topics = [f"$queue/{NAME}/".encode() + row.routing_key if row.routing_key else b"$queue/walk" for row in rows]
    expiry = [row.expiry_ms for row in rows]
    return Columns.of(
        [row.value for row in rows],
        keys=keys if any(keys) else None,
        topics=topics if any(row.routing_key for row in rows) else None,
        expiry=expiry if any(expiry) else None,
    )
