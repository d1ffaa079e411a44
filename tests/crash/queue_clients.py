"""Those who publish and consume under fire: with keys and without, once and again, alone, by topic and in transactions;
acknowledging, failing, rejecting, committing, pulling, coming and going."""

from __future__ import annotations

import asyncio
import os
import random
from array import array
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field
from itertools import count

from msgspec.structs import replace
from tests.support.arrivals import arrivals
from tests.support.queue_fates import GroupRules
from tests.support.queue_history import (
    Event,
    Left,
    Message,
    Put,
    Putting,
    Refused,
    Settled,
    Settling,
    Took,
    Where,
    encode_event,
    id_of,
    moved_id,
    value_of,
)

from penstock.broker.broker import Broker
from penstock.broker.feed.consumer import Consumer
from penstock.broker.feed.delivery import Delivery
from penstock.broker.feed.held import Held
from penstock.broker.publish.publisher import Publisher
from penstock.broker.publish.request import ProducerCall, Published
from penstock.broker.queues.group import Group
from penstock.broker.queues.queue import Queue
from penstock.core.errors import StaleSettlement
from penstock.log.columns import Columns

Client = Coroutine[object, object, None]

_RETRIES = 2
_QUICK = {"initial_backoff": "5ms", "max_backoff": "20ms"}
_PATIENT = {"performance": {"delivery_timeout": "10m"}, "max_deliveries": "none"}
QUEUES: dict[str, dict[str, object]] = {
    "orders": {"partitions": 3, "retry_policy": {"max_retries": _RETRIES, **_QUICK}},
    "tasks": {"partitions": 2, "retry_policy": {"max_retries": 10_000, **_QUICK}},
    "left": {"partitions": 2, "topics": ["events/#"]},
    "right": {"ordering": "strict", "topics": ["events/#"], "retry_policy": {"max_retries": _RETRIES, **_QUICK}},
}
GROUPS = {
    ("orders", "work"): GroupRules(_RETRIES),
    ("orders", "mover"): GroupRules(_RETRIES),
    ("orders", "bin"): GroupRules(_RETRIES),
    ("tasks", "pull"): GroupRules(10_000),
    ("left", "log"): GroupRules(10),
    ("right", "strict"): GroupRules(_RETRIES, is_strict=True),
}
KEYS = [f"k{number}" for number in range(12)]
# Producers wait beyond it, so that the end of the history can be drained in seconds.
MAX_DEPTH = 200
ONCE_ROWS = 4
LEASE_MS = 400
WAIT_S = 0.2


@dataclass
class Fleet:
    broker: Broker
    history: int
    run: int
    rng: random.Random
    drains: bool
    before: list[Event]
    """of the runs before this one"""
    producing: int = 0
    settling: set[str] = field(default_factory=set)
    """settlements that have not returned"""
    calls: count[int] = field(default_factory=count)

    def tell(self, event: Event) -> None:
        os.write(self.history, encode_event(event))
        if isinstance(event, Settling):
            self.settling.add(event.call)
        elif isinstance(event, Settled | Refused):
            self.settling.discard(event.call)

    def call(self) -> str:
        return f"{self.run}.{next(self.calls)}"

    async def declare(self) -> None:
        for name, settings in QUEUES.items():
            await self.broker.declare({"name": name, **_PATIENT, **settings}, if_absent=True)
        for queue, group in GROUPS:
            await self.broker.group(self.broker.queue(queue), group)

    def group(self, queue: str, group: str) -> Group:
        return next(found for found in self.broker.queue(queue).groups.values() if found.key.name == group)

    async def room(self, *queues: Queue) -> None:
        # Nobody tells when a group has settled something.
        while any(queue.depth() > MAX_DEPTH for queue in queues):  # noqa: ASYNC110
            await asyncio.sleep(0.005)

    # Publishing

    def messages(self, queue: str, producer: str, number: int, rows: int, unkeyed: float = 0.2) -> list[Message]:
        rng = random.Random(f"{producer}.{number}")
        keys = ["" if rng.random() < unkeyed else rng.choice(KEYS) for _ in range(rows)]
        return [Message(queue, f"{producer}.{number}.{row}", key) for row, key in enumerate(keys)]

    def tell_put(self, call: str, published: Sequence[Published]) -> None:
        placed = [Where(done.queue.name, *where) for done in published for where in done.placed]
        self.tell(Put(call, placed))

    # Settling

    async def settle(self, consumer: int, delivery: Delivery, verb: str, places: Sequence[int]) -> None:
        """`places` are those in delivery.rows."""
        if not places:
            return
        offsets = array("q", [delivery.offsets[place] for place in places])
        call = self.tell_settling(consumer, delivery, verb, offsets)
        settling, held = self.broker.settling, Held(replace(delivery, consumer=consumer), places)
        if verb == "ack":
            done = await settling.ack(held)
        elif verb == "fail":
            delay = 0 if self.rng.random() < 0.3 else None
            done = await settling.fail(held, delay)
        else:
            done = await settling.reject(held)
        self.tell(Settled(call, done.done))

    def tell_settling(self, consumer: int, delivery: Delivery, verb: str, offsets: array[int], call: str = "") -> str:
        call = call or self.call()
        group, partition = delivery.group, delivery.unit.partition
        places = [(partition, offset) for offset in offsets]
        self.tell(Settling(call, group.queue.name, group.key.name, consumer, verb, places, self.broker.now()))
        return call

    def tell_took(self, deliveries: Sequence[Delivery]) -> None:
        for delivery in deliveries:
            group, counts = delivery.group, delivery.deliveries
            told = list(counts) if counts is not None else [1] * len(delivery)
            where = group.queue.name, group.key.name, delivery.consumer, delivery.unit.partition
            ids = [id_of(delivery.stored.batch.value(row)) for row in delivery.rows]
            self.tell(Took(*where, list(delivery.offsets), ids, told, self.broker.now(), delivery.deadline))


