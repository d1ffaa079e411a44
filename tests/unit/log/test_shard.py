"""A shard on a real disk: threads, budgets, closing and opening again."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.descriptors import open_descriptors
from tests.support.loop import run

from penstock.core.errors import (
    Closed,
    CorruptBatch,
    DirectoryInUse,
    DiskLow,
    InvalidArgument,
    JournalFailed,
    OffsetOutOfRange,
    OutcomeUnknown,
)
from penstock.core.types import Compression, Durability, Epoch, Offset, Purpose, TimestampMs
from penstock.kernels.crc import crc32c
from penstock.log.batch import Batch, encode, seal
from penstock.log.columns import Columns
from penstock.log.disk import RealFile
from penstock.log.journal.commit import CommitOptions
from penstock.log.journal.journal import JournalOptions
from penstock.log.names import log_name
from penstock.log.options import ShardOptions
from penstock.log.outside import DirectoryReader
from penstock.log.partition import Log
from penstock.log.reading.bounds import OFFSET_GAP
from penstock.log.records import Compaction, LogSettings, Retention
from penstock.log.segments.keeper import KeeperOptions
from penstock.log.shard import Shard

SMALL = ShardOptions(
    journal=JournalOptions(file_bytes=1 << 20, limit_bytes=4 << 20, max_frame_bytes=512 << 10),
    keeper=KeeperOptions(flush_s=0.02, checkpoint_bytes=1 << 20),
    disk_reserve_bytes=0,
)


def columns(*values: bytes) -> Columns:
    return Columns.of(list(values))


def read_all(shard: Shard, log: Log) -> list[tuple[int, bytes]]:
    found = shard.reader.batches(log, log.start)
    return [(row.offset, row.value) for data in found for row in Batch.parse(data)]


def test_other_processes_read_what_was_committed_before_it_was_to_be_shown(tmp_path: Path) -> None:
    async def main() -> None:
        options = replace(SMALL, keeper=KeeperOptions(flush_s=600, flush_share=1e9))
        async with await Shard.open(tmp_path, options) as shard:
            log, reader = await shard.create(log_name("a")), DirectoryReader(tmp_path)
            for count in range(1, 4):
                await shard.append(log, columns(b"one"))
                await shard.show()
                assert reader.log("a").end == count
        await shard.show()

    run(main())


def test_who_asks_to_be_shown_waits_so_long_for_a_keeper_that_writes_and_no_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        options = replace(SMALL, keeper=KeeperOptions(flush_s=600, flush_share=1e9))
        async with await Shard.open(tmp_path, options) as shard:
            log, reader, goes_on = await shard.create(log_name("a")), DirectoryReader(tmp_path), threading.Event()
            keeper = shard._engine.keeper
            flush_all = keeper.flush_all

            def hangs() -> None:
                goes_on.wait(30.0)
                flush_all()

            await shard.append(log, columns(b"one"))
            await shard.show()
            with monkeypatch.context() as patch:
                patch.setattr(keeper, "flush_all", hangs)
                patch.setattr("penstock.log.shard._SHOWN_S", 0.1)
                await shard.append(log, columns(b"two"))
                try:
                    async with asyncio.timeout(10.0):
                        await shard.show()
                    assert reader.log("a").end == 1
                finally:
                    goes_on.set()
            # The answer to the one before comes late, and to nobody.
            await shard.show()
            assert reader.log("a").end == 2

    run(main())


def test_records_are_readable_when_their_commit_returns(tmp_path: Path) -> None:
    async def main() -> None:
        async with await Shard.open(tmp_path, SMALL) as shard:
            log = await shard.create(log_name("a"))
            assert await shard.append(log, columns(b"one", b"two")) == 0
            assert await shard.append(log, columns(b"three")) == 2
            assert read_all(shard, log) == [(0, b"one"), (1, b"two"), (2, b"three")]

    run(main())


def test_many_writers_share_commits_and_nothing_is_lost_or_mixed_up(tmp_path: Path) -> None:
    async def write(shard: Shard, log: Log, writer: int) -> list[tuple[Offset, bytes]]:
        mine: list[tuple[Offset, bytes]] = []
        for i in range(50):
            value = b"%d/%d" % (writer, i)
            mine.append((await shard.append(log, columns(value)), value))
        return mine

    async def main() -> None:
        async with await Shard.open(tmp_path, SMALL) as shard:
            log = await shard.create(log_name("a"))
            written = await asyncio.gather(*[write(shard, log, writer) for writer in range(20)])
            expected = sorted((offset, value) for mine in written for offset, value in mine)
            assert read_all(shard, log) == expected
            assert shard.metrics.journal_syncs < 1000
        async with await Shard.open(tmp_path, SMALL) as shard:
            assert read_all(shard, shard.log("a")) == expected

    run(main())


def test_one_commit_over_many_logs(tmp_path: Path) -> None:
    async def main() -> None:
        async with await Shard.open(tmp_path, SMALL) as shard:
            names = [(log_name("q", str(i)), LogSettings()) for i in range(100)]
            logs = await shard.create_many(names)
            before = shard.metrics.journal_syncs
            offsets = await shard.commit([(log, columns(b"x")) for log in logs])
            assert offsets == [0] * 100
            assert shard.metrics.journal_syncs == before + 1

    run(main())


@pytest.mark.parametrize("durability", list(Durability))
@pytest.mark.parametrize("compression", list(Compression))
def test_a_clean_stop_keeps_everything(tmp_path: Path, durability: Durability, compression: Compression) -> None:
    async def main() -> None:
        async with await Shard.open(tmp_path, SMALL) as shard:
            log = await shard.create(log_name("a"), LogSettings(durability=durability, compression=compression))
            for i in range(20):
                await shard.append(log, columns(b"%d " % i * 100))
        async with await Shard.open(tmp_path, SMALL) as shard:
            assert shard.metrics.replayed_frames == 0
            assert read_all(shard, shard.log("a")) == [(i, b"%d " % i * 100) for i in range(20)]
            assert await shard.append(shard.log("a"), columns(b"next")) == 20

    run(main())


def test_more_passes_through_than_the_journal_holds(tmp_path: Path) -> None:
    async def main() -> None:
        async with await Shard.open(tmp_path, SMALL) as shard:
            log = await shard.create(log_name("a"), LogSettings(segment_bytes=1 << 20))
            for i in range(200):
                await shard.append(log, columns(i.to_bytes(4, "big") * 25_000))
            assert [offset for offset, _ in read_all(shard, log)] == list(range(200))
        journal = list((tmp_path / "journal").iterdir())
        assert sum(slot.stat().st_size for slot in journal) <= SMALL.journal.limit_bytes

    run(main())


def test_a_second_opening_is_refused_and_says_who_holds_the_directory(tmp_path: Path) -> None:
    async def main() -> None:
        async with await Shard.open(tmp_path, SMALL):
            with pytest.raises(DirectoryInUse, match=str(os.getpid())):
                await Shard.open(tmp_path, SMALL)

    run(main())


def test_after_closing_everything_is_refused(tmp_path: Path) -> None:
    async def main() -> None:
        shard = await Shard.open(tmp_path, SMALL)
        log = await shard.create(log_name("a"))
        await shard.close()
        await shard.close()
        with pytest.raises(Closed):
            await shard.append(log, columns(b"late"))

    run(main())


def test_a_full_publish_budget_holds_up_no_settlement(tmp_path: Path) -> None:
    async def main() -> None:
        options = replace(SMALL, publish_budget_bytes=1000)
        async with await Shard.open(tmp_path, options) as shard:
            log = await shard.create(log_name("a"))
            order: list[str] = []

            async def publish() -> None:
                await shard.append(log, columns(b"x" * 900))
                order.append("publish")

            async def settle() -> None:
                await shard.append(log, columns(b"ack"), Purpose.SETTLE)
                order.append("settle")

            publishes = [asyncio.create_task(publish()) for _ in range(10)]
            await asyncio.sleep(0)
            await settle()
            assert order.count("publish") <= 2
            await asyncio.gather(*publishes)
            assert log.end == 11

    run(main())


def test_a_cancelled_commit_is_whole_and_harms_no_other(tmp_path: Path) -> None:
    async def main() -> None:
        async with await Shard.open(tmp_path, SMALL) as shard:
            log = await shard.create(log_name("a"))
            task = asyncio.create_task(shard.append(log, columns(b"given up")))
            await asyncio.sleep(0)
            task.cancel()
            await shard.append(log, columns(b"other"))
            assert [value for _, value in read_all(shard, log)] == [b"given up", b"other"]

    run(main())


def test_truncate_inside_a_batch_keeps_its_head(tmp_path: Path) -> None:
    async def main() -> None:
        async with await Shard.open(tmp_path, SMALL) as shard:
            log = await shard.create(log_name("a"))
            await shard.append(log, columns(b"0", b"1", b"2", b"3"))
            await shard.append(log, columns(b"4"))
            with pytest.raises(OffsetOutOfRange):
                await shard.truncate(log, 6)
            await shard.truncate(log, 2)
            await shard.append(log, columns(b"new 2"))
            assert read_all(shard, log) == [(0, b"0"), (1, b"1"), (2, b"new 2")]
        async with await Shard.open(tmp_path, SMALL) as shard:
            assert read_all(shard, shard.log("a")) == [(0, b"0"), (1, b"1"), (2, b"new 2")]

    run(main())


def test_purge_epoch_change_and_delete(tmp_path: Path) -> None:
    async def main() -> None:
        async with await Shard.open(tmp_path, SMALL) as shard:
            log = await shard.create(log_name("a"))
            await shard.append(log, columns(b"0", b"1"))
            await shard.purge(log)
            await shard.begin_epoch(log, Epoch(5))
            await shard.change(log, LogSettings(compression=Compression.ZSTD))
            await shard.append(log, columns(b"2"))
            [data] = await shard.read(log, 2, 1 << 20)
            assert Batch.parse(data).header.epoch == 5
        async with await Shard.open(tmp_path, SMALL) as shard:
            log = shard.log("a")
            assert (log.start, log.end, log.bounds.epoch) == (2, 3, 5)
            assert log.settings.compression is Compression.ZSTD
            await shard.delete(log)
            await shard.checkpoint()
            assert [each.name for each in shard.logs] == ["@catalogue"]
            assert not list((tmp_path / "logs").glob("a@*"))

    run(main())


def test_the_first_offset_of_a_time_is_found(tmp_path: Path) -> None:
    async def main() -> None:
        async with await Shard.open(tmp_path, SMALL) as shard:
            log = await shard.create(log_name("a"))
            await shard.append(log, columns(b"old"))
            [data] = await shard.read(log, 0, 1)
            newest = TimestampMs(Batch.parse(data).header.max_timestamp)
            assert await shard.offset_at_time(log, newest) == 0
            assert await shard.offset_at_time(log, TimestampMs(newest + 1)) == 1

    run(main())


def test_below_the_reserve_a_publish_is_refused_and_a_settlement_taken(tmp_path: Path) -> None:
    async def main() -> None:
        async with await Shard.open(tmp_path, replace(SMALL, disk_reserve_bytes=1 << 60)) as shard:
            log = await shard.create(log_name("a"))
            with pytest.raises(DiskLow, match="disk_reserve"):
                await shard.append(log, columns(b"no"))
            await shard.append(log, columns(b"yes"), Purpose.SETTLE)
            assert shard.metrics.publishes_refused_disk == 1

    run(main())


class FailingSync:
    """Makes every sync of a file fail from now on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(RealFile, "sync", self)

    def __call__(self, *_: object) -> None:
        raise OSError(errno.EIO, "input/output error")


