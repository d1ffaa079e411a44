from __future__ import annotations

from penstock.core.types import LogNumber
from penstock.log.journal.frames import Entry
from penstock.log.reading.recent import RecentBatches, Recently


def batches(first: int, count: int, size_bytes: int) -> list[Entry]:
    return [Entry(LogNumber(1), bytes(size_bytes), None, i, i + 1, 1) for i in range(first, first + count)]


def kept(of: RecentBatches, stop: int) -> list[int]:
    return [offset for offset in range(stop) if of.find(offset) is not None]


def test_what_came_first_goes_first_over_all_logs() -> None:
    one, two, recently = RecentBatches(), RecentBatches(), Recently(1000)
    recently.add(one, batches(0, 5, 100), 500)
    recently.add(two, batches(0, 5, 100), 500)
    assert (len(kept(one, 5)), len(kept(two, 5))) == (5, 5)
    recently.add(two, batches(5, 1, 100), 100)
    assert (kept(one, 5), kept(two, 6)) == ([], [0, 1, 2, 3, 4, 5])


def test_of_many_batches_at_once_the_newest_stay() -> None:
    one, recently = RecentBatches(), Recently(64 << 20)
    recently.add(one, batches(0, 10_000, 8), 80_000)
    found = kept(one, 10_000)
    assert found == list(range(10_000 - len(found), 10_000))
    assert 8192 - 64 < len(found) <= 8192


def test_of_large_batches_at_once_the_newest_stay() -> None:
    one, recently = RecentBatches(), Recently(4 << 20)
    recently.add(one, batches(0, 6, 1 << 20), 6 << 20)
    assert kept(one, 6) == [2, 3, 4, 5]


def test_what_a_cut_took_away_is_not_missed_later() -> None:
    one, recently = RecentBatches(), Recently(1000)
    recently.add(one, batches(0, 5, 100), 500)
    one.clear()
    recently.add(one, batches(2, 5, 100), 500)
    recently.add(one, batches(7, 1, 100), 100)
    assert kept(one, 8) == [2, 3, 4, 5, 6, 7]


def test_a_flush_that_brought_nothing_takes_no_place() -> None:
    one, recently = RecentBatches(), Recently(500)
    recently.add(one, [], 0)
    recently.add(one, batches(0, 5, 100), 500)
    recently.add(one, batches(5, 5, 100), 500)
    assert kept(one, 10) == [5, 6, 7, 8, 9]