def columns_of(messages: Sequence[Message], topic: bytes | None = None) -> Columns:
    return Columns.of(
        [value_of(message.id) for message in messages],
        keys=[message.key.encode() for message in messages],
        topics=None if topic is None else [topic] * len(messages),
    )


def producers(fleet: Fleet) -> list[Client]:
    plain = [_produce(fleet, queue, number) for number, queue in enumerate(("orders", "orders", "tasks"))]
    return [*plain, _produce_by_topic(fleet), _produce_once(fleet, "d0"), _produce_once(fleet, "d1")]


def resends(fleet: Fleet) -> list[Client]:
    """What a producer that sends once does not know the fate of, and nothing more."""
    fleet.producing = 2
    return [_produce_once(fleet, "d0"), _produce_once(fleet, "d1")]


def consumers(fleet: Fleet) -> list[Client]:
    streams = [("orders", "work")] * 3 + [("right", "strict")] * 2
    return [
        *[_consume(fleet, *name) for name in streams],
        *[_move(fleet) for _ in range(2)],
        *[_pull(fleet) for _ in range(2)],
        _commit(fleet),
        _reject(fleet),
    ]


async def _produce(fleet: Fleet, name: str, producer_number: int) -> None:
    queue, publisher = fleet.broker.queue(name), fleet.broker.publisher()
    producer = f"p{fleet.run}-{producer_number}"
    for number in count():
        await fleet.room(queue)
        rows = 1 if fleet.rng.random() < 0.5 else fleet.rng.randint(1, 12)
        call, messages = fleet.call(), fleet.messages(name, producer, number, rows)
        fleet.tell(Putting(call, producer, messages))
        fleet.tell_put(call, [await fleet.broker.publishing.put(queue, columns_of(messages), publisher)])


async def _produce_by_topic(fleet: Fleet) -> None:
    """To both queues that the topic is bound to, or to none."""
    names = ("left", "right")
    queues, publisher = [fleet.broker.queue(name) for name in names], fleet.broker.publisher()
    producer = f"t{fleet.run}"
    for number in count():
        await fleet.room(*queues)
        call, rows = fleet.call(), fleet.rng.randint(1, 5)
        both = [fleet.messages(name, producer, number, rows) for name in names]
        fleet.tell(Putting(call, producer, [message for some in both for message in some]))
        columns = columns_of(both[0], b"events/%d" % (number % 3))
        fleet.tell_put(call, await fleet.broker.publishing.publish(columns, publisher))


async def _produce_once(fleet: Fleet, producer: str) -> None:
    """What was not acknowledged before the crash is sent again, and now and then what was."""
    queue, publisher = fleet.broker.queue("orders"), fleet.broker.publisher()
    told = {event.call for event in fleet.before if isinstance(event, Putting) and event.producer == producer}
    done = {event.call for event in fleet.before if isinstance(event, Put)}
    number = max([int(call.split(".")[1]) for call in told & done], default=-1) + 1
    while not fleet.drains or f"{producer}.{number}" in told - done:
        await fleet.room(queue)
        await _put_once(fleet, queue, publisher, producer, number)
        if fleet.rng.random() < 0.2:
            await _put_once(fleet, queue, publisher, producer, number)
        number += 1
    fleet.producing -= 1


async def _put_once(fleet: Fleet, queue: Queue, publisher: Publisher, producer: str, number: int) -> None:
    call, messages = f"{producer}.{number}", fleet.messages("orders", producer, number, ONCE_ROWS, unkeyed=0.0)
    fleet.tell(Putting(call, producer, messages))
    once = ProducerCall(producer.encode(), 0, number * ONCE_ROWS)
    put = fleet.broker.publishing.put(queue, columns_of(messages), publisher, producer=once)
    fleet.tell_put(call, [await put])


