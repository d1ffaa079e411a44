from __future__ import annotations

import asyncio
from array import array
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.support.broker import Stage, stage, values
from tests.support.loop import run

from penstock.broker.feed.consumer import Consumer
from penstock.broker.feed.delivery import Delivery, Taking
from penstock.broker.feed.feed import Feed
from penstock.broker.feed.held import Held
from penstock.broker.feed.stored import StoredBatch
from penstock.broker.queues.group import Group
from penstock.broker.queues.queue import Queue
from penstock.core.errors import DiskLow, PenstockError
from penstock.queues.cursor import NO_DEADLINE


@dataclass
class Door:
    """An outlet that takes so many messages."""

    left: int = 1000
    sent: list[Delivery] = field(default_factory=list)
    asked: int = 0
    is_dismissed: bool = False
    errors: list[BaseException] = field(default_factory=list)

    def room(self) -> int:
        self.asked += 1
        return self.left

    def send(self, deliveries: list[Delivery]) -> int:
        assert sum(map(len, deliveries)) <= self.left
        self.left -= sum(map(len, deliveries))
        self.sent += deliveries
        return len(deliveries)

    def dismissed(self) -> None:
        self.is_dismissed = True

    def broke(self, error: BaseException) -> None:
        self.errors.append(error)


async def opened(s: Stage, door: Door, partitions: int = 1, **settings: object) -> tuple[Queue, Consumer, Feed]:
    queue = await s.queue("q", partitions, **settings)
    member = await s.consumer(queue)
    feed = s.broker.feed(member, door)
    await settled()
    return queue, member, feed


async def settled() -> None:
    for _ in range(4):
        await asyncio.sleep(0)


