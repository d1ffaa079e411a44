"""A seeded random walk of publishers, consumers and accidents through a broker, held against the naive model."""

from __future__ import annotations

import random
import shutil
from array import array
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from tests.sim.queue_model import GroupModel, Message, Policy
from tests.support.broker import Got, Stage, got

from penstock.broker import snapshots
from penstock.broker.consumer import Consumer
from penstock.broker.group import Group
from penstock.broker.publisher import Publisher
from penstock.broker.queue import Queue
from penstock.broker.start import LATEST, Start
from penstock.kernels.window import EntryState
from penstock.log.columns import Columns

NAME = "walk"
KEYS = [b"", b"", b"a", b"b", b"c", b"d"]
REVOCATION_MS = 30_000
ANYBODY = -1
# Who holds a lease is not remembered over a restart.
FORGOTTEN = 0
MAX_CONSUMERS = 4


@dataclass(frozen=True, slots=True)
class Seen:
    """A delivery that somebody may settle, current or not."""

    group: str
    message: Message
    holder: int
    count: int
    is_lease: bool


class QueueWalk:
    def __init__(self, seed: int, directory: Path, steps: int = 1000) -> None:
        self.random = random.Random(seed)
        self.steps, self.trace = steps, list[str]()
        draw = self.random
        self.is_strict = draw.random() < 0.25
        self.partitions = 1 if self.is_strict else draw.choice([1, 2, 3])
        self.policy = Policy(
            draw.choice([1, 3, 20]),
            draw.choice([1_000, 10_000]),
            draw.choice([2, 1000]),
            draw.choice([0, 0, 600_000]),
            self.is_strict,
        )
        self.durability = draw.choice(["memory", "memory", "interval", "commit"])
        self.place, self.lives = directory, 0
        self.stage = Stage(directory / "0")
        self.groups: dict[str, GroupModel] = {}
        self.values = 0
        self.history: list[tuple[int, int, bytes, bytes]] = []
        """partition, offset, key and value of every message"""
        self.publishers: list[Publisher] = []
        self.consumers: list[Consumer] = []
        self.seen: list[Seen] = []
        self.revoked_ms: dict[tuple[int, int], int] = {}

    # The walk

    async def run(self) -> None:
        await self.stage.open()
        try:
            await self._declare()
            for _ in range(self.steps):
                await self._step()
            await self._finish()
        finally:
            await self.stage.broker.close()

    async def _declare(self) -> None:
        settings = self.policy.settings() | {"partitions": self.partitions, "durability": self.durability}
        await self.stage.broker.declare({"name": NAME, **settings})
        self.publishers = [self.stage.broker.publisher() for _ in range(3)]

    async def _step(self) -> None:
        actions: list[tuple[int, Callable[[], Awaitable[None]]]] = [
            (20, self._publish),
            (25, self._receive),
            (8, self._pull),
            (25, self._ack),
            (8, self._fail),
            (2, self._reject),
            (3, self._extend),
            (5, self._join),
            (3, self._leave),
            (10, self._advance),
            (1, self._commit),
            (1, self._seek),
            (2, self._pause),
            (1, self._restart),
            (1, self._crash),
            (1, self._snapshot),
        ]
        weights, calls = zip(*actions, strict=True)
        [call] = self.random.choices(calls, weights)
        await call()
        await self.stage.quiet()
        self._note_revocations()
        self._check()

    def say(self, text: str) -> None:
        self.trace.append(f"{self.stage.clock.now_ms() % 10**9} {text}")

    @property
    def queue(self) -> Queue:
        return self.stage.broker.queue(NAME)

    @property
    def now(self) -> int:
        return self.stage.clock.now_ms()

    def group(self, name: str) -> Group:
        return self.stage.group_of(NAME, name)

    def model(self, consumer: Consumer) -> GroupModel:
        return self.groups[consumer.group.key.name]

    # Publishing

    async def _publish(self) -> None:
        draw, publisher = self.random, self.random.choice(self.publishers)
        keys = [draw.choice(KEYS) for _ in range(draw.randint(1, 8))]
        partition = draw.randrange(self.partitions) if draw.random() < 0.2 else None
        values = [b"%d" % (self.values + i) for i in range(len(keys))]
        self.values += len(keys)
        columns = Columns.of(values, keys=keys if any(keys) else None)
        if partition is None:
            numbers = list(columns.partitions(self.partitions, publisher.partition(self.queue)))
        else:
            numbers = [partition] * len(keys)
        published = await self.stage.broker.publishing.put(self.queue, columns, publisher, partition)
        following = {placed.partition: placed.base_offset for placed in published.placed}
        for number, key, value in zip(numbers, keys, values, strict=True):
            for model in self.groups.values():
                model.add(Message(number, following[number], key, value))
            self.history.append((number, following[number], key, value))
            following[number] += 1
        self.say(f"publish {list(zip(numbers, keys, strict=True))}")

    # Consuming

    async def _group(self) -> Group:
        name = self.random.choice(["g", "g", "h", "late"])
        if name not in self.groups:
            start = LATEST if name == "late" else Start.parse("earliest")
            group = await self.stage.broker.group(self.queue, name, start)
            ends = {partition: unit.data.end for partition, unit in self.queue.units.items()}
            starts = ends if name == "late" else {}
            model = self.groups[name] = GroupModel(self.policy, dict(starts), dict(ends))
            for made in self.history:
                model.add(Message(*made))
            self.say(f"group {name} from {starts}")
            return group
        return self.group(name)

    async def _join(self) -> None:
        if len(self.consumers) >= MAX_CONSUMERS:
            return
        consumer = self.stage.broker.join(await self._group(), self.random.choice([1, 3, 50]))
        self.consumers.append(consumer)
        self.say(f"join {consumer.group.name} {consumer.number} prefetch {consumer.prefetch}")

    async def _leave(self) -> None:
        if not self.consumers:
            return
        consumer = self.consumers.pop(self.random.randrange(len(self.consumers)))
        self.say(f"leave {consumer.number}")
        model = self.model(consumer)
        await self.stage.broker.leave(consumer)
        model.give_back(model.held_by(consumer.number), counted=True)

    async def _receive(self) -> None:
        if not self.consumers:
            return
        consumer = self.random.choice(self.consumers)
        limit = self.random.choice([1, 4, 100])
        owned = consumer.partitions
        found = got(await consumer.receive(limit))
        self.say(f"receive {consumer.number} of {owned}: {found}")
        model = self.model(consumer)
        assert not (found and model.is_paused)
        assert len(found) <= limit
        self._take(consumer.group.key.name, found, consumer.number, None)
        assert {message.partition for message in found} <= set(owned)
        held = model.held_by(consumer.number)
        assert len(held) == consumer.held <= consumer.prefetch
        if len(found) < limit and len(held) < consumer.prefetch and not model.is_paused:
            for partition in owned:
                self._nothing_left(model, partition)

    def _nothing_left(self, model: GroupModel, partition: int) -> None:
        for message in model.messages.get(partition, {}).values():
            assert not model.is_next(message, self.now), f"{message} was skipped"

    async def _pull(self) -> None:
        if not self.groups:
            return
        name = self.random.choice(list(self.groups))
        session, lease_ms = self.stage.broker.session(), self.random.choice([1_000, 7_000, 100_000])
        limit = self.random.choice([1, 3, 100])
        found = got(await self.stage.broker.pull(self.group(name), session, limit, lease_ms=lease_ms))
        self.say(f"pull {name} {session} lease {lease_ms}: {found}")
        self._take(name, found, session, self.now + lease_ms)
        if len(found) < limit and not self.groups[name].is_paused:
            for partition in range(self.partitions):
                self._nothing_left(self.groups[name], partition)

    def _take(self, name: str, found: list[Got], holder: int, lease: int | None) -> None:
        model = self.groups[name]
        for partition, offset, value, count in found:
            message = model.messages[partition][offset]
            assert message.value == value
            model.given(message, holder, count, self.now, lease)
            self.seen.append(Seen(name, message, holder, count, lease is not None))

    # Settling

    def _chosen(self) -> list[Seen]:
        """Some of what one holder was given of one partition, mostly of late, in rising order."""
        if not self.seen:
            return []
        recent = self.seen[-30:] if self.random.random() < 0.8 else self.seen
        one = self.random.choice(recent)
        share = self.random.choice([0.3, 1.0])
        mine = {
            seen.message.offset: seen
            for seen in recent
            if (seen.group, seen.holder, seen.message.partition) == (one.group, one.holder, one.message.partition)
            and (seen is one or self.random.random() < share)
        }
        return [mine[offset] for offset in sorted(mine)]

    def _named(self, chosen: list[Seen]) -> tuple[Group, array[int], array[int], int, int]:
        first = chosen[0]
        holder = ANYBODY if first.is_lease and self.random.random() < 0.5 else first.holder
        offsets = array("q", [seen.message.offset for seen in chosen])
        return (
            self.group(first.group),
            offsets,
            array("i", [seen.count for seen in chosen]),
            holder,
            first.message.partition,
        )

    def _is_current(self, seen: Seen, holder: int) -> bool:
        message = seen.message
        if holder == ANYBODY:
            return message.holder is not None and message.deliveries == seen.count and not message.is_settled
        return self.groups[seen.group].is_current(message, holder, seen.count)

    async def _ack(self) -> None:
        await self._settle("ack")

    async def _fail(self) -> None:
        await self._settle("fail")

    async def _reject(self) -> None:
        await self._settle("reject")

    async def _settle(self, verb: str) -> None:
        chosen = self._chosen()
        if not chosen:
            return
        group, offsets, counts, holder, partition = self._named(chosen)
        unit, settling = self.queue.units[partition], self.stage.broker.settling
        delay_ms = self.random.choice([None, 0, 500, 86_400_000])
        self.say(f"{verb} {group.name} {partition}:{list(offsets)} counts {list(counts)} by {holder} delay {delay_ms}")
        if verb == "fail":
            result = await settling.fail(group, unit, offsets, counts, holder, delay_ms)
        elif verb == "ack":
            result = await settling.ack(group, unit, offsets, counts, holder)
        else:
            result = await settling.reject(group, unit, offsets, counts, holder)
        expected = self._settled(chosen, holder, verb, delay_ms)
        assert (result.done, result.stale) == expected, f"{result} expected {expected}"

    def _settled(self, chosen: list[Seen], holder: int, verb: str, delay_ms: int | None) -> tuple[int, int]:
        done, model = 0, self.groups[chosen[0].group]
        for seen in chosen:
            if not self._is_current(seen, holder):
                continue
            done += 1
            if verb == "ack":
                model.ack(seen.message)
            elif verb == "reject":
                model.bury(seen.message)
            else:
                model.fail(seen.message, self.now, delay_ms)
        if done and holder != ANYBODY:
            model.settled_by(holder, chosen[0].message.partition, self.now)
        return done, len(chosen) - done

    async def _extend(self) -> None:
        chosen = [seen for seen in self._chosen() if seen.is_lease]
        if not chosen:
            return
        group, offsets, counts, holder, partition = self._named(chosen)
        deadline = self.now + 20_000
        self.say(f"extend {partition}:{list(offsets)} by {holder}")
        unit = self.queue.units[partition]
        result = await self.stage.broker.settling.extend(group, unit, offsets, counts, holder, deadline)
        current = [seen for seen in chosen if self._is_current(seen, holder)]
        for seen in current:
            seen.message.lease = deadline
        assert result == (len(current), len(chosen) - len(current))

    async def _commit(self) -> None:
        if not self.groups or not self.queue.units:
            return
        name, unit = self.random.choice(list(self.groups)), self.random.choice(list(self.queue.units.values()))
        offset = self.random.randint(0, unit.end)
        self.say(f"commit {name} {unit.partition}:{offset}")
        await self.stage.broker.settling.commit(self.group(name), unit, offset)
        self.groups[name].commit(unit.partition, offset)

    async def _seek(self) -> None:
        if not self.groups or not self.queue.units:
            return
        name, unit = self.random.choice(list(self.groups)), self.random.choice(list(self.queue.units.values()))
        offset = self.random.randint(0, unit.end)
        self.say(f"seek {name} {unit.partition}:{offset}")
        start = Start.at_offset(offset, unit.partition)
        await self.stage.broker.declaring.seek(self.group(name), start, [unit.partition])
        self.groups[name].seek(unit.partition, offset, unit.end)
        self.seen = [s for s in self.seen if (s.group, s.message.partition) != (name, unit.partition)]

    async def _pause(self) -> None:
        if not self.groups:
            return
        name = self.random.choice(list(self.groups))
        model = self.groups[name]
        model.is_paused = not model.is_paused
        self.say(f"pause {name} {model.is_paused}")
        await self.stage.broker.declaring.pause_group(self.group(name), model.is_paused)

    # Time and accidents

    async def _advance(self) -> None:
        """No further than to what is due next: what comes first at one moment is nobody's business."""
        wanted = self.now + self.random.choice([10, 400, 1_000, 10_000, 40_000, 3_600_000])
        dues = [due for model in self.groups.values() if (due := model.next_due()) is not None]
        dues += [time + REVOCATION_MS for time in self.revoked_ms.values()]
        due = max(min([wanted, *dues]), self.now + 1)
        self.stage.clock.wall_ms = due
        self.say("time")
        self.stage.broker.alarms.ring()
        await self.stage.quiet()
        for model in self.groups.values():
            model.ring(due)
        for consumer in self.consumers:
            model = self.model(consumer)
            for partition in range(self.partitions):
                if partition not in consumer.holds and (held := model.held_by(consumer.number, partition)):
                    assert self.revoked_ms[consumer.number, partition] + REVOCATION_MS <= due
                    model.give_back(held, counted=True)

    def _note_revocations(self) -> None:
        revoked = {
            (consumer.number, hold.partition)
            for consumer in self.consumers
            for hold in consumer.holds.values()
            if hold.is_revoked
        }
        self.revoked_ms = {hold: self.revoked_ms.get(hold, self.now) for hold in revoked}

    async def _restart(self) -> None:
        self.say("restart")
        await self.stage.restart()
        for model in self.groups.values():
            model.give_back([m for m in model.all() if m.holder is not None and m.lease is None], counted=False)
        self._begin_anew()

    async def _crash(self) -> None:
        """What is on the disk at this moment is opened as if the process were gone."""
        is_noted = self.random.random() < 0.5
        self.say(f"crash, deliveries noted: {is_noted}")
        if is_noted:
            await self.stage.broker.ledger.flush(self.queue.units.values())
        self.lives += 1
        copy = self.place / str(self.lives)
        # Behind a checkpoint the threads of the shard rest: the copy is of one moment.
        await self.stage.broker.shard.checkpoint()
        shutil.copytree(self.stage.directory, copy)
        before, self.stage.directory = self.stage.directory, copy
        await self.stage.restart()
        shutil.rmtree(before)
        await self.stage.quiet()
        for name, model in self.groups.items():
            self._adopt_counts(self.group(name), model, is_noted)
        self._begin_anew()

    def _adopt_counts(self, group: Group, model: GroupModel, is_noted: bool) -> None:
        """Deliveries that were not in the log yet are forgotten, leases too; what consumers said is not."""
        for message in model.all():
            if message.is_settled:
                continue
            window = group.cursor(self.queue.units[message.partition]).window
            entry = window.entry(message.offset)
            if entry is None and message.offset < window.next:
                assert message.returns >= self.policy.max_returns, f"{message} is gone"
                model.bury(message)
                continue
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
        self.consumers, self.revoked_ms = [], {}
        self.publishers = [self.stage.broker.publisher() for _ in range(3)]
        for model in self.groups.values():
            model.clocks.clear()
            for message in model.all():
                if message.holder is not None:
                    message.holder = FORGOTTEN if message.lease is not None else None
        self.seen = [
            Seen(s.group, s.message, FORGOTTEN, s.count, True)
            for s in self.seen
            if s.is_lease and s.message.lease is not None and s.message.deliveries == s.count
        ]

    async def _snapshot(self) -> None:
        if not self.queue.units:
            return
        unit = self.random.choice(list(self.queue.units.values()))
        self.say(f"snapshot {unit.partition}")
        await snapshots.write(self.stage.broker.shard, self.queue, unit, self.now)

    # What must hold

    def _check(self) -> None:
        for name, model in self.groups.items():
            group = self.group(name)
            for partition, unit in self.queue.units.items():
                window = group.cursor(unit).window
                assert model.is_floor(partition, window.floor), f"floor of {name} in {partition}"
                messages = model.messages.get(partition, {}).values()
                reached = [m for m in messages if m.offset < window.next and not m.is_settled]
                assert window.pending == len(reached), f"pending of {name} in {partition}"
            assert group.depth() == model.depth(), f"depth of {name}"
        assert self.stage.dead_letters(f"$dlq/{NAME}") == sum(len(model.dead) for model in self.groups.values())

    async def _finish(self) -> None:
        """Everything that is left comes, and is settled."""
        for consumer in list(self.consumers):
            self.consumers.remove(consumer)
            model = self.model(consumer)
            await self.stage.broker.leave(consumer)
            model.give_back(model.held_by(consumer.number), counted=True)
        for name, model in self.groups.items():
            await self.stage.broker.declaring.pause_group(self.group(name), False)
            model.is_paused = False
        for _ in range(3):
            await self._drain()
            self.stage.clock.advance(2 * 86_400)
            self.stage.broker.alarms.ring()
            await self.stage.quiet()
            for model in self.groups.values():
                model.ring(self.now)
        for name, model in self.groups.items():
            left = [m for m in model.all() if not m.is_settled]
            assert not left, f"{name} never got {left}"
        self._check()

    async def _drain(self) -> None:
        for name, model in self.groups.items():
            consumer = self.stage.broker.join(self.group(name), 1000)
            while found := await consumer.receive(100):
                messages = got(found)
                self.say(f"drain {name} {messages}")
                self._take(name, messages, consumer.number, None)
                for delivery in found:
                    await self.stage.broker.ack(delivery)
                    for offset in delivery.offsets:
                        model.ack(model.messages[delivery.unit.partition][offset])
            await self.stage.broker.leave(consumer)
