"""A seeded random walk of publishers, consumers and accidents through a broker, held against the naive model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path

from tests.sim.queue_accidents import Accidents
from tests.sim.queue_administration import Administration
from tests.sim.queue_consuming import Consuming
from tests.sim.queue_publishing import Publishing
from tests.sim.queue_redriving import DEAD_LETTERS, Redriving
from tests.sim.queue_world import NAME, World

from penstock.broker.browsing import browse
from penstock.queues.deadletter import from_properties

_DAY_MS = 86_400_000
# Where the order is strict, each message that waits for its next try is one more time that others wait for.
_ROUNDS = 100
# The broker collects stages after a day.
_STAGES_KEPT_MS = _DAY_MS - 4 * 3_600_000


class QueueWalk:
    def __init__(self, seed: int, directory: Path, steps: int = 1000) -> None:
        self.steps, self.world = steps, World(seed, directory)
        self.publishing, self.consuming = Publishing(self.world), Consuming(self.world)
        self.administration, self.accidents = Administration(self.world), Accidents(self.world)
        self.redriving = Redriving(self.world)

    @property
    def trace(self) -> list[str]:
        return self.world.trace

    async def run(self) -> None:
        await self.world.stage.open()
        try:
            await self._declare()
            for _ in range(self.steps):
                await self._step()
            await self._finish()
        finally:
            await self.world.stage.broker.close()

    async def _declare(self) -> None:
        world = self.world
        settings = world.policy.settings() | {"partitions": world.partitions, "durability": world.durability}
        await world.stage.broker.declare({"name": NAME, **settings})
        world.publishers = [world.stage.broker.publisher() for _ in range(3)]

    def _actions(self) -> list[tuple[int, Callable[[], Awaitable[None]]]]:
        publishing, consuming = self.publishing, self.consuming
        administration, accidents = self.administration, self.accidents
        return [
            (160, publishing.publish),
            (40, publishing.produce),
            (5, publishing.produce_as_before),
            (15, publishing.stage),
            (15, publishing.commit),
            (2, publishing.abandon),
            (25, self._transact),
            (250, consuming.receive),
            (80, consuming.pull),
            (20, consuming.claim),
            (240, consuming.ack),
            (80, consuming.fail),
            (20, consuming.reject),
            (30, consuming.extend),
            (20, consuming.release),
            (60, consuming.join),
            (30, consuming.leave),
            (10, consuming.commit),
            (10, administration.seek),
            (15, administration.pause_group),
            (8, administration.pause_queue),
            (4, administration.delete_group),
            (5, administration.grow),
            (8, administration.change),
            (2, administration.purge),
            (10, self.redriving.redrive),
            (100, accidents.advance),
            (10, accidents.restart),
            (10, accidents.crash),
            (10, accidents.snapshot),
        ]

    async def _step(self) -> None:
        weights, calls = zip(*self._actions(), strict=True)
        [call] = self.world.random.choices(calls, weights)
        await self.publishing.abandon(_STAGES_KEPT_MS)
        await call()
        await self.world.stage.quiet()
        self.accidents.note_revocations()
        self._check()

    async def _transact(self) -> None:
        """A consumer's own deliveries, of this life of the broker."""
        if chosen := self.consuming.chosen(lambda seen: seen.delivery is not None and not seen.is_lease):
            await self.publishing.transact(chosen)

    # What must hold

    def _check(self) -> None:
        world = self.world
        for name, model in world.groups.items():
            group = world.group(name)
            world.look(name)
            for partition, unit in world.queue.units.items():
                window = group.cursor(unit).window
                assert model.is_floor(partition, window.floor), f"floor of {name} in {partition}"
                reached = [m for m in model.unsettled(partition) if m.offset < window.next]
                assert window.pending == len(reached), f"pending of {name} in {partition}"
            assert group.depth() == model.depth(), f"depth of {name}"
            model.look_at_switches(world.now)
        assert world.stage.dead_letters(DEAD_LETTERS) == len(world.letters())

    async def _finish(self) -> None:
        """Everything that is left comes, and is settled; the dead letters say why they are."""
        while self.world.consumers:
            await self.consuming.leave()
        await self.administration.resume()
        for _ in range(_ROUNDS):
            await self.consuming.drain()
            await self.accidents.go_to(self.world.now + 2 * _DAY_MS)
            self._check()
            if all(message.is_settled for model in self.world.groups.values() for message in model.all()):
                break
        for name, model in self.world.groups.items():
            left = [m for m in model.all() if not m.is_settled]
            assert not left, f"{name} never got {left}"
        assert Counter(await self._letters()) == Counter(self.world.letters())

    async def _letters(self) -> list[tuple[str, int, int, str]]:
        broker, found = self.world.stage.broker, list[tuple[str, int, int, str]]()
        if all(queue.name != DEAD_LETTERS for queue in broker.queues):
            return found
        async for letter in browse(broker, broker.queue(DEAD_LETTERS)):
            facts = from_properties(letter.row.properties or b"")
            assert facts is not None
            found.append((facts.group.name, facts.source.partition, facts.source.offset, facts.reason))
        return found
