"""Whether a history of publishing and consuming, crashes in it, keeps what queues promise. All of it is looked at
after every group has settled everything: what was never delivered by then is lost."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from tests.support.queue_fates import Fates, GroupRules
from tests.support.queue_history import (
    Drained,
    Event,
    Left,
    Letter,
    Opening,
    Place,
    Put,
    Putting,
    Refused,
    Settled,
    Settling,
    Took,
    require,
)

Source = tuple[str, str, int, int]
"""queue, group, partition, offset"""


@dataclass
class Contents:
    """What the queues hold, as far as anybody was told: every message that is there was delivered."""

    ids: dict[tuple[str, int, int], str] = field(default_factory=dict)
    """by queue, partition, offset"""
    places: dict[tuple[str, str], Place] = field(default_factory=dict)
    """by queue, id"""
    keys: dict[tuple[str, str], str] = field(default_factory=dict)
    calls: dict[str, Putting] = field(default_factory=dict)

    @classmethod
    def of(cls, events: list[Event]) -> Contents:
        found = cls()
        for event in events:
            if isinstance(event, Putting):
                found.calls[event.call] = event
                found.keys |= {(message.queue, message.id): message.key for message in event.messages}
            elif isinstance(event, Took):
                for offset, message in zip(event.offsets, event.ids, strict=True):
                    found._seen(event.queue, event.partition, offset, message)
        return found

    def _seen(self, queue: str, partition: int, offset: int, message: str) -> None:
        require((queue, message) in self.keys, f"{message} in {queue} was never put there")
        known = self.ids.setdefault((queue, partition, offset), message)
        require(known == message, f"{queue}:{partition}:{offset} was {known}, then {message}")
        place = self.places.setdefault((queue, message), (partition, offset))
        require(place == (partition, offset), f"{message} is in {queue} at {place} and at {(partition, offset)}")

    def check(self, events: list[Event]) -> None:
        self._check_acknowledged(event for event in events if isinstance(event, Put))
        self._check_whole({event.call for event in events if isinstance(event, Refused)})
        self._check_order()
        self._check_no_holes()
        self._check_moved()

    def _check_acknowledged(self, puts: Iterable[Put]) -> None:
        for put in puts:
            for message in self.calls[put.call].messages:
                require((message.queue, message.id) in self.places, f"{message.id} was acknowledged and is lost")
            self._check_where(put)

    def _check_where(self, put: Put) -> None:
        """The offsets that were told are those of the call's messages, partition by partition, in order."""
        told = [
            (part.queue, part.partition, part.base_offset + row)
            for part in put.placed
            for row in range(part.rows)
            if part.base_offset >= 0
        ]
        mine = {(m.queue, *self.places[m.queue, m.id]) for m in self.calls[put.call].messages}
        require(set(told) <= mine, f"{put.call} was told to be at {told}, it is at {sorted(mine)}")
        require(len(told) == len(set(told)), f"{put.call} was told one offset for two messages: {told}")

    def _check_whole(self, refused: set[str]) -> None:
        for call in self.calls.values():
            found = sum((message.queue, message.id) in self.places for message in call.messages)
            require(found in (0, len(call.messages)), f"{call.call}: {found} of {len(call.messages)} are there")
            require(not (found and call.call in refused), f"{call.call} was refused and is there")

    def _check_order(self) -> None:
        """A producer's messages of one key lie in one partition, in the order in which it sent them."""
        last: dict[tuple[str, str, str], Place] = {}
        for call in self.calls.values():
            for message in call.messages:
                place = self.places.get((message.queue, message.id))
                if place is None or not call.producer:
                    continue
                name = message.queue, call.producer, message.key
                before = last.get(name, (place[0], -1))
                require(before[0] == place[0], f"key {name} is in partitions {before[0]} and {place[0]}")
                require(before[1] < place[1], f"{message.id} at {place} came after what lies at {before}")
                last[name] = place

    def _check_no_holes(self) -> None:
        offsets: dict[tuple[str, int], list[int]] = defaultdict(list)
        for queue, partition, offset in self.ids:
            offsets[queue, partition].append(offset)
        for (queue, partition), found in offsets.items():
            require(len(found) == max(found) + 1, f"{queue}:{partition} has {len(found)} of {max(found) + 1} offsets")

    def _check_moved(self) -> None:
        """What transactions made of a message is there once: they settle it in the same frame."""
        found: dict[tuple[str, str], str] = {}
        for queue, message in self.places:
            if ":" in message:
                first = found.setdefault((queue, message.split(":", 1)[1]), message)
                require(first == message, f"{queue} has {first} and {message}: it was moved twice")


@dataclass
class Findings:
    """What a history without a broken promise has gone through."""

    messages: int = 0
    redelivered: int = 0
    stale: int = 0
    letters: int = 0
    crashes: int = 0
    unsure: int = 0
    """settlements that were under way at a crash and turned out to be done"""


def check(events: list[Event], rules: dict[tuple[str, str], GroupRules]) -> Findings:
    """BrokenPromise for what does not hold. `rules` has every group, by queue and name."""
    require(bool(events) and isinstance(events[-1], Drained), "the history ends before everything was settled")
    contents = Contents.of(events)
    fates = {name: Fates(*name, rules[name], contents.keys, contents.ids) for name in rules}
    _replay(events, fates)
    contents.check(events)
    letters = _letters(events, contents)
    found = Findings(len(contents.ids), letters=len(letters))
    for (queue, group), fate in fates.items():
        mine = {(partition, offset) for q, g, partition, offset in letters if (q, g) == (queue, group)}
        fate.check_end({(p, offset) for q, p, offset in contents.ids if q == queue}, mine)
        found.redelivered += fate.redelivered
        found.stale += fate.stale
        found.unsure += fate.unsure
    found.crashes = sum(isinstance(event, Opening) for event in events) - 1
    return found


def _replay(events: list[Event], fates: dict[tuple[str, str], Fates]) -> None:
    of_call: dict[str, Fates] = {}
    for event in events:
        if isinstance(event, Opening):
            for fate in fates.values():
                fate.crash()
        elif isinstance(event, Took):
            fates[event.queue, event.group].take(event)
        elif isinstance(event, Settling):
            of_call[event.call] = fates[event.queue, event.group]
            of_call[event.call].settle(event)
        elif isinstance(event, Settled):
            of_call[event.call].settled(event)
        elif isinstance(event, Refused) and event.call in of_call:
            of_call[event.call].refused(event)
        elif isinstance(event, Left):
            fates[event.queue, event.group].leave(event.consumer)


def _letters(events: list[Event], contents: Contents) -> set[Source]:
    found: set[Source] = set()
    for event in events:
        if isinstance(event, Letter):
            source = event.queue, event.group, event.partition, event.offset
            require(source not in found, f"{source} is among the dead letters twice")
            there = contents.ids.get((event.queue, event.partition, event.offset))
            require(there == event.id, f"the dead letter of {source} is {event.id}, there was {there}")
            found.add(source)
    return found
