from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import msgspec
import pytest
from tests.support.broker import offsets, retries, stage
from tests.support.loop import run

from penstock.broker.feed.held import Held
from penstock.broker.queues import snapshots
from penstock.broker.queues.queue import Queue
from penstock.core.errors import InvalidArgument, InvalidSetting, NoSuchQueue, QueueExists
from penstock.core.types import Durability
from penstock.log.columns import Columns
from penstock.log.records import Compaction, Retention
from penstock.queues.names import parse_message_id


def test_queues_groups_and_templates_come_back_after_a_restart(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            await s.broker.declaring.put_template("logs/*", {"partitions": 7})
            queue = await s.queue("a", partitions=3, topics=["t/#"], retry_policy=retries(2))
            await s.broker.group(queue, "g")
            await s.restart()
            again = s.broker.queue("a")
            assert (again.settings, again.incarnation) == (queue.settings, queue.incarnation)
            assert [str(key) for key in again.groups] == ["g"]
            assert (await s.broker.declare({"name": "logs/x"})).settings.partitions == 7
            await s.publish(b"t/1", b"v")
            assert again.published == 1

    run(main())


def test_a_changed_queue_is_found_though_compaction_put_it_behind_its_groups(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue()
            await s.broker.group(queue, "g")
            await s.broker.declaring.change(queue, {"max_in_flight": 5})
            configuration = s.broker.declaring._configuration
            # What compaction does with the records of a key, done by hand: the older one is not there.
            group_key = f"group:{queue.incarnation}:{s.group_of().number}"
            await s.broker.shard.trim(configuration.log, 3)
            found = list(configuration.read())
            assert found.index(group_key) < found.index(f"queue:{queue.incarnation}")
            await s.restart()
            assert s.broker.queue("q").settings.max_in_flight == 5
            assert s.group_of().key.name == "g"

    run(main())


def test_a_queue_is_declared_once(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue()
            with pytest.raises(QueueExists):
                await s.queue()
            assert await s.broker.declare({"name": "q"}, if_absent=True) is queue
            both = await asyncio.gather(*[s.broker.declare({"name": "r"}, if_absent=True) for _ in range(3)])
            assert len({found.incarnation for found in both}) == 1
            with pytest.raises(InvalidArgument, match="needs a name"):
                await s.broker.declare({"partitions": 3})

    run(main())


def test_declaring_above_other_queues_names_them(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            await s.queue("orders/new")
            with caplog.at_level(logging.INFO, "penstock.broker"):
                await s.queue("orders")

    run(main())
    assert "orders/new" in caplog.text


def test_a_queue_that_was_deleted_and_declared_again_knows_nothing_of_before(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue()
            consumer = await s.consumer(queue)
            await s.put(queue, b"old")
            old = parse_message_id(queue.message_id_prefix(0) + "0")
            assert s.broker.find(old) == (queue, queue.units[0])
            await s.broker.declaring.delete(queue)
            assert consumer.is_closed
            with pytest.raises(NoSuchQueue):
                s.broker.queue("q")
            await s.restart()
            again = await s.queue()
            await s.put(again, b"new")
            with pytest.raises(InvalidArgument, match="no longer exists"):
                s.broker.find(old)
            assert [m.value for m in await s.receive(await s.consumer(again))] == [b"new"]

    run(main())


def test_settings_change_at_run_time_and_stay_changed(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue(retry_policy=retries(5, "10s"))
            consumer = await s.consumer(queue)
            await s.put(queue, b"v")
            change = {
                "retry_policy": {"max_retries": 0},
                "durability": "memory",
                "topics": ["late/#"],
                "performance": {"delivery_timeout": "5s"},
            }
            await s.broker.declaring.change(queue, change)
            await s.publish(b"late/1", b"w")
            assert queue.units[0].data.settings.durability is Durability.MEMORY
            assert len(await s.receive(consumer)) == 2
            await s.advance(5)
            assert s.dead_letters() == 1
            with pytest.raises(InvalidSetting, match="name"):
                await s.broker.declaring.change(queue, {"name": "other"})
            await s.restart()
            assert s.broker.queue("q").settings == queue.settings

    run(main())


def test_namespaces_are_apart(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue()
            other = await s.queue(namespace="tenant")
            await s.put(other, b"v")
            columns = Columns.of([b"w"], topics=[b"$queue/q"])
            await s.broker.publishing.publish(columns, s.publisher, "tenant")
            assert (queue.published, other.published) == (0, 2)
            await s.restart()
            assert s.broker.queue("q", "tenant").units[0].end == 2
            assert s.broker.queue("q").units[0].end == 0

    run(main())


@pytest.mark.parametrize("durability", ["memory", "interval", "commit"])
def test_every_durability_survives_a_clean_restart(tmp_path: Path, durability: str) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue(durability=durability)
            consumer = await s.consumer(queue)
            await s.put(queue, b"1", b"2")
            await s.ack(consumer, (await s.receive(consumer))[0])
            await s.restart()
            again = s.broker.join(s.group_of())
            assert [m.value for m in await s.receive(again)] == [b"2"]

    run(main())


def test_acknowledgements_of_one_turn_are_one_frame(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue(partitions=5)
            consumer = await s.consumer(queue)
            for partition in range(5):
                await s.put(queue, b"1", b"2", partition=partition)
            found = await s.receive(consumer)
            frames = s.broker.shard.metrics.frames
            results = await asyncio.gather(*[s.ack(consumer, message) for message in found])
            assert [result.done for result in results] == [1] * 10
            assert s.broker.shard.metrics.frames == frames + 1

    run(main())


def test_deliveries_alone_cause_no_commit(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue()
            consumer = await s.consumer(queue)
            await s.put(queue, b"1")
            frames = s.broker.shard.metrics.frames
            await s.receive(consumer)
            assert await s.broker.settling.ack(Held.named(consumer.group, queue.units[0], offsets(9), None, -1)) == (
                0,
                1,
            )
            await s.quiet()
            assert s.broker.shard.metrics.frames == frames

    run(main())


def _durabilities(queue: Queue) -> set[Durability]:
    logs = [log for unit in queue.units.values() for log in (unit.data, unit.state, unit.snapshots) if log is not None]
    return {log.settings.durability for log in logs}


def test_a_queue_and_all_its_logs_change_in_one_frame(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue(partitions=20, durability="memory")
            for partition in range(20):
                await s.put(queue, b"v", partition=partition)
            await snapshots.write(s.broker.shard, queue, queue.units[0], s.broker.now())
            frames = s.broker.shard.metrics.frames
            change = {"durability": "commit", "retention": {"time": "1h"}, "partitions": 21}
            await s.broker.declaring.change(queue, change)
            assert s.broker.shard.metrics.frames == frames + 1
            assert _durabilities(queue) == {Durability.COMMIT}
            await s.crash(tmp_path.with_name("copy"))
            again = s.broker.queue("q")
            assert _durabilities(again) == {Durability.COMMIT}
            assert {unit.data.settings.retention for unit in again.units.values()} == {Retention(time_s=3600.0)}

    run(main())


def _kept(queue: Queue) -> set[tuple[Retention | None, Compaction | None]]:
    """What the logs of its messages keep."""
    return {(unit.data.settings.retention, unit.data.settings.compaction) for unit in queue.units.values()}


def test_retention_and_compaction_of_all_partitions_change_together_in_one_frame(tmp_path: Path) -> None:
    compacted = {"enabled": True, "key": "user-id", "lag": "1m", "interval": "1h"}
    changes: list[tuple[dict[str, object], tuple[Retention | None, Compaction | None]]] = [
        (
            {"retention": {"time": "1h", "messages": 1000}, "compaction": compacted},
            (Retention(3600.0, None, 1000), Compaction("user-id", lag_s=60.0, interval_s=3600.0)),
        ),
        ({"retention": {"time": "2h", "messages": None}, "compaction": {"enabled": False}}, (Retention(7200.0), None)),
    ]

    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue(partitions=20)
            for partition in range(20):
                await s.put(queue, b"v", partition=partition)
            for number, (change, expected) in enumerate(changes):
                frames = s.broker.shard.metrics.frames
                await s.broker.declaring.change(queue, change)
                assert s.broker.shard.metrics.frames == frames + 1
                assert _kept(queue) == {expected}
                await s.crash(tmp_path.with_name(f"{tmp_path.name}-{number}"))
                queue = s.broker.queue("q")
                assert len(queue.units) == 20
                assert _kept(queue) == {expected}

    run(main())


def test_more_logs_than_a_frame_describes_are_changed_in_several(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue(partitions=400, durability="memory")
            await s.put(queue, *[b"v"] * 4000, keys=[b"%d" % number for number in range(4000)])
            frames = s.broker.shard.metrics.frames
            await s.broker.declaring.change(queue, {"durability": "commit"})
            assert len(queue.units) > 390
            assert 1 < s.broker.shard.metrics.frames - frames < 5
            assert _durabilities(queue) == {Durability.COMMIT}

    run(main())


def test_a_partition_that_is_made_during_a_change_follows_it(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue(partitions=5, durability="memory")
            changing = s.broker.declaring.change(queue, {"durability": "commit"})
            await asyncio.gather(s.put(queue, b"v", partition=1), changing, s.put(queue, b"v", partition=2))
            assert _durabilities(queue) == {Durability.COMMIT}

    run(main())


@pytest.mark.parametrize(
    "other",
    [
        {"durability": Durability.MEMORY},
        {"retention": Retention(1.0)},
        {"retention": None},
        {"compaction": Compaction()},
        {"retention": Retention(1.0), "compaction": Compaction(), "durability": Durability.INTERVAL},
    ],
    ids=["durability", "retention", "no-retention", "compaction", "all"],
)
def test_a_change_that_was_left_half_way_is_finished_at_opening_and_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, other: dict[str, object]
) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue(partitions=4, durability="commit", retention={"time": "1h"})
            for partition in range(4):
                await s.put(queue, b"v", partition=partition)
            for partition in range(3):
                unit = queue.units[partition]
                await s.broker.shard.change(unit.data, msgspec.structs.replace(unit.data.settings, **other))
            with caplog.at_level(logging.WARNING, "penstock.broker.opening"):
                await s.restart()
                assert "mended queue=q logs=3" in caplog.text
                caplog.clear()
                assert _durabilities(s.broker.queue("q")) == {Durability.COMMIT}
                assert _kept(s.broker.queue("q")) == {(Retention(3600.0), None)}
                await s.restart()
                assert caplog.text == ""

    run(main())