def test_a_failed_sync_ends_acknowledgements_until_reopening(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        shard = await Shard.open(tmp_path, SMALL)
        log = await shard.create(log_name("a"))
        await shard.append(log, columns(b"kept"))
        with monkeypatch.context() as patch:
            FailingSync(patch)
            with pytest.raises(OutcomeUnknown):
                await shard.append(log, columns(b"unknown"))
            with pytest.raises(JournalFailed):
                await shard.append(log, columns(b"refused"))
            await shard.close()
        async with await Shard.open(tmp_path, SMALL) as shard:
            assert read_all(shard, shard.log("a"))[0] == (0, b"kept")

    run(main())


def test_a_thread_that_breaks_stops_the_shard_instead_of_hanging_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        shard = await Shard.open(tmp_path, SMALL)
        log = await shard.create(log_name("a"))

        def broken(*_: object) -> int:
            raise RuntimeError("unexpected")

        monkeypatch.setattr(shard._engine.journal, "write", broken)
        with pytest.raises(OutcomeUnknown, match="unexpected"):
            await shard.append(log, columns(b"x"))
        await shard.close()

    run(main())


def test_offsets_are_skipped_after_a_stop_that_was_not_clean(tmp_path: Path) -> None:
    async def main() -> None:
        async with await Shard.open(tmp_path, SMALL) as shard:
            log = await shard.create(log_name("m"), LogSettings(durability=Durability.MEMORY))
            await shard.append(log, columns(b"1"))
            await shard.checkpoint()
            copy = tmp_path / "copy"
            copy_tree(tmp_path, copy, lambda path: path.name not in ("lock", "copy"))
        async with await Shard.open(copy, SMALL) as shard:
            log = shard.log("m")
            assert log.end == 1 + OFFSET_GAP
            assert await shard.append(log, columns(b"2")) == 1 + OFFSET_GAP
            assert [offset for offset, _ in read_all(shard, log)] == [0, 1 + OFFSET_GAP]

    run(main())


def copy_tree(source: Path, target: Path, wanted: Callable[[Path], bool]) -> None:
    target.mkdir()
    for path in [path for path in source.iterdir() if wanted(path)]:
        if path.is_dir():
            copy_tree(path, target / path.name, wanted)
        else:
            (target / path.name).write_bytes(path.read_bytes())


def test_a_foreign_directory_is_left_alone(tmp_path: Path) -> None:
    async def main() -> None:
        with pytest.raises(Exception, match=r"not a Penstock data directory.*thesis.txt"):
            await Shard.open(tmp_path, SMALL)

    (tmp_path / "thesis.txt").write_text("precious")
    run(main())
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_directory_of_a_newer_format_is_refused(tmp_path: Path) -> None:
    async def main() -> None:
        async with await Shard.open(tmp_path, SMALL):
            pass
        newer = f'{{"format": 99, "created_by": "9.0", "crc32c": {crc32c(b"99 9.0")}}}'
        (tmp_path / "format").write_text(newer)
        with pytest.raises(Exception, match="format 99"):
            await Shard.open(tmp_path, SMALL)

    run(main())


def test_a_slot_that_was_only_half_allocated_is_used_all_the_same(tmp_path: Path) -> None:
    async def main() -> None:
        async with await Shard.open(tmp_path, SMALL):
            pass
        (tmp_path / "journal" / "0007").write_bytes(b"\0" * 100)
        async with await Shard.open(tmp_path, SMALL) as shard:
            log = await shard.create(log_name("a"))
            for _ in range(60):
                await shard.append(log, columns(b"x" * 100_000))
            assert log.high_watermark == 60

    run(main())


def test_retention_and_compaction_run_beside_the_loop(tmp_path: Path) -> None:
    async def main() -> None:
        options = replace(SMALL, housekeeping_s=0.02)
        async with await Shard.open(tmp_path, options) as shard:
            bounded = LogSettings(segment_bytes=4 << 10, retention=Retention(bytes=20 << 10))
            latest = LogSettings(segment_bytes=4 << 10, compaction=Compaction(lag_s=0, interval_s=0))
            trimmed = await shard.create(log_name("trimmed"), bounded)
            compacted = await shard.create(log_name("compacted"), latest)
            for i in range(200):
                value = Columns.of([b"%d" % i * 100], keys=[b"%d" % (i % 3)])
                await shard.commit([(trimmed, value), (compacted, value)])
            await shard.checkpoint()
            for _ in range(3000):
                if trimmed.start and len(read_all(shard, compacted)) < 150:
                    break
                await asyncio.sleep(0.01)
            assert [offset for offset, _ in read_all(shard, trimmed)] == list(range(trimmed.start, 200))
            kept = [offset for offset, _ in read_all(shard, compacted)]
            assert kept == sorted(kept)
            assert kept[-3:] == [197, 198, 199]

    run(main())


def test_a_log_without_records_costs_no_file(tmp_path: Path) -> None:
    async def main() -> None:
        async with await Shard.open(tmp_path, SMALL) as shard:
            logs = await shard.create_many([(log_name("q", str(i)), LogSettings()) for i in range(500)])
            await shard.append(logs[7], columns(b"the only one"))

    run(main())
    assert [path.name for path in (tmp_path / "logs" / "q").iterdir()] == ["7@8"]


def test_files_stay_within_the_bound_however_many_logs_are_written(tmp_path: Path) -> None:
    async def main() -> None:
        options = replace(SMALL, keeper=replace(SMALL.keeper, max_open_files=10))
        async with await Shard.open(tmp_path, options) as shard:
            logs = await shard.create_many([(log_name("q", str(i)), LogSettings()) for i in range(200)])
            before = open_descriptors()
            for _ in range(3):
                await shard.commit([(log, columns(b"x")) for log in logs])
                await shard.checkpoint()
            assert open_descriptors() - before <= 12
            assert all(len(read_all(shard, log)) == 3 for log in logs)

    run(main())


def test_a_log_that_was_cut_is_compacted_like_any_other(tmp_path: Path) -> None:
    async def main() -> None:
        latest = LogSettings(segment_bytes=4 << 10, compaction=Compaction(lag_s=0, interval_s=0))
        async with await Shard.open(tmp_path, replace(SMALL, housekeeping_s=0)) as shard:
            log = await shard.create(log_name("a"), latest)
            await shard.append(log, columns(b"cut off", b"cut off"))
            await shard.truncate(log, 1)
            for i in range(200):
                await shard.append(log, Columns.of([b"%d" % i * 50], keys=[b"%d" % (i % 3)]))
            await shard.checkpoint()
            await shard.keep_house()
            await shard.checkpoint()
            assert shard.metrics.compactions == 1
            assert len(read_all(shard, log)) < 50

    run(main())


def test_large_batches_are_compressed_beside_the_loop_and_nothing_overtakes_them(tmp_path: Path) -> None:
    async def main() -> None:
        async with await Shard.open(tmp_path, replace(SMALL, publish_budget_bytes=64 << 20)) as shard:
            log = await shard.create(log_name("a"), LogSettings(compression=Compression.ZSTD))
            other = await shard.create(log_name("b"))
            values = [b"%d" % i * (200_000 if i % 3 == 0 else 1) for i in range(30)]
            commits = [asyncio.create_task(shard.append(log, columns(value))) for value in values]
            await shard.append(other, columns(b"beside them"))
            assert await asyncio.gather(*commits) == list(range(30))
            assert [value for _, value in read_all(shard, log)] == values
            assert not shard._turns

    run(main())


def test_a_large_batch_that_is_given_up_holds_up_nobody(tmp_path: Path) -> None:
    async def main() -> None:
        async with await Shard.open(tmp_path, SMALL) as shard:
            log = await shard.create(log_name("a"), LogSettings(compression=Compression.LZ4))
            given_up = asyncio.create_task(shard.append(log, columns(b"x" * 400_000)))
            await asyncio.sleep(0)
            behind = asyncio.create_task(shard.append(log, columns(b"behind it")))
            await asyncio.sleep(0)
            given_up.cancel()
            with pytest.raises(asyncio.CancelledError):
                await given_up
            assert await behind == 0

    run(main())


def test_who_waited_for_room_is_not_overtaken_by_who_comes_when_there_is_some(tmp_path: Path) -> None:
    async def main() -> None:
        async with await Shard.open(tmp_path, replace(SMALL, publish_budget_bytes=1000)) as shard:
            log = await shard.create(log_name("a"))

            async def one_after_the_other() -> list[Offset]:
                return [await shard.append(log, columns(b"x" * 900)), await shard.append(log, columns(b"later"))]

            pair = asyncio.create_task(one_after_the_other())
            await asyncio.sleep(0)
            waiting = asyncio.create_task(shard.append(log, columns(b"y" * 900)))
            assert await pair == [0, 2]
            assert await waiting == 1

    run(main())


def test_a_follower_appends_batches_as_they_are(tmp_path: Path) -> None:
    async def main() -> None:
        batch = encode(columns(b"a", b"b"))
        seal(batch, 100, 7, 1)
        async with await Shard.open(tmp_path, SMALL) as shard:
            log = await shard.create(log_name("a"))
            await shard.append_raw(log, bytes(batch))
            assert bytes((await shard.read(log, 0, 1 << 20))[0]) == bytes(batch)
            with pytest.raises(InvalidArgument, match="does not continue"):
                await shard.append_raw(log, bytes(batch))
            batch[70] ^= 1
            with pytest.raises(CorruptBatch):
                await shard.append_raw(log, bytes(batch))
        async with await Shard.open(tmp_path, SMALL) as shard:
            assert [(each.epoch, each.start, each.previous_end) for each in shard.log("a").bounds.epochs] == [
                (0, 0, 0),
                (0, 100, 0),
                (7, 100, 100),
            ]

    run(main())


class SyncingThreads:
    """Which threads sync the journal, on a disk that can be made slow."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.found: list[str] = []
        self.slow_s = 0.0
        sync = RealFile.sync

        def noted(file: RealFile) -> None:
            if (name := threading.current_thread().name) != "penstock-keeper":
                self.found.append(name)
                time.sleep(self.slow_s)
            sync(file)

        monkeypatch.setattr(RealFile, "sync", noted)

    async def after(self, shard: Shard, log: Log, commits: int, size: int = 10) -> set[str]:
        """Those that synced the last commits."""
        self.found = []
        for _ in range(commits):
            await shard.append(log, columns(bytes(size)))
        return set(self.found)


_LOOP, _STORAGE = "MainThread", "penstock-storage"


def test_a_little_commit_is_synced_by_the_loop_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.log.journal.commit._QUICK_S", 10.0)

    async def main() -> None:
        async with await Shard.open(tmp_path, SMALL) as shard:
            log, threads = await shard.create(log_name("events")), SyncingThreads(monkeypatch)
            assert await threads.after(shard, log, 5) == {_LOOP}
            assert read_all(shard, log) == [(offset, bytes(10)) for offset in range(5)]

    run(main())


def test_a_large_commit_is_synced_beside_the_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.log.journal.commit._QUICK_S", 10.0)

    async def main() -> None:
        async with await Shard.open(tmp_path, SMALL) as shard:
            log, threads = await shard.create(log_name("events")), SyncingThreads(monkeypatch)
            assert await threads.after(shard, log, 3, 64 << 10) == {_STORAGE}

    run(main())


def test_a_slow_disk_keeps_the_loop_once_or_twice_and_not_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with await Shard.open(tmp_path, SMALL) as shard:
            log, threads = await shard.create(log_name("events")), SyncingThreads(monkeypatch)
            threads.slow_s = 0.005
            await threads.after(shard, log, 2)
            assert await threads.after(shard, log, 10) == {_STORAGE}
            threads.slow_s = 0.0
            monkeypatch.setattr("penstock.log.journal.commit._QUICK_S", 0.01)
            await threads.after(shard, log, 20)
            assert await threads.after(shard, log, 3) == {_LOOP}, "it is quick again"

    run(main())


def test_what_a_turn_of_the_loop_stages_has_one_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with await Shard.open(tmp_path, SMALL) as shard:
            log, threads = await shard.create(log_name("events")), SyncingThreads(monkeypatch)
            await asyncio.gather(*[shard.append(log, columns(b"x")) for _ in range(50)])
            assert len(threads.found) == 1

    run(main())


def test_a_journal_that_fails_on_the_loop_tells_whoever_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.log.journal.commit._QUICK_S", 10.0)

    def fails(file: RealFile) -> None:
        raise OSError(errno.EIO, "gone")

    async def main() -> None:
        async with await Shard.open(tmp_path, SMALL) as shard:
            log = await shard.create(log_name("events"))
            monkeypatch.setattr(RealFile, "sync", fails)
            with pytest.raises(OutcomeUnknown):
                await shard.append(log, columns(b"x"))
            with pytest.raises(JournalFailed):
                await shard.append(log, columns(b"y"))

    run(main())


def test_what_nobody_waits_for_is_synced_when_the_interval_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.log.journal.commit._QUICK_S", 10.0)

    async def main() -> None:
        options = replace(SMALL, commit=CommitOptions(sync_interval_s=0.05))
        async with await Shard.open(tmp_path, options) as shard:
            settings = LogSettings(durability=Durability.INTERVAL)
            log, threads = await shard.create(log_name("events"), settings), SyncingThreads(monkeypatch)
            for _ in range(2):  # the thread that syncs it may have waited for something, or for nothing at all
                await threads.after(shard, log, 3)
                await asyncio.sleep(0.2)
                assert set(threads.found) == {_STORAGE}

    run(main())
