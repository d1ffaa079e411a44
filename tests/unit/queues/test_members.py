from __future__ import annotations

from collections.abc import Iterable

import pytest

from penstock.core.errors import FencedMember, InvalidArgument
from penstock.queues.members import (
    Added,
    Assigned,
    Event,
    Left,
    Lost,
    Members,
    MembershipOptions,
    Resumed,
    Revoking,
)

A, B, C = 1, 2, 3
SESSION_MS, REVOCATION_MS = 30_000, 30_000


def group_of(partitions: int, *members: int, options: MembershipOptions | None = None) -> Members:
    """Members that joined at 0 and have what is theirs."""
    group = Members("workers", partitions, options)
    for member in members:
        release_all(group, group.join(member, 0), 0)
    return group


def release_all(group: Members, events: Iterable[Event], now_ms: int) -> list[Event]:
    """Every owner gives up at once what it is asked for."""
    return [
        answer
        for event in events
        if isinstance(event, Revoking)
        for answer in group.released(event.member, event.partition, now_ms)
    ]


def beat(group: Members, now_ms: int) -> None:
    for member in group.members:
        group.heartbeat(member, group.generation, now_ms)


def owners(group: Members) -> list[int | None]:
    return [group.owner_of(partition) for partition in range(group.partitions)]


def test_the_first_member_gets_every_partition() -> None:
    group = Members("workers", 3)
    assert group.join(A, 0) == [Assigned(A, 0, 1), Assigned(A, 1, 1), Assigned(A, 2, 1)]
    assert group.partitions_of(A) == (0, 1, 2)
    assert not group.is_rebalancing


def test_without_members_a_partition_has_no_owner() -> None:
    group = Members("workers", 2)
    assert owners(group) == [None, None]
    assert group.partitions_of(A) == ()
    assert group.next_due_ms is None


def test_a_newcomer_gets_a_partition_only_when_its_owner_gave_it_up() -> None:
    group = group_of(4, A)
    assert group.join(B, 0) == [Revoking(A, 2, REVOCATION_MS), Revoking(A, 3, REVOCATION_MS)]
    assert owners(group) == [A, A, A, A]
    assert group.released(A, 3, 10) == [Assigned(B, 3, group.generation)]
    assert owners(group) == [A, A, A, B]


def test_the_owner_may_settle_what_it_is_giving_up() -> None:
    group = group_of(2, A)
    held_since = group.generation
    group.join(B, 0)
    group.check(A, 1, held_since)
    group.released(A, 1, 10)
    with pytest.raises(FencedMember):
        group.check(A, 1, held_since)


def test_at_the_deadline_a_partition_is_taken_and_that_is_counted() -> None:
    group = group_of(2, A)
    group.join(B, 0)
    beat(group, 20_000)
    assert group.tick(REVOCATION_MS - 1) == []
    assert group.tick(REVOCATION_MS) == [Lost(A, 1), Assigned(B, 1, group.generation)]
    assert group.metrics.revocations_forced == 1


def test_a_release_after_the_deadline_changes_nothing() -> None:
    group = group_of(2, A)
    group.join(B, 0)
    beat(group, 20_000)
    assert group.released(A, 1, REVOCATION_MS) == [Lost(A, 1), Assigned(B, 1, group.generation)]
    generation = group.generation
    assert group.released(A, 1, REVOCATION_MS + 1) == []
    assert group.generation == generation


def test_a_release_nobody_asked_for_changes_nothing() -> None:
    group = group_of(4, A, B)
    for member, partition in ((A, 0), (A, 2), (C, 0), (A, 99)):
        assert group.released(member, partition, 10) == []
    assert owners(group) == [A, A, B, B]


def test_a_release_by_who_waits_for_the_partition_changes_nothing() -> None:
    group = group_of(4, A)
    group.join(B, 0)
    assert group.released(B, 2, 10) == []
    assert owners(group) == [A, A, A, A]


