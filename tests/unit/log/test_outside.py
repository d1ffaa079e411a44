from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.clock import FakeClock
from tests.support.small_shard import SMALL, SmallShard, rows

from penstock.core.errors import DirectoryFormat, LogDamaged, NoSuchLog, OffsetOutOfRange
from penstock.core.types import Durability
from penstock.log.batch import next_offset
from penstock.log.disk import DirectoryLock, RealDisk
from penstock.log.options import ShardOptions
from penstock.log.outside import DirectoryReader
from penstock.log.partition import Log
from penstock.log.reading.cuts import DirectoryState
from penstock.log.reading.table import TableWriter, publish_from
from penstock.log.records import Edit, LogSettings
from penstock.log.segments.keeper import KeeperOptions, Written


class Broker:
    """A shard that holds its directory and publishes to its table, driven by hand."""

    def __init__(self, root: Path, clock: FakeClock | None = None, options: ShardOptions = SMALL) -> None:
        self.lock = DirectoryLock.acquire(root)
        disk = RealDisk(root)
        self.shard = SmallShard(disk, clock or FakeClock(), options)
        self.table: TableWriter = publish_from(disk, self.shard.engine.keeper)

    def fill(self, log: Log, batches: int) -> None:
        for _ in range(batches):
            self.shard.append(log, *(b"%d" % (log.end + i) * 20 for i in range(3)))
            self.shard.clock.advance(0.01)
        self.shard.settle()

    def close(self) -> None:
        self.shard.close()
        self.table.close()
        self.lock.release()

    def die(self) -> None:
        """As a kill leaves it: no checkpoint, no clean mark, the table as it was."""
        self.shard.abandon()
        self.lock.release()


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    broker = Broker(tmp_path)
    yield broker
    broker.lock.release()


def read_all(reader: DirectoryReader, number: int, offset: int = 0, max_bytes: int = 700) -> list[tuple[int, bytes]]:
    found: list[tuple[int, bytes]] = []
    while batches := reader.read(number, offset, max_bytes):
        found += rows(batches)
        offset = next_offset(batches[-1])
    return found


def expected(start: int, stop: int) -> list[tuple[int, bytes]]:
    return [(offset, b"%d" % offset * 20) for offset in range(start, stop)]


def test_a_live_directory_is_read_up_to_the_cut(broker: Broker, tmp_path: Path) -> None:
    log = broker.shard.create("a")
    broker.fill(log, 20)
    reader = DirectoryReader(tmp_path)
    assert reader.state is DirectoryState.LIVE
    [found] = reader.logs()
    assert (found.name, found.start, found.end, found.records) == ("a", 0, 60, 60)
    assert found.settings == log.settings
    broker.shard.append(log, b"not in a file yet")
    broker.shard.commit()
    assert read_all(reader, found.number) == expected(0, 60)
    broker.shard.settle()
    assert read_all(reader, found.number, 60) == [(60, b"not in a file yet")]


def test_only_what_is_checkpointed_is_mapped(broker: Broker, tmp_path: Path) -> None:
    log = broker.shard.create("a")
    broker.fill(log, 20)
    reader = DirectoryReader(tmp_path)
    assert read_all(reader, log.number) == expected(0, 60)
    assert len(reader._maps) == 0
    assert broker.shard.engine.keeper.write_checkpoint()
    broker.fill(log, 5)
    assert read_all(reader, log.number) == expected(0, 75)
    assert len(reader._maps) == len(broker.shard.engine.keeper.checkpoint.logs[1].sealed)


def test_a_reader_follows_rolls_trims_cuts_and_swaps(broker: Broker, tmp_path: Path) -> None:
    log = broker.shard.create("a")
    reader = DirectoryReader(tmp_path)
    broker.fill(log, 20)
    assert read_all(reader, log.number) == expected(0, 60)
    broker.shard.edit(log, Edit(start=31))
    with pytest.raises(OffsetOutOfRange):
        reader.read(log.number, 30, 100)
    assert read_all(reader, log.number, 31) == expected(30, 60)
    broker.shard.cut(log, 45)
    assert reader.read(log.number, 60, 100) == []
    assert read_all(reader, log.number, 31) == expected(30, 45)
    broker.fill(log, 20)
    assert read_all(reader, log.number, 31) == expected(30, 105)


