"""Epochs that no frame can hold: written beside the journal, decided by one frame."""

from __future__ import annotations

import asyncio
import errno
import shutil
import threading
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.support.arrivals import arrivals
from tests.support.broker import SMALL, Stage, stage
from tests.support.loop import run
from tests.support.staging import QUERY, side_logs, staged, stored

from penstock.broker.queues.queue import Queue
from penstock.broker.staging import stages
from penstock.broker.staging.records import StagedRange
from penstock.core.errors import DiskLow, StageGone
from penstock.log.offline.backup import create_backup, restore_backup
from penstock.log.offline.verify import verify
from penstock.log.outside import DirectoryReader
from penstock.log.segments.side_segments import Importer

ROWS, ROW_BYTES = 60, 1000
LIVE_FILES = shutil.ignore_patterns("table*", "lock")
KEYS = [b"key-%d" % i for i in range(ROWS)]


def row(name: str, number: int) -> bytes:
    return f"{name}-{number:04d}-".encode().ljust(ROW_BYTES, b".")


@dataclass
class Held:
    """An import that waits when all is written, until it may go on."""

    reached: threading.Event = field(default_factory=threading.Event)
    go: threading.Event = field(default_factory=threading.Event)


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Held:
    found, finish = Held(), Importer.finish

    def wait_then_finish(importer: Importer) -> None:
        found.reached.set()
        assert found.go.wait(60)
        finish(importer)

    monkeypatch.setattr(Importer, "finish", wait_then_finish)
    return found


async def large(s: Stage, queue: Queue, *names: str) -> list[StagedRange]:
    """60 KB for each name: three of them are more than a frame of 128 KiB."""
    return [await staged(s, queue, *rows_of(name), keys=KEYS, writer=name) for name in names]


def rows_of(*names: str) -> list[bytes]:
    return sorted(row(name, number) for name in names for number in range(ROWS))


def segment_files(directory: Path) -> set[str]:
    return {path.name for path in (directory / "logs" / "default").rglob("*.seg")}


