from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.errors import InvalidArgument
from penstock.queues.assignment import assign

member_sets = st.sets(st.integers(0, 40), min_size=1, max_size=12)


def shares(assigned: Mapping[int, int], members: set[int]) -> list[int]:
    counts = Counter(assigned.values())
    return [counts[member] for member in members]


def stayed(assigned: Mapping[int, int], current: Mapping[int, int]) -> int:
    return sum(1 for partition, member in assigned.items() if current.get(partition) == member)


def most_that_can_stay(partitions: int, members: set[int], current: Mapping[int, int]) -> int:
    """By trying every assignment there is."""
    every = (dict(enumerate(chosen)) for chosen in product(members, repeat=partitions))
    balanced = (found for found in every if max(shares(found, members)) - min(shares(found, members)) <= 1)
    return max(stayed(found, current) for found in balanced)


def test_without_members_nothing_is_assigned() -> None:
    assert assign(10, [], {0: 1}) == {}


def test_without_partitions_members_get_nothing() -> None:
    assert assign(0, [1, 2], {}) == {}


def test_a_negative_number_of_partitions_is_refused() -> None:
    with pytest.raises(InvalidArgument):
        assign(-1, [1], {})


def test_a_lone_member_gets_everything() -> None:
    assert assign(3, [7], {}) == {0: 7, 1: 7, 2: 7}


def test_more_members_than_partitions_leaves_some_without() -> None:
    assert sorted(assign(2, [1, 2, 3], {}).values()) == [1, 2]


def test_the_larger_share_stays_with_who_has_it() -> None:
    current = {0: 2, 1: 2, 2: 1}
    assert assign(3, [1, 2], current) == current


def test_a_newcomer_takes_its_share_and_nobody_else_gets_any() -> None:
    before = assign(10, [1, 2], {})
    after = assign(10, [1, 2, 3], before)
    assert {after[partition] for partition in after if after[partition] != before[partition]} == {3}
    assert shares(after, {1, 2, 3}) == [4, 3, 3]


def test_a_member_gives_up_its_highest_partitions() -> None:
    after = assign(6, [1, 2], dict.fromkeys(range(6), 1))
    assert [partition for partition in after if after[partition] == 1] == [0, 1, 2]


def test_owners_that_are_not_members_and_partitions_that_are_not_there_do_not_count() -> None:
    assert assign(2, [1], {0: 9, 1: 1, 5: 1}) == {0: 1, 1: 1}


def test_offering_members_twice_changes_nothing() -> None:
    assert assign(5, [1, 2, 1], {}) == assign(5, [1, 2], {})


@given(st.integers(0, 60), member_sets, st.dictionaries(st.integers(0, 60), st.integers(0, 40)))
@settings(max_examples=200, deadline=None)
def test_every_partition_has_a_member_and_no_member_two_more_than_another(
    partitions: int, members: set[int], current: dict[int, int]
) -> None:
    assigned = assign(partitions, members, current)
    assert set(assigned) == set(range(partitions))
    assert set(assigned.values()) <= members
    assert max(shares(assigned, members)) - min(shares(assigned, members)) <= 1


@given(st.integers(0, 5), st.sets(st.integers(0, 4), min_size=1, max_size=3), st.data())
@settings(max_examples=100, deadline=None)
def test_no_balanced_assignment_leaves_more_partitions_where_they_are(
    partitions: int, members: set[int], data: st.DataObject
) -> None:
    current = data.draw(st.dictionaries(st.integers(0, 4), st.integers(0, 4)))
    assert stayed(assign(partitions, members, current), current) == most_that_can_stay(partitions, members, current)


@given(st.integers(0, 60), member_sets, st.dictionaries(st.integers(0, 60), st.integers(0, 40)))
@settings(max_examples=100, deadline=None)
def test_the_order_in_which_things_are_given_does_not_matter(
    partitions: int, members: set[int], current: dict[int, int]
) -> None:
    backwards = dict(reversed(current.items()))
    assert assign(partitions, sorted(members), current) == assign(partitions, sorted(members)[::-1], backwards)


@given(st.integers(0, 60), member_sets, st.dictionaries(st.integers(0, 60), st.integers(0, 40)))
@settings(max_examples=100, deadline=None)
def test_what_was_assigned_stays_when_nothing_changes(
    partitions: int, members: set[int], current: dict[int, int]
) -> None:
    assigned = assign(partitions, members, current)
    assert assign(partitions, members, assigned) == assigned
