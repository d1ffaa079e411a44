"""Commits in many logs at once: both builds do what one log after the other would."""

from __future__ import annotations

import random
from array import array
from typing import Any

import pytest

from penstock.kernels.entry import FrameEntry, FrameEntryPlain, entries_of, entries_of_plain, framed, framed_plain
from penstock.kernels.folded import INDEX_STEP_BYTES, FoldedLog, OpenSegment, fold
from penstock.kernels.staged import (
    Span,
    StagedLog,
    any_apart,
    data_bytes,
    entries_bytes,
    fold_all,
    reached_all,
    stamps,
    strongest,
    wait_all,
)


class Index(list[tuple[int, int, int]]):
    def add(self, offset: int, position: int, timestamp: int) -> None:
        self.append((offset, position, timestamp))


def batch(log: int, first: int, count: int, size: int = 10, time: int = 5) -> FrameEntry:
    return FrameEntry(log, bytes(size), None, first, first + count, count, time, time, 1)


def log_at(number: int, end: int, epoch: int = 0, time: int = 0) -> StagedLog:
    log = StagedLog(number, Span(0, end, epoch))
    log.last_timestamp = time
    return log


def test_the_next_batch_of_each_log_is_stamped() -> None:
    logs = [log_at(1, 10, epoch=3), log_at(2, 20, time=99)]
    numbers, firsts, epochs, times = (array("q", [0, 0]) for _ in range(4))
    assert stamps(logs, 50, numbers, firsts, epochs, times) == -1
    assert (list(numbers), list(firsts), list(epochs), list(times)) == ([1, 2], [10, 20], [3, 0], [50, 99])


def test_batches_of_many_logs_become_entries() -> None:
    named = array("q", [7, 8]), [bytearray(b"one"), bytearray(b"three")], array("q", [10, 20]), array("i", [1, 3])
    for made in (entries_of(*named, array("q", [5, 6]), 9), entries_of_plain(*named, array("q", [5, 6]), 9)):
        assert [(each.log, each.data, each.edit) for each in made] == [(7, b"one", None), (8, b"three", None)]
        assert [(each.first, each.end, each.records) for each in made] == [(10, 11, 1), (20, 23, 3)]
        assert [(each.first_timestamp, each.max_timestamp, each.sequence) for each in made] == [(5, 5, 9), (6, 6, 9)]


def test_a_log_with_a_fault_is_named() -> None:
    logs = [log_at(1, 0), log_at(2, 0), log_at(3, 0)]
    logs[1].fault = ValueError()
    assert stamps(logs, 0, *(array("q", [0] * 3) for _ in range(4))) == 1


def test_batches_are_folded_and_counted() -> None:
    logs = [log_at(1, 10), log_at(2, 20)]
    entries = [batch(1, 10, 3), batch(2, 20, 2, size=5, time=7)]
    assert fold_all(logs, entries, 1, 4) == (1, 15, 5)
    assert [(log.waiting_level, log.waiting_sequence) for log in logs] == [(1, 4)] * 2
    assert [(log.bounds.end, log.last_timestamp, log.tail) for log in logs] == [
        (13, 5, [entries[0]]),
        (22, 7, [entries[1]]),
    ]


def test_what_is_written_leaves_the_tail() -> None:
    log = log_at(1, 0)
    entries = [FrameEntry(1, bytes(i), None, i, i + 1, 1, 0, 0, i) for i in range(5)]
    fold_all([log] * 5, entries, 0, 1)
    assert (log.let_go(0), log.tail) == ([], entries)
    assert data_bytes(log.let_go(3)) == 3
    assert log.tail == entries[3:]
    assert (log.let_go(9), log.tail) == (entries[3:], [])


def test_a_commit_waits_as_long_as_the_one_before_it() -> None:
    logs = [log_at(1, 0), log_at(2, 0)]
    assert strongest(logs, 1) == 1
    wait_all(logs[:1], 2, 7)
    assert strongest(logs, 1) == 2
    reached_all({1: logs[0]}, [batch(1, 0, 1)], 7)
    assert strongest(logs, 1) == 1


def test_what_is_committed_can_be_read_and_listeners_are_named() -> None:
    logs = {number: log_at(number, 0) for number in range(4)}
    told: Any = print
    for number in (0, 1, 2):
        logs[number].on_commit = told
    logs[1].cut_sequence = 9
    logs[2].adopted_base = 3
    entries = [batch(number, 0, 5) for number in (0, 1, 2, 3, 17)]
    assert reached_all(logs, entries, 8) == [logs[0]]
    assert [log.high_watermark for log in logs.values()] == [5, 0, 0, 5]
    assert logs[2].hidden_end == 5


