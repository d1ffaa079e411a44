"""What a walk through queues knows: the broker, the model of each group, and what publishers, consumers and stages are
there. Those who act in it are in the modules beside this one."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from tests.sim.queue_model import GroupModel, Message, Policy, Switch
from tests.support.broker import Stage, got

from penstock.broker.feed.consumer import Consumer
from penstock.broker.feed.delivery import Delivery
from penstock.broker.publish.publisher import Publisher
from penstock.broker.queues.group import Group
from penstock.broker.queues.queue import Queue
from penstock.broker.queues.start import LATEST, Start
from penstock.broker.staging.records import StagedRange
from penstock.queues.names import GroupName

NAME = "walk"
FILTERS = {"some": "a/#", "one": "+"}
"""of groups that have one"""


@dataclass(frozen=True, slots=True)
class Seen:
    """A delivery that somebody may settle, current or not."""

    group: str
    message: Message
    holder: int
    count: int
    is_lease: bool
    delivery: Delivery | None = None
    """None for one from before a restart"""


@dataclass(frozen=True, slots=True)
class Row:
    key: bytes
    value: bytes
    routing_key: bytes = b""
    expiry_ms: int = 0


@dataclass(frozen=True, slots=True)
class Staged:
    place: StagedRange
    rows: list[Row]
    staged_ms: int


class World:
    def __init__(self, seed: int, directory: Path) -> None:
        self.random, self.trace = random.Random(seed), list[str]()
        self.policy, self.partitions, self.durability = self._drawn()
        self.place, self.stage = directory, Stage(directory / "0")
        self.groups: dict[str, GroupModel] = {}
        self.history: list[Message] = []
        """every message, as a group finds it that begins with it"""
        self.switches: list[Switch] = []
        self.is_paused = False
        self.publishers: list[Publisher] = []
        self.consumers: list[Consumer] = []
        self.seen: list[Seen] = []
        self.staged: list[Staged] = []
        self.dead: list[tuple[str, int, int, str]] = []
        """dead letters of groups that were deleted, as letters() has them"""

    def _drawn(self) -> tuple[Policy, int, str]:
        draw = self.random
        is_strict = draw.random() < 0.25
        policy = Policy(
            draw.choice([1, 3, 20]),
            draw.choice([1_000, 10_000]),
            draw.choice([2, 1000]),
            draw.choice([0, 0, 600_000]),
            is_strict,
            draw.choice([0, 0, 20_001, 300_001]),
            draw.choice([0, 0, 12, 60]),
            draw.random() < 0.5,
            draw.choice([100_000, 100_000, 5]),
            not is_strict and draw.random() < 0.2,
        )
        return (
            policy,
            1 if is_strict else draw.choice([1, 2, 3]),
            draw.choice(["memory", "memory", "interval", "commit"]),
        )

    def say(self, text: str) -> None:
        self.trace.append(f"{self.now % 10**9} {text}")

    @property
    def queue(self) -> Queue:
        return self.stage.broker.queue(NAME)

    @property
    def now(self) -> int:
        return self.stage.clock.now_ms()

    # Groups

    def group(self, name: str) -> Group:
        return self.stage.group_of(NAME, name)

    def model(self, consumer: Consumer) -> GroupModel:
        return self.groups[consumer.group.key.name]

    def is_still(self, name: str) -> bool:
        """Whether the group gets nothing."""
        return self.is_paused or self.groups[name].is_paused

    async def any_group(self) -> Group:
        """One of a few, made if it is not there."""
        name = self.random.choice(["g", "g", "h", "late", *FILTERS])
        if name in self.groups:
            return self.group(name)
        is_late = name == "late"
        key = GroupName(name, FILTERS.get(name))
        group = await self.stage.broker.group(self.queue, key, LATEST if is_late else Start.parse("earliest"))
        ends = {partition: unit.data.end for partition, unit in self.queue.units.items()}
        starts = ends if is_late else {partition: unit.start for partition, unit in self.queue.units.items()}
        model = GroupModel(name, self.policy, key.filter, dict(starts), dict(ends), looked_at=dict(starts))
        model.switches = list(self.switches)
        for message in self.history:
            model.add(_anew(message))
        self.groups[name] = model
        self.say(f"group {name} from {starts}")
        return group

    def follow(self, policy: Policy) -> None:
        self.policy = policy
        for model in self.groups.values():
            model.policy = policy

    def depth(self) -> int:
        return max([model.depth() for model in self.groups.values()], default=0)

    # Messages

    def published(self, partition: int, offset: int, row: Row, only_for: str | None = None) -> None:
        message = Message(partition, offset, row.key, row.value, row.routing_key, self.now, row.expiry_ms, only_for)
        self.history.append(message)
        for model in self.groups.values():
            model.add(_anew(message))

    @property
    def reserved(self) -> int:
        return sum(len(staged.rows) for staged in self.staged)

    def has_room(self, count: int) -> bool:
        """Whether so many are taken, after others were dropped if need be."""
        most = self.policy.max_depth
        if not most or not self.groups:
            return True
        return self.reserved + count <= most and (self.policy.drops_oldest or self._free() >= count)

    def _free(self) -> int:
        return self.policy.max_depth - self.depth() - self.reserved

    def make_room(self, count: int) -> None:
        if self.policy.max_depth and self._free() < count:
            self.drop(count)

    def drop(self, count: int) -> None:
        """The oldest, until so many fit or none is left."""
        policy = self.policy
        while policy.drops_oldest and policy.max_depth and self.depth() + count > policy.max_depth:
            unsettled = [m for model in self.groups.values() for m in _lowest(model)]
            if not unsettled:
                return
            oldest = min(unsettled, key=lambda m: (m.published_ms, m.partition, m.offset))
            for model in self.groups.values():
                if not (message := model.messages[oldest.partition][oldest.offset]).is_settled:
                    model.ack(message)

    # What was seen

    def look(self, name: str) -> None:
        """The model learns how far the group has looked."""
        group, model = self.group(name), self.groups[name]
        for partition, unit in self.queue.units.items():
            window = group.cursor(unit).window
            model.looked(partition, window.next, set(window.offsets()), self.now)

    def take(self, name: str, deliveries: Iterable[Delivery], holder: int, lease: int | None) -> int:
        """They were handed to somebody; how many messages."""
        self.look(name)
        model, taken = self.groups[name], 0
        for delivery in deliveries:
            for partition, offset, value, count in got([delivery]):
                message = model.messages[partition][offset]
                assert message.value == value
                model.given(message, holder, count, self.now, lease)
                self.seen.append(Seen(name, message, holder, count, lease is not None, delivery))
                taken += 1
        return taken

    def letters(self) -> list[tuple[str, int, int, str]]:
        """Group, place and reason of every dead letter."""
        return self.dead + [(name, *letter) for name, model in self.groups.items() for letter in model.dead]


def _anew(message: Message) -> Message:
    """As nobody has seen it."""
    return replace(message)


def _lowest(model: GroupModel) -> Iterable[Message]:
    """The first unsettled message of each partition."""
    for partition in model.messages:
        yield from list(model.unsettled(partition))[:1]