def test_a_log_that_was_deleted_is_gone_and_a_new_one_is_there(broker: Broker, tmp_path: Path) -> None:
    old = broker.shard.create("a")
    broker.fill(old, 10)
    reader = DirectoryReader(tmp_path)
    assert [log.number for log in reader.logs()] == [old.number]
    broker.shard.engine.stage_delete(old, broker.shard.done)
    broker.shard.settle()
    new = broker.shard.create("a")
    broker.shard.settle()
    assert [(log.number, log.end) for log in reader.logs()] == [(new.number, 0)]
    with pytest.raises(NoSuchLog):
        reader.read(old.number, 0, 100)
    assert list((tmp_path / "logs").glob("a@*")) == []


def test_a_closed_directory_is_read_whole(broker: Broker, tmp_path: Path) -> None:
    log = broker.shard.create("a")
    broker.fill(log, 20)
    reader = DirectoryReader(tmp_path)
    assert read_all(reader, log.number) == expected(0, 60)
    broker.close()
    for each in (reader, DirectoryReader(tmp_path)):
        assert each.state is DirectoryState.CLOSED
        assert read_all(each, log.number) == expected(0, 60)
        assert [log.end for log in each.logs()] == [60]


def test_after_a_kill_the_checkpoint_is_the_end_until_a_broker_is_back(broker: Broker, tmp_path: Path) -> None:
    log = broker.shard.create("a")
    broker.fill(log, 20)
    assert broker.shard.engine.keeper.write_checkpoint()
    broker.fill(log, 20)
    reader = DirectoryReader(tmp_path)
    assert read_all(reader, log.number) == expected(0, 120)
    broker.die()
    assert reader.state is DirectoryState.CRASHED
    assert read_all(reader, log.number) == expected(0, 60)
    assert reader.read(log.number, 120, 100) == []
    again = Broker(tmp_path, broker.shard.clock)
    assert reader.logs()[0].end == 120
    assert read_all(reader, log.number) == expected(0, 120)
    again.close()


