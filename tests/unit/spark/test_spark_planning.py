"""Which task reads what, and how much a micro-batch takes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.log.reading.extents import Extent, RowMap
from penstock.spark.offsets import OffsetRange, PartitionId, json_of, positions_of, ranges_between
from penstock.spark.planning import Split, admitted, plan

_SOURCES = st.builds(PartitionId, st.sampled_from(["orders", "returns"]), st.integers(0, 3))
_RANGES = st.dictionaries(_SOURCES, st.tuples(st.integers(0, 10_000), st.integers(1, 5_000))).map(
    lambda found: [OffsetRange(source, at, at + count) for source, (at, count) in sorted(found.items())]
)


def _orders(*lengths: int) -> list[OffsetRange]:
    return [OffsetRange(PartitionId("orders", number), 0, length) for number, length in enumerate(lengths)]


def test_ranges_lie_between_two_positions_and_new_partitions_begin_at_0() -> None:
    start = {PartitionId("orders", 0): 5, PartitionId("orders", 1): 7}
    stop = {PartitionId("orders", 1): 7, PartitionId("orders", 0): 9, PartitionId("orders", 2): 3}
    assert ranges_between(start, stop) == [
        OffsetRange(PartitionId("orders", 0), 5, 9),
        OffsetRange(PartitionId("orders", 2), 0, 3),
    ]


def test_positions_come_back_from_their_json() -> None:
    positions = {PartitionId("b", 10): 3, PartitionId("b", 2): 4, PartitionId("a", 0): 0}
    written = json_of(positions)
    assert positions_of(written) == positions
    assert list(written) == ["a", "b"] and list(written["b"]) == ["2", "10"]


def _sizes(ranges: list[OffsetRange], split: Split) -> list[list[int]]:
    return [[piece.offsets for piece in task] for task in plan(ranges, split, {})]


def test_small_partitions_share_a_task() -> None:
    assert _sizes(_orders(10, 10, 10, 40), Split(pack_rows=70, cores=2)) == [[10, 10, 10, 40]]
    assert _sizes(_orders(10, 10, 10, 40), Split(pack_rows=35, cores=8)) == [[10, 10, 10, 5], [35]]


def test_all_tasks_read_as_much_and_none_too_much() -> None:
    assert _sizes(_orders(2500), Split(split_rows=1000, pack_rows=10, cores=1)) == [[833], [833], [834]]
    assert _sizes(_orders(1900, 600), Split(split_rows=1000, pack_rows=10, cores=1)) == [[833], [833], [234, 600]]


def test_there_is_a_task_for_each_core_or_for_none_of_them() -> None:
    assert _sizes(_orders(2500), Split(split_rows=1000, pack_rows=10, cores=2)) == [[625]] * 4
    assert _sizes(_orders(800), Split(split_rows=1000, pack_rows=10, cores=2)) == [[400]] * 2


def test_there_are_as_many_tasks_as_asked_for() -> None:
    assert len(plan(_orders(100, 900), Split(min_tasks=10), {})) >= 10
    assert len(plan(_orders(10, 10, 10, 10), Split(min_tasks=4), {})) == 4


def test_nothing_to_read_needs_no_task() -> None:
    assert plan([], Split(min_tasks=8), {}) == []


@given(_RANGES, st.builds(Split, st.integers(1, 20), st.integers(1, 4000), st.integers(1, 4000), st.integers(1, 9)))
def test_every_offset_is_in_exactly_one_task(ranges: list[OffsetRange], split: Split) -> None:
    tasks = plan(ranges, split, {})
    joined: dict[PartitionId, list[int]] = {}
    for piece in (piece for task in tasks for piece in task):
        assert 0 < piece.offsets <= split.split_rows
        joined.setdefault(piece.source, []).extend(range(piece.start, piece.stop))
    assert joined == {each.source: list(range(each.start, each.stop)) for each in ranges}
    assert len(tasks) >= min(split.min_tasks, sum(each.offsets for each in ranges))


def test_a_limit_is_shared_by_what_waits() -> None:
    small, large = PartitionId("orders", 0), PartitionId("orders", 1)
    assert admitted({small: 0, large: 0}, {small: 100, large: 900}, 100, {}, {}) == {small: 10, large: 90}


def test_a_limit_in_bytes_counts_what_a_row_costs() -> None:
    light, heavy = PartitionId("orders", 0), PartitionId("orders", 1)
    moved = admitted({}, {light: 1000, heavy: 1000}, 50_000, {light: 10.0, heavy: 90.0}, {})
    assert moved == {light: 500, heavy: 500}


@given(
    st.dictionaries(_SOURCES, st.tuples(st.integers(0, 50), st.integers(0, 50))),
    st.integers(1, 200),
    st.sampled_from([0.5, 1.0, 7.0]),
)
def test_a_limited_batch_stays_within_its_budget_and_always_moves(
    found: dict[PartitionId, tuple[int, int]], budget: int, price: float
) -> None:
    start = {source: at for source, (at, _) in found.items()}
    end = {source: at + count for source, (at, count) in found.items()}
    moved = admitted(start, end, budget, dict.fromkeys(found, price), {})
    taken = {source: moved[source] - start[source] for source in found}
    assert all(0 <= taken[source] <= end[source] - start[source] for source in found)
    assert sum(taken.values()) * price <= max(budget, price)
    assert sum(taken.values()) > 0 or start == end


_FIRST, _GAP = PartitionId("orders", 0), 1 << 32
_WITH_GAP = {_FIRST: RowMap([Extent(0, 100, 100), Extent(_GAP, _GAP + 20, 20)], 0, 2 * _GAP)}


def test_offsets_without_rows_need_no_tasks() -> None:
    split = Split(pack_rows=10, split_rows=40, cores=1)
    tasks = plan([OffsetRange(_FIRST, 0, 2 * _GAP)], split, _WITH_GAP)
    assert [(piece.start, piece.stop) for task in tasks for piece in task] == [(0, 40), (40, 80), (80, 2 * _GAP)]
    assert plan([OffsetRange(_FIRST, 200, _GAP)], split, _WITH_GAP) == []


def test_a_limit_steps_over_offsets_without_rows() -> None:
    at, steps = {_FIRST: 0}, list[int]()
    while at[_FIRST] < 2 * _GAP:
        at = admitted(at, {_FIRST: 2 * _GAP}, 50, {}, _WITH_GAP)
        steps.append(at[_FIRST])
    assert steps == [50, 100, 2 * _GAP]


_EXTENTS = st.lists(st.tuples(st.integers(0, 30), st.integers(1, 30), st.integers(1, 30)), max_size=6)


@given(_EXTENTS, st.integers(1, 40))
def test_pieces_hold_every_row_once_and_as_many_each(found: list[tuple[int, int, int]], most: int) -> None:
    extents, at = list[Extent](), 0
    for hole, span, count in found:
        extents.append(Extent(at + hole, at + hole + span, min(count, span)))
        at += hole + span
    rows = RowMap(extents, 0, at)
    pieces = list(rows.split(0, at, most))
    assert [piece.start for piece in pieces[1:]] == [piece.stop for piece in pieces[:-1]]
    assert sum(piece.rows for piece in pieces) == sum(extent.rows for extent in extents) == rows.rows(0, at)
    assert all(piece.rows <= most and rows.rows(piece.start, piece.stop) <= 2 * most for piece in pieces)
    assert not pieces or (pieces[0].start, pieces[-1].stop) == (0, at)
