from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.support.broker import stage
from tests.support.loop import run
from tests.support.staging import stored

from penstock.broker.publish.request import PlacedBatch
from penstock.broker.queues.queue import Placed, Queue
from penstock.core.errors import InvalidArgument, NoSuchQueue, QueueFull, TooLarge
from penstock.log.batch import encode
from penstock.log.columns import Columns
from penstock.log.encoded import Encoded


def batches(queue: Queue, *rows: bytes, keys: list[bytes] | None = None) -> list[PlacedBatch]:
    """Placed as a listener does."""
    placed = Columns.of(rows, keys=keys).scatter(queue.settings.partitions)
    return [PlacedBatch(Encoded.checked(encode(mine)), number, is_by_key=True) for number, mine in placed]


def test_all_batches_of_a_call_are_one_frame_whether_they_have_to_wait_or_not(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue, publisher = await s.queue(partitions=3), s.broker.publisher()
            publishing, keys = s.broker.publishing, [b"a", b"b", b"c", b"d"]
            rows = [b"1", b"2", b"3", b"4"]
            assert (
                publishing.put_batches_now(queue, batches(queue, *rows, keys=keys), 3, publisher) is None
            )  # logs are missing
            first = await publishing.put_batches(queue, batches(queue, *rows, keys=keys), 3, publisher)
            frames = s.broker.shard.metrics.frames
            staged = publishing.put_batches_now(queue, batches(queue, *rows, keys=keys), 3, publisher)
            assert staged is not None
            placed, committed = staged
            await committed
            assert s.broker.shard.metrics.frames == frames + 1
            assert placed == [Placed(number, count, count) for number, _, count in first]
            assert await stored(s) == sorted(rows * 2)
            assert queue.published == 8

    run(main())


def test_a_try_that_comes_to_nothing_takes_no_step_of_the_round(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue, publisher = await s.queue(partitions=2, unkeyed="spread"), s.broker.publisher()
            publishing = s.broker.publishing
            for _ in range(6):
                batch = PlacedBatch(Encoded.checked(encode(Columns.of([b"v"]))), None, is_by_key=False)
                if publishing.put_batches_now(queue, [batch], 2, publisher) is None:
                    await publishing.put_batches(queue, [batch], 2, publisher)
            await s.broker.shard.drain()
            assert {partition: unit.data.end for partition, unit in queue.units.items()} == {0: 3, 1: 3}

    run(main())


def test_keys_are_placed_anew_where_partitions_were_added(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue, publisher = await s.queue(partitions=2), s.broker.publisher()
            keys = [b"%d" % number for number in range(20)]
            before = batches(queue, *keys, keys=keys)
            named = PlacedBatch(Encoded.checked(encode(Columns.of([b"named"], keys=[b"0"]))), 1, is_by_key=False)
            await s.broker.declaring.change(queue, {"partitions": 5})
            placed = await s.broker.publishing.put_batches(queue, [*before, named], 2, publisher)
            wanted = Columns.of(keys, keys=keys).scatter(5)
            rows = {number: mine.count for number, mine in wanted}
            rows[1] = rows.get(1, 0) + 1
            found: dict[int, int] = {}
            for each in placed:
                found[each.partition] = found.get(each.partition, 0) + each.rows
            assert found == rows

    run(main())


def test_rows_without_a_key_go_where_the_publisher_puts_its_own(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue, publisher = await s.queue(partitions=4), s.broker.publisher()
            batch = [PlacedBatch(Encoded.checked(encode(Columns.of([b"x"]))), None, is_by_key=False)]
            [placed] = await s.broker.publishing.put_batches(queue, batch, 4, publisher)
            assert placed.partition == publisher.partition(queue)

    run(main())


def test_what_a_queue_refuses_leaves_nothing_behind(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue(limits={"max_queue_depth": 3, "max_message_size": 10})
            publisher = s.broker.publisher()
            await s.consumer(queue)
            publishing = s.broker.publishing
            for error, rows in ((TooLarge, [b"x" * 11]), (QueueFull, [b"1", b"2", b"3", b"4"])):
                with pytest.raises(error):
                    await publishing.put_batches(queue, batches(queue, *rows), 1, publisher)
                with pytest.raises(error):
                    publishing.put_batches_now(queue, batches(queue, *rows), 1, publisher)
            wrong = [batches(queue, b"x")[0]._replace(partition=7, is_by_key=False)]
            with pytest.raises(InvalidArgument, match="no partition 7"):
                await publishing.put_batches(queue, wrong, 1, publisher)
            assert await stored(s) == []
            await publishing.put_batches(queue, batches(queue, b"1"), 1, publisher)
            await asyncio.wait_for(s.broker.declaring.delete(queue), 10)  # the gate is not held
            with pytest.raises(NoSuchQueue):
                await publishing.put_batches(queue, batches(queue, b"1"), 1, publisher)

    run(main())
