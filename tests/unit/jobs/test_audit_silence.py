"""An audit says nothing of logs that compaction, retention, repairs, restores, growth and redrives have changed."""

from __future__ import annotations

import asyncio
import shutil
import tarfile
from pathlib import Path

import pytest
from tests.support.auditing import Books, kinds, silent
from tests.support.broker import Stage, retries, stage
from tests.support.live_tables import LiveTables
from tests.support.loop import run

from penstock.broker.letters.redrive import redrive
from penstock.broker.queues.start import EARLIEST
from penstock.log.columns import Columns
from penstock.log.disk import RealDisk
from penstock.log.offline.backup import create_backup, restore_backup
from penstock.log.offline.repair import RepairMethod, apply_repair, plan_repair

GOLDEN = Path(__file__).parents[2] / "golden"
LIVE_FILES = shutil.ignore_patterns("table*", "lock")


@pytest.mark.parametrize("archive", sorted(GOLDEN.glob("*.tar.gz")), ids=lambda path: path.stem)
def test_directories_of_released_versions(archive: Path, tmp_path: Path) -> None:
    with tarfile.open(archive) as tar:
        tar.extractall(tmp_path, filter="data")
    assert silent(tmp_path).checked.records > 0


async def _used(s: Stage) -> None:
    """Groups, retries, dead letters, a redrive, a group that was moved, a transaction, more partitions, a restart."""
    queue = await s.queue(partitions=2, retry_policy=retries(1, "1s"))
    consumer = await s.consumer(queue)
    await s.put(queue, *[b"%d" % i for i in range(20)], keys=[b"k%d" % (i % 5) for i in range(20)])
    first, *others = await s.receive(consumer)
    await s.reject(consumer, first)
    for message in others[:3]:
        await s.fail(consumer, message)
    transaction = s.broker.transaction(s.publisher)
    transaction.put(await s.queue("other"), Columns.of([b"a"]))
    await transaction.commit()
    await s.broker.declaring.change(queue, {"partitions": 5})
    await s.put(queue, *[b"%d" % i for i in range(20)], keys=[b"k%d" % i for i in range(20)])
    await s.advance(10)
    await s.restart()


def test_a_queue_that_saw_everything(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path / "data") as s:
            await _used(s)
            await s.broker.shard.checkpoint()
            shutil.copytree(tmp_path / "data", tmp_path / "crashed", ignore=LIVE_FILES)

    run(main())
    silent(tmp_path / "crashed")
    report = silent(tmp_path / "data")
    assert (report.checked.groups > 0, report.checked.dead_letters) == (True, 1)


def test_letters_that_were_redriven(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            await _used(s)
            await redrive(s.broker, s.broker.queue("$dlq/q"))
            await s.broker.declaring.seek(s.group_of(), EARLIEST)

    run(main())
    silent(tmp_path)


def test_a_compacted_queue(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            compaction = {"enabled": True, "lag": "0s", "interval": "1s"}
            queue = await s.queue(compaction=compaction, retention={"time": 0}, limits={"message_ttl": 0})
            consumer = await s.consumer(queue)
            for number in range(12):
                await s.put(queue, b"%d" % number, keys=[b"%d" % (number % 3)])
            await s.fail(consumer, (await s.receive(consumer))[0])
            await s.broker.shard.checkpoint()
            s.clock.advance(8 * 24 * 3600)
            await s.put(queue, b"last", keys=[b"other"])
            await s.broker.shard.checkpoint()
            await s.broker.shard.keep_house()
            assert (await asyncio.to_thread(silent, tmp_path)).checked.records < 40

    run(main())
    silent(tmp_path)


@pytest.mark.parametrize("method", ["skip", "cut"])
def test_a_log_that_was_mended(tmp_path: Path, method: RepairMethod) -> None:
    live = LiveTables(tmp_path)
    live.fill(live.create("orders"), 10)
    live.close()
    shutil.rmtree(tmp_path / "journal")
    path = Books(tmp_path, "default/orders/0").path(1)
    data = bytearray(path.read_bytes())
    data[100] ^= 1
    path.write_bytes(data)
    assert kinds(tmp_path) == {"damaged-batch"}
    disk = RealDisk(tmp_path)
    apply_repair(disk, plan_repair(disk, None, method))
    silent(tmp_path)
    again = LiveTables(tmp_path)
    [log] = [log for log in again.shard.engine.logs.values() if log.name == "default/orders/0"]
    again.fill(log, 4)
    silent(tmp_path)
    again.close()
    silent(tmp_path)


def test_a_backup_that_was_restored(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path / "data") as s:
            await _used(s)
            create_backup(tmp_path / "data", tmp_path / "backup", print)
            await s.put(s.broker.queue("q"), b"after")

    run(main())
    restore_backup(tmp_path / "backup", tmp_path / "again", print)
    silent(tmp_path / "again")


def test_a_deleted_queue_that_was_declared_anew(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            await _used(s)
            await s.broker.declaring.delete(s.broker.queue("q"))
            queue = await s.queue()
            await s.put(queue, b"new")

    run(main())
    silent(tmp_path)
