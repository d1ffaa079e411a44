"""Members and those who compete, at once in a group with order by key: seeded walks. A message is never at work while
an earlier one of its key waits, or is at another's."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from tests.support.broker import Stage, retries, stage
from tests.support.competing import Fed, Rival, quiet
from tests.support.loop import run

from penstock.broker.feed.held import Held
from penstock.broker.queues.group import Group
from penstock.broker.queues.queue import Queue
from penstock.kernels.pending import EntryState

WALKS, STEPS, KEYS = 10, 120, [b"", b"a", b"b", b"c", b"d"]
SETTINGS = {
    "durability": "memory",
    "max_deliveries": 0,
    "retry_policy": retries(1000, backoff="1s", total_timeout=0),
}


class Walk:
    def __init__(self, seed: int, s: Stage, queue: Queue, group: Group) -> None:
        self.random, self.stage, self.queue, self.group = random.Random(seed), s, queue, group
        self.fed: list[Fed] = []
        self.key_of: dict[tuple[int, int], bytes] = {}
        self.settled: dict[tuple[int, int], int] = {}
        self.published = 0

    async def run(self) -> None:
        for _ in range(STEPS):
            names = ["put"] * 4 + ["settle"] * 6 + ["join", "leave", "advance"]
            await getattr(self, self.random.choice(names))()
            await quiet(self.stage, *self.fed)
            self.check()
        for each in self.fed:
            each.feed.close()
        self.fed = [Rival(self.stage.broker, self.group)]
        while self.group.depth():
            await self.stage.advance(2)
            await quiet(self.stage, *self.fed)
            for delivery in self.fed[0].news():
                await self.ack(Held(delivery))
        assert len(self.settled) == self.published
        assert set(self.settled.values()) == {1}

    async def put(self) -> None:
        count, partition = self.random.choice([1, 2, 9]), self.random.randrange(2)
        keys = [self.random.choice(KEYS) for _ in range(count)]
        placed = await self.stage.put(self.queue, *keys, keys=keys, partition=partition)
        for i, key in enumerate(keys):
            self.key_of[partition, placed.placed[0].base_offset + i] = key
        self.published += count

    async def join(self) -> None:
        if len(self.fed) < 6:
            prefetch, broker = self.random.choice([1, 3, 50]), self.stage.broker
            if self.random.random() < 0.5:
                self.fed.append(Rival(broker, self.group, prefetch))
            else:
                self.fed.append(Fed(broker, broker.join(self.group, prefetch)))

    async def leave(self) -> None:
        if self.fed:
            self.fed.pop(self.random.randrange(len(self.fed))).feed.close(self.random.random() < 0.5)

    async def advance(self) -> None:
        await self.stage.advance(self.random.choice([0.5, 3]))

    async def settle(self) -> None:
        having = [each for each in self.fed if each.deliveries]
        if not having:
            return
        delivery = self.random.choice(self.random.choice(having).deliveries)
        places = sorted(self.random.sample(range(len(delivery)), self.random.randrange(len(delivery)) + 1))
        held, settling = Held(delivery, places), self.stage.broker.settling
        how = self.random.choice(["ack", "ack", "ack", "release", "fail"])
        if how == "ack":
            await self.ack(held)
        elif how == "release":
            await settling.release(held)
        else:
            await settling.fail(held)

    async def ack(self, held: Held) -> None:
        current, unit = held.current(), held.delivery.unit
        offsets = [held.delivery.offsets[place] for place in current]
        assert (await self.stage.broker.settling.ack(held)).done == len(offsets)
        for offset in offsets:
            self.settled[unit.partition, offset] = self.settled.get((unit.partition, offset), 0) + 1

    def check(self) -> None:
        for unit in self.queue.units.values():
            window = self.group.cursor(unit).window
            of_key: dict[bytes, list[tuple[int, int]]] = {}
            for offset in window.offsets():
                entry = window.entry(offset)
                assert entry is not None
                key = self.key_of[unit.partition, offset]
                if key:
                    of_key.setdefault(key, []).append((entry.state, entry.consumer))
            for entries in of_key.values():
                held = [consumer for state, consumer in entries if state == EntryState.INFLIGHT]
                assert [state == EntryState.INFLIGHT for state, _ in entries[: len(held)]] == [True] * len(held)
                assert len(set(held)) <= 1
            for each in self.fed:
                member = self.group.consumers[each.number]
                hold = member.holds.get(unit.partition)
                assert window.held_by(each.number) == (0 if hold is None else hold.held)


@pytest.mark.parametrize("seed", range(WALKS))
def test_order_by_key_holds_beside_those_who_compete(tmp_path: Path, seed: int) -> None:
    async def walk() -> None:
        async with stage(tmp_path) as s:
            queue = await s.broker.declare({"name": "q", "partitions": 2} | SETTINGS)
            await Walk(seed, s, queue, await s.broker.group(queue, "g")).run()

    run(walk())
