"""A log that is compacted while somebody reads it: every key's last value comes, each offset once, and no other row."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest
from tests.support.compacting import EAGER
from tests.support.live_tables import LiveTables

from penstock.log.columns import Columns
from penstock.log.partition import Log
from penstock.tables import partition_rows as reading
from penstock.tables.errors import Trimmed
from penstock.tables.partition_rows import Reading
from penstock.tables.table import QueueTable

_KEYS, _LAG_S = 7, 300.0


@dataclass
class History:
    """A queue of one partition, and all that was ever put into it."""

    live: LiveTables
    log: Log
    rows: list[tuple[bytes, bytes]] = field(default_factory=list)

    def put(self, *keys: int) -> None:
        """A batch; every value is another one."""
        batch = [(b"key-%d" % key, b"%d of key-%d " % (len(self.rows) + at, key) * 4) for at, key in enumerate(keys)]
        self.live.append(self.log, Columns.of([value for _, value in batch], keys=[key for key, _ in batch]))
        self.rows += batch

    def put_rounds(self, rounds: int) -> None:
        for number in range(rounds):
            self.put(*[(number + at) % _KEYS for at in range(3)])

    def last_values(self, stop: int) -> dict[bytes, bytes]:
        return dict(self.rows[:stop])

    def check(self, found: list[tuple[int, bytes, bytes]]) -> None:
        """Rows as they were put, each at most once, in order."""
        offsets = [offset for offset, _, _ in found]
        assert offsets == sorted(set(offsets))
        assert all(self.rows[offset] == (key, value) for offset, key, value in found)


@pytest.fixture
def live(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LiveTables]:
    """Whose readers take a batch or two at a time from the files."""
    monkeypatch.setattr(reading, "_READ_BYTES", 400)
    live = LiveTables(tmp_path)
    yield live
    live.lock.release()


def _history(live: LiveTables, lag_s: float = 0.0) -> History:
    compaction = msgspec.structs.replace(EAGER, lag_s=lag_s)
    return History(live, live.create("prices", compaction=compaction))


def _reading(live: LiveTables) -> Reading:
    return QueueTable.open(live.root, "prices").read(0, columns=["offset", "key", "value"], batch_rows=3)


def _rows(batch: pa.RecordBatch) -> list[tuple[int, bytes, bytes]]:
    batch.validate(full=True)
    return list(zip(*(batch.column(name).to_pylist() for name in ("offset", "key", "value")), strict=True))


@pytest.mark.parametrize("taken", range(0, 27, 3))
def test_a_read_that_is_compacted_under_way_has_every_last_value(live: LiveTables, taken: int) -> None:
    history = _history(live)
    history.put_rounds(30)
    batches = _reading(live)
    found = [row for _ in range(taken) for row in _rows(next(batches))]
    live.compact()
    found += [row for batch in batches for row in _rows(batch)]
    history.check(found)
    assert {key: value for _, key, value in found} == history.last_values(90)
    assert len(found) < 90


@pytest.mark.parametrize("seed", range(20))
def test_readers_beside_writers_and_compaction_miss_no_key(live: LiveTables, seed: int) -> None:
    """What is superseded behind the range stays for the lag, so that a read that ends before has it."""
    chance, history = random.Random(seed), _history(live, _LAG_S)
    history.put_rounds(chance.randrange(10, 40))
    live.clock.advance(2 * _LAG_S)
    batches, found = _reading(live), list[tuple[int, bytes, bytes]]()
    for batch in batches:
        found += _rows(batch)
        if chance.random() < 0.4:
            history.put_rounds(chance.randrange(10))
            live.compact()
    history.check(found)
    assert {key: value for _, key, value in found} == history.last_values(batches.stop)


def test_a_reader_who_reads_on_finds_what_superseded_the_values_it_missed(live: LiveTables) -> None:
    """Longer than the lag: then the range alone may lack a key, and what follows it has it."""
    history = _history(live)
    history.put_rounds(20)
    first = _reading(live)
    found = _rows(next(first))
    history.put_rounds(20)
    live.compact()
    found += [row for batch in first for row in _rows(batch)]
    following = QueueTable.open(live.root, "prices").read(0, first.stop, columns=["offset", "key", "value"])
    found += [row for batch in following for row in _rows(batch)]
    history.check(found)
    assert {key: value for _, key, value in found} == history.last_values(len(history.rows))


def test_a_trim_of_what_was_compacted_names_the_range_that_is_lost(live: LiveTables) -> None:
    history = _history(live)
    history.put_rounds(30)
    batches = _reading(live)
    [(last, _, _)] = _rows(next(batches))[-1:]
    live.compact()
    live.trim(history.log, 81)
    with pytest.raises(Trimmed, match=r"\.\.81 of partition 0") as trimmed:
        list(batches)
    assert trimmed.value.wanted > last


def test_rows_are_counted_where_compaction_left_them(live: LiveTables) -> None:
    history = _history(live)
    history.put_rounds(30)
    live.compact()
    table = QueueTable.open(live.root, "prices")
    [place] = table.partitions()
    rows = table.row_map(0)
    assert (place.start, place.end) == (0, 90)
    assert rows.rows(0, 90) == place.rows < 90
    pieces = list(rows.split(0, 90, 5))
    assert [piece.start for piece in pieces] == [0, *[piece.stop for piece in pieces[:-1]]]
    assert sum(piece.rows for piece in pieces) == place.rows
    table.close()
