from __future__ import annotations

from array import array
from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.kernels import builds

IDS = st.lists(st.integers(0, 2**62), unique=True, max_size=12).map(sorted)
SETTLED, IN_FLIGHT = 0x80, 0x40


def entries_of(ids: list[int], settled: frozenset[int] = frozenset()) -> array[int]:
    """Each lies 10 behind its id, has as many bytes as its place, and flags 1."""
    words = [
        word
        for place, one in enumerate(ids)
        for word in (one, one + 10, place << 8 | 1 | (SETTLED if place in settled else 0))
    ]
    return array("q", words)


@pytest.mark.parametrize("kernel", builds("session_entries"))
@given(data=st.data(), ids=IDS)
@settings(max_examples=100, deadline=None)
def test_settling_frees_what_was_not_settled_before(kernel: ModuleType, data: st.DataObject, ids: list[int]) -> None:
    before = frozenset(data.draw(st.lists(st.integers(0, 11))))
    named = [*data.draw(st.permutations(ids)), 2**62 + 1]
    named = named[: data.draw(st.integers(0, len(named)))]
    entries, freed = entries_of(ids, before), array("q", bytes(8 * len(named) + 8))
    count = kernel.settle(entries, array("q", named), freed)
    fresh = [one for one in named if one in ids and ids.index(one) not in before]
    assert list(freed[:count]) == [one + 10 for one in fresh]
    assert freed[count] == sum(map(ids.index, fresh))
    gone = {place for place, one in enumerate(ids) if place in before or one in named}
    prefix = next((place for place in range(len(ids)) if place not in gone), len(ids))
    assert kernel.settled_prefix(entries, 0) == prefix
    left = [place for place in range(len(ids)) if place not in gone]
    assert kernel.total_bytes(entries) == sum(left)
    out = array("q", bytes(8 * len(ids)))
    assert list(out[: kernel.living_offsets(entries, out)]) == [ids[place] + 10 for place in left]


@pytest.mark.parametrize("kernel", builds("session_entries"))
@given(ids=IDS, below=st.integers(0, 2**62))
@settings(max_examples=50, deadline=None)
def test_everything_below_an_id_is_settled(kernel: ModuleType, ids: list[int], below: int) -> None:
    entries, freed = entries_of(ids, frozenset([1])), array("q", bytes(8 * len(ids) + 8))
    count = kernel.settle_below(entries, below, freed)
    assert list(freed[:count]) == [one + 10 for place, one in enumerate(ids) if one < below and place != 1]
    assert [kernel.find(entries, one) for one in ids] == list(range(len(ids)))


@pytest.mark.parametrize("kernel", builds("session_entries"))
def test_only_what_is_not_settled_moves_and_only_forward(kernel: ModuleType) -> None:
    entries = entries_of([1, 2, 3, 4], frozenset([1]))
    copies = array("q", [1, 100, 0, 2, 101, 0, 3, 5, 0, 4, 102, 0, 9, 103, 0])
    freed, moved = array("q", bytes(40)), array("q", bytes(40))
    assert kernel.move(entries, copies, freed, moved) == 2
    assert (list(freed[:2]), list(moved[:2])) == ([11, 14], [100, 102])
    assert list(entries[1::3]) == [100, 12, 13, 102]


@pytest.mark.parametrize("kernel", builds("session_entries"))
def test_taking_passes_over_what_is_settled_or_in_flight_and_stops_at_the_end_of_the_batch(kernel: ModuleType) -> None:
    entries = entries_of([0, 1, 2, 3, 4, 5], frozenset([1]))
    kernel.mark_in_flight(entries, array("q", [2, 77]))
    assert kernel.next_open(entries, 1) == 3

    def take(place: int, first: int, end: int, limit: int, limit_bytes: int) -> tuple[list[int], list[int], list[int]]:
        offsets, ids, flags, stopped = array("q", bytes(48)), array("q", bytes(48)), bytearray(6), array("q", (0, 0))
        count = kernel.take(entries, place, first, end, limit, limit_bytes, offsets, ids, flags, stopped)
        assert set(flags[:count]) <= {1}
        return list(offsets[:count]), list(ids[:count]), list(stopped)

    assert take(0, 10, 15, 6, 100) == ([10, 13, 14], [0, 3, 4], [5, 7])
    assert take(0, 10, 15, 2, 100) == ([10, 13], [0, 3], [4, 3])
    assert take(3, 10, 16, 6, 7) == ([13, 14], [3, 4], [5, 7])
    assert take(5, 10, 16, 6, 1) == ([15], [5], [6, 5])
    kernel.mark_in_flight(entries, array("q", []))
    assert take(0, 10, 16, 6, 100)[1] == [0, 2, 3, 4, 5]
    out = array("q", bytes(48))
    assert list(out[: kernel.oldest(entries, 1, 2, 0, out)]) == [2, 3]
    assert list(out[: kernel.oldest(entries, 1, 0, 6, out)]) == [2, 3, 4]


@pytest.mark.parametrize("kernel", builds("session_entries"))
def test_rows_are_found_in_dense_and_in_thinned_batches(kernel: ModuleType) -> None:
    rows = array("i", bytes(20))
    wanted = array("q", [9, 10, 12, 13, 20])
    assert kernel.rows_of(wanted, array("q", [10, 11, 12, 13]), rows) == 3
    assert list(rows) == [-1, 0, 2, 3, -1]
    assert kernel.rows_of(wanted, array("q", [10, 13, 19]), rows) == 2
    assert list(rows) == [-1, 0, -1, 1, -1]
    assert kernel.rows_of(wanted, array("q"), rows) == 0


@pytest.mark.parametrize("kernel", builds("session_entries"))
def test_the_living_are_counted_chunk_by_chunk(kernel: ModuleType) -> None:
    counts, offsets = array("i", bytes(4 * kernel.CHUNK)), array("q", [4096, 4097, 4096, 8192, 4098])
    assert kernel.add_living(counts, 1, offsets, 0, 1) == 3
    assert kernel.add_living(counts, 1, offsets, 4, 1) == 5
    assert list(counts[:4]) == [2, 1, 1, 0]
    assert kernel.count_living(counts, 1, 4096) == 2
    assert (kernel.first_living(counts, 2), kernel.first_living(counts, 3)) == (2, 4096)
