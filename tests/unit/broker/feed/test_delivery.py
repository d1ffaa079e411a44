from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.support.arrivals import arrivals
from tests.support.broker import got, offsets, retries, stage, values
from tests.support.loop import run

from penstock.broker.feed.held import Held
from penstock.broker.queues.start import Start
from penstock.core.errors import Closed, InvalidArgument
from penstock.queues.names import GroupName


def test_every_group_gets_every_message(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue(partitions=3)
            await s.put(queue, *[b"%d" % i for i in range(20)], keys=[b"%d" % i for i in range(20)])
            for name in ("one", "two"):
                consumer = await s.consumer(queue, name)
                assert {m.value for m in await s.receive(consumer)} == {b"%d" % i for i in range(20)}

    run(main())


def test_a_message_goes_to_one_consumer_of_a_group(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue(partitions=4)
            one, two = await s.consumer(queue), await s.consumer(queue)
            await asyncio.sleep(0)  # what is revoked from the first one, which holds nothing, is given to the second
            for i in range(40):
                await s.put(queue, b"%d" % i, partition=i % 4)
            first, second = await s.receive(one), await s.receive(two)
            assert len(first) == len(second) == 20
            assert {m.value for m in first + second} == {b"%d" % i for i in range(40)}

    run(main())


def test_nothing_is_delivered_before_it_is_committed(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue()
            consumer = await s.consumer(queue)
            await s.put(queue, b"first")
            publishing = asyncio.ensure_future(s.put(queue, b"second"))
            await asyncio.sleep(0)
            assert queue.units[0].data.end == 2
            early = await s.receive(consumer)
            await publishing
            assert [m.value for m in early + await s.receive(consumer)] == [b"first", b"second"]
            assert len(early) == 1

    run(main())


def test_a_consumer_that_waits_is_woken_by_a_publish(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue()
            consumer = await s.consumer(queue)
            waiting = asyncio.ensure_future(arrivals(consumer, 10, 60))
            await asyncio.sleep(0)
            await s.put(queue, b"v")
            assert values(await waiting) == [b"v"]

    run(main())


def test_a_puller_that_waits_is_woken_by_a_publish(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue()
            group = await s.broker.group(queue, "g")
            waiting = asyncio.ensure_future(s.broker.pull(group, s.broker.session(), 10, wait_s=60))
            await asyncio.sleep(0)
            await s.put(queue, b"v")
            assert values(await waiting) == [b"v"]

    run(main())


def test_a_consumer_that_waits_gets_what_comes_back_to_it(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue(retry_policy=retries(5, "10s"))
            consumer = await s.consumer(queue)
            await s.put(queue, b"v")
            await s.fail(consumer, *await s.receive(consumer))
            waiting = asyncio.ensure_future(arrivals(consumer, 10, 60))
            await s.advance(9.9)
            assert not waiting.done()
            await s.advance(0.2)
            assert [m.times for m in got(await waiting)] == [2]

    run(main())


def test_backoffs_go_on_after_a_restart_and_wake_who_waits(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue(retry_policy=retries(5, "10s"))
            consumer = await s.consumer(queue)
            await s.put(queue, b"v")
            await s.fail(consumer, *await s.receive(consumer))
            await s.restart()
            consumer = s.broker.join(s.group_of())
            assert await s.receive(consumer) == []
            waiting = asyncio.ensure_future(arrivals(consumer, 10, 60))
            await s.advance(10)
            assert [m.times for m in got(await waiting)] == [2]

    run(main())


def test_a_backoff_behind_another_of_its_key_wakes_who_waits(tmp_path: Path) -> None:
    """The second message fails first, then the first one; when that is settled, the second one's time still counts."""

    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue()
            consumer = await s.consumer(queue)
            await s.put(queue, b"1", b"2", keys=[b"k", b"k"])
            first, second = await s.receive(consumer)
            await s.fail(consumer, second, delay_ms=20_000)
            await s.fail(consumer, first, delay_ms=0)
            [again] = await s.receive(consumer)
            assert again.value == b"1"
            await s.ack(consumer, again)
            waiting = asyncio.ensure_future(arrivals(consumer, 10, 60))
            await s.advance(19)
            assert not waiting.done()
            await s.advance(1)
            assert values(await waiting) == [b"2"]

    run(main())


def test_a_consumer_holds_no_more_than_its_prefetch(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue(partitions=2, max_in_flight=5)
            consumer = await s.consumer(queue, prefetch=3)
            for partition in (0, 1):
                await s.put(queue, *[b"v"] * 10, partition=partition)
            found = await s.receive(consumer)
            assert (len(found), consumer.held) == (3, 3)
            assert await s.receive(consumer) == []
            await s.ack(consumer, found[0])
            assert len(await s.receive(consumer)) == 1
            assert (await s.consumer(queue, "other", prefetch=100)).prefetch == 5
            with pytest.raises(InvalidArgument, match="at least 1"):
                await s.consumer(queue, "other", prefetch=0)

    run(main())


def test_a_group_holds_no_more_than_its_window_and_goes_on_when_it_has_room(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue(group_window=5)
            consumer = await s.consumer(queue)
            await s.put(queue, *[b"%d" % i for i in range(12)])
            found: list[bytes] = []
            while messages := await s.receive(consumer):
                assert len(messages) <= 5
                found += [m.value for m in messages]
                await s.ack(consumer, *messages)
            assert found == [b"%d" % i for i in range(12)]

    run(main())


def test_a_closed_consumer_gets_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue()
            consumer = await s.consumer(queue)
            await s.put(queue, b"v")
            waiting = asyncio.ensure_future(arrivals(await s.consumer(queue, "other"), 1, 60))
            consumer.leave()
            with pytest.raises(Closed):
                await consumer.receive(1)
            await waiting

    run(main())


def test_order_is_kept_by_key_through_failures(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue(retry_policy=retries(5, "10s"))
            consumer = await s.consumer(queue)
            await s.put(queue, b"a1", b"b1", b"a2", b"-", b"a3", keys=[b"a", b"b", b"a", b"", b"a"])
            a1, b1, a2, plain, a3 = await s.receive(consumer)
            await s.ack(consumer, a2)
            await s.fail(consumer, a1)
            assert await s.ack(consumer, a3) == (0, 1), "taken back: its settlement is stale"
            assert (await s.ack(consumer, b1, plain)).done == 2, "other keys are not held back"
            await s.put(queue, b"a4", b"b2", keys=[b"a", b"b"])
            assert [m.value for m in await s.receive(consumer)] == [b"b2"]
            await s.advance(10)
            assert [(m.value, m.times) for m in await s.receive(consumer)] == [(b"a1", 2), (b"a3", 2), (b"a4", 1)]

    run(main())


def test_strict_holds_back_the_whole_partition(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue(ordering="strict", retry_policy=retries(5, "10s"))
            consumer = await s.consumer(queue)
            await s.put(queue, b"1", b"2", b"3", keys=[b"a", b"", b"b"])
            one, two, three = await s.receive(consumer)
            await s.fail(consumer, one)
            assert await s.ack(consumer, two, three) == (0, 2)
            await s.put(queue, b"4")
            assert await s.receive(consumer) == []
            await s.advance(10)
            assert [m.value for m in await s.receive(consumer)] == [b"1", b"2", b"3", b"4"]

    run(main())


def test_ordering_none_holds_back_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue(ordering="none")
            consumer = await s.consumer(queue)
            await s.put(queue, b"1", b"2", keys=[b"a", b"a"])
            one, two = await s.receive(consumer)
            await s.fail(consumer, one)
            assert (await s.ack(consumer, two)).done == 1
            await s.put(queue, b"3", keys=[b"a"])
            assert [m.value for m in await s.receive(consumer)] == [b"3"]

    run(main())


def test_a_key_in_flight_at_a_stream_is_given_to_no_puller(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue()
            consumer = await s.consumer(queue)
            await s.put(queue, b"a1", keys=[b"a"])
            [first] = await s.receive(consumer)
            await s.put(queue, b"a2", b"b1", keys=[b"a", b"b"])
            group, session = consumer.group, s.broker.session()
            assert values(await s.broker.pull(group, session, 10)) == [b"b1"]
            await s.put(queue, b"b2", keys=[b"b"])
            assert await s.receive(consumer) == [], "the puller has the key"
            await s.ack(consumer, first)
            assert values(await s.broker.pull(group, session, 10)) == [b"a2"]

    run(main())


def test_a_pull_takes_from_every_partition_though_others_own_them(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue(partitions=3)
            consumer = await s.consumer(queue)
            assert consumer.partitions == [0, 1, 2]
            for partition in range(3):
                await s.put(queue, b"v", partition=partition)
            found = got(await s.broker.pull(consumer.group, s.broker.session(), 10))
            assert sorted(m.partition for m in found) == [0, 1, 2]
            assert await s.receive(consumer) == []

    run(main())


def test_filters_are_groups_of_their_own(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue()
            group = await s.broker.group(queue, GroupName("g", "eu/#"))
            plain = await s.broker.group(queue, GroupName("g", None))
            assert group is not plain
            for topic in (b"$queue/q/eu/1", b"$queue/q/us/1", b"$queue/q/eu/2", b"$queue/q"):
                await s.publish(topic, topic)
            consumer = s.broker.join(group)
            assert (group.depth(), plain.depth()) == (4, 4)
            found = await s.receive(consumer)
            assert [m.value for m in found] == [b"$queue/q/eu/1", b"$queue/q/eu/2"]
            assert group.cursor(queue.units[0]).tally.filtered == 2
            assert group.depth() == 2, "what does not match counts until the cursor has passed it"
            await s.ack(consumer, *found)
            assert (group.depth(), plain.depth()) == (0, 4)

    run(main())


def test_expired_messages_are_passed_over_and_counted(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue(limits={"message_ttl": "1h"}, durability="memory")
            soon = s.clock.now_ms() + 1000
            await s.put(queue, b"soon", b"never", expiry=[soon, 0])
            await s.advance(1)
            consumer = await s.consumer(queue)
            assert [m.value for m in await s.receive(consumer)] == [b"never"]
            assert consumer.group.cursor(queue.units[0]).tally.expired == 1
            await s.advance(3600)
            late = await s.consumer(queue, "late")
            assert await s.receive(late) == []
            assert late.group.cursor(queue.units[0]).tally.expired == 2
            assert late.group.depth() == 0

    run(main())


def test_a_message_that_is_too_old_when_it_would_come_again_is_passed_over(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue(limits={"message_ttl": "1h"}, durability="memory")
            consumer = await s.consumer(queue)
            await s.put(queue, b"late", b"fine", keys=[b"k", b"k"], expiry=[s.clock.now_ms() + 20_000, 0])
            late, fine = await s.receive(consumer)
            await s.fail(consumer, late, delay_ms=30_000)
            await s.advance(30)
            assert [(m.value, m.times) for m in await s.receive(consumer)] == [(b"fine", 2)]
            await s.fail(consumer, fine._replace(times=2), delay_ms=3_600_000)
            await s.advance(3600)
            assert await s.receive(consumer) == []
            tally = consumer.group.cursor(queue.units[0]).tally
            assert (tally.expired, tally.redelivered, consumer.held, consumer.group.depth()) == (2, 1, 0, 0)

    run(main())


def test_a_group_begins_where_it_is_told(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue(durability="memory")
            for i in range(5):
                await s.put(queue, b"%d" % i)
                s.clock.advance(60)
            starts = {
                "earliest": 5,
                "latest": 0,
                "3": 2,
                "90s": 1,
                "999": 0,
            }
            for text, count in starts.items():
                consumer = await s.consumer(queue, f"from-{text}", start=Start.parse(text))
                found = [m.value for m in await s.receive(consumer)]
                assert found == [b"%d" % i for i in range(5 - count, 5)], text
            at_time = Start.at_time(s.clock.now_ms() - 3 * 60_000)
            assert len(await s.receive(await s.consumer(queue, "at-time", start=at_time))) == 3
            with pytest.raises(InvalidArgument, match="not a place to start"):
                Start.parse("tomorrow")

    run(main())


def test_seek_begins_anew_forwards_and_backwards(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue()
            consumer = await s.consumer(queue)
            await s.put(queue, *[b"%d" % i for i in range(6)])
            held = await s.receive(consumer, 3)
            await s.broker.declaring.seek(consumer.group, Start.parse("latest"))
            assert await s.ack(consumer, *held) == (0, 3)
            assert (await s.receive(consumer), consumer.held, consumer.group.depth()) == ([], 0, 0)
            await s.broker.declaring.seek(consumer.group, Start.at_offset(2))
            assert consumer.group.depth() == 0, "history that it chose to read does not count"
            await s.put(queue, b"6")
            assert consumer.group.depth() == 1
            assert [m.value for m in await s.receive(consumer)] == [b"2", b"3", b"4", b"5", b"6"]
            await s.restart()
            again = s.broker.join(s.group_of())
            assert [m.value for m in await s.receive(again)] == [b"2", b"3", b"4", b"5", b"6"]

    run(main())


def test_a_paused_queue_or_group_hands_out_nothing_until_it_is_resumed(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue()
            one, two = await s.consumer(queue, "one"), await s.consumer(queue, "two")
            await s.broker.declaring.pause_group(one.group, True)
            await s.put(queue, b"v")
            assert (await s.receive(one), len(await s.receive(two))) == ([], 1)
            waiting = asyncio.ensure_future(arrivals(one, 1, 60))
            await asyncio.sleep(0)
            await s.broker.declaring.pause_group(one.group, False)
            assert values(await waiting) == [b"v"]
            await s.broker.declaring.pause(queue, True)
            await s.put(queue, b"w")
            assert await s.receive(one) == await s.receive(two) == []
            assert await s.broker.pull(one.group, s.broker.session(), 1) == []
            await s.restart()
            queue = s.broker.queue("q")
            consumer = s.broker.join(s.group_of("q", "one"))
            assert await s.receive(consumer) == [], "pauses survive a restart"
            await s.broker.declaring.pause(queue, False)
            assert [m.value for m in await s.receive(consumer)] == [b"v", b"w"]

    run(main())


def test_a_message_that_retention_took_is_passed_over_and_counted(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue()
            consumer = await s.consumer(queue)
            await s.put(queue, b"1", b"2")
            await s.put(queue, b"3")
            await s.fail(consumer, (await s.receive(consumer, 1))[0], delay_ms=0)
            unit = queue.units[0]
            await s.broker.shard.trim(unit.data, 2)
            unit.forget_batches()
            found = await s.receive(consumer)
            assert [m.value for m in found] == [b"3"]
            await s.ack(consumer, *found)
            assert consumer.group.cursor(unit).window.floor == 3
            assert consumer.group.cursor(unit).tally.lost == 1
            assert await s.broker.settling.commit(consumer.group, unit, 3) == 0
            assert await s.broker.settling.ack(Held.named(consumer.group, unit, offsets(0), None, -1)) == (0, 1)

    run(main())


def test_compaction_keeps_offsets_and_order_for_those_who_consume(tmp_path: Path) -> None:
    """What it took is passed over, also where it waited to come again."""

    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue(
                compaction={"enabled": True, "lag": "0s", "interval": "1s"},
                retention={"time": 0},
                limits={"message_ttl": 0},
                group_expiry=0,
                retry_policy=retries(5, "10s", total_timeout=0),
            )
            for i in range(12):
                await s.put(queue, b"%d" % i, keys=[b"%d" % (i % 3)])
            waiting = await s.consumer(queue, "waiting")
            await s.fail(waiting, (await s.receive(waiting, 1))[0])
            await s.broker.shard.checkpoint()
            s.clock.advance(8 * 24 * 3600)
            await s.put(queue, b"last", keys=[b"other"])
            await s.broker.shard.checkpoint()
            await s.broker.shard.keep_house()
            await s.restart()
            for group in ("new", "waiting"):
                consumer = await s.consumer(s.broker.queue("q"), group)
                found = await s.receive(consumer)
                assert [(m.offset, m.value) for m in found] == [(9, b"9"), (10, b"10"), (11, b"11"), (12, b"last")]
                await s.ack(consumer, *found)
                assert consumer.group.depth() == 0

    run(main())
