"""Who reads which partition of a queue for one group, and how partitions pass from one member to another.

A partition that stays where it is keeps flowing. One that is to move is first revoked: its owner gets nothing new,
settles or hands back what it has, and only then, or when the deadline has passed, the next owner gets it. From a member
that is suspended, because it settles nothing, partitions are taken at once, as long as there is one that is not."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from penstock.core.errors import FencedMember, InvalidArgument
from penstock.queues.assignment import assign

SESSION_TIMEOUT_MS = 30_000
HEARTBEAT_MS = 3_000
REVOCATION_TIMEOUT_MS = 30_000


@dataclass(frozen=True, slots=True)
class MembershipOptions:
    session_timeout_ms: int | None = SESSION_TIMEOUT_MS
    """silence after which a member is taken for gone; None: never"""
    heartbeat_ms: int = HEARTBEAT_MS
    """how often members are told to send a heartbeat"""
    revocation_timeout_ms: int = REVOCATION_TIMEOUT_MS
    """how long an owner may take to give up a partition; 0: it is taken at the next tick"""

    def __post_init__(self) -> None:
        if self.revocation_timeout_ms < 0 or self.heartbeat_ms <= 0:
            raise InvalidArgument(
                f"a heartbeat every {self.heartbeat_ms} ms and {self.revocation_timeout_ms} ms to give up a partition: "
                f"the first must be above 0, the second not below"
            )
        if self.session_timeout_ms is not None and self.session_timeout_ms <= self.heartbeat_ms:
            raise InvalidArgument(
                f"a session timeout of {self.session_timeout_ms} ms is not above the heartbeat of {self.heartbeat_ms} "
                f"ms: every member would expire; give it a few heartbeats' time"
            )


@dataclass(slots=True)
class MembershipMetrics:
    """What happened in one group since it was opened."""

    rebalances: int = 0
    """times the target was computed anew: members came or went, or partitions were added"""
    revocations: int = 0
    revocations_forced: int = 0
    """partitions taken at the deadline from an owner that had not given them up"""
    moved_partitions: int = 0
    """partitions that passed from one member to another"""
    expired_members: int = 0
    suspensions: int = 0
    """times that a member settled nothing for too long"""
    last_rebalance_ms: int = 0
    """how long the last one took, from its cause until the last partition was with its new owner"""


@dataclass(frozen=True, slots=True)
class Assigned:
    """The member owns the partition and gets its messages from now on."""

    member: int
    partition: int
    generation: int


@dataclass(frozen=True, slots=True)
class Revoking:
    """The member gets nothing new of the partition. Call `released` once it has settled or handed back the rest."""

    member: int
    partition: int
    deadline_ms: int


@dataclass(frozen=True, slots=True)
class Resumed:
    """The revocation is off: the member keeps the partition and its messages flow again."""

    member: int
    partition: int


@dataclass(frozen=True, slots=True)
class Lost:
    """The deadline passed, or the member is suspended: it owns the partition no longer, and what it holds of it returns
    to the group."""

    member: int
    partition: int


@dataclass(frozen=True, slots=True)
class Left:
    """The member is gone with all it owned; whatever it holds returns to the group."""

    member: int
    partitions: tuple[int, ...]
    has_expired: bool


@dataclass(frozen=True, slots=True)
class Added:
    """The queue has one more partition: to be told to every member."""

    partition: int


Event: TypeAlias = Assigned | Revoking | Resumed | Lost | Left | Added


@dataclass(slots=True)
class _Session:
    joined_generation: int
    timeout_ms: int | None
    expires_ms: int | None = None
    partitions: set[int] = field(default_factory=set)

    def renew(self, now_ms: int) -> None:
        self.expires_ms = None if self.timeout_ms is None else now_ms + self.timeout_ms

    def has_expired(self, now_ms: int) -> bool:
        return self.expires_ms is not None and self.expires_ms <= now_ms


class Members:
    """The membership of one group. No I/O and no clock: every call brings the time, which never goes back.

    One task calls it and carries out the events it returns, in their order and before the next call. A call that
    changes who owns what begins a new generation, so that a generation names one assignment. Members are numbers that
    the caller gives out and, for a client that comes again, gives out anew.

    Time acts first: a call at a moment when sessions or revocations have run out deals with these before its own
    matter, so that nothing which comes too late counts because `tick` is late too."""

    def __init__(
        self, group: str, partitions: int, options: MembershipOptions | None = None, generation: int = 0
    ) -> None:
        """`generation` is the last one given out before a restart, so that members of that time stay fenced."""
        if partitions < 0:
            raise InvalidArgument(f"group {group!r} cannot have {partitions} partitions: give 0 or more")
        self.group, self.options = group, options or MembershipOptions()
        self.generation, self.partitions = generation, partitions
        self.metrics = MembershipMetrics()
        self._sessions: dict[int, _Session] = {}
        self._owners: dict[int, int] = {}
        self._taken_generations: dict[int, int] = {}
        self._target: dict[int, int] = {}
        self._revoking: dict[int, int] = {}
        self._suspended: set[int] = set()
        self._rebalancing_since_ms: int | None = None
        # Never later than the earliest end of a session or revocation. A heartbeat leaves it early rather than look
        # through all members.
        self._due_ms: int | None = None

    @property
    def next_due_ms(self) -> int | None:
        """When `tick` must be called next; a tick that finds nothing moves it on. None: nothing will run out."""
        return self._due_ms

    @property
    def is_rebalancing(self) -> bool:
        """Whether a partition is still on its way to another member."""
        return bool(self._revoking)

    @property
    def members(self) -> tuple[int, ...]:
        """In the order in which they joined."""
        return tuple(self._sessions)

    @property
    def suspended(self) -> frozenset[int]:
        """Members that get partitions only where all are suspended."""
        return frozenset(self._suspended)

    def owner_of(self, partition: int) -> int | None:
        """Whose settlements count, also while the partition is being revoked."""
        return self._owners.get(partition)

    def partitions_of(self, member: int) -> tuple[int, ...]:
        session = self._sessions.get(member)
        return () if session is None else tuple(sorted(session.partitions))

    def check(self, member: int, partition: int, generation: int) -> None:
        """Raise FencedMember unless the member has owned the partition since that generation or an earlier one."""
        is_owner = self._owners.get(partition) == member
        if not is_owner or not self._taken_generations[partition] <= generation <= self.generation:
            raise FencedMember(self.group, generation)

    def heartbeat(self, member: int, generation: int, now_ms: int) -> None:
        """Renew a session. FencedMember: there is none, it has run out, or the generation is of another session."""
        session = self._sessions.get(member)
        if session is None or session.has_expired(now_ms):
            raise FencedMember(self.group, generation)
        if not session.joined_generation <= generation <= self.generation:
            raise FencedMember(self.group, generation)
        session.renew(now_ms)

    def join(self, member: int, now_ms: int, *, is_immortal: bool = False) -> list[Event]:
        """A member comes; its heartbeats name `generation` as it is after this call, or a later one.

        An immortal one, in the process of the broker, needs no heartbeats. For one that is there already this is no
        more than a heartbeat."""
        events = self.tick(now_ms)
        if (known := self._sessions.get(member)) is not None:
            known.renew(now_ms)
            return events
        self.generation += 1
        session = _Session(self.generation, None if is_immortal else self.options.session_timeout_ms)
        session.renew(now_ms)
        self._sessions[member] = session
        self._wait_until(session.expires_ms)
        return events + self._rebalance(now_ms)

    def leave(self, member: int, now_ms: int) -> list[Event]:
        """A member goes of its own accord or with its connection. Changes nothing where it is gone already."""
        events = self.tick(now_ms)
        if member not in self._sessions:
            return events
        return events + self._part_with([member], now_ms, has_expired=False)

    def suspend(self, member: int, now_ms: int) -> list[Event]:
        """The member is there and does nothing: what it owns goes to others at once, if there are any at work."""
        events = self.tick(now_ms)
        if member not in self._sessions or member in self._suspended:
            return events
        self._suspended.add(member)
        self.metrics.suspensions += 1
        self.generation += 1
        return events + self._rebalance(now_ms)

    def resume(self, member: int, now_ms: int) -> list[Event]:
        """It is at work again."""
        events = self.tick(now_ms)
        if member not in self._suspended:
            return events
        self._suspended.discard(member)
        self.generation += 1
        return events + self._rebalance(now_ms)

    def released(self, member: int, partition: int, now_ms: int) -> list[Event]:
        """The member holds nothing of a partition that it was asked to give up: the next owner gets it.

        Changes nothing where the partition is not being taken from this member (any longer)."""
        events = self.tick(now_ms)
        if self._owners.get(partition) != member or partition not in self._revoking:
            return events
        self.generation += 1
        events.append(self._hand_over(partition))
        self._note_end(now_ms)
        return events

    def set_partitions(self, count: int, now_ms: int) -> list[Event]:
        """The queue has so many partitions now: never fewer than before."""
        if count < self.partitions:
            raise InvalidArgument(
                f"group {self.group!r} has {self.partitions} partitions and cannot go back to {count}: "
                f"partitions are added, never taken away"
            )
        events = self.tick(now_ms)
        if count == self.partitions:
            return events
        events += [Added(partition) for partition in range(self.partitions, count)]
        self.partitions = count
        self.generation += 1
        return events + self._rebalance(now_ms)

    def tick(self, now_ms: int) -> list[Event]:
        """Deal with the sessions and revocations that have run out. Cheap before `next_due_ms`, and harmless then."""
        if self._due_ms is None or now_ms < self._due_ms:
            return []
        events = self._expire(now_ms) + self._force(now_ms)
        self._due_ms = None
        for session in self._sessions.values():
            self._wait_until(session.expires_ms)
        for deadline_ms in self._revoking.values():
            self._wait_until(deadline_ms)
        return events

    def _expire(self, now_ms: int) -> list[Event]:
        expired = [member for member, session in self._sessions.items() if session.has_expired(now_ms)]
        if not expired:
            return []
        self.metrics.expired_members += len(expired)
        return self._part_with(expired, now_ms, has_expired=True)

    def _force(self, now_ms: int) -> list[Event]:
        overdue = [partition for partition, deadline_ms in self._revoking.items() if deadline_ms <= now_ms]
        if not overdue:
            return []
        self.generation += 1
        self.metrics.revocations_forced += len(overdue)
        events: list[Event] = []
        for partition in overdue:
            events += [Lost(self._owners[partition], partition), self._hand_over(partition)]
        self._note_end(now_ms)
        return events

    def _part_with(self, members: list[int], now_ms: int, has_expired: bool) -> list[Event]:
        self.generation += 1
        left = [self._remove(member, has_expired) for member in members]
        if self._sessions:
            self.metrics.moved_partitions += sum(len(gone.partitions) for gone in left)
        return [*left, *self._rebalance(now_ms)]

    def _rebalance(self, now_ms: int) -> list[Event]:
        """Aim anew and begin to go there: what nobody owns is given out, what moves is revoked, and a revocation that
        is no longer needed is taken back."""
        able = [member for member in self._sessions if member not in self._suspended]
        self._target = assign(self.partitions, able or self._sessions, self._owners)
        if not self._target:
            self._rebalancing_since_ms = None
            return []
        self.metrics.rebalances += 1
        if self._rebalancing_since_ms is None:
            self._rebalancing_since_ms = now_ms
        steps = [step for partition in range(self.partitions) for step in self._steps(partition, now_ms)]
        self._note_end(now_ms)
        return steps

    def _steps(self, partition: int, now_ms: int) -> list[Event]:
        owner = self._owners.get(partition)
        if owner is None:
            return [self._give(partition)]
        is_moving, is_revoking = self._target[partition] != owner, partition in self._revoking
        if is_moving and owner in self._suspended:
            return [Lost(owner, partition), self._hand_over(partition)]
        if is_moving and not is_revoking:
            return [self._revoke(owner, partition, now_ms)]
        if is_revoking and not is_moving:
            del self._revoking[partition]
            return [Resumed(owner, partition)]
        return []

    def _revoke(self, owner: int, partition: int, now_ms: int) -> Revoking:
        deadline_ms = now_ms + self.options.revocation_timeout_ms
        self._revoking[partition] = deadline_ms
        self._wait_until(deadline_ms)
        self.metrics.revocations += 1
        return Revoking(owner, partition, deadline_ms)

    def _hand_over(self, partition: int) -> Assigned:
        """From the owner that it is taken from to the one that the target names."""
        self._revoking.pop(partition, None)
        self._sessions[self._owners[partition]].partitions.remove(partition)
        self.metrics.moved_partitions += 1
        return self._give(partition)

    def _give(self, partition: int) -> Assigned:
        member = self._target[partition]
        self._owners[partition] = member
        self._taken_generations[partition] = self.generation
        self._sessions[member].partitions.add(partition)
        return Assigned(member, partition, self.generation)

    def _remove(self, member: int, has_expired: bool) -> Left:
        partitions = self.partitions_of(member)
        del self._sessions[member]
        self._suspended.discard(member)
        for partition in partitions:
            del self._owners[partition]
            self._revoking.pop(partition, None)
        return Left(member, partitions, has_expired)

    def _note_end(self, now_ms: int) -> None:
        if self._rebalancing_since_ms is not None and not self._revoking:
            self.metrics.last_rebalance_ms = now_ms - self._rebalancing_since_ms
            self._rebalancing_since_ms = None

    def _wait_until(self, due_ms: int | None) -> None:
        if due_ms is not None and (self._due_ms is None or due_ms < self._due_ms):
            self._due_ms = due_ms
