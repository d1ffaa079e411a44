"""The rules for groups said a second time, naively: an object a message, a list a partition. Walks hold the broker
against it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field

from penstock.queues.deadletter import Reason

# Not a round number: clocks and revocations (30 s) do not run out at one moment, of which either might come first.
TIMEOUT_MS = 29_993
MAX_RESTARTS = 10
SWITCH_TIMEOUT_MS = 60_000


@dataclass(slots=True)
class Message:
    """Of one group. `holder`: who has it; `until`: when it may come again; `lease`: when its own time is over."""

    partition: int
    offset: int
    key: bytes
    value: bytes
    routing_key: bytes = b""
    published_ms: int = 0
    expiry_ms: int = 0
    """its own; 0: none"""
    only_for: str | None = None
    """the group that it was redriven to"""
    is_settled: bool = False
    is_passed_over: bool = False
    """settled because the group does not want it, or because it was too old when its turn came"""
    holder: int | None = None
    lease: int | None = None
    until: int = 0
    given_ms: int = 0
    first_ms: int = 0
    deliveries: int = 0
    failures: int = 0
    returns: int = 0

    @property
    def waits(self) -> bool:
        return not self.is_settled and self.holder is None

    def free(self, until: int = 0) -> None:
        self.holder, self.lease, self.until = None, None, until


@dataclass(frozen=True, slots=True)
class Policy:
    """0 is no limit."""

    max_retries: int
    backoff_ms: int
    max_returns: int
    total_timeout_ms: int
    is_strict: bool
    ttl_ms: int = 0
    max_depth: int = 0
    drops_oldest: bool = False
    window: int = 100_000
    is_unordered: bool = False

    def settings(self) -> dict[str, object]:
        """Of a queue that follows it, without bounds that are not in the model."""
        backoff = f"{self.backoff_ms}ms"
        return {
            "ordering": "strict" if self.is_strict else "none" if self.is_unordered else "partition",
            "retry_policy": {
                "max_retries": self.max_retries,
                "initial_backoff": backoff,
                "max_backoff": backoff,
                "total_timeout": f"{self.total_timeout_ms}ms" if self.total_timeout_ms else 0,
            },
            "performance": {"delivery_timeout": f"{TIMEOUT_MS}ms"},
            "limits": {
                "message_ttl": f"{self.ttl_ms}ms" if self.ttl_ms else 0,
                "max_queue_depth": self.max_depth,
            },
            "overflow": "drop-oldest" if self.drops_oldest else "reject",
            "retention": {"time": 0},
            "max_deliveries": self.max_returns,
            "suspend_after": "none",
            "group_expiry": 0,
            "group_window": self.window,
            "switch_timeout": f"{SWITCH_TIMEOUT_MS}ms",
        }


@dataclass(frozen=True, slots=True)
class Switch:
    """Partitions were added when the old ones ended there."""

    ends: dict[int, int]
    deadline_ms: int

    def stop(self, partition: int) -> int:
        return self.ends.get(partition, 0)


def matches(topic_filter: str | None, routing_key: bytes) -> bool:
    """Of filters without `+` but for the last level."""
    if topic_filter is None:
        return True
    head, _, last = topic_filter.rpartition("/")
    key = routing_key.decode()
    if last == "#":
        return key == head or key.startswith(f"{head}/")
    if last == "+":
        before, _, level = key.rpartition("/")
        return bool(key) and before == head and bool(level)
    return key == topic_filter


@dataclass
class GroupModel:
    name: str
    policy: Policy
    topic_filter: str | None = None
    starts: dict[int, int] = field(default_factory=dict)
    history_ends: dict[int, int] = field(default_factory=dict)
    messages: dict[int, dict[int, Message]] = field(default_factory=dict)
    """of each partition by offset, rising; a crash may leave offsets out"""
    clocks: dict[tuple[int, int], int] = field(default_factory=dict)
    dead: list[tuple[int, int, Reason]] = field(default_factory=list)
    """partition and offset of what was given up"""
    looked_at: dict[int, int] = field(default_factory=dict)
    """in each partition all below, for new messages"""
    switches: list[Switch] = field(default_factory=list)
    """that it has not gone past"""
    is_paused: bool = False

    def add(self, message: Message) -> None:
        message.is_settled = message.offset < self.starts.get(message.partition, 0)
        self.messages.setdefault(message.partition, {})[message.offset] = message

    def all(self) -> Iterator[Message]:
        for messages in self.messages.values():
            yield from messages.values()

    def held_by(self, holder: int, partition: int | None = None) -> list[Message]:
        return [m for m in self.all() if m.holder == holder and (partition is None or m.partition == partition)]

    def unsettled(self, partition: int) -> Iterator[Message]:
        return (m for m in self.messages.get(partition, {}).values() if not m.is_settled)

    # What may be given to whom

    def wants(self, message: Message) -> bool:
        return message.only_for in (None, self.name) and matches(self.topic_filter, message.routing_key)

    def is_over(self, message: Message, now: int) -> bool:
        """Whether it is too old to be given to anybody."""
        ttl_ms = self.policy.ttl_ms
        return (ttl_ms > 0 and message.published_ms + ttl_ms <= now) or 0 < message.expiry_ms <= now

    def looked(self, partition: int, upto: int, pending: Collection[int], now: int) -> None:
        """Somebody has asked for messages, and so far all below `upto` was looked at; `pending` are still to be
        settled. What is missing among them was passed over, or lost."""
        before = self.looked_at.get(partition, 0)
        for message in list(self.unsettled(partition)):
            if message.offset >= upto or message.offset in pending:
                continue
            is_new = message.offset >= before
            is_unwanted = is_new and not self.wants(message)
            is_over = message.waits and message.until <= now and self.is_over(message, now)
            assert is_unwanted or is_over, f"{message} vanished"
            message.is_settled = message.is_passed_over = True
        self.looked_at[partition] = upto

    def is_free(self, message: Message) -> bool:
        """Whether it holds back nothing, and nothing holds it back."""
        return self.policy.is_unordered or (not message.key and not self.policy.is_strict)

    def earlier(self, message: Message) -> Iterator[Message]:
        """What must not wait when this one is given out."""
        if self.is_free(message):
            return
        for other in self.messages[message.partition].values():
            if other.offset >= message.offset:
                return
            if not other.is_settled and (self.policy.is_strict or other.key == message.key):
                yield other

    def of_its_key(self, message: Message) -> list[Message]:
        """What is held with it, itself included."""
        is_alone = self.is_free(message)
        return [
            other
            for other in self.messages[message.partition].values()
            if other.holder is not None
            and (other is message or (not is_alone and (self.policy.is_strict or other.key == message.key)))
        ]

    def is_next(self, message: Message, now: int) -> bool:
        """Whether it must be given to whoever asks."""
        if not message.waits or message.until > now or self.is_over(message, now) or any(self.earlier(message)):
            return False
        return message.offset < self.looked_at.get(message.partition, 0) or self._is_new(message)

    def _is_new(self, message: Message) -> bool:
        """Whether it is the turn of one that was never looked at."""
        looked_at = self.looked_at.get(message.partition, 0)
        pending = sum(other.offset < looked_at for other in self.unsettled(message.partition))
        is_open = not self.switches or message.offset < self.switches[0].stop(message.partition)
        return is_open and pending < self.policy.window and self.wants(message)

    def given(self, message: Message, holder: int, count: int, now: int, lease: int | None) -> None:
        assert not message.is_settled, f"{message} was delivered after it was settled"
        assert message.holder is None, f"{message} was given to {holder} too"
        assert message.until <= now, f"{message} came before its time"
        assert not self.is_over(message, now), f"{message} came when it was too old"
        assert self.wants(message), f"{message} is not what was asked for"
        for switch in self.switches:
            is_behind = message.offset >= switch.stop(message.partition)
            assert not is_behind or self.is_past(switch, now), f"{message} came before what was there earlier"
        for other in self.earlier(message):
            assert other.holder == holder, f"{message} overtook {other}"
        assert count == message.deliveries + 1, f"{message} came with count {count}"
        if lease is None and not self.held_by(holder, message.partition):
            self.clocks[holder, message.partition] = now
        message.holder, message.lease, message.given_ms, message.deliveries = holder, lease, now, count
        message.first_ms = message.first_ms or now

    def is_past(self, switch: Switch, now: int) -> bool:
        is_done = all(m.offset >= end for partition, end in switch.ends.items() for m in self.unsettled(partition))
        return is_done or now >= switch.deadline_ms

    def look_at_switches(self, now: int) -> None:
        while self.switches and self.is_past(self.switches[0], now):
            del self.switches[0]

    # What consumers say

    def is_current(self, message: Message, holder: int, count: int) -> bool:
        return message.holder == holder and message.deliveries == count and not message.is_settled

    def ack(self, message: Message) -> None:
        message.is_settled = True
        message.free()

    def fail(self, message: Message, now: int, delay_ms: int | None = None) -> None:
        policy = self.policy
        message.failures += 1
        is_old = policy.total_timeout_ms and now - message.first_ms >= policy.total_timeout_ms
        if message.failures > policy.max_retries or is_old:
            is_spent = message.failures > policy.max_retries
            self.bury(message, Reason.MAX_RETRIES if is_spent else Reason.TOTAL_TIMEOUT)
            return
        wait = policy.backoff_ms if delay_ms is None else delay_ms
        message.free(now + wait if wait else 0)
        self._take_back_behind(message)

    def _take_back_behind(self, message: Message) -> None:
        for later in self.messages[message.partition].values():
            is_behind = later.offset > message.offset and later.holder is not None
            if is_behind and any(other is message for other in self.earlier(later)):
                later.free()

    def release(self, messages: Iterable[Message]) -> None:
        for message in messages:
            message.free()
            self._take_back_behind(message)

    def bury(self, message: Message, reason: Reason) -> None:
        self.ack(message)
        self.dead.append((message.partition, message.offset, reason))

    def settled_by(self, holder: int, partition: int, now: int) -> None:
        """A settlement restarts the clock."""
        self.clocks[holder, partition] = now

    def give_back(self, messages: Iterable[Message], counted: bool) -> None:
        for message in messages:
            message.returns += counted
            if counted and message.returns > self.policy.max_returns:
                self.bury(message, Reason.MAX_DELIVERIES)
            else:
                message.free()

    def commit(self, partition: int, offset: int) -> None:
        for message in self.messages.get(partition, {}).values():
            if message.offset < offset and not message.is_settled:
                self.ack(message)

    def seek(self, partition: int, offset: int, end: int) -> None:
        self.history_ends[partition], self.looked_at[partition] = end, offset
        for message in self.messages.get(partition, {}).values():
            message.is_settled, message.is_passed_over = message.offset < offset, False
            message.free()
            message.deliveries = message.failures = message.returns = message.first_ms = 0

    # Time

    def deadline(self, holder: int, partition: int) -> int:
        held = [m for m in self.held_by(holder, partition) if m.lease is None]
        return min(
            self.clocks[holder, partition] + TIMEOUT_MS, min(m.given_ms for m in held) + MAX_RESTARTS * TIMEOUT_MS
        )

    def holds(self) -> set[tuple[int, int]]:
        return {(m.holder, m.partition) for m in self.all() if m.holder is not None and m.lease is None}

    def next_due(self) -> int | None:
        leases = [m.lease for m in self.all() if m.lease is not None]
        return min([*leases, *(self.deadline(*hold) for hold in self.holds())], default=None)

    def ring(self, now: int) -> None:
        for message in list(self.all()):
            if message.lease is not None and message.lease <= now:
                self.fail(message, now)
        for hold in self.holds():
            if self.deadline(*hold) <= now:
                oldest, *_ = self.held_by(*hold)
                self.fail(oldest, now)
                self.give_back(self.held_by(*hold), counted=False)

    # Numbers

    def is_floor(self, partition: int, offset: int) -> bool:
        """Whether everything below is settled, and no message lies between it and the first that is not."""
        messages = self.messages.get(partition, {}).values()
        first = next((m.offset for m in messages if not m.is_settled), None)
        if first is not None and first < offset:
            return False
        return not any(m.offset >= offset and (first is None or m.offset < first) for m in messages)

    def depth(self) -> int:
        return sum(not m.is_settled and m.offset >= self.history_ends.get(m.partition, 0) for m in self.all())

    def restarted(self) -> None:
        """What connections held is free, and counts as returned; leases go on."""
        held = [m for m in self.all() if m.holder is not None and m.lease is None]
        self.give_back(held, counted=True)
        self.clocks.clear()