@pytest.mark.parametrize("seed", range(20))
def test_the_table_of_entries_is_the_same_in_both_builds(seed: int) -> None:
    rng = random.Random(seed)
    entries: list[Any] = [
        FrameEntry(rng.randrange(1 << 60), kind(rng.randbytes(rng.randrange(40))), rng.choice([None, ()]))
        for kind in rng.choices([bytes, bytearray, memoryview], k=rng.randrange(10))
    ]
    plain: list[Any] = [FrameEntryPlain(entry.log, entry.data, entry.edit) for entry in entries]
    assert framed(entries, 3, 7, 5) == framed_plain(plain, 3, 7, 5)
    assert len(framed(entries, 3, 7, 5)) == 40 + entries_bytes(entries)


def folded(segment_bytes: int = 1000, age_ms: int = 1000, *, is_active: bool = True) -> FoldedLog:
    log = FoldedLog(Span(0, 0, 0))
    log.segment_bytes, log.segment_age_ms = segment_bytes, age_ms
    log.active = OpenSegment(Index(), 0) if is_active else None
    return log


def test_folding_stops_at_what_is_not_a_batch_for_an_active_segment() -> None:
    log, idle = folded(), folded(is_active=False)
    edit = FrameEntry(1, b"", ())
    entries = [batch(1, 0, 2), batch(1, 2, 2), edit, batch(1, 4, 1), batch(2, 0, 1), batch(3, 0, 1), batch(0, 0, 1)]
    logs = {0: folded(), 1: log, 2: idle}
    stops = []
    place = 0
    while (place := fold(entries, place, logs, 0, 1 << 40, [])) < len(entries):
        stops.append(place)
        place += 1
    assert stops == [2, 4, 5, 6]
    assert log.active is not None
    assert (log.bounds.end, log.active.records, log.active.pending_bytes, len(log.active.pending)) == (5, 5, 30, 3)


def test_a_segment_takes_no_more_than_it_may() -> None:
    log = folded(segment_bytes=15, age_ms=10)
    assert log.has_taken(batch(1, 0, 1, size=40))  # the first is always taken
    assert not log.has_taken(batch(1, 1, 1, size=1))
    late = folded(age_ms=10)
    assert late.has_taken(batch(1, 0, 1, time=5))
    assert not late.has_taken(batch(1, 1, 1, time=15))
    late.bounds.start = 2
    assert not late.has_taken(batch(1, 1, 1))


def test_logs_with_much_to_write_are_told_and_the_index_is_sparse() -> None:
    log, large = folded(segment_bytes=1 << 40), list[FoldedLog]()
    entries = [batch(1, i, 1, size=INDEX_STEP_BYTES // 4 + 1, time=i) for i in range(9)]
    assert fold(entries, 0, {1: log}, 0, 2 * INDEX_STEP_BYTES, large) == 9
    assert large == [log, log]
    assert log.active is not None
    assert [offset for offset, _, _ in log.active.index] == [0, 4, 8]  # type: ignore[attr-defined]  # it is ours


def test_whoever_has_nobody_to_tell_is_not_told() -> None:
    told, empty, always = log_at(1, 0), log_at(2, 0), log_at(3, 0)
    for log in (told, empty, always):
        log.on_commit = lambda _: None
    told.listening, empty.listening = {"somebody": None}, {}
    logs = {1: told, 2: empty, 3: always}
    assert reached_all(logs, [batch(number, 0, 5) for number in logs], 1) == [told, always]
    assert empty.high_watermark == 5


def test_the_strongest_is_of_what_is_asked_the_logs_and_what_they_wait_for() -> None:
    plain, durable, waiting = log_at(1, 0), log_at(2, 0), log_at(3, 0)
    durable.durability, waiting.waiting_level = 1, 2
    assert [strongest(logs, 0) for logs in ([plain], [plain, durable], [durable, waiting])] == [0, 1, 2]
    assert strongest([plain], 2) == 2


def test_one_compressed_log_among_many_is_seen() -> None:
    logs = [log_at(1, 0), log_at(2, 0)]
    assert not any_apart(logs)
    logs[1].is_apart = True
    assert any_apart(logs)