def test_every_change_of_ownership_is_a_new_generation() -> None:
    group = Members("workers", 4)
    seen = [group.generation]
    group.join(A, 0, is_immortal=True)
    seen.append(group.generation)
    group.join(B, 0)
    seen.append(group.generation)
    group.released(A, 2, 10)
    seen.append(group.generation)
    beat(group, 20_000)
    group.tick(REVOCATION_MS)
    seen.append(group.generation)
    group.set_partitions(5, REVOCATION_MS)
    seen.append(group.generation)
    group.tick(20_000 + SESSION_MS)
    seen.append(group.generation)
    group.leave(A, 60_000)
    seen.append(group.generation)
    assert seen == [0, 1, 2, 3, 4, 5, 6, 7]


def test_what_a_leaver_had_goes_to_the_others_at_once() -> None:
    group = group_of(4, A, B)
    assert group.leave(B, 10) == [
        Left(B, (2, 3), has_expired=False),
        Assigned(A, 2, group.generation),
        Assigned(A, 3, group.generation),
    ]


def test_leaving_twice_is_leaving_once() -> None:
    group = group_of(2, A, B)
    group.leave(B, 10)
    generation = group.generation
    assert group.leave(B, 11) == []
    assert group.generation == generation


def test_joining_twice_is_a_heartbeat() -> None:
    group = group_of(2, A)
    generation = group.generation
    assert group.join(A, 20_000) == []
    assert group.generation == generation
    assert group.tick(SESSION_MS) == []


def test_a_silent_member_expires_and_its_partitions_go_to_the_others() -> None:
    group = group_of(4, A, B)
    group.heartbeat(A, group.generation, 10_000)
    assert group.tick(SESSION_MS) == [
        Left(B, (2, 3), has_expired=True),
        Assigned(A, 2, group.generation),
        Assigned(A, 3, group.generation),
    ]
    assert group.metrics.expired_members == 1


def test_a_heartbeat_of_an_expired_member_is_fenced_whether_or_not_a_tick_came_first() -> None:
    for is_ticked in (False, True):
        group = group_of(2, A)
        if is_ticked:
            group.tick(SESSION_MS)
        with pytest.raises(FencedMember) as fenced:
            group.heartbeat(A, 1, SESSION_MS)
        assert (fenced.value.group, fenced.value.generation) == ("workers", 1)


def test_a_heartbeat_of_a_stranger_is_fenced() -> None:
    with pytest.raises(FencedMember):
        group_of(2, A).heartbeat(B, 1, 0)


def test_a_heartbeat_of_an_earlier_session_is_fenced() -> None:
    group = group_of(2, A)
    earlier = group.generation
    group.leave(A, 10)
    group.join(A, 20)
    with pytest.raises(FencedMember):
        group.heartbeat(A, earlier, 30)


def test_a_heartbeat_of_a_generation_to_come_is_fenced() -> None:
    group = group_of(2, A)
    with pytest.raises(FencedMember):
        group.heartbeat(A, group.generation + 1, 10)


def test_who_kept_its_partitions_need_not_know_the_newest_generation() -> None:
    group = group_of(4, A)
    joined = group.generation
    release_all(group, group.join(B, 0), 10)
    group.heartbeat(A, joined, 20)
    group.check(A, 0, joined)


def test_a_partition_that_came_back_is_fenced_from_its_former_time() -> None:
    group = group_of(2, A)
    former = group.generation
    release_all(group, group.join(B, 0), 10)
    group.leave(B, 20)
    assert group.owner_of(1) == A
    with pytest.raises(FencedMember):
        group.check(A, 1, former)
    group.check(A, 1, group.generation)


def test_generations_go_on_from_before_a_restart() -> None:
    group = Members("workers", 1, generation=57)
    assert group.join(A, 0) == [Assigned(A, 0, 58)]
    with pytest.raises(FencedMember):
        group.check(A, 0, 57)


def test_a_member_that_expired_unnoticed_joins_as_a_new_one() -> None:
    group = group_of(1, A)
    assert group.join(A, SESSION_MS) == [Left(A, (0,), has_expired=True), Assigned(A, 0, group.generation)]


def test_an_immortal_member_needs_no_heartbeat() -> None:
    group = Members("workers", 2)
    group.join(A, 0, is_immortal=True)
    assert group.next_due_ms is None
    assert group.tick(10**12) == []
    group.heartbeat(A, group.generation, 10**12)
    assert owners(group) == [A, A]