def test_an_epoch_larger_than_a_frame_is_committed_whole_and_once(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue(partitions=3)
            await s.put(queue, b"before", partition=1)
            consumer = await s.consumer(queue)
            ranges = await large(s, queue, "a", "b", "c", "d")
            committed = await s.broker.staging.commit(QUERY, 0, ranges)
            await s.put(queue, b"behind", partition=1)
            wanted = [*rows_of("a", "b", "c", "d"), b"before", b"behind"]
            assert await stored(s) == sorted(wanted)
            assert sorted(message.value for message in await s.receive(consumer)) == sorted(wanted)
            for place in committed.placed:
                assert place.base_offset == (1 if place.partition == 1 else 0)
                assert queue.units[place.partition].end == place.base_offset + place.rows + (place.partition == 1)
            await s.restart()
            assert await stored(s) == sorted(wanted)
            again = await large(s, s.broker.queue("q"), "a", "b", "c", "d")
            repeated = await s.broker.staging.commit(QUERY, 0, again)
            assert (repeated.placed, repeated.is_repeated) == (committed.placed, True)
            assert await stored(s) == sorted(wanted)

    run(main())


def test_keys_keep_their_partitions_and_their_order(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue(partitions=4)
            await s.broker.staging.commit(QUERY, 0, await large(s, queue, "a", "b", "c"))
            published = await s.put(queue, *rows_of("d"), keys=KEYS)
            rows = {placed.partition: placed.rows for placed in published.placed}
            for partition, unit in queue.units.items():
                assert unit.end == 4 * rows[partition]
                values: list[bytes] = []
                while len(values) < unit.end:
                    found = await unit.stored(len(values))
                    assert found is not None
                    values += [found.batch.value(row) for row in range(len(found))]
                assert [value[:1] for value in values] == [
                    name for name in (b"a", b"b", b"c", b"d") for _ in range(rows[partition])
                ]

    run(main())


def test_readers_are_shown_all_partitions_in_one_turn(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue(partitions=3)
            for partition in range(3):
                await s.put(queue, b"x", partition=partition)
            seen: set[tuple[int, ...]] = set()
            outside = DirectoryReader(tmp_path)

            def look() -> None:
                seen.add(tuple(queue.units[partition].end for partition in range(3)))
                ends = [log.end for log in outside.logs() if log.name in {u.data.name for u in queue.units.values()}]
                assert len(ends) < 3 or ends in ([1, 1, 1], final)

            ranges = await large(s, queue, "a", "b", "c")
            counts = [0, 0, 0]
            for placed in (await s.put(await s.queue("other", partitions=3), *rows_of("a"), keys=KEYS)).placed:
                counts[placed.partition] = placed.rows
            final = [1 + 3 * count for count in counts]
            task = asyncio.ensure_future(s.broker.staging.commit(QUERY, 0, ranges))
            while not task.done():
                look()
                await asyncio.sleep(0)
            look()
            assert seen == {(1, 1, 1), tuple(final)}
            outside.close()

    run(main())


def test_publishes_to_the_targets_wait_and_come_behind(tmp_path: Path, held: Held) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue, other = await s.queue(), await s.queue("other")
            await s.put(queue, b"first")
            await s.put(other, b"first")
            ranges = await large(s, queue, "a", "b", "c")
            task = asyncio.ensure_future(s.broker.staging.commit(QUERY, 0, ranges))
            await asyncio.to_thread(held.reached.wait)
            await s.put(other, b"goes on")
            late = asyncio.ensure_future(s.put(queue, b"behind"))
            await s.put(other, b"and on")
            assert not late.done()
            held.go.set()
            behind = await late
            assert behind.placed[0].base_offset == 1 + 3 * ROWS
            await task
            assert queue.units[0].end == 2 + 3 * ROWS
            consumer = await s.consumer(queue)
            values = [message.value for message in await s.receive(consumer)]
            assert values == [b"first", *rows_of("a"), *rows_of("b"), *rows_of("c"), b"behind"]

    run(main())


def test_a_group_that_waits_is_told(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue()
            consumer = await s.consumer(queue)
            waiting = asyncio.ensure_future(arrivals(consumer, 1, 30))
            await asyncio.sleep(0)
            await s.broker.staging.commit(QUERY, 0, await large(s, queue, "a", "b", "c"))
            assert len(await waiting) == 1

    run(main())


def test_a_disk_that_fails_changes_nothing_and_the_commit_can_be_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue(partitions=2)
            await s.put(queue, b"x", b"y", keys=[b"1", b"2"])
            before = await stored(s)
            ranges = await large(s, queue, "a", "b", "c")
            with monkeypatch.context() as patch, pytest.raises(OSError, match="no space"):
                patch.setattr(Importer, "finish", _fail)
                await s.broker.staging.commit(QUERY, 0, ranges)
            assert not [name for name in segment_files(tmp_path) if name.count(".") > 1]
            assert await stored(s) == before
            await s.broker.staging.commit(QUERY, 0, ranges)
            assert await stored(s) == sorted([*before, *rows_of("a", "b", "c")])

    run(main())


def _fail(importer: Importer) -> None:
    raise OSError(errno.ENOSPC, "no space left")


def test_a_queue_deleted_meanwhile_refuses_the_whole_commit(tmp_path: Path, held: Held) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            stays, goes = await s.queue("q"), await s.queue("goes")
            ranges = [*await large(s, stays, "a", "b"), *await large(s, goes, "c")]
            task = asyncio.ensure_future(s.broker.staging.commit(QUERY, 0, ranges))
            await asyncio.to_thread(held.reached.wait)
            await s.broker.declaring.delete(goes)
            held.go.set()
            with pytest.raises(StageGone, match="deleted meanwhile"):
                await task
            assert await stored(s) == []
            assert segment_files(tmp_path) == set()

    run(main())


def test_what_was_adopted_is_trimmed_purged_and_deleted_like_all_else(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue()
            await s.broker.staging.commit(QUERY, 0, await large(s, queue, "a", "b", "c"))
            await s.broker.shard.checkpoint()
            await s.broker.declaring.purge(queue)
            assert await stored(s) == []
            await s.broker.staging.commit(QUERY, 1, await large(s, queue, "d", "e", "f"))
            await s.restart()
            assert await stored(s) == rows_of("d", "e", "f")
            await s.broker.declaring.delete(s.broker.queue("q"))
            await s.broker.shard.checkpoint()
            assert segment_files(tmp_path) == set()

    run(main())


def test_a_crash_behind_the_frame_keeps_all_and_before_it_none(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path / "data") as s:
            queue = await s.queue(partitions=2)
            ranges = await large(s, queue, "a", "b", "c")
            await s.broker.shard.checkpoint()
            shutil.copytree(tmp_path / "data", tmp_path / "before", ignore=LIVE_FILES)
            await s.broker.staging.commit(QUERY, 0, ranges)
            shutil.copytree(tmp_path / "data", tmp_path / "behind", ignore=LIVE_FILES)
        for name, is_there in (("before", False), ("behind", True)):
            async with stage(tmp_path / name) as after:
                assert await stored(after) == (rows_of("a", "b", "c") if is_there else [])
                repeated = await after.broker.staging.commit(QUERY, 0, ranges)
                assert repeated.is_repeated is is_there
                assert await stored(after) == rows_of("a", "b", "c")

    run(main())


def quiet(path: str, done_bytes: int, total_bytes: int) -> None:
    return


def test_what_is_committed_soon_is_never_written_beside_its_queue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its side log goes with the commit, and storage did not write it to segments before."""
    monkeypatch.setattr(stages, "SIDE_LOG_BYTES", 64 << 10)

    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue(partitions=3)
            ranges = await large(s, queue, "a", "b", "c", "d")
            assert len(side_logs(s)) > 1
            await s.broker.staging.commit(QUERY, 0, ranges)
            await s.broker.staging.close()  # which waits for what is under way
            assert not side_logs(s)
            await s.broker.shard.checkpoint()
            assert s.broker.shard.metrics.segment_bytes < ROWS * ROW_BYTES
            assert await stored(s) == rows_of("a", "b", "c", "d")

    run(main())


def test_a_backup_of_a_live_directory_has_what_was_adopted_since_the_checkpoint(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path / "data") as s:
            queue = await s.queue(partitions=2)
            await s.broker.shard.checkpoint()
            await s.broker.staging.commit(QUERY, 0, await large(s, queue, "a", "b", "c"))
            await asyncio.to_thread(create_backup, tmp_path / "data", tmp_path / "backup", quiet)
        restore_backup(tmp_path / "backup", tmp_path / "restored", quiet)
        async with stage(tmp_path / "restored") as after:
            assert await stored(after) == rows_of("a", "b", "c")

    run(main())


def test_staging_keeps_twice_the_disk_free_and_publishes_do_not_take_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue()
            await s.put(queue, b"x")
            keeper = s.broker.shard._engine.keeper
            ranges = await large(s, queue, "a", "b")
            monkeypatch.setattr(type(keeper), "free_bytes", property(lambda _: 200 << 10, lambda *_: None), False)
            with pytest.raises(DiskLow):
                await large(s, queue, "c")
            monkeypatch.setattr(type(keeper), "free_bytes", property(lambda _: 100 << 10, lambda *_: None), False)
            with pytest.raises(DiskLow):
                await s.put(queue, b"y")
            await s.broker.staging.commit(QUERY, 0, ranges)
            await s.broker.shard.checkpoint()
            await s.put(queue, b"y")
            assert await stored(s) == sorted([b"x", b"y", *rows_of("a", "b")])

    run(main())


def test_a_verified_directory_has_nothing_to_say_of_adopted_segments(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            await s.broker.staging.commit(QUERY, 0, await large(s, await s.queue(), "a", "b", "c"))

    run(main())
    assert SMALL.journal.max_frame_bytes < 3 * ROWS * ROW_BYTES
    report = verify(tmp_path)
    assert report.findings == []