def test_what_comes_is_sent_as_far_as_there_is_room(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            door = Door(left=4)
            queue, member, feed = await opened(s, door)
            await s.put(queue, b"1", b"2", b"3")
            await s.put(queue, b"4", b"5", b"6")
            await settled()
            assert values(door.sent) == [b"1", b"2", b"3", b"4"]
            door.left = 9
            feed.has_room()
            await settled()
            assert values(door.sent) == [b"1", b"2", b"3", b"4", b"5", b"6"]
            assert (feed.unsent, member.held) == (0, 6)

    run(main())


def test_what_was_handed_out_and_not_sent_waits_for_room(tmp_path: Path) -> None:
    class Narrowing(Door):
        def send(self, deliveries: list[Delivery]) -> int:
            super().send(deliveries[:1])
            self.left = 0
            return 1

    async def main() -> None:
        async with stage(tmp_path) as s:
            door = Narrowing()
            queue, member, feed = await opened(s, door, partitions=2)
            await s.put(queue, b"1", partition=0)
            await s.put(queue, b"2", partition=1)
            await settled()
            assert (len(values(door.sent)), member.held - feed.unsent) == (1, 1)
            door.left = 1
            feed.has_room()
            await settled()
            assert sorted(values(door.sent)) == [b"1", b"2"]

    run(main())


def test_an_outlet_without_room_is_not_looked_for_and_one_that_forgets_to_say_so_is(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            door = Door(left=0)
            queue, member, _feed = await opened(s, door)
            await s.put(queue, b"1")
            await settled()
            assert (door.sent, member.held) == ([], 0)
            door.left = 10
            await s.put(queue, b"2")
            await settled()
            assert values(door.sent) == [b"1", b"2"]

    run(main())


def test_all_that_a_turn_brings_is_looked_for_once(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            door = Door()
            _queue, member, _feed = await opened(s, door)
            before = door.asked
            for _ in range(5):
                member.notify(0)
            await settled()
            assert door.asked == before + 1

    run(main())


def _slow(unit_stored: Callable[[int], object], gate: asyncio.Event) -> Callable[[int], object]:
    async def stored(offset: int) -> object:
        await gate.wait()
        found = unit_stored(offset)
        return await found if asyncio.iscoroutine(found) else found

    return stored


def test_what_is_in_files_is_read_beside_the_rest_and_news_are_not_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue()
            await s.put(queue, b"1")
            unit, gate = queue.units[0], asyncio.Event()
            near = unit.stored_near
            monkeypatch.setattr(unit, "stored", _slow(unit.stored, gate))
            monkeypatch.setattr(unit, "stored_near", lambda offset: near(offset) if gate.is_set() else None)
            monkeypatch.setattr(unit, "batches_from", lambda offset: [])
            door = Door()
            member = await s.consumer(queue)
            feed = s.broker.feed(member, door)
            await settled()
            assert feed.reading is not None and door.sent == []
            await s.put(queue, b"2")
            gate.set()
            await s.quiet()
            await settled()
            assert values(door.sent) == [b"1", b"2"]
            assert feed.reading is None

    run(main())


def test_an_outlet_is_dismissed_when_its_group_is_deleted(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            door = Door(left=0)
            _queue, member, _feed = await opened(s, door)
            await s.broker.declaring.delete_group(member.group)
            await settled()
            assert door.is_dismissed and door.errors == []

    run(main())


def test_an_outlet_is_told_what_could_not_be_read_and_fed_again_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            door = Door()
            queue, member, _feed = await opened(s, door)
            error: PenstockError = DiskLow(1, 2)

            def refuse(limit: int) -> list[Delivery]:
                raise error

            with monkeypatch.context() as broken:
                broken.setattr(member, "receive_now", refuse)
                await s.put(queue, b"1")
                await settled()
            assert (door.errors, door.sent) == ([error], [])
            await s.put(queue, b"2")
            await settled()
            assert values(door.sent) == [b"1", b"2"]

    run(main())


def test_a_feed_that_is_closed_gives_back_and_is_told_nothing_more(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            door = Door()
            queue, member, feed = await opened(s, door)
            await s.put(queue, b"1")
            await settled()
            feed.close()
            feed.close()
            await s.put(queue, b"2")
            await settled()
            assert values(door.sent) == [b"1"] and not door.is_dismissed
            assert member.is_closed
            assert values(await (await s.consumer(queue)).receive(10)) == [b"1", b"2"]

    run(main())


def test_what_was_taken_back_is_not_sent(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            door = Door(left=1)
            queue, _member, feed = await opened(s, door)
            await s.put(queue, b"1", keys=[b"k"])
            await settled()
            feed._unsent.extend(door.sent)
            feed.drop_taken_back()
            assert feed.unsent == 1
            await s.broker.settling.ack(Held(door.sent[0]))
            feed.drop_taken_back()
            assert feed.unsent == 0

    run(main())


class Competitor:
    """One who is no member and shares all partitions with others: what it holds has no lease."""

    def __init__(self, group: Group, number: int) -> None:
        self._group, self._number = group, number
        self.told: Callable[[], None] = lambda: None
        self.is_closed, self.may_have_more = False, False

    def ready(self) -> None:
        self.may_have_more = True
        self.told()

    def receive_now(self, limit: int) -> list[Delivery]:
        return []

    async def receive(self, limit: int) -> list[Delivery]:
        found: list[Delivery] = []
        group, self.may_have_more = self._group, False
        for unit in group.queue.units_in_turn():
            taking = Taking(group, unit, group.cursor(unit), self._number, NO_DEADLINE, lambda: True)
            await taking.take(limit, group.now(), found)
        return found

    def leave(self, counted: bool) -> None:
        self.is_closed = True


def test_one_who_competes_is_fed_and_settles_as_a_member_does(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue()
            group = await s.broker.group(queue, "g")
            await s.put(queue, b"1", b"2", b"3")
            doors = Door(left=2), Door(left=2)
            rivals = [Competitor(group, s.broker.session()) for _ in doors]
            feeds = [s.broker.feed(rival, door) for rival, door in zip(rivals, doors, strict=True)]
            for rival in rivals:
                rival.ready()
            await settled()
            assert [values(door.sent) for door in doors] == [[b"1", b"2"], [b"3"]]
            settling, [first] = s.broker.settling, doors[0].sent
            assert settling.ack(Held(first, [1])).settled == (1, 0)
            assert settling.release(Held(first, [0])).settled == (1, 0)
            doors[1].left = 1
            rivals[1].ready()
            await settled()
            assert values(doors[1].sent) == [b"3", b"1"], "what was given back goes out again, lowest first"
            for feed in feeds:
                feed.close()

    run(main())


def test_messages_are_named_by_their_places_and_by_their_offsets_alike(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue()
            consumer = await s.consumer(queue)
            await s.put(queue, b"1", b"2", b"3")
            [delivery] = await consumer.receive(10)
            assert isinstance(delivery.stored, StoredBatch)
            by_place, whole = Held(delivery, [0, 2]), Held(delivery)
            named = Held.named(delivery.group, delivery.unit, array("q", [0, 2]), array("i", [1, 1]), consumer.number)
            for held in (by_place, named):
                assert (list(held.offsets), list(held.counts or ()), len(held)) == ([0, 2], [1, 1], 2)
            assert list(Held(named.delivery, [1]).offsets) == [2]
            assert (list(whole.offsets), len(whole), whole.current()) == ([0, 1, 2], 3, [0, 1, 2])
            await s.broker.settling.ack(named)
            assert (by_place.current(), whole.current()) == ([], [1])

    run(main())
