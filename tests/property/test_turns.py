"""Those who compete for the messages of a group, against a list of messages and who has them: whatever is published,
settled, given back or read again after a restart, each message is at one place, the lowest goes first, nobody with room
goes without while something is ready, and shares are equal."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test
from tests.support.broker import Stage, got, retries
from tests.support.competing import Rival, quiet

from penstock.broker.feed.delivery import Delivery
from penstock.broker.feed.held import Held
from penstock.broker.queues.group import Group
from penstock.broker.queues.queue import Queue

SETTINGS = {
    "ordering": "none",
    "durability": "memory",
    "max_deliveries": 0,
    "retry_policy": retries(1000, total_timeout=0),
    "dlq_config": {"enabled": False},
    "limits": {"message_ttl": 0, "max_queue_depth": 0},
}
PREFETCH, PRIORITY, ROOM = st.sampled_from([0, 0, 1, 3, 10]), st.integers(0, 2), st.sampled_from([0, 2, 1000])
READY, SETTLED = "ready", "settled"


@dataclass
class Message:
    place: object = READY
    """READY, SETTLED, when it comes again, or the number of who holds it"""
    times: int = 0


@dataclass
class World:
    """A broker with one queue and one group."""

    stage: Stage
    queue: Queue = field(init=False)
    group: Group = field(init=False)
    rivals: list[Rival] = field(default_factory=list)

    async def open(self) -> None:
        await self.stage.open()
        self.queue = await self.stage.broker.declare({"name": "q", "partitions": 1} | SETTINGS)
        self.group = await self.stage.broker.group(self.queue, "g")

    async def restart(self) -> None:
        self.rivals.clear()
        await self.stage.restart()
        self.queue = self.stage.broker.queue("q")
        self.group = self.stage.group_of()


class Competing(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.directory = tempfile.TemporaryDirectory()
        self.world = World(Stage(Path(self.directory.name) / "data"))
        self.messages: list[Message] = []
        self.singles: dict[int, Delivery] = {}
        self.is_single = False
        self.active: Rival | None = None
        self.loop.run_until_complete(self.world.open())

    def teardown(self) -> None:
        self.loop.run_until_complete(self.world.stage.broker.close())
        self.loop.close()
        self.directory.cleanup()

    # The model

    def at(self, place: object) -> list[int]:
        return [offset for offset, message in enumerate(self.messages) if message.place == place]

    def take(self, offset: int, number: int, times: int) -> None:
        message = self.messages[offset]
        assert message.place == READY, "nobody had it"
        message.times += 1
        message.place = number
        assert times == message.times

    def in_play(self) -> list[Rival]:
        return [rival for rival in self.world.rivals if not self.is_single or rival is self.active]

    def choose(self) -> None:
        """The first of the highest priority, where the active one has gone."""
        if self.active not in self.world.rivals:
            order = sorted(self.world.rivals, key=lambda rival: -rival.priority)
            self.active = order[0] if order else None

    def step(self, work: Callable[[], Awaitable[object]]) -> dict[Rival, int]:
        """What happens, and all that follows from it: how many messages each got."""

        async def main() -> None:
            await work()
            await quiet(self.world.stage, *self.world.rivals)

        self.loop.run_until_complete(main())
        return self.see()

    def see(self) -> dict[Rival, int]:
        given: dict[Rival, int] = {}
        delivered: list[int] = []
        for rival in self.world.rivals:
            news = got(rival.news())
            for message in news:
                self.take(message.offset, rival.number, message.times)
            given[rival] = len(news)
            delivered += [message.offset for message in news]
            assert not news or rival in self.in_play()
        ready = self.at(READY)
        assert not delivered or not ready or max(delivered) < ready[0], "the lowest go first"
        hungry = [rival for rival in self.in_play() if rival.free > 0]
        assert not ready or not hungry, "nobody with room goes without"
        for low in self.world.rivals:
            if given[low]:
                assert not any(rival.priority > low.priority for rival in hungry), "a higher priority goes first"
        return given

    # What happens

    @rule(count=st.sampled_from([1, 2, 3, 7, 40]))
    def publish(self, count: int) -> None:
        before = {rival: rival.free for rival in self.in_play()}
        offsets = range(len(self.messages), len(self.messages) + count)
        was_ready = bool(self.at(READY))
        self.messages += [Message() for _ in offsets]
        given = self.step(lambda: self.world.stage.put(self.world.queue, *[b"%d" % offset for offset in offsets]))
        if was_ready:
            return
        self.check_shares(before, given)

    def check_shares(self, before: dict[Rival, int], given: dict[Rival, int]) -> None:
        """Equal, as far as there is room: what one could not take is dealt out anew, one more for some each time."""
        for rival in before:
            equals = [other for other in before if other.priority == rival.priority]
            if rival.free > 0:
                narrow = sum(before[other] < 1000 for other in equals)
                assert given[rival] + 1 + narrow >= max(given[other] for other in equals)

    @rule(prefetch=PREFETCH, priority=PRIORITY, room=ROOM)
    def join(self, prefetch: int, priority: int, room: int) -> None:
        if len(self.world.rivals) < 6:

            async def work() -> None:
                self.world.rivals.append(Rival(self.world.stage.broker, self.world.group, prefetch, priority, room))
                self.choose()

            self.step(work)

    @precondition(lambda self: self.world.rivals)
    @rule(data=st.data(), counted=st.booleans())
    def leave(self, data: st.DataObject, counted: bool) -> None:
        gone = data.draw(st.lists(st.sampled_from(self.world.rivals), min_size=1, max_size=3, unique_by=id))

        async def work() -> None:
            for rival in gone:
                rival.feed.close(counted)
                self.world.rivals.remove(rival)
                for offset in self.at(rival.number):
                    self.messages[offset].place = READY
            self.choose()

        self.step(work)

    @precondition(lambda self: self.world.rivals)
    @rule(data=st.data(), prefetch=PREFETCH)
    def limit(self, data: st.DataObject, prefetch: int) -> None:
        rival = data.draw(st.sampled_from(self.world.rivals))

        async def work() -> None:
            rival.competitor.limit(prefetch)

        self.step(work)

    @precondition(lambda self: self.world.rivals)
    @rule(data=st.data(), room=ROOM)
    def open_outlet(self, data: st.DataObject, room: int) -> None:
        rival = data.draw(st.sampled_from(self.world.rivals))

        async def work() -> None:
            rival.left = room
            rival.feed.has_room()

        self.step(work)

    def draw_held(self, data: st.DataObject) -> list[tuple[Held, list[int]]]:
        """Some messages of some deliveries of one of them, current or not, and which of them it holds."""
        rival = data.draw(st.sampled_from(self.world.rivals))
        found = []
        for delivery in data.draw(st.lists(st.sampled_from(rival.deliveries), max_size=3, unique_by=id)):
            places = data.draw(st.none() | st.just(range(0, len(delivery), 2)))
            held = Held(delivery, places)
            current = [
                offset
                for offset, times in zip(held.offsets, held.counts or [], strict=True)
                if self.messages[offset].place == rival.number and self.messages[offset].times == times
            ]
            found.append((held, current))
        return found

    @precondition(lambda self: any(rival.deliveries for rival in self.world.rivals))
    @rule(
        data=st.data(),
        how=st.sampled_from(["ack", "ack", "ack", "release", "counted", "reject", "fail at once", "fail"]),
    )
    def settle(self, data: st.DataObject, how: str) -> None:
        rivals = [rival for rival in self.world.rivals if rival.deliveries]
        rival = data.draw(st.sampled_from(rivals))
        self.world.rivals, others = [rival], self.world.rivals
        try:
            named = self.draw_held(data)
        finally:
            self.world.rivals = others
        settling, now = self.world.stage.broker.settling, self.world.stage.clock.now_ms()
        places = {"ack": SETTLED, "reject": SETTLED, "fail": now + 5000}
        for _, current in named:
            for offset in current:
                self.messages[offset].place = places.get(how, READY)

        async def work() -> None:
            for held, current in named:
                if how == "ack":
                    settled = settling.several([held])
                elif how in ("release", "counted"):
                    settled = settling.release(held, how == "counted")
                elif how == "reject":
                    settled = settling.reject(held)
                else:
                    settled = settling.fail(held, 0 if how == "fail at once" else 5000)
                assert settled.settled.done == len(current)

        self.step(work)

    @rule()
    def advance(self) -> None:
        for message in self.messages:
            if isinstance(message.place, int) and message.place >= 1 << 35:
                message.place = READY
        self.step(lambda: self.world.stage.advance(10))

    @rule()
    def take_one(self) -> None:
        number, ready = self.world.stage.broker.session(), self.at(READY)

        async def work() -> None:
            found = self.world.stage.broker.take_one(self.world.group, number)
            delivery = await found if isinstance(found, asyncio.Task) else found
            assert (delivery is None) == (not ready)
            if delivery is not None:
                [message] = got([delivery])
                assert message.offset == ready[0]
                self.take(message.offset, number, message.times)
                self.singles[number] = delivery

        self.step(work)

    @precondition(lambda self: self.singles)
    @rule(data=st.data(), is_done=st.booleans())
    def end_single(self, data: st.DataObject, is_done: bool) -> None:
        number = data.draw(st.sampled_from(sorted(self.singles)))
        held = Held(self.singles.pop(number))
        [offset] = held.offsets
        self.messages[offset].place = SETTLED if is_done else READY

        async def work() -> None:
            settling = self.world.stage.broker.settling
            if is_done:
                assert settling.ack(held).settled.done == 1
            else:
                self.world.group.free([number], False)

        self.step(work)

    @rule()
    def purge(self) -> None:
        ready = self.at(READY)
        for offset in ready:
            self.messages[offset].place = SETTLED

        async def work() -> None:
            settled = self.world.stage.broker.settling.purge_ready(self.world.group)
            assert settled.settled.done == len(ready)

        self.step(work)

    @rule(is_single=st.booleans())
    def single_active(self, is_single: bool) -> None:
        async def work() -> None:
            if is_single != self.is_single:
                self.active = None
            self.is_single = self.world.group.turns.is_single_active = is_single
            self.choose()

        self.step(work)

    @rule()
    def restart(self) -> None:
        numbers = {rival.number for rival in self.world.rivals} | set(self.singles)
        for message in self.messages:
            if message.place in numbers:
                message.place = READY
        self.singles.clear()
        self.is_single, self.active = False, None
        self.step(self.world.restart)

    @invariant()
    def numbers_are_exact(self) -> None:
        group = self.world.group
        assert group.ready() == len(self.at(READY))
        for rival in self.world.rivals:
            assert rival.competitor.held == len(self.at(rival.number))
        window = group.cursor(self.world.queue.units[0]).window if self.world.queue.units else None
        if window is not None:
            assert window.pending + group.ready() - window.ready == len(self.messages) - len(self.at(SETTLED))
        if self.is_single:
            active = group.turns.active
            assert active is (None if self.active is None else self.active.competitor)


def test_those_who_compete_share_what_there_is() -> None:
    run_state_machine_as_test(Competing, settings=settings(stateful_step_count=30, deadline=None))
