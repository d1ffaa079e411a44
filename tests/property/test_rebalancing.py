"""Membership against a model that knows only the events: what they tell must be allowed, and be all that changes."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from penstock.core.errors import FencedMember
from penstock.queues.members import Added, Assigned, Event, Left, Lost, Members, MembershipOptions, Resumed, Revoking

SESSION_MS, REVOCATION_MS = 30_000, 20_000
IMMORTAL = range(3)
member_numbers = st.integers(0, 7)
choices = st.integers(0, 1 << 16)


class Rebalancing(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.now_ms = 0
        self.last_heard_ms: dict[int, int] = {}
        self.owners: dict[int, int] = {}
        self.deadlines_ms: dict[int, int] = {}
        self.partitions, self.generation = 0, 0
        self.leaving: int | None = None
        self.suspended: set[int] = set()

    @initialize(partitions=st.integers(0, 24))
    def open(self, partitions: int) -> None:
        options = MembershipOptions(session_timeout_ms=SESSION_MS, revocation_timeout_ms=REVOCATION_MS)
        self.group, self.partitions = Members("workers", partitions, options), partitions

    @rule(milliseconds=st.sampled_from([1, 500, 3_000, 9_000, REVOCATION_MS, SESSION_MS]))
    def let_time_pass(self, milliseconds: int) -> None:
        self.now_ms += milliseconds

    @rule()
    def tick(self) -> None:
        self.follow(self.group.tick(self.now_ms))
        assert self.group.tick(self.now_ms) == []

    @rule(member=member_numbers)
    def join(self, member: int) -> None:
        self.tick()
        was_quiet, is_new = not self.deadlines_ms, member not in self.last_heard_ms
        self.last_heard_ms[member] = self.now_ms
        events = self.group.join(member, self.now_ms, is_immortal=member in IMMORTAL)
        self.follow(events)
        assert is_new or not events
        if was_quiet and not self.suspended:
            assert len(events) <= -(-self.partitions // len(self.last_heard_ms)) or len(self.last_heard_ms) == 1

    @rule(member=member_numbers)
    def leave(self, member: int) -> None:
        was_quiet, self.leaving = not self.deadlines_ms, member
        events = self.group.leave(member, self.now_ms)
        self.follow(events)
        self.leaving = None
        assert member not in self.last_heard_ms
        assert not was_quiet or not any(isinstance(event, Revoking) for event in events)

    @rule(member=member_numbers, is_old=st.booleans())
    def heartbeat(self, member: int, is_old: bool) -> None:
        generation = -1 if is_old else self.generation
        if is_old or member not in self.last_heard_ms or self.has_run_out(member):
            with pytest.raises(FencedMember):
                self.group.heartbeat(member, generation, self.now_ms)
            return
        self.group.heartbeat(member, generation, self.now_ms)
        self.last_heard_ms[member] = self.now_ms

    @rule(member=member_numbers)
    def suspend(self, member: int) -> None:
        self.tick()
        self.suspended |= {member} & self.last_heard_ms.keys()
        self.follow(self.group.suspend(member, self.now_ms))
        assert self.group.suspended == self.suspended

    @rule(member=member_numbers)
    def resume(self, member: int) -> None:
        self.tick()
        self.suspended.discard(member)
        self.follow(self.group.resume(member, self.now_ms))
        assert self.group.suspended == self.suspended

    @rule()
    def all_send_heartbeats(self) -> None:
        for member in self.last_heard_ms:
            self.heartbeat(member, is_old=False)

    @precondition(lambda self: self.deadlines_ms)
    @rule(choice=choices)
    def release(self, choice: int) -> None:
        self.tick()
        if revoked := sorted(self.deadlines_ms):
            self.give_up(revoked[choice % len(revoked)])

    @precondition(lambda self: self.deadlines_ms)
    @rule()
    def release_everything(self) -> None:
        self.tick()
        for partition in sorted(self.deadlines_ms):
            self.give_up(partition)

    @rule(member=member_numbers, partition=st.integers(0, 30))
    def release_what_was_not_asked_for(self, member: int, partition: int) -> None:
        self.tick()
        if self.owners.get(partition) != member or partition not in self.deadlines_ms:
            assert self.group.released(member, partition, self.now_ms) == []

    @precondition(lambda self: self.partitions < 30)
    @rule(added=st.integers(0, 3))
    def add_partitions(self, added: int) -> None:
        count = self.partitions + added
        self.follow(self.group.set_partitions(count, self.now_ms))
        assert self.partitions == count

    def give_up(self, partition: int) -> None:
        owner = self.owners.pop(partition)
        del self.deadlines_ms[partition]
        (given,) = events = self.group.released(owner, partition, self.now_ms)
        assert isinstance(given, Assigned)
        assert given.partition == partition
        assert given.member != owner
        self.follow(events)

    def has_run_out(self, member: int) -> bool:
        return member not in IMMORTAL and self.now_ms >= self.last_heard_ms[member] + SESSION_MS

    def follow(self, events: list[Event]) -> None:
        before = self.generation
        for event in events:
            self.apply(event)
        self.generation = self.group.generation
        given = [event.generation for event in events if isinstance(event, Assigned)]
        assert all(before < generation <= self.generation for generation in given)
        assert self.generation > before or not any(isinstance(event, Left | Lost) for event in events)

    def apply(self, event: Event) -> None:
        """Only what the state before it allows: a partition is given out when nobody has it any more."""
        match event:
            case Assigned(member, partition, _):
                assert partition not in self.owners
                assert partition < self.partitions
                assert member in self.last_heard_ms
                self.owners[partition] = member
            case Revoking(member, partition, deadline_ms):
                assert (self.owners[partition], deadline_ms) == (member, self.now_ms + REVOCATION_MS)
                assert partition not in self.deadlines_ms
                self.deadlines_ms[partition] = deadline_ms
            case Resumed(member, partition):
                assert self.owners[partition] == member
                del self.deadlines_ms[partition]
            case Lost(member, partition):
                assert self.owners.pop(partition) == member
                ends_ms = self.deadlines_ms.pop(partition) if partition in self.deadlines_ms else None
                assert member in self.suspended or (ends_ms is not None and ends_ms <= self.now_ms)
            case Left(member, partitions, has_expired):
                self.see_off(member, partitions, has_expired)
            case Added(partition):
                assert partition == self.partitions
                self.partitions += 1

    def see_off(self, member: int, partitions: tuple[int, ...], has_expired: bool) -> None:
        assert self.has_run_out(member) if has_expired else member == self.leaving
        assert partitions == tuple(sorted(owned for owned, owner in self.owners.items() if owner == member))
        del self.last_heard_ms[member]
        self.suspended.discard(member)
        for partition in partitions:
            del self.owners[partition]
            self.deadlines_ms.pop(partition, None)

    @invariant()
    def owners_are_those_the_events_told_of(self) -> None:
        for partition in range(self.partitions):
            owner = self.owners.get(partition)
            assert self.group.owner_of(partition) == owner
        listed = {partition: member for member in self.group.members for partition in self.group.partitions_of(member)}
        assert listed == self.owners
        assert self.group.generation == self.generation

    @invariant()
    def once_quiet_every_partition_is_owned_and_shares_differ_by_one_at_most(self) -> None:
        assert self.group.is_rebalancing == bool(self.deadlines_ms)
        if self.deadlines_ms or not self.last_heard_ms:
            return
        assert len(self.owners) == self.partitions
        counts = Counter(self.owners.values())
        able = [member for member in self.last_heard_ms if member not in self.suspended]
        shares = [counts[member] for member in able or self.last_heard_ms]
        assert max(shares) - min(shares) <= 1
        assert sum(shares) == self.partitions, "one that is suspended has something though another is not"

    @invariant()
    def a_tick_is_due_no_later_than_anything_runs_out(self) -> None:
        mortal = [heard for member, heard in self.last_heard_ms.items() if member not in IMMORTAL]
        ends = [heard + SESSION_MS for heard in mortal] + list(self.deadlines_ms.values())
        due_ms = self.group.next_due_ms
        assert not ends or (due_ms is not None and due_ms <= min(ends))

    def teardown(self) -> None:
        """Though nobody gives up anything, all is quiet once the deadlines have passed."""
        if not hasattr(self, "group"):
            return
        self.tick()
        self.all_send_heartbeats()
        self.now_ms += REVOCATION_MS
        self.tick()
        assert not self.group.is_rebalancing
        self.once_quiet_every_partition_is_owned_and_shares_differ_by_one_at_most()


TestRebalancing = Rebalancing.TestCase
TestRebalancing.settings = settings(max_examples=200, stateful_step_count=50, deadline=None)