def test_while_a_broker_recovers_the_checkpoint_counts_and_not_the_old_table(broker: Broker, tmp_path: Path) -> None:
    log = broker.shard.create("a")
    broker.fill(log, 20)
    assert broker.shard.engine.keeper.write_checkpoint()
    broker.fill(log, 20)
    broker.shard.abandon()
    broker.lock.release()
    holder = "import sys\nfrom pathlib import Path\nfrom penstock.log.disk import DirectoryLock\n"
    holder += "DirectoryLock.acquire(Path(sys.argv[1]))\nprint('held', flush=True)\nsys.stdin.read()\n"
    with subprocess.Popen(
        [sys.executable, "-c", holder, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        reader = DirectoryReader(tmp_path)
        assert reader.state is DirectoryState.STARTING
        assert read_all(reader, log.number) == expected(0, 60)


def test_what_was_trimmed_before_a_crash_is_below_the_start(broker: Broker, tmp_path: Path) -> None:
    log = broker.shard.create("a")
    broker.fill(log, 20)
    assert broker.shard.engine.keeper.write_checkpoint()
    broker.shard.edit(log, Edit(start=40))
    broker.die()
    reader = DirectoryReader(tmp_path)
    start = reader.cut(log.number).start
    assert 0 < start <= 40
    assert read_all(reader, log.number, start) == expected(start, 60)


@pytest.mark.parametrize("kept", [0, 1, 2])
def test_a_trim_past_all_that_was_checkpointed_leaves_nothing_to_read_after_a_crash(
    broker: Broker, tmp_path: Path, kept: int
) -> None:
    log = broker.shard.create("a")
    broker.fill(log, 20)
    assert broker.shard.engine.keeper.write_checkpoint()
    broker.fill(log, 20)
    bases = sorted(int(path.stem) for path in tmp_path.glob("logs/a@1/*.seg") if int(path.stem) <= 60)
    start = ([*bases, log.end - 3])[-1 - kept]
    broker.shard.edit(log, Edit(start=start))
    broker.shard.settle()
    broker.die()
    reader = DirectoryReader(tmp_path)
    start = min(start, 60)
    assert reader.cut(log.number).start == start
    assert read_all(reader, log.number, start) == expected(start, 60)


def test_a_trimmed_file_goes_when_readers_were_told_and_not_before(tmp_path: Path) -> None:
    broker = Broker(tmp_path, options=replace(SMALL, keeper=KeeperOptions(flush_s=0.15)))
    log, engine = broker.shard.create("a"), broker.shard.engine
    broker.fill(log, 20)  # 0.2 s
    before = sorted(tmp_path.glob("logs/a@1/*.seg"))
    engine.stage_edit(log, Edit(start=log.end - 3), broker.shard.done)
    engine.commit.step(sync=True)
    engine.keeper.step()
    assert read_all(DirectoryReader(tmp_path, patience_s=0), log.number) == expected(0, 60)
    engine.keeper.flush_all()
    assert len(before) > 2
    assert not before[0].exists()
    assert DirectoryReader(tmp_path).cut(log.number).start == 57
    broker.close()


def _shown(broker: Broker, log: Log, reader: DirectoryReader) -> list[int]:
    """Where the log ends for whoever asks behind a commit, when that is answered."""
    broker.shard.append(log, b"one")
    broker.shard.commit()
    told, keeper = list[int](), broker.shard.engine.keeper
    keeper.asked.append(lambda: told.append(reader.cut(log.number).end))
    keeper.step()
    return told


def test_who_asks_is_shown_at_once_what_is_committed(tmp_path: Path) -> None:
    broker = Broker(tmp_path, options=replace(SMALL, keeper=KeeperOptions(flush_s=60)))
    log = broker.shard.create("a")
    broker.shard.engine.keeper.flush_all()
    reader = DirectoryReader(tmp_path)
    assert [_shown(broker, log, reader) for _ in range(3)] == [[1], [2], [3]]
    broker.close()


def test_who_follows_is_shown_soon_what_is_committed_until_he_ends(tmp_path: Path) -> None:
    broker = Broker(tmp_path, options=replace(SMALL, keeper=KeeperOptions(flush_s=60, followed_flush_s=0.02)))
    log, keeper, clock = broker.shard.create("a"), broker.shard.engine.keeper, broker.shard.clock
    broker.shard.settle()
    keeper.flush_all()
    passing, follower = DirectoryReader(tmp_path), DirectoryReader(tmp_path, follows=True)

    def seen(after_s: float) -> int:
        broker.shard.append(log, b"one")
        broker.shard.commit()
        clock.advance(after_s)
        keeper.step()
        return passing.cut(log.number).end

    def rest() -> tuple[float, bool]:
        return round(keeper.pause_s, 6), keeper.wants_ring

    assert (seen(0.03), rest()) == (0, (60, False))
    assert follower.cut(log.number).end == 0
    keeper.step()
    assert (passing.cut(log.number).end, rest()) == (1, (0.02, False))
    assert (seen(0.001), rest()) == (1, (0.019, False))
    assert (seen(0.019), rest()) == (3, (0.02, False))
    clock.advance(0.02)
    keeper.step()
    assert rest() == (60, True)
    assert (seen(0), rest()) == (4, (0.02, False))
    follower.close()
    assert (seen(0.03), rest()) == (4, (60, False))
    broker.close()


def test_who_follows_goes_on_with_the_next_broker(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    follower = DirectoryReader(tmp_path, follows=True)
    follower.logs()
    assert broker.table.followers.are_there()
    broker.close()
    (tmp_path / "format").rename(tmp_path / "kept")
    (tmp_path / "format").write_bytes((tmp_path / "kept").read_bytes())
    broker = Broker(tmp_path)
    assert not broker.table.followers.are_there()
    follower.logs()
    assert broker.table.followers.are_there()
    follower.close()
    assert not broker.table.followers.are_there()
    broker.close()


def test_who_asks_where_writing_takes_long_is_answered_and_shown_later(tmp_path: Path) -> None:
    broker = Broker(tmp_path, options=replace(SMALL, keeper=KeeperOptions(flush_s=0.2, flush_share=0.05)))
    log, keeper, clock = broker.shard.create("a"), broker.shard.engine.keeper, broker.shard.clock
    tell = keeper.tell

    def tell_slowly(written: Written) -> None:
        clock.advance(1)
        tell(written)

    keeper.tell = tell_slowly
    keeper.step()
    clock.advance(1)
    reader = DirectoryReader(tmp_path)
    assert _shown(broker, log, reader) == [1]
    assert _shown(broker, log, reader) == [1]
    clock.advance(20)
    assert _shown(broker, log, reader) == [3]
    broker.close()


def test_who_asks_while_the_keeper_rests_is_answered_when_the_cut_has_moved(tmp_path: Path) -> None:
    broker = Broker(tmp_path, options=replace(SMALL, keeper=KeeperOptions(flush_s=60, flush_share=0.05)))
    log, keeper, clock = broker.shard.create("a"), broker.shard.engine.keeper, broker.shard.clock
    tell = keeper.tell

    def tell_slowly(written: Written) -> None:
        clock.advance(0.1)
        tell(written)

    keeper.tell = tell_slowly
    reader = DirectoryReader(tmp_path)
    assert _shown(broker, log, reader) == [1]
    broker.shard.append(log, b"two")
    broker.shard.commit()
    told: list[int] = []
    keeper.asked.append(lambda: told.append(reader.cut(log.number).end))
    keeper.step()
    assert told == []
    assert 0 < keeper.pause_s < 1
    clock.advance(keeper.pause_s + 0.001)
    keeper.step()
    assert told == [2]
    broker.close()


def test_time_is_found_in_sealed_and_active_segments(broker: Broker, tmp_path: Path) -> None:
    log = broker.shard.create("a")
    begun = broker.shard.clock.now_ms()
    broker.fill(log, 20)
    assert broker.shard.engine.keeper.write_checkpoint()
    broker.fill(log, 20)
    reader = DirectoryReader(tmp_path)
    for batch in range(40):
        assert reader.offset_at_time(log.number, begun + 10 * batch) == 3 * batch
    assert reader.offset_at_time(log.number, begun + 10_000) == 120


def test_gaps_are_stepped_over(broker: Broker, tmp_path: Path) -> None:
    log = broker.shard.create("a", LogSettings(durability=Durability.INTERVAL, segment_bytes=600))
    broker.fill(log, 5)
    broker.die()
    again = Broker(tmp_path, broker.shard.clock)
    log = again.shard.engine.log("a")
    again.fill(log, 2)
    reader = DirectoryReader(tmp_path)
    assert read_all(reader, log.number) == expected(0, 15) + expected(log.end - 6, log.end)
    assert reader.logs()[0].records == 21
    again.close()


def test_damage_of_a_closed_directory_is_an_error_at_once(broker: Broker, tmp_path: Path) -> None:
    log = broker.shard.create("a")
    broker.fill(log, 20)
    broker.close()
    path = sorted(tmp_path.glob("logs/a@1/*.seg"))[1]
    data = bytearray(path.read_bytes())
    data[200] ^= 1
    path.write_bytes(data)
    with pytest.raises(LogDamaged, match=path.name):
        read_all(DirectoryReader(tmp_path), log.number)
    path.unlink()
    with pytest.raises(LogDamaged, match="missing"):
        read_all(DirectoryReader(tmp_path), log.number)


def test_damage_of_a_live_directory_is_an_error_when_it_does_not_pass(broker: Broker, tmp_path: Path) -> None:
    log = broker.shard.create("a")
    broker.fill(log, 20)
    path = min(tmp_path.glob("logs/a@1/*.seg"))
    path.unlink()
    with pytest.raises(LogDamaged, match="missing"):
        read_all(DirectoryReader(tmp_path, patience_s=0.05), log.number)


def test_another_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DirectoryFormat):
        DirectoryReader(tmp_path)


WRITER = textwrap.dedent("""
    import itertools, random, sys
    from pathlib import Path
    from tests.support.small_shard import SMALL, SmallShard
    from penstock.core.clock import SystemClock
    from penstock.log.columns import Columns
    from penstock.log.disk import DirectoryLock, RealDisk
    from penstock.log.records import Edit, LogSettings
    from penstock.log.reading.table import publish_from

    root, rng = Path(sys.argv[1]), random.Random(int(sys.argv[2]))
    lock = DirectoryLock.acquire(root)
    shard = SmallShard(RealDisk(root), SystemClock())
    publish_from(shard.disk, shard.engine.keeper)
    logs = [shard.engine.logs.get(number) or shard.create("log-%d" % number, LogSettings(segment_bytes=3000))
            for number in (1, 2)]
    shard.settle()
    print("ready", flush=True)

    def columns(log, count):
        return Columns.of([b"%d:%d:" % (log.number, log.end + i) + b"x" * (log.end % 97) for i in range(count)])

    for step in itertools.count():
        # Both logs get as many records in one commit, so that a look that is not at one cut shows.
        count = rng.randint(1, 9)
        shard.engine.stage([(log, columns(log, count)) for log in logs], shard.done)
        if rng.random() < 0.3:
            shard.settle()
        if rng.random() < 0.02:
            shard.engine.keeper.write_checkpoint()
        if rng.random() < 0.02 and logs[0].end > 500:
            shard.edit(logs[0], Edit(start=max(logs[0].start, logs[0].end - 400)))
""")


class Writer:
    """A broker in a process of its own, until it is killed."""

    def __init__(self, root: Path, seed: int) -> None:
        path = Path(__file__).parents[3]
        self.process = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(root), str(seed)],
            stdout=subprocess.PIPE,
            env={"PYTHONPATH": f"{path}:{path / 'src'}"},
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == b"ready\n"

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


class Follower:
    """Reads on from where it was, and checks that every record is the one of its offset, and that none is left out."""

    def __init__(self, reader: DirectoryReader, number: int) -> None:
        self.reader, self.number, self.offset = reader, number, 0
        self.trimmed = 0

    def read(self) -> None:
        end = self.reader.cut(self.number).end
        try:
            batches = self.reader.read(self.number, self.offset, 5000)
        except OffsetOutOfRange as error:
            assert error.start > self.offset
            self.offset = error.start
            self.trimmed += 1
            return
        for offset, value in rows(batches):
            if offset < self.offset:
                assert self.trimmed  # the start after a trim may lie inside a batch
                continue
            assert offset == self.offset
            assert value.startswith(b"%d:%d:" % (self.number, offset))
            self.offset += 1
        assert end <= self.reader.cut(self.number).end or self.reader.state is not DirectoryState.LIVE


def test_a_reader_in_another_process_follows_a_writer_that_is_killed_and_comes_back(tmp_path: Path) -> None:
    writer = Writer(tmp_path, seed=1)
    reader = DirectoryReader(tmp_path)
    followers = [Follower(reader, number) for number in (1, 2)]
    try:
        follow(reader, followers, until=1500)
        writer.kill()
        assert reader.state is DirectoryState.CRASHED
        checkpointed: dict[int, int] = {log.number: log.end for log in reader.logs()}
        for follower in followers:
            before = follower.offset
            while follower.offset < checkpointed[follower.number]:
                follower.read()
            assert not reader.read(follower.number, follower.offset, 1)
            assert follower.offset == max(before, checkpointed[follower.number])
        writer = Writer(tmp_path, seed=2)
        follow(reader, followers, until=3000)
    finally:
        writer.kill()
    assert reader.cut(1).start > 0


def follow(reader: DirectoryReader, followers: list[Follower], until: int) -> None:
    """Both logs, and that every look sees them at one cut: they grow alike."""
    while min(follower.offset for follower in followers) < until:
        for follower in followers:
            follower.read()
        ends = {log.end for log in reader.logs()}
        assert len(ends) <= 1
