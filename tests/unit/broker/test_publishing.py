from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.support.broker import LARGE, got, stage
from tests.support.loop import run

from penstock.broker.publish.request import ProducerCall, PublishRequest, Put
from penstock.broker.queues.queue import Queue
from penstock.core.errors import (
    FencedProducer,
    InvalidArgument,
    NoSuchQueue,
    OutOfOrder,
    PenstockError,
    QueueFull,
    TooLarge,
)
from penstock.log.columns import Columns

PRODUCER = b"producer"


def stored(queue: Queue) -> dict[int, int]:
    """How many messages each partition has."""
    return {partition: unit.data.end for partition, unit in queue.units.items()}


def test_messages_of_a_key_go_to_one_partition_and_keep_their_order(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue(partitions=8)
            consumer = await s.consumer(queue)
            for i in range(5):
                await s.put(queue, b"a%d" % i, b"b%d" % i, keys=[b"a", b"b"])
            found = await s.receive(consumer)
            for key in (b"a", b"b"):
                mine = [m for m in found if m.value.startswith(key)]
                assert [m.value for m in mine] == [key + b"%d" % i for i in range(5)]
                assert len({m.partition for m in mine}) == 1

    run(main())


def test_a_message_goes_to_the_partition_that_is_asked_for(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue(partitions=4)
            published = await s.put(queue, b"v", keys=[b"k"], partition=3)
            assert [tuple(placed) for placed in published.placed] == [(3, 0, 1)]
            with pytest.raises(InvalidArgument, match="no partition 4, it has 4"):
                await s.put(queue, b"v", partition=4)
            assert stored(queue) == {3: 1}

    run(main())


def test_a_publisher_keeps_the_partition_of_its_messages_without_key(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue(partitions=5)
            for publisher in [s.broker.publisher() for _ in range(10)]:
                places = [(await s.put(queue, b"v", publisher=publisher)).placed for _ in range(3)]
                assert len({placed.partition for [placed] in places}) == 1
            assert stored(queue) == dict.fromkeys(stored(queue), 6) and len(stored(queue)) == 5

    run(main())


def test_spread_takes_another_partition_at_each_publish(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue(partitions=3, unkeyed="spread")
            for _ in range(6):
                await s.put(queue, b"v")
            assert sorted(stored(queue).values()) == [2, 2, 2]

    run(main())


def test_a_try_that_comes_to_nothing_takes_no_step_of_the_round(tmp_path: Path) -> None:
    """As gateways do: at once if it can be, else by waiting."""

    async def main() -> None:
        async with stage(tmp_path) as s:
            publishing, publisher = s.broker.publishing, s.publisher
            for way in range(3):
                queue = await s.queue(f"q{way}", partitions=2, unkeyed="spread")
                for number in range(6):
                    value = b"%d" % number
                    columns, outcomes = Columns.of([value]), list[PenstockError | None]()
                    if way == 0:
                        is_taken = publishing.put_now(queue, columns, publisher) is not None
                    elif way == 1:
                        puts = [Put(queue, columns, publisher)]
                        is_taken = publishing.intake.try_stage(puts, outcomes.append) is not None
                    else:
                        targets = publishing.routes.targets([b"$queue/q2"])
                        assert targets is not None
                        routed = (Columns.of([value], topics=[b"$queue/q2"]), targets, publisher, None)
                        is_taken = publishing.intake.try_stage((), outcomes.append, (), routed) is not None
                    if not is_taken:
                        await publishing.put(queue, columns, publisher)
                await s.broker.shard.drain()
                assert stored(queue) == {0: 3, 1: 3}, way

    run(main())


def test_a_publish_that_is_refused_makes_no_queue(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            bound = await s.queue("bound", topics=["$queue/new"], limits={"max_message_size": 10})
            with pytest.raises(TooLarge):
                await s.publish(b"$queue/new", b"v" * 11)
            columns = Columns.of([b"v", b"v" * 11], topics=[b"$queue/other", b"$queue/new"])
            with pytest.raises(TooLarge):
                await s.broker.publishing.publish(columns, s.publisher)
            transaction = s.broker.transaction(s.publisher)
            transaction.put(s.broker.declaring.wanted("new", {}), Columns.of([b"v"]))
            transaction.put(bound, Columns.of([b"v" * 11]))
            with pytest.raises(TooLarge):
                await transaction.commit()
            assert list(s.broker.queues) == [bound]
            assert {each.queue.name for each in await s.publish(b"$queue/new", b"v")} == {"bound", "new"}

    run(main())


def test_a_topic_feeds_every_queue_that_is_bound_to_it_in_one_frame(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            one = await s.queue("one", topics=["orders/#"])
            two = await s.queue("two", topics=["orders/new", "$queue/one/#"])
            frames = s.broker.shard.metrics.frames
            published = await s.publish(b"orders/new", b"v")
            assert {result.queue.name for result in published} == {"one", "two"}
            assert s.broker.shard.metrics.frames - frames <= 3  # two of them make the partitions
            frames = s.broker.shard.metrics.frames
            await s.publish(b"orders/new", b"v")
            assert s.broker.shard.metrics.frames == frames + 1
            await s.publish(b"$queue/one", b"w")
            assert (stored(one), stored(two)) == ({0: 3}, {0: 3})
            assert await s.publish(b"nobody/listens", b"v") == []

    run(main())


def test_if_one_bound_queue_refuses_none_takes_the_message(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            one = await s.queue("one", topics=["t"])
            two = await s.queue("two", topics=["t"], limits={"max_message_size": 10})
            with pytest.raises(TooLarge):
                await s.publish(b"t", b"v" * 11)
            await s.publish(b"t", b"v" * 10)
            assert (stored(one), stored(two)) == ({0: 1}, {0: 1})
            full = await s.queue("full", topics=["t"], limits={"max_queue_depth": 1})
            await s.consumer(full)
            await s.publish(b"t", b"v")
            with pytest.raises(QueueFull):
                await s.publish(b"t", b"v")
            assert (stored(one), stored(two), stored(full)) == ({0: 2}, {0: 2}, {0: 1})

    run(main())


def test_a_refusal_drops_nothing_from_other_bound_queues(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            drops = await s.queue("a", topics=["t"], overflow="drop-oldest", limits={"max_queue_depth": 1})
            group = (await s.consumer(drops)).group
            await s.queue("b", topics=["t"], limits={"max_message_size": 1})
            await s.put(drops, b"kept")
            with pytest.raises(TooLarge):
                await s.publish(b"t", b"too large")
            assert group.depth() == 1
            assert group.cursor(drops.units[0]).tally.dropped == 0

    run(main())


def test_the_longest_declared_prefix_takes_a_queue_topic(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            orders, new = await s.queue("orders"), await s.queue("orders/new")
            await s.publish(b"$queue/orders/new/eu", b"v")
            await s.publish(b"$queue/orders/old", b"v")
            assert (stored(orders), stored(new)) == ({0: 1}, {0: 1})

    run(main())


def test_publishing_to_a_queue_that_is_not_there_makes_it(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path, max_auto_queues=2) as s:
            await s.broker.declaring.put_template("a/*", {"partitions": 3})
            await s.publish(b"$queue/a/b", b"v")
            assert s.broker.queue("a/b").record.is_auto
            assert s.broker.queue("a/b").settings.partitions == 3
            await s.publish(b"$queue/c", b"v")
            with pytest.raises(InvalidArgument, match="max_auto_queues is 2"):
                await s.publish(b"$queue/d", b"v")
            await s.queue("d")
            await s.publish(b"$queue/d", b"v")

    run(main())


def test_no_more_queues_make_themselves_than_there_may_be_however_many_publishes_come_at_once(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path, max_auto_queues=5) as s:
            publishes = [s.publish(b"$queue/%d" % number, b"v") for number in range(20)]
            outcomes = await asyncio.gather(*publishes, return_exceptions=True)
            assert sum(isinstance(outcome, InvalidArgument) for outcome in outcomes) == 15
            assert len(s.broker.queues) == 5
            await s.broker.declaring.delete(s.broker.queues[0])
            await s.publish(b"$queue/one-more", b"v")

    run(main())


def test_without_auto_create_an_unknown_queue_is_refused(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path, auto_create=False) as s:
            with pytest.raises(NoSuchQueue):
                await s.publish(b"$queue/a", b"v")

    run(main())


def test_a_queue_that_made_itself_goes_after_a_day_without_use(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            declared = await s.queue("declared")
            await s.publish(b"$queue/used", b"v")
            unused, _ = await s.broker.declaring.subscribed("$queue/unused")
            await s.advance(23 * 3600)
            assert unused in s.broker.queues
            await s.advance(3600)
            assert {queue.name for queue in s.broker.queues} == {declared.name, "used"}

    run(main())


def test_a_message_over_the_limit_is_refused_with_its_size(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue(limits={"max_message_size": "1KB"})
            limit = queue.settings.limits.max_message_size_bytes
            with pytest.raises(TooLarge, match=str(limit + 1)):
                await s.put(queue, b"small", b"v" * (limit + 1))
            await s.put(queue, b"v" * limit)
            assert stored(queue) == {0: 1}

    run(main())


def test_a_deleted_queue_takes_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue()
            await s.broker.declaring.delete(queue)
            with pytest.raises(NoSuchQueue):
                await s.put(queue, b"v")

    run(main())


def test_a_publish_by_topic_needs_topics(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            with pytest.raises(InvalidArgument, match="needs a topic"):
                await s.broker.publishing.publish(Columns.of([b"v"]), s.publisher)

    run(main())


# Dedup


def test_a_duplicate_gets_the_offsets_of_the_first(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue(partitions=4)
            call = ProducerCall(PRODUCER, 0, 10)
            keys = [b"a", b"b", b"c", b"a"]
            first = await s.put(queue, b"1", b"2", b"3", b"4", keys=keys, producer=call)
            again = await s.put(queue, b"1", b"2", b"3", b"4", keys=keys, producer=call)
            assert (first.duplicates, again.duplicates) == (0, 4)
            rows = {(p.partition, p.base_offset + i) for p in again.placed for i in range(p.rows)}
            assert rows == {(p.partition, p.base_offset + i) for p in first.placed for i in range(p.rows)}
            assert sum(stored(queue).values()) == 4

    run(main())


def test_of_a_call_that_was_taken_in_part_only_the_rest_is_stored(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue()
            await s.put(queue, b"0", b"1", producer=ProducerCall(PRODUCER, 0, 0))
            published = await s.put(queue, b"1", b"2", b"3", producer=ProducerCall(PRODUCER, 0, 1))
            assert published.duplicates == 1
            assert [tuple(placed) for placed in published.placed] == [(0, 1, 1), (0, 2, 2)]
            consumer = await s.consumer(queue)
            assert [m.value for m in await s.receive(consumer)] == [b"0", b"1", b"2", b"3"]

    run(main())


def test_a_restart_does_not_forget_what_producers_sent(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue(partitions=3)
            first = await s.put(queue, b"v", producer=ProducerCall(PRODUCER, 1, 5))
            await s.restart()
            queue = s.broker.queue("q")
            again = await s.put(queue, b"v", producer=ProducerCall(PRODUCER, 1, 5))
            assert (again.duplicates, again.placed) == (1, first.placed)
            with pytest.raises(OutOfOrder):
                await s.put(queue, b"v", producer=ProducerCall(PRODUCER, 1, 7))
            with pytest.raises(FencedProducer):
                await s.put(queue, b"v", producer=ProducerCall(PRODUCER, 0, 6))
            await s.put(queue, b"v", producer=ProducerCall(PRODUCER, 2, 0))

    run(main())


def test_a_retry_that_overtakes_the_commit_waits_for_it(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue()
            call = ProducerCall(PRODUCER, 0, 0)
            results = await asyncio.gather(*[s.put(queue, b"v", producer=call) for _ in range(5)])
            assert sorted(result.duplicates for result in results) == [0, 1, 1, 1, 1]
            assert stored(queue) == {0: 1}
            assert queue.units[0].end == 1

    run(main())


def test_a_duplicate_is_answered_though_the_queue_is_full(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue(limits={"max_queue_depth": 1})
            await s.consumer(queue)
            call = ProducerCall(PRODUCER, 0, 0)
            first = await s.put(queue, b"v", producer=call)
            again = await s.put(queue, b"v", producer=call)
            assert (again.placed, again.duplicates) == (first.placed, 1)
            with pytest.raises(QueueFull):
                await s.put(queue, b"w", producer=ProducerCall(PRODUCER, 0, 1))

    run(main())


def test_a_call_that_was_refused_is_not_remembered(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path, shard=LARGE) as s:
            queue = await s.queue()
            with pytest.raises(TooLarge):
                await s.put(queue, *[b"v" * (1 << 20)] * 17, producer=ProducerCall(PRODUCER, 0, 0))
            published = await s.put(queue, b"v", producer=ProducerCall(PRODUCER, 0, 0))
            assert published.duplicates == 0
            consumer = await s.consumer(queue)
            assert [m.value for m in got(await consumer.receive(10))] == [b"v"]

    run(main())


def test_a_producer_is_forgotten_a_day_after_its_last_call(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue()
            await s.put(queue, b"v", producer=ProducerCall(PRODUCER, 0, 0))
            await s.advance(24 * 3600 + 10)
            assert len(queue.units[0].producers) == 0
            assert (await s.put(queue, b"v", producer=ProducerCall(PRODUCER, 0, 0))).duplicates == 0

    run(main())


@pytest.mark.parametrize("compression", ["none", "lz4"])
def test_keyed_rows_that_are_staged_at_once_lie_where_a_put_places_them(tmp_path: Path, compression: str) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue(partitions=8, compression=compression)
            keys = [b"key-%d" % i for i in range(40)]
            columns, publisher = Columns.of(keys, keys=keys), s.broker.publisher()
            done = asyncio.get_running_loop().create_future()
            intake, request = s.broker.publishing.intake, PublishRequest([Put(queue, columns, publisher)])
            assert intake.try_stage(request.puts, done.set_result) is None
            await intake.stage(request)
            first = stored(queue)
            assert len(first) > 1
            assert intake.try_stage(request.puts, done.set_result) is not None
            assert await done is None
            assert stored(queue) == {partition: 2 * rows for partition, rows in first.items()}
            found = await s.receive(await s.consumer(queue))
            assert sorted(m.value for m in found) == sorted(keys * 2)

    run(main())


def test_a_producers_id_belongs_to_its_login(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue(partitions=3)
            await s.put(queue, b"0", producer=ProducerCall.owned("ann", "p", 0, 0))
            await s.put(queue, b"x", producer=ProducerCall.owned("bob", "p", 99, 7))  # fences nobody
            again = await s.put(queue, b"0", b"1", producer=ProducerCall.owned("ann", "p", 0, 0))
            assert again.duplicates == 1
            with pytest.raises(OutOfOrder, match="'p'"):
                await s.put(queue, b"3", producer=ProducerCall.owned("ann", "p", 0, 3))
            with pytest.raises(InvalidArgument, match="1 to 255 bytes, this one 256"):
                ProducerCall.owned("ann", "p" * 256, 0, 0)
            await s.restart()
            queue = s.broker.queue("q")
            assert (await s.put(queue, b"1", producer=ProducerCall.owned("ann", "p", 0, 1))).duplicates == 1
            with pytest.raises(FencedProducer, match="'p'"):
                await s.put(queue, b"x", producer=ProducerCall.owned("bob", "p", 98, 8))

    run(main())


def test_a_producer_that_is_remembered_without_an_owner_goes_on(tmp_path: Path) -> None:
    """As versions before owners stored it."""

    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue(partitions=3)
            first = await s.put(queue, b"0", b"1", producer=ProducerCall(b"p", 1, 0))
            call = ProducerCall.owned("ann", "p", 1, 0)
            again = await s.put(queue, b"0", b"1", producer=call)
            assert (again.duplicates, again.placed) == (2, first.placed)
            with pytest.raises(FencedProducer):
                await s.put(queue, b"2", producer=call._replace(epoch=0))
            with pytest.raises(OutOfOrder):
                await s.put(queue, b"3", producer=call._replace(base_sequence=3))
            part = await s.put(queue, b"1", b"2", producer=call._replace(base_sequence=1))
            assert part.duplicates == 1
            await s.put(queue, b"x", producer=ProducerCall.owned("bob", "p", 5, 0))  # not ann's any more
            assert (await s.put(queue, b"2", producer=call._replace(base_sequence=2))).duplicates == 1
            assert (await s.put(queue, b"3", producer=call._replace(base_sequence=3))).duplicates == 0

    run(main())