def test_without_a_session_timeout_nobody_expires() -> None:
    group = group_of(2, A, options=MembershipOptions(session_timeout_ms=None))
    assert group.tick(10**12) == []


def test_an_immortal_member_that_gives_nothing_up_loses_it_at_the_deadline() -> None:
    group = Members("workers", 2, MembershipOptions(revocation_timeout_ms=500))
    group.join(A, 0, is_immortal=True)
    group.join(B, 100, is_immortal=True)
    assert group.next_due_ms == 600
    assert group.tick(600) == [Lost(A, 1), Assigned(B, 1, group.generation)]
    assert group.next_due_ms is None


def test_a_newcomer_that_leaves_again_leaves_the_flow_as_it_was() -> None:
    group = group_of(4, A)
    group.join(B, 0)
    assert group.leave(B, 10) == [Left(B, (), has_expired=False), Resumed(A, 2), Resumed(A, 3)]
    assert owners(group) == [A, A, A, A]
    assert not group.is_rebalancing
    assert group.released(A, 3, 20) == []
    beat(group, 20_000)
    assert group.tick(REVOCATION_MS) == []


def test_a_newcomer_that_leaves_halfway_gives_back_what_it_got() -> None:
    group = group_of(4, A)
    group.join(B, 0)
    group.released(A, 2, 5)
    events = group.leave(B, 10)
    assert events == [Left(B, (2,), has_expired=False), Assigned(A, 2, group.generation), Resumed(A, 3)]


def test_a_second_newcomer_during_a_revocation_does_not_extend_its_deadline() -> None:
    group = group_of(6, A)
    group.join(B, 0)
    assert group.join(C, 1000) == [Revoking(A, 2, 1000 + REVOCATION_MS)]
    beat(group, 20_000)
    taken = group.tick(REVOCATION_MS)
    assert [event for event in taken if isinstance(event, Lost)] == [Lost(A, 3), Lost(A, 4), Lost(A, 5)]
    assert group.owner_of(2) == A


def test_who_leaves_while_it_is_giving_up_partitions_gives_up_all() -> None:
    group = group_of(4, A)
    group.join(B, 0)
    events = group.leave(A, 10)
    assert events[0] == Left(A, (0, 1, 2, 3), has_expired=False)
    assert owners(group) == [B, B, B, B]
    assert not group.is_rebalancing


def test_who_expires_while_it_is_giving_up_partitions_gives_up_all() -> None:
    group = group_of(4, A)
    group.join(B, 20_000)
    group.heartbeat(B, group.generation, 25_000)
    assert group.tick(SESSION_MS)[0] == Left(A, (0, 1, 2, 3), has_expired=True)
    assert owners(group) == [B, B, B, B]
    assert group.metrics.revocations_forced == 0


def test_who_expires_at_the_deadline_of_a_revocation_has_left_and_lost_nothing() -> None:
    group = group_of(2, A, options=MembershipOptions(revocation_timeout_ms=10_000))
    group.join(B, 20_000)
    events = group.tick(SESSION_MS)
    assert events[0] == Left(A, (0, 1), has_expired=True)
    assert not any(isinstance(event, Lost) for event in events)


def test_when_all_have_left_nothing_is_owned_and_the_next_member_gets_all() -> None:
    group = group_of(3, A, B)
    group.leave(A, 10)
    assert group.leave(B, 20) == [Left(B, (0, 1, 2), has_expired=False)]
    assert owners(group) == [None, None, None]
    assert group.next_due_ms is None or group.tick(10**9) == []
    group.join(C, 10**9)
    assert owners(group) == [C, C, C]


def test_when_all_expire_together_nothing_is_owned_and_nothing_has_moved() -> None:
    group = group_of(4, A, B)
    moved = group.metrics.moved_partitions
    events = group.tick(SESSION_MS)
    assert events == [Left(A, (0, 1), has_expired=True), Left(B, (2, 3), has_expired=True)]
    assert owners(group) == [None] * 4
    assert group.metrics.moved_partitions == moved


