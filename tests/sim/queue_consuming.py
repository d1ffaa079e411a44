"""Who consumes in a walk: members of groups, those who pull, and what they say of messages."""

from __future__ import annotations

from array import array
from collections.abc import Callable

from tests.sim.queue_model import GroupModel, Message
from tests.sim.queue_world import Seen, World
from tests.support.broker import got

from penstock.broker.feed.held import Held
from penstock.broker.queues.group import Group
from penstock.queues.deadletter import Reason

ANYBODY = -1
MAX_CONSUMERS = 4


class Consuming:
    def __init__(self, world: World) -> None:
        self.world = world

    async def join(self) -> None:
        world = self.world
        if len(world.consumers) >= MAX_CONSUMERS:
            return
        consumer = world.stage.broker.join(await world.any_group(), world.random.choice([1, 3, 50]))
        world.consumers.append(consumer)
        world.say(f"join {consumer.group.name} {consumer.number} prefetch {consumer.prefetch}")

    async def leave(self) -> None:
        world = self.world
        if not world.consumers:
            return
        consumer = world.consumers.pop(world.random.randrange(len(world.consumers)))
        world.say(f"leave {consumer.number}")
        model = world.model(consumer)
        consumer.leave()
        model.give_back(model.held_by(consumer.number), counted=True)

    async def receive(self) -> None:
        world = self.world
        if not world.consumers:
            return
        consumer, limit = world.random.choice(world.consumers), world.random.choice([1, 4, 100])
        owned, name = consumer.partitions, consumer.group.key.name
        found = await consumer.receive(limit)
        world.say(f"receive {consumer.number} of {owned}: {got(found)}")
        taken, model = world.take(name, found, consumer.number, None), world.groups[name]
        assert not (found and world.is_still(name))
        assert taken <= limit
        assert {delivery.unit.partition for delivery in found} <= set(owned)
        held = model.held_by(consumer.number)
        assert len(held) == consumer.held <= consumer.prefetch
        if taken < limit and len(held) < consumer.prefetch and not world.is_still(name):
            for partition in owned:
                self._nothing_left(model, partition)

    def _nothing_left(self, model: GroupModel, partition: int) -> None:
        for message in model.messages.get(partition, {}).values():
            assert not model.is_next(message, self.world.now), f"{message} was skipped"

    async def pull(self) -> None:
        world = self.world
        if not world.groups:
            return
        name = world.random.choice(list(world.groups))
        session, lease_ms = world.stage.broker.session(), world.random.choice([1_000, 7_000, 100_000])
        limit = world.random.choice([1, 3, 100])
        found = await world.stage.broker.pull(world.group(name), session, limit, lease_ms=lease_ms)
        world.say(f"pull {name} {session} lease {lease_ms}: {got(found)}")
        taken = world.take(name, found, session, world.now + lease_ms)
        assert not (found and world.is_still(name))
        if taken < limit and not world.is_still(name):
            for partition in range(world.partitions):
                self._nothing_left(world.groups[name], partition)

    async def claim(self) -> None:
        """What members were handed a while ago. Of a key all that is held goes, or nothing."""
        world = self.world
        if not world.groups:
            return
        name = world.random.choice(list(world.groups))
        model, session = world.groups[name], world.stage.broker.session()
        idle_ms, limit = world.random.choice([0, 1_000, 10_000]), world.random.choice([1, 5, 100])
        found = await world.stage.broker.claim(world.group(name), session, limit, idle_ms, 7_000)
        world.say(f"claim {name} {session} idle {idle_ms}: {got(found)}")
        idle = [
            m for m in model.all() if m.holder is not None and m.lease is None and m.given_ms <= world.now - idle_ms
        ]
        claimed = [model.messages[m.partition][m.offset] for m in got(found)]
        assert all(any(m is other for other in idle) for m in claimed)
        for message in claimed:
            assert all(any(m is other for other in claimed) for m in model.of_its_key(message))
        if limit == 100 and not world.is_still(name):
            left = [m for m in idle if not any(m is other for other in claimed)]
            for message in left:
                is_whole = all(any(m is other for other in idle) for m in model.of_its_key(message))
                assert not is_whole or self._is_over_in_part(model, message), f"{message} was not claimed"
        for message in claimed:
            message.free()
        world.take(name, found, session, world.now + 7_000)

    def _is_over_in_part(self, model: GroupModel, message: Message) -> bool:
        return any(model.is_over(m, self.world.now) for m in model.of_its_key(message))

    # Settling

    def chosen(self, only: Callable[[Seen], bool] = lambda _: True) -> list[Seen]:
        """Some of what one holder was given of one partition, mostly of late, in rising order."""
        world = self.world
        seen = [each for each in world.seen if only(each)]
        if not seen:
            return []
        recent = seen[-30:] if world.random.random() < 0.8 else seen
        one = world.random.choice(recent)
        share = world.random.choice([0.3, 1.0])
        mine = {
            each.message.offset: each
            for each in recent
            if (each.group, each.holder, each.message.partition) == (one.group, one.holder, one.message.partition)
            and (each is one or world.random.random() < share)
        }
        return [mine[offset] for offset in sorted(mine)]

    def _named(self, chosen: list[Seen]) -> tuple[Group, array[int], array[int], int, int]:
        first = chosen[0]
        holder = ANYBODY if first.is_lease and self.world.random.random() < 0.5 else first.holder
        offsets = array("q", [seen.message.offset for seen in chosen])
        counts = array("i", [seen.count for seen in chosen])
        return self.world.group(first.group), offsets, counts, holder, first.message.partition

    def _is_current(self, seen: Seen, holder: int) -> bool:
        message = seen.message
        if holder == ANYBODY:
            return message.holder is not None and message.deliveries == seen.count and not message.is_settled
        return self.world.groups[seen.group].is_current(message, holder, seen.count)

    async def ack(self) -> None:
        await self._settle("ack")

    async def fail(self) -> None:
        await self._settle("fail")

    async def reject(self) -> None:
        await self._settle("reject")

    async def _settle(self, verb: str) -> None:
        world, chosen = self.world, self.chosen()
        if not chosen:
            return
        group, offsets, counts, holder, partition = self._named(chosen)
        unit, settling = world.queue.units[partition], world.stage.broker.settling
        delay_ms = world.random.choice([None, 0, 500, 86_400_000])
        world.say(f"{verb} {group.name} {partition}:{list(offsets)} counts {list(counts)} by {holder} delay {delay_ms}")
        if verb == "fail":
            result = await settling.fail(Held.named(group, unit, offsets, counts, holder), delay_ms)
        elif verb == "ack":
            result = await settling.ack(Held.named(group, unit, offsets, counts, holder))
        else:
            result = await settling.reject(Held.named(group, unit, offsets, counts, holder))
        expected = self._settled(chosen, holder, verb, delay_ms)
        assert (result.done, result.stale) == expected, f"{result} expected {expected}"

    def _settled(self, chosen: list[Seen], holder: int, verb: str, delay_ms: int | None) -> tuple[int, int]:
        done, model, now = 0, self.world.groups[chosen[0].group], self.world.now
        for seen in chosen:
            if not self._is_current(seen, holder):
                continue
            done += 1
            if verb == "ack":
                model.ack(seen.message)
            elif verb == "reject":
                model.bury(seen.message, Reason.REJECTED)
            else:
                model.fail(seen.message, now, delay_ms)
        if done and holder != ANYBODY:
            model.settled_by(holder, chosen[0].message.partition, now)
        return done, len(chosen) - done

    async def release(self) -> None:
        """Not looked at: anybody's at once, and nothing counts."""
        world, chosen = self.world, self.chosen()
        if not chosen:
            return
        group, offsets, counts, holder, partition = self._named(chosen)
        world.say(f"release {group.name} {partition}:{list(offsets)} counts {list(counts)} by {holder}")
        unit, model = world.queue.units[partition], world.groups[chosen[0].group]
        current = [seen.message for seen in chosen if self._is_current(seen, holder)]
        result = world.stage.broker.settling.release(Held.named(group, unit, offsets, counts, holder)).settled
        assert result == (len(current), len(chosen) - len(current))
        model.release(current)
        if current and holder != ANYBODY:
            model.settled_by(holder, partition, world.now)

    async def extend(self) -> None:
        world = self.world
        chosen = self.chosen(lambda seen: seen.is_lease)
        if not chosen:
            return
        group, offsets, counts, holder, partition = self._named(chosen)
        deadline = world.now + 20_000
        world.say(f"extend {partition}:{list(offsets)} by {holder}")
        unit = world.queue.units[partition]
        result = await world.stage.broker.settling.extend(Held.named(group, unit, offsets, counts, holder), deadline)
        current = [seen for seen in chosen if self._is_current(seen, holder)]
        for seen in current:
            seen.message.lease = deadline
        assert result == (len(current), len(chosen) - len(current))

    async def commit(self) -> None:
        world = self.world
        if not world.groups or not world.queue.units:
            return
        name = world.random.choice(list(world.groups))
        unit = world.random.choice(list(world.queue.units.values()))
        offset = world.random.randint(0, unit.end)
        world.say(f"commit {name} {unit.partition}:{offset}")
        await world.stage.broker.settling.commit(world.group(name), unit, offset)
        world.groups[name].commit(unit.partition, offset)

    # In the end

    async def drain(self) -> None:
        """Everything that may come does, and is done with."""
        world = self.world
        for name, model in world.groups.items():
            consumer = world.stage.broker.join(world.group(name), 1000)
            while found := await consumer.receive(100):
                world.say(f"drain {name} {got(found)}")
                world.take(name, found, consumer.number, None)
                for delivery in found:
                    await world.stage.broker.settling.ack(Held(delivery))
                    for offset in delivery.offsets:
                        model.ack(model.messages[delivery.unit.partition][offset])
            world.look(name)
            consumer.leave()
