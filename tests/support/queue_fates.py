"""What became of each message for one group, retold event by event; whatever a group may not do is a broken promise.

A settlement that was under way at a crash is done or not: its messages are unsure until one of them comes again (it was
not done) or a later one of its key is delivered (it was)."""

from __future__ import annotations

import enum
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from tests.support.queue_history import Place, Refused, Settled, Settling, Took, require

_ALL = "all"


@dataclass(frozen=True)
class GroupRules:
    max_retries: int
    is_strict: bool = False
    """every message has the same key"""


class State(enum.Enum):
    HELD = "held"
    WAITING = "waiting"
    SETTLING = "settling"
    """said, and not acknowledged yet"""
    UNSURE = "unsure"
    DONE = "done"


class How(enum.Enum):
    NOT = "not"
    ACK = "ack"
    LETTER = "letter"


@dataclass
class Fate:
    place: Place
    key: str
    state: State = State.WAITING
    how: How = How.NOT
    """it was, or is being settled"""
    consumer: int = -1
    lease_end_ms: int = -1
    deliveries: int = 0
    """as last told by the broker that is open now"""
    sure_failures: int = 0
    failures: int = 0
    """as many there may have been"""

    @property
    def name(self) -> str:
        return f"{self.place[0]}:{self.place[1]}"

    def is_held_by(self, consumer: int) -> bool:
        return self.state is State.HELD and self.consumer == consumer

    def is_over(self, now: int) -> bool:
        """Its lease; whether the broker has noticed is not known."""
        return 0 <= self.lease_end_ms <= now


@dataclass
class _Call:
    """A settlement that has not returned: those it is surely done for, and those it may be done for."""

    event: Settling
    sure: list[Fate] = field(default_factory=list)
    maybe: list[Fate] = field(default_factory=list)