def test_added_partitions_are_told_and_given_out() -> None:
    group = group_of(2, A, B)
    events = group.set_partitions(4, 10)
    assert events[:2] == [Added(2), Added(3)]
    assert sorted(event.member for event in events if isinstance(event, Assigned)) == [A, B]
    assert not group.is_rebalancing


def test_partitions_added_without_members_wait_for_the_first() -> None:
    group = Members("workers", 1)
    assert group.set_partitions(2, 0) == [Added(1)]
    group.join(A, 10)
    assert owners(group) == [A, A]


def test_partitions_added_during_a_revocation_are_given_to_who_waits() -> None:
    group = group_of(4, A)
    group.join(B, 0)
    events = group.set_partitions(6, 10)
    generation = group.generation
    assert events == [Added(4), Added(5), Resumed(A, 2), Assigned(B, 4, generation), Assigned(B, 5, generation)]
    assert group.released(A, 3, 20) == [Assigned(B, 3, group.generation)]
    assert owners(group) == [A, A, A, B, B, B]


def test_the_same_number_of_partitions_changes_nothing() -> None:
    group = group_of(2, A)
    generation = group.generation
    assert group.set_partitions(2, 10) == []
    assert group.generation == generation


def test_partitions_are_never_taken_away() -> None:
    with pytest.raises(InvalidArgument):
        group_of(2, A).set_partitions(1, 10)


def test_the_next_due_time_is_the_earliest_of_sessions_and_revocations() -> None:
    group = group_of(2, A, options=MembershipOptions(revocation_timeout_ms=5_000))
    assert group.next_due_ms == SESSION_MS
    group.join(B, 1_000)
    assert group.next_due_ms == 6_000
    group.released(A, 1, 2_000)
    assert group.tick(6_000) == []
    assert group.next_due_ms == SESSION_MS


def test_a_tick_after_heartbeats_moves_the_due_time_on() -> None:
    group = group_of(2, A)
    group.heartbeat(A, group.generation, 10_000)
    assert group.tick(SESSION_MS) == []
    assert group.next_due_ms == 10_000 + SESSION_MS


def test_a_tick_forgets_no_deadline_that_is_still_to_come() -> None:
    group = group_of(2, A)
    group.join(B, 5_000)
    beat(group, 15_000)
    assert group.tick(SESSION_MS) == []
    assert group.next_due_ms == 5_000 + REVOCATION_MS


def test_a_rebalance_that_meets_another_lasts_from_the_first_cause_to_the_end() -> None:
    group = group_of(3, A)
    first = group.join(B, 1_000)
    second = group.join(C, 1_500)
    release_all(group, first + second, 1_800)
    assert not group.is_rebalancing
    assert group.metrics.last_rebalance_ms == 800


def test_what_a_rebalance_did_is_counted() -> None:
    group = group_of(4, A)
    events = group.join(B, 1_000)
    group.released(A, 2, 1_500)
    assert group.metrics.last_rebalance_ms == 0
    group.released(A, 3, 1_700)
    assert len(events) == 2
    metrics = group.metrics
    assert (metrics.rebalances, metrics.revocations, metrics.moved_partitions) == (2, 2, 2)
    assert (metrics.revocations_forced, metrics.last_rebalance_ms) == (0, 700)


def test_a_group_without_partitions_has_members_all_the_same() -> None:
    group = Members("workers", 0)
    assert group.join(A, 0) == []
    group.heartbeat(A, group.generation, 10)
    assert group.members == (A,)


@pytest.mark.parametrize(
    ("session_ms", "heartbeat_ms", "revocation_ms"), [(3_000, 3_000, 0), (30_000, 0, 0), (30_000, 3_000, -1)]
)
def test_times_that_cannot_work_are_refused(session_ms: int, heartbeat_ms: int, revocation_ms: int) -> None:
    with pytest.raises(InvalidArgument):
        MembershipOptions(session_ms, heartbeat_ms, revocation_ms)


def test_a_negative_number_of_partitions_is_refused() -> None:
    with pytest.raises(InvalidArgument):
        Members("workers", -1)
