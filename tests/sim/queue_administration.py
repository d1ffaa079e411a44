"""Who changes queues and groups in a walk."""

from __future__ import annotations

from dataclasses import replace

from tests.sim.queue_model import SWITCH_TIMEOUT_MS, Switch
from tests.sim.queue_world import World

from penstock.broker.queues.start import Start

MAX_PARTITIONS = 5


class Administration:
    def __init__(self, world: World) -> None:
        self.world = world

    async def seek(self) -> None:
        world = self.world
        if not world.groups or not world.queue.units:
            return
        name = world.random.choice(list(world.groups))
        unit = world.random.choice(list(world.queue.units.values()))
        offset = world.random.randint(0, unit.end)
        world.say(f"seek {name} {unit.partition}:{offset}")
        start = Start.at_offset(offset, unit.partition)
        await world.stage.broker.declaring.seek(world.group(name), start, [unit.partition])
        world.groups[name].seek(unit.partition, max(offset, unit.start), unit.end)
        world.seen = [s for s in world.seen if (s.group, s.message.partition) != (name, unit.partition)]

    async def pause_group(self) -> None:
        world = self.world
        if not world.groups:
            return
        name = world.random.choice(list(world.groups))
        model = world.groups[name]
        model.is_paused = not model.is_paused
        world.say(f"pause {name} {model.is_paused}")
        await world.stage.broker.declaring.pause_group(world.group(name), model.is_paused)

    async def pause_queue(self) -> None:
        world = self.world
        world.is_paused = not world.is_paused
        world.say(f"pause {world.is_paused}")
        await world.stage.broker.declaring.pause(world.queue, world.is_paused)

    async def resume(self) -> None:
        world, declaring = self.world, self.world.stage.broker.declaring
        await declaring.pause(world.queue, False)
        world.is_paused = False
        for name, model in world.groups.items():
            await declaring.pause_group(world.group(name), False)
            model.is_paused = False

    async def delete_group(self) -> None:
        world = self.world
        if not world.groups:
            return
        name = world.random.choice(list(world.groups))
        world.say(f"delete {name}")
        world.dead += [(name, *letter) for letter in world.groups[name].dead]
        await world.stage.broker.declaring.delete_group(world.group(name))
        del world.groups[name]
        world.consumers = [consumer for consumer in world.consumers if consumer.group.key.name != name]
        world.seen = [seen for seen in world.seen if seen.group != name]

    async def grow(self) -> None:
        world = self.world
        if world.policy.is_strict or world.partitions >= MAX_PARTITIONS:
            return
        units = world.queue.units
        ends = {p: units[p].data.end if p in units else 0 for p in range(world.partitions)}
        world.partitions += 1
        world.say(f"grow to {world.partitions}")
        await world.stage.broker.declaring.change(world.queue, {"partitions": world.partitions})
        world.switches.append(Switch(ends, world.now + SWITCH_TIMEOUT_MS))
        for model in world.groups.values():
            model.switches.append(world.switches[-1])

    async def change(self) -> None:
        """Limits, while messages are under way."""
        world, draw = self.world, self.world.random
        changed = draw.choice(
            [
                replace(world.policy, ttl_ms=draw.choice([0, 20_001, 300_001])),
                replace(world.policy, max_depth=draw.choice([0, 5, 30])),
                replace(world.policy, drops_oldest=not world.policy.drops_oldest),
                replace(world.policy, max_retries=draw.choice([1, 3, 20])),
                replace(world.policy, max_returns=draw.choice([2, 1000])),
                replace(world.policy, window=draw.choice([5, 100_000])),
            ]
        )
        world.say(f"change {changed}")
        await world.stage.broker.declaring.change(world.queue, changed.settings())
        world.follow(changed)

    async def purge(self) -> None:
        world = self.world
        world.say("purge")
        await world.stage.broker.declaring.purge(world.queue)
        for model in world.groups.values():
            for message in model.all():
                if not message.is_settled:
                    model.ack(message)
