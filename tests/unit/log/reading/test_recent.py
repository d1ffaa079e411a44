from __future__ import annotations

from penstock.core.types import LogName, LogNumber
from penstock.log.journal.frames import Entry
from penstock.log.partition import Log
from penstock.log.reading.bounds import Bounds
from penstock.log.reading.recent import Recently
from penstock.log.records import LogSettings


def log(number: int) -> Log:
    return Log(LogNumber(number), LogName(f"log-{number}"), LogSettings(), Bounds())


def batches(first: int, count: int, size_bytes: int) -> list[Entry]:
    return [Entry(LogNumber(1), bytes(size_bytes), None, i, i + 1, 1) for i in range(first, first + count)]


def kept(of: Log, stop: int) -> list[int]:
    return [offset for offset in range(stop) if of.recent.find(offset) is not None]


def test_what_came_first_goes_first_over_all_logs() -> None:
    one, two, recently = log(1), log(2), Recently(1000)
    recently.add(one, batches(0, 5, 100), 500)
    recently.add(two, batches(0, 5, 100), 500)
    assert (len(kept(one, 5)), len(kept(two, 5))) == (5, 5)
    recently.add(two, batches(5, 1, 100), 100)
    assert (kept(one, 5), kept(two, 6)) == ([], [0, 1, 2, 3, 4, 5])


def test_of_many_batches_at_once_the_newest_stay() -> None:
    one, recently = log(1), Recently(64 << 20)
    recently.add(one, batches(0, 10_000, 8), 80_000)
    found = kept(one, 10_000)
    assert found == list(range(10_000 - len(found), 10_000))
    assert 8192 - 64 < len(found) <= 8192


def test_of_large_batches_at_once_the_newest_stay() -> None:
    one, recently = log(1), Recently(4 << 20)
    recently.add(one, batches(0, 6, 1 << 20), 6 << 20)
    assert kept(one, 6) == [2, 3, 4, 5]


def test_what_a_cut_took_away_is_not_missed_later() -> None:
    one, recently = log(1), Recently(1000)
    recently.add(one, batches(0, 5, 100), 500)
    one.recent.clear()
    recently.add(one, batches(2, 5, 100), 500)
    recently.add(one, batches(7, 1, 100), 100)
    assert kept(one, 8) == [2, 3, 4, 5, 6, 7]


def test_a_flush_that_brought_nothing_takes_no_place() -> None:
    one, recently = log(1), Recently(500)
    recently.add(one, [], 0)
    recently.add(one, batches(0, 5, 100), 500)
    recently.add(one, batches(5, 5, 100), 500)
    assert kept(one, 10) == [5, 6, 7, 8, 9]
