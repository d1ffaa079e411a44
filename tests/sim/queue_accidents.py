"""What befalls a walk: time, restarts, crashes."""

from __future__ import annotations

from tests.sim.queue_model import GroupModel, Message
from tests.sim.queue_world import Seen, World

from penstock.broker.queues import snapshots
from penstock.broker.queues.group import Group
from penstock.kernels.window import EntryState, Window
from penstock.queues.deadletter import Reason

REVOCATION_MS = 30_000
# Who holds a lease is not remembered over a restart.
FORGOTTEN = 0


class Accidents:
    def __init__(self, world: World) -> None:
        self.world, self.lives = world, 0
        self.revoked_ms: dict[tuple[int, int], int] = {}

    # Time

    async def advance(self) -> None:
        """No further than to what is due next: what comes first at one moment is nobody's business."""
        world = self.world
        wanted = world.now + world.random.choice([10, 400, 1_000, 10_000, 40_000, 3_600_000])
        dues = [due for model in world.groups.values() if (due := model.next_due()) is not None]
        dues += [time + REVOCATION_MS for time in self.revoked_ms.values()]
        await self.go_to(max(min([wanted, *dues]), world.now + 1))
        for consumer in world.consumers:
            model = world.model(consumer)
            for partition in range(world.partitions):
                if partition not in consumer.holds and (held := model.held_by(consumer.number, partition)):
                    assert self.revoked_ms[consumer.number, partition] + REVOCATION_MS <= world.now
                    model.give_back(held, counted=True)

    async def go_to(self, due_ms: int) -> None:
        world = self.world
        clock = world.stage.clock
        clock.seconds += (due_ms - clock.wall_ms) / 1000
        clock.wall_ms = due_ms
        world.say("time")
        world.stage.broker.alarms.ring()
        await world.stage.quiet()
        for model in world.groups.values():
            model.ring(due_ms)

    def note_revocations(self) -> None:
        revoked = {
            (consumer.number, hold.partition)
            for consumer in self.world.consumers
            for hold in consumer.holds.values()
            if hold.is_revoked
        }
        self.revoked_ms = {hold: self.revoked_ms.get(hold, self.world.now) for hold in revoked}

    # The end of a broker, and the next one

    async def restart(self) -> None:
        self.world.say("restart")
        await self.world.stage.restart()
        for model in self.world.groups.values():
            model.give_back([m for m in model.all() if m.holder is not None and m.lease is None], counted=False)
        self._begin_anew()

    async def crash(self) -> None:
        """What is on the disk at this moment is opened as if the process were gone."""
        world, stage = self.world, self.world.stage
        is_noted = world.random.random() < 0.5
        world.say(f"crash, deliveries noted: {is_noted}")
        if is_noted:
            await stage.broker.ledger.flush(world.queue.units.values())
        self.lives += 1
        await stage.crash(world.place / str(self.lives))
        await stage.quiet()
        for name, model in world.groups.items():
            self._adopt(world.group(name), model, is_noted)
        self._begin_anew()

    def _adopt(self, group: Group, model: GroupModel, is_noted: bool) -> None:
        """Deliveries that were not in the log yet are forgotten, leases too, and what was passed over; what consumers
        said is not."""
        windows = {partition: group.cursor(unit).window for partition, unit in self.world.queue.units.items()}
        for message in model.all():
            window = windows[message.partition]
            if message.is_passed_over and (message.offset >= window.next or window.entry(message.offset) is not None):
                message.is_settled = message.is_passed_over = False
            if not message.is_settled:
                self._adopt_counts(model, message, window, is_noted)
        model.looked_at = {partition: window.next for partition, window in windows.items()}

    def _adopt_counts(self, model: GroupModel, message: Message, window: Window, is_noted: bool) -> None:
        entry = window.entry(message.offset)
        if entry is None and message.offset < window.next:
            assert message.returns >= model.policy.max_returns, f"{message} is gone"
            model.bury(message, Reason.MAX_DELIVERIES)
            return
        is_leased = entry is not None and entry.state == EntryState.LEASED
        known = (entry.deliveries, entry.failures, entry.returns) if entry is not None else (0, 0, 0)
        assert known[0] <= message.deliveries and known[1] == message.failures, f"{message} {entry}"
        assert known[2] <= message.returns + 1, f"{message} {entry}"
        if is_noted:
            assert known[0] == message.deliveries, f"{message} {entry}"
            assert is_leased == (message.lease is not None), f"{message} {entry}"
        if not is_leased:
            message.holder = message.lease = None
        message.deliveries, _, message.returns = known
        message.first_ms = entry.first if entry is not None else 0

    def _begin_anew(self) -> None:
        world = self.world
        world.consumers, self.revoked_ms = [], {}
        world.publishers = [world.stage.broker.publisher() for _ in range(3)]
        for model in world.groups.values():
            model.clocks.clear()
            model.switches = list(world.switches)
            for message in model.all():
                if message.holder is not None:
                    message.holder = FORGOTTEN if message.lease is not None else None
        world.seen = [
            Seen(s.group, s.message, FORGOTTEN, s.count, True)
            for s in world.seen
            if s.is_lease and s.message.lease is not None and s.message.deliveries == s.count
        ]

    async def snapshot(self) -> None:
        world = self.world
        if not world.queue.units:
            return
        unit = world.random.choice(list(world.queue.units.values()))
        world.say(f"snapshot {unit.partition}")
        await snapshots.write(world.stage.broker.shard, world.queue, unit, world.now)