class Fates:
    def __init__(
        self,
        queue: str,
        group: str,
        rules: GroupRules,
        keys: Mapping[tuple[str, str], str],
        ids: Mapping[tuple[str, int, int], str],
    ) -> None:
        self._queue, self._name, self._rules, self._keys = queue, f"{queue}/{group}", rules, keys
        self._fates: dict[Place, Fate] = {}
        self._active: dict[Place, Fate] = {}
        """those that are not done"""
        self._open: dict[tuple[int, str], dict[int, Fate]] = defaultdict(dict)
        """of each partition and key, what was delivered and is not done, by offset"""
        self._calls: dict[str, _Call] = {}
        self._following = self._first_deliveries(ids)
        self.redelivered = self.stale = self.unsure = 0

    def _first_deliveries(self, ids: Mapping[tuple[str, int, int], str]) -> dict[tuple[int, str], Iterator[int]]:
        """The offsets of each partition and key, in the order in which they must be delivered for the first time."""
        found: dict[tuple[int, str], list[int]] = defaultdict(list)
        for queue, partition, offset in sorted(ids):
            if queue == self._queue:
                key = self._key(ids[queue, partition, offset])
                found[partition, key].append(offset)
        return {name: iter(offsets) for name, offsets in found.items() if name[1]}

    def _key(self, message: str) -> str:
        return _ALL if self._rules.is_strict else self._keys[self._queue, message]

    # Handing out

    def take(self, event: Took) -> None:
        for offset, message, count in zip(event.offsets, event.ids, event.deliveries, strict=True):
            fate = self._fates.get((event.partition, offset))
            if fate is None:
                fate = self._fates[event.partition, offset] = self._begin(event.partition, offset, self._key(message))
            elif event.was_over and count <= fate.deliveries:
                continue  # somebody else has been handed it since, and was faster to tell
            else:
                self._check_again(fate, count, event.time_ms)
            self._check_order(fate, event.consumer, event.time_ms)
            fate.state, fate.how, fate.consumer = State.HELD, How.NOT, event.consumer
            fate.deliveries, fate.lease_end_ms = count, event.lease_end_ms
            self._active[fate.place] = fate
            if fate.key:
                self._open[event.partition, fate.key][offset] = fate

    def _begin(self, partition: int, offset: int, key: str) -> Fate:
        if key:
            first = next(self._following[partition, key])
            require(first == offset, f"{self._name} gave {partition}:{offset} of key {key} before {first}")
        return Fate((partition, offset), key)

    def _check_again(self, fate: Fate, deliveries: int, now: int) -> None:
        self.redelivered += 1
        what = f"{self._name} gave {fate.name} again"
        require(fate.state is not State.DONE, f"{what} after it was settled ({fate.how.value})")
        require(fate.state is not State.SETTLING, f"{what} while it was being settled")
        require(fate.state is not State.HELD or fate.is_over(now), f"{what} while consumer {fate.consumer} had it")
        require(deliveries > fate.deliveries, f"{what} as delivery {deliveries} after {fate.deliveries}")
        if fate.state is State.HELD:
            self._take_back(fate, State.WAITING)

    def _check_order(self, fate: Fate, consumer: int, now: int) -> None:
        """Earlier ones of the key are settled, or the same consumer has them; none behind it is in flight."""
        if not fate.key:
            return
        mine, offset = self._open[fate.place[0], fate.key], fate.place[1]
        for other_offset, other in list(mine.items()):
            if other_offset > offset:
                ahead = f"{self._name} gave {fate.name} while {other.name} of its key was in flight"
                require(other.state is not State.HELD or other.is_over(now), ahead)
            elif other_offset < offset and other.state is State.UNSURE and other.how is not How.NOT:
                self._finish(other)
            elif other_offset < offset and other.state is not State.SETTLING:
                behind = f"{self._name} gave {fate.name} to {consumer} while {other.name} of its key was {other.state}"
                require(other.is_held_by(consumer), f"{behind} at {other.consumer}")

    # Settling

    def settle(self, event: Settling) -> None:
        call = self._calls[event.call] = _Call(event)
        for place in event.places:
            fate = self._fates[place]
            may_be_gone = fate.is_held_by(event.consumer) and self._ran_out(fate, event.time_ms)
            if fate.state is State.UNSURE or may_be_gone:
                call.maybe.append(fate)
                self._settle_maybe(fate, event.verb)
            elif fate.is_held_by(event.consumer):
                call.sure.append(fate)
                self._settle_one(fate, event.verb)

    def _ran_out(self, fate: Fate, now: int) -> bool:
        """Its lease, or that of an earlier one of its key, with which it is taken back."""
        mine = self._open[fate.place[0], fate.key].values() if fate.key else [fate]
        return any(other.state is State.HELD and other.is_over(now) for other in mine if other.place <= fate.place)

    def _settle_one(self, fate: Fate, verb: str) -> None:
        if verb == "fail":
            self._fail(fate)
        else:
            fate.state, fate.how = State.SETTLING, How.ACK if verb == "ack" else How.LETTER

    def _settle_maybe(self, fate: Fate, verb: str) -> None:
        fate.state = State.UNSURE
        if verb == "fail":
            fate.failures += 1
        elif fate.how is How.NOT:
            fate.how = How.ACK if verb == "ack" else How.LETTER

    def _fail(self, fate: Fate) -> None:
        fate.sure_failures += 1
        fate.failures += 1
        if fate.sure_failures > self._rules.max_retries:
            fate.state, fate.how = State.SETTLING, How.LETTER
        elif fate.failures <= self._rules.max_retries:
            fate.state, fate.how = State.WAITING, How.NOT
            self._take_back(fate, State.WAITING)
        else:
            fate.state, fate.how = State.UNSURE, How.LETTER
            self._take_back(fate, State.UNSURE)

    def _take_back(self, failed: Fate, state: State) -> None:
        """Later ones of its key that are in flight come again after it."""
        if failed.key:
            for offset, fate in self._open[failed.place[0], failed.key].items():
                if offset > failed.place[1] and fate.state is State.HELD:
                    fate.state, fate.how = state, How.NOT

    def settled(self, event: Settled) -> None:
        call = self._calls.pop(event.call)
        least, most = len(call.sure), len(call.sure) + len(call.maybe)
        what = f"{self._name}: {call.event.verb} {event.call} of {call.event.places}"
        require(least <= event.done <= most, f"{what} was done for {event.done}, not {least} to {most}")
        self.stale += len(call.event.places) - event.done
        for fate in call.sure:
            if fate.state is State.SETTLING:
                self._finish(fate)

    def refused(self, event: Refused) -> None:
        """A transaction that came too late: nothing of it was done."""
        call = self._calls.pop(event.call)
        is_whole = len(call.sure) == len(call.event.places)
        require(not is_whole, f"{self._name}: {event.call} was refused though all it names was held")
        self.stale += 1
        for fate in call.sure:
            fate.state, fate.how = State.HELD, How.NOT

    def leave(self, consumer: int) -> None:
        for fate in self._active.values():
            if fate.is_held_by(consumer):
                fate.state = State.WAITING

    def crash(self) -> None:
        for call in self._calls.values():
            if call.event.verb == "fail":
                for fate in call.sure:
                    fate.sure_failures -= 1
        self._calls.clear()
        for fate in self._active.values():
            fate.deliveries, fate.lease_end_ms = 0, -1
            if fate.state is State.SETTLING:
                fate.state = State.UNSURE
            elif fate.state is State.HELD or (fate.state is State.UNSURE and fate.how is How.NOT):
                fate.state = State.WAITING

    def _finish(self, fate: Fate) -> None:
        self.unsure += fate.state is State.UNSURE
        fate.state = State.DONE
        self._active.pop(fate.place, None)
        self._open[fate.place[0], fate.key].pop(fate.place[1], None)

    # In the end

    def check_end(self, places: set[Place], letters: set[Place]) -> None:
        """Everything in the queue was settled for the group, in one way."""
        for place in sorted(places):
            fate = self._fates.get(place)
            require(fate is not None, f"{self._name} never got {place}")
            assert fate is not None
            is_settled = fate.state in (State.DONE, State.UNSURE) and fate.how is not How.NOT
            require(is_settled, f"{self._name}: {fate.name} is still {fate.state.value} in the end")
            self.unsure += fate.state is State.UNSURE
            what = f"{self._name}: {fate.name} was settled by {fate.how.value}"
            has_letter = place in letters
            require(has_letter == (fate.how is How.LETTER), f"{what}, a dead letter is there: {has_letter}")
        require(letters <= places, f"{self._name}: dead letters of nothing: {sorted(letters - places)}")
