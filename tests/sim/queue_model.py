"""The rules for groups said a second time, naively: an object a message, a list a partition. Walks hold the broker
against it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

# Not a round number: clocks and revocations (30 s) do not run out at one moment, of which either might come first.
TIMEOUT_MS = 29_993
MAX_RESTARTS = 10


@dataclass(slots=True)
class Message:
    """Of one group. `holder`: who has it; `until`: when it may come again; `lease`: when its own time is over."""

    partition: int
    offset: int
    key: bytes
    value: bytes
    is_settled: bool = False
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
    max_retries: int
    backoff_ms: int
    max_returns: int
    total_timeout_ms: int
    is_strict: bool

    def settings(self) -> dict[str, object]:
        """Of a queue that follows it, without bounds that are not in the model."""
        backoff = f"{self.backoff_ms}ms"
        return {
            "ordering": "strict" if self.is_strict else "partition",
            "retry_policy": {
                "max_retries": self.max_retries,
                "initial_backoff": backoff,
                "max_backoff": backoff,
                "total_timeout": f"{self.total_timeout_ms}ms" if self.total_timeout_ms else 0,
            },
            "performance": {"delivery_timeout": f"{TIMEOUT_MS}ms"},
            "limits": {"message_ttl": 0, "max_queue_depth": 0},
            "retention": {"time": 0},
            "max_deliveries": self.max_returns,
            "group_expiry": 0,
        }


@dataclass
class GroupModel:
    policy: Policy
    starts: dict[int, int] = field(default_factory=dict)
    history_ends: dict[int, int] = field(default_factory=dict)
    messages: dict[int, dict[int, Message]] = field(default_factory=dict)
    """of each partition by offset, rising; a crash may leave offsets out"""
    clocks: dict[tuple[int, int], int] = field(default_factory=dict)
    dead: list[Message] = field(default_factory=list)
    is_paused: bool = False

    def add(self, message: Message) -> None:
        message.is_settled = message.offset < self.starts.get(message.partition, 0)
        self.messages.setdefault(message.partition, {})[message.offset] = message

    def all(self) -> Iterator[Message]:
        for messages in self.messages.values():
            yield from messages.values()

    def held_by(self, holder: int, partition: int | None = None) -> list[Message]:
        return [m for m in self.all() if m.holder == holder and (partition is None or m.partition == partition)]

    # What may be given to whom

    def earlier(self, message: Message) -> Iterator[Message]:
        """What must not wait when this one is given out."""
        if not message.key and not self.policy.is_strict:
            return
        for other in self.messages[message.partition].values():
            if other.offset >= message.offset:
                return
            if not other.is_settled and (self.policy.is_strict or other.key == message.key):
                yield other

    def is_next(self, message: Message, now: int) -> bool:
        """Whether it must be given to whoever asks."""
        return message.waits and message.until <= now and not any(self.earlier(message))

    def given(self, message: Message, holder: int, count: int, now: int, lease: int | None) -> None:
        assert not message.is_settled, f"{message} was delivered after it was settled"
        assert message.holder is None, f"{message} was given to {holder} too"
        assert message.until <= now, f"{message} came before its time"
        for other in self.earlier(message):
            assert other.holder == holder, f"{message} overtook {other}"
        assert count == message.deliveries + 1, f"{message} came with count {count}"
        if lease is None and not self.held_by(holder, message.partition):
            self.clocks[holder, message.partition] = now
        message.holder, message.lease, message.given_ms, message.deliveries = holder, lease, now, count
        message.first_ms = message.first_ms or now

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
            self.bury(message)
            return
        wait = policy.backoff_ms if delay_ms is None else delay_ms
        holder = message.holder
        message.free(now + wait if wait else 0)
        for later in self.messages[message.partition].values():
            is_behind = later.offset > message.offset and later.holder is not None
            if is_behind and any(other is message for other in self.earlier(later)):
                assert later.holder == holder
                later.free()

    def bury(self, message: Message) -> None:
        message.is_settled = True
        message.free()
        self.dead.append(message)

    def settled_by(self, holder: int, partition: int, now: int) -> None:
        """A settlement restarts the clock."""
        self.clocks[holder, partition] = now

    def give_back(self, messages: Iterable[Message], counted: bool) -> None:
        for message in messages:
            message.returns += counted
            if counted and message.returns > self.policy.max_returns:
                self.bury(message)
            else:
                message.free()

    def commit(self, partition: int, offset: int) -> None:
        for message in self.messages.get(partition, {}).values():
            if message.offset < offset and not message.is_settled:
                self.ack(message)

    def seek(self, partition: int, offset: int, end: int) -> None:
        self.history_ends[partition] = end
        for message in self.messages[partition].values():
            message.is_settled = message.offset < offset
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