async def _consume(fleet: Fleet, queue: str, name: str) -> None:
    """Says all it can say of messages, and goes now and then while it holds some."""
    group, consumer = fleet.group(queue, name), None
    while True:
        consumer = consumer or fleet.broker.join(group, fleet.rng.randint(2, 40))
        found = await arrivals(consumer, fleet.rng.randint(1, 40), WAIT_S)
        fleet.tell_took(found)
        for delivery in found:
            await _settle_some(fleet, consumer.number, delivery)
        if not fleet.drains and fleet.rng.random() < 0.03:
            fleet.tell(Left(queue, name, consumer.number))
            consumer.leave()
            consumer = None


async def _settle_some(fleet: Fleet, consumer: int, delivery: Delivery) -> None:
    """In pieces, so that what a failure takes back is settled too late by a later piece."""
    places, rng = list(range(len(delivery))), fleet.rng
    if rng.random() < 0.3:
        rng.shuffle(places)
    while places:
        size = rng.randint(1, len(places))
        piece, places = places[:size], places[size:]
        verb = "ack" if fleet.drains else rng.choices(["ack", "fail", "reject"], [60, 5, 1])[0]
        await fleet.settle(consumer, delivery, verb, piece[:1] if verb == "reject" else piece)
        if verb == "reject":
            await fleet.settle(consumer, delivery, "ack", piece[1:])


async def _move(fleet: Fleet) -> None:
    """Each message becomes one in each of two queues, in one transaction with its settlement."""
    group, publisher = fleet.group("orders", "mover"), fleet.broker.publisher()
    consumer = fleet.broker.join(group, 20)
    while True:
        await fleet.room(fleet.broker.queue("left"), fleet.broker.queue("right"))
        found = await arrivals(consumer, 10, WAIT_S)
        fleet.tell_took(found)
        for delivery in found:
            places = list(range(len(delivery)))
            if not fleet.drains and fleet.rng.random() < 0.1:
                await fleet.settle(consumer.number, delivery, "fail", places[:1])
                # Now and then with those that the failure has taken back: all of it is refused then.
                places = places[1:]
            if places and not await _move_some(fleet, publisher, consumer, delivery, places):
                for place in places:
                    await _move_some(fleet, publisher, consumer, delivery, [place])


async def _move_some(
    fleet: Fleet, publisher: Publisher, consumer: Consumer, delivery: Delivery, places: list[int]
) -> bool:
    batch, call = delivery.stored.batch, fleet.call()
    rows = [delivery.rows[place] for place in places]
    offsets = array("q", [delivery.offsets[place] for place in places])
    transaction = fleet.broker.transaction(publisher)
    made: list[Message] = []
    for name in ("left", "right"):
        mine = [
            Message(name, moved_id(call, id_of(batch.value(row))), (batch.key(row) or b"").decode()) for row in rows
        ]
        transaction.put(fleet.broker.queue(name), columns_of(mine))
        made += mine
    transaction.ack(Held(delivery, places))
    fleet.tell(Putting(call, "", made))
    fleet.tell_settling(consumer.number, delivery, "ack", offsets, call)
    try:
        fleet.tell_put(call, await transaction.commit())
    except StaleSettlement:
        fleet.tell(Refused(call))
        return False
    fleet.tell(Settled(call, len(offsets)))
    return True


async def _pull(fleet: Fleet) -> None:
    """No member: leases of its own on what it takes from any partition."""
    group, session = fleet.group("tasks", "pull"), fleet.broker.session()
    while True:
        found = await fleet.broker.pull(group, session, fleet.rng.randint(1, 20), WAIT_S, LEASE_MS)
        fleet.tell_took(found)
        for delivery in found:
            places = list(range(len(delivery)))
            fails = not fleet.drains and fleet.rng.random() < 0.2
            split = fleet.rng.randint(0, len(places)) if fails else len(places)
            await fleet.settle(session, delivery, "ack", places[:split])
            if fleet.rng.random() < 0.9:
                await fleet.settle(session, delivery, "fail", places[split:])


async def _commit(fleet: Fleet) -> None:
    """As one who reads a log: all below an offset is done with."""
    group = fleet.group("left", "log")
    consumer = fleet.broker.join(group, 50)
    while True:
        found = await arrivals(consumer, 50, WAIT_S)
        fleet.tell_took(found)
        for delivery in found:
            call = fleet.tell_settling(consumer.number, delivery, "ack", delivery.offsets)
            settling = fleet.broker.settling.commit(group, delivery.unit, delivery.offsets[-1] + 1)
            fleet.tell(Settled(call, await settling))


async def _reject(fleet: Fleet) -> None:
    """Everything, so that a crash is in the middle of a move as often as not."""
    consumer = fleet.broker.join(fleet.group("orders", "bin"), 50)
    while True:
        found = await arrivals(consumer, 50, WAIT_S)
        fleet.tell_took(found)
        for delivery in found:
            await fleet.settle(consumer.number, delivery, "reject", range(len(delivery)))
