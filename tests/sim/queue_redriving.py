"""Dead letters sent back in a walk: each once, and to the group that gave up on it."""

from __future__ import annotations

from collections import Counter

from tests.sim.queue_world import NAME, Row, World

from penstock.broker.feed.stored import StoredBatch
from penstock.broker.letters.redrive import redrive
from penstock.log.properties import user_property
from penstock.queues.deadletter import REDRIVE_GROUP, REDRIVEN_FROM
from penstock.queues.names import parse_group_name, parse_message_id

DEAD_LETTERS = f"$dlq/{NAME}"

Letter = tuple[str, int, int]
"""group, and partition and offset that the message had"""


class Redriving:
    def __init__(self, world: World) -> None:
        self.world = world
        self.redriven: Counter[Letter] = Counter()

    async def redrive(self) -> None:
        """All that wait, where nothing limits the queue they came from."""
        world, broker = self.world, self.world.stage.broker
        if world.policy.max_depth or all(queue.name != DEAD_LETTERS for queue in broker.queues):
            return
        waiting = Counter(letter[:3] for letter in world.letters()) - self.redriven
        wanted = Counter({letter: count for letter, count in waiting.items() if letter[0] in world.groups})
        ends = {partition: unit.data.end for partition, unit in world.queue.units.items()}
        report = await redrive(broker, broker.queue(DEAD_LETTERS))
        world.say(f"redrive {sorted(wanted)}")
        assert report.done == wanted.total() and sum(report.left.values()) == (waiting - wanted).total()
        found: Counter[Letter] = Counter()
        for partition, unit in world.queue.units.items():
            offset = ends.get(partition, 0)
            while (stored := await unit.stored(offset)) is not None:
                found.update(self._came(partition, stored, offset))
                offset = stored.end
        assert found == wanted, f"redriven were {found}"
        self.redriven += found

    def _came(self, partition: int, stored: StoredBatch, first: int) -> list[Letter]:
        letters: list[Letter] = []
        for row in stored.messages(range(stored.row_from(first), len(stored))):
            properties = row.properties or b""
            group = parse_group_name((user_property(properties, REDRIVE_GROUP.encode()) or b"").decode()).name
            source = parse_message_id((user_property(properties, REDRIVEN_FROM.encode()) or b"").decode())
            routing_key = self.world.queue.routing_key(row.topic or b"")
            self.world.published(partition, row.offset, Row(row.key or b"", row.value, routing_key), only_for=group)
            letters.append((group, source.partition, source.offset))
        return letters
