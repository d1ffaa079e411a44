from __future__ import annotations

import asyncio
from array import array
from pathlib import Path

from tests.support.arrivals import arrivals
from tests.support.broker import Stage, got, offsets, retries, stage
from tests.support.loop import run

from penstock.broker.feed.consumer import Consumer
from penstock.broker.feed.delivery import Delivery
from penstock.broker.feed.held import Held
from penstock.broker.feed.settling import Settled
from penstock.core.descriptions import Tally

LATEST = None


def tally(consumer: Consumer) -> Tally:
    return consumer.group.cursor(consumer.group.queue.units[0]).tally


async def extend(s: Stage, delivery: Delivery, seconds: float) -> Settled:
    until = s.clock.now_ms() + int(seconds * 1000)
    return await s.broker.settling.extend(
        Held.named(delivery.group, delivery.unit, delivery.offsets, LATEST, delivery.consumer), until
    )


def test_what_was_acknowledged_never_comes_again(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue()
            consumer = await s.consumer(queue)
            await s.put(queue, b"1", b"2", b"3")
            one, two, three = await s.receive(consumer)
            assert await s.ack(consumer, one, three) == (2, 0)
            consumer.leave()
            assert [m.value for m in await s.receive(await s.consumer(queue))] == [b"2"]
            await s.restart()
            again = s.broker.join(s.group_of())
            assert [m.value for m in await s.receive(again)] == [b"2"]
            assert two.times == 1

    run(main())


def test_part_of_a_delivery_can_be_acknowledged(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue()
            consumer = await s.consumer(queue)
            await s.put(queue, b"1", b"2", b"3")
            [delivery] = await consumer.receive(10)
            assert await s.broker.settling.ack(Held(delivery, [2, 0])) == (2, 0)
            assert await s.broker.settling.ack(Held(delivery)) == (1, 2)

    run(main())


def test_what_is_held_is_counted_right_where_single_messages_and_whole_deliveries_are_settled_together(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue()
            consumer = await s.consumer(queue)
            for _ in range(2):
                await s.put(queue, b"1", b"2")
            first, second = await consumer.receive(10)
            assert await s.broker.settling.several([Held(first, [0]), Held(second)]) == (3, 0)
            assert consumer.held == 1

    run(main())


def test_a_settlement_has_its_effect_whether_it_is_waited_for_or_not(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue(retry_policy=retries(0))
            consumer = await s.consumer(queue)
            await s.put(queue, b"1", b"2", b"3", b"4")
            [delivery] = await consumer.receive(10)
            ack, fail, reject = s.broker.settling.ack, s.broker.settling.fail, s.broker.settling.reject
            made = ack(Held(delivery, [0])), fail(Held(delivery, [1])), reject(Held(delivery, [2]))
            assert [settlement.settled for settlement in made] == [(1, 0)] * 3
            assert (consumer.held, s.dead_letters()) == (1, 0)
            assert Held(delivery).current() == [3]
            await s.quiet()
            assert s.dead_letters() == 2
            assert s.broker.settling.release(Held(delivery)).settled == (1, 3)

    run(main())


def test_a_settlement_that_is_not_current_changes_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue()
            consumer = await s.consumer(queue)
            await s.put(queue, b"v")
            [first] = await s.receive(consumer)
            await s.fail(consumer, first, delay_ms=0)
            [second] = await s.receive(consumer)
            stale = Settled(0, 1)
            assert await s.ack(consumer, first) == stale
            assert await s.fail(consumer, first) == stale
            assert await s.reject(consumer, first) == stale
            other = await s.consumer(queue)
            assert await s.ack(other, second) == stale, "of another consumer"
            assert (consumer.held, consumer.group.depth(), s.dead_letters()) == (1, 1, 0)
            assert await s.ack(consumer, second) == (1, 0)
            assert await s.ack(consumer, second) == stale
            assert tally(consumer).stale == 5

    run(main())


def test_the_latest_delivery_is_meant_where_no_count_is_given(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue()
            consumer = await s.consumer(queue)
            await s.put(queue, b"v")
            await s.fail(consumer, *await s.receive(consumer), delay_ms=0)
            await s.receive(consumer)
            unit = queue.units[0]
            assert await s.broker.settling.ack(
                Held.named(consumer.group, unit, offsets(0), LATEST, consumer.number)
            ) == (1, 0)

    run(main())


def test_a_failed_message_waits_for_its_backoff_which_grows(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            policy = {"initial_backoff": "5s", "max_backoff": "15s", "backoff_multiplier": 2.0}
            queue = await s.queue(retry_policy=policy)
            consumer = await s.consumer(queue)
            await s.put(queue, b"v")
            for wait_s in (5, 10, 15, 15):
                await s.fail(consumer, *await s.receive(consumer))
                await s.advance(wait_s - 0.001)
                assert await s.receive(consumer) == []
                await s.advance(0.002)
            assert [m.times for m in await s.receive(consumer)] == [5]

    run(main())


def test_a_delay_replaces_the_backoff(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue(retry_policy=retries(5, "10s"))
            consumer = await s.consumer(queue)
            await s.put(queue, b"v")
            await s.fail(consumer, *await s.receive(consumer), delay_ms=0)
            await s.fail(consumer, *await s.receive(consumer), delay_ms=60_000)
            await s.advance(59)
            assert await s.receive(consumer) == []
            await s.advance(1)
            assert [m.times for m in await s.receive(consumer)] == [3]

    run(main())


def test_commit_settles_all_below_an_offset_whoever_has_it(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue()
            consumer = await s.consumer(queue, prefetch=2)
            await s.put(queue, *[b"%d" % i for i in range(6)])
            held = await s.receive(consumer)
            await s.fail(consumer, held[0])
            assert await s.broker.settling.commit(consumer.group, queue.units[0], 4) == 4
            assert await s.ack(consumer, held[1]) == (0, 1)
            assert consumer.held == 0
            assert [m.value for m in await s.receive(consumer)] == [b"4", b"5"]
            assert await s.broker.settling.commit(consumer.group, queue.units[0], 4) == 0
            await s.restart()
            assert s.group_of().depth() == 2

    run(main())


def test_offset_0_is_an_ordinary_offset(tmp_path: Path) -> None:
    """Floors mean the first that is not done."""

    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue()
            consumer = await s.consumer(queue)
            await s.put(queue, b"0", b"1")
            window = consumer.group.cursor(queue.units[0]).window
            assert await s.broker.settling.commit(consumer.group, queue.units[0], 0) == 0
            messages = await s.receive(consumer)
            assert (window.floor, messages[0].offset) == (0, 0)
            await s.ack(consumer, messages[1])
            assert window.floor == 0
            await s.restart()
            again = s.broker.join(s.group_of())
            assert [m.value for m in await s.receive(again)] == [b"0"]

    run(main())


# Clocks


def test_when_the_clock_of_a_connection_runs_out_the_oldest_failed_and_the_others_return(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue(retry_policy=retries(5, "10s"))
            consumer = await s.consumer(queue)
            await s.put(queue, b"1", b"2", b"3")
            old = await s.receive(consumer)
            await s.advance(30)
            assert await s.ack(consumer, *old) == (0, 3)
            assert [(m.value, m.times) for m in await s.receive(consumer)] == [(b"2", 2), (b"3", 2)]
            await s.advance(10)
            assert [(m.value, m.times) for m in await s.receive(consumer)] == [(b"1", 2)]
            window = consumer.group.cursor(queue.units[0]).window
            entries = [entry for i in range(3) if (entry := window.entry(i)) is not None]
            assert [(e.failures, e.returns) for e in entries] == [(1, 0), (0, 0), (0, 0)]

    run(main())


def test_a_settlement_restarts_the_clock_but_not_for_ever(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue(max_in_flight=2)
            consumer = await s.consumer(queue)
            await s.put(queue, *[b"%d" % i for i in range(20)])
            stuck, other = await s.receive(consumer)
            for _ in range(10):
                await s.advance(29)
                assert (await s.ack(consumer, other)).done == 1
                [other] = await s.receive(consumer)
            await s.advance(9)
            assert consumer.held == 2
            await s.advance(1)
            assert consumer.held == 0, "ten timeouts after it was delivered"
            assert tally(consumer).failed == 1
            assert stuck.offset == 0

    run(main())


def test_clocks_of_partitions_are_apart(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue(partitions=2)
            consumer = await s.consumer(queue)
            for partition in (0, 1):
                await s.put(queue, b"1", b"2", partition=partition)
            found = await s.receive(consumer)
            await s.advance(20)
            await s.ack(consumer, next(m for m in found if m.partition == 0))
            await s.advance(10)
            assert {p: hold.held for p, hold in consumer.holds.items()} == {0: 1, 1: 0}

    run(main())


def test_a_clock_runs_though_the_partition_was_away_meanwhile(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue()
            first = await s.consumer(queue)
            await s.put(queue, b"v")
            await s.ack(first, *await s.receive(first))
            second = await s.consumer(queue)
            first.leave()
            first = await s.consumer(queue)
            second.leave()
            await s.advance(10)
            await s.put(queue, b"w")
            assert len(await s.receive(first)) == 1
            await s.advance(31)
            assert first.held == 0

    run(main())


def test_a_lone_consumer_sees_its_own_timed_out_message_again(tmp_path: Path) -> None:
    """By the message's own time; any consumer may get it, the same one too."""

    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue(retry_policy=retries(5, "5s"))
            consumer = await s.consumer(queue)
            await s.put(queue, b"v")
            await s.receive(consumer)
            waiting = asyncio.ensure_future(arrivals(consumer, 1, 60))
            await s.advance(30)
            await s.advance(5)
            assert [m.times for m in got(await waiting)] == [2]

    run(main())


def test_time_starts_anew_for_whoever_gets_a_message_next(tmp_path: Path) -> None:
    """Two live consumers do not bounce a message into the dead letters."""

    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue(retry_policy=retries(1, "1s"))
            one = await s.consumer(queue)
            await s.put(queue, b"v")
            await s.receive(one)
            await s.advance(29)
            one.leave()
            two = await s.consumer(queue)
            [message] = await s.receive(two)
            await s.advance(29)
            assert (await s.ack(two, message)).done == 1
            assert s.dead_letters() == 0

    run(main())


# Leases


def test_each_lease_has_its_own_time(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue(retry_policy=retries(5, "1s"))
            group = await s.broker.group(queue, "g")
            await s.put(queue, b"1", b"2")
            [short] = await s.broker.pull(group, s.broker.session(), 1, lease_ms=5_000)
            [long] = await s.broker.pull(group, s.broker.session(), 1)
            await s.advance(5)
            assert await s.broker.settling.ack(Held(short)) == (0, 1)
            await s.advance(24)
            assert await s.broker.settling.ack(Held(long)) == (1, 0), "30 s, as the queue's delivery_timeout"
            [again] = await s.broker.pull(group, s.broker.session(), 1)
            assert [(m.value, m.times) for m in got([again])] == [(b"1", 2)]

    run(main())


def test_a_lease_runs_out_though_an_earlier_one_was_settled_in_time(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue(retry_policy=retries(5, "1s"))
            group = await s.broker.group(queue, "g")
            await s.put(queue, b"1", b"2")
            [first] = await s.broker.pull(group, s.broker.session(), 1, lease_ms=5_000)
            await s.broker.settling.ack(Held(first))
            await s.advance(1)
            await s.broker.pull(group, s.broker.session(), 1, lease_ms=5_000)
            waiting = asyncio.ensure_future(s.broker.pull(group, s.broker.session(), 1, wait_s=60))
            for _ in range(3):
                await s.advance(4)
            assert [(m.value, m.times) for m in got(await waiting)] == [(b"2", 2)]

    run(main())


def test_leases_go_on_over_a_restart(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue(retry_policy=retries(5, "1s"))
            group = await s.broker.group(queue, "g")
            await s.put(queue, b"leased", b"held")
            await s.broker.pull(group, s.broker.session(), 1, lease_ms=60_000)
            consumer = s.broker.join(group)
            await s.receive(consumer)
            await s.restart()
            group = s.group_of()
            consumer = s.broker.join(group)
            assert [m.value for m in await s.receive(consumer)] == [b"held"]
            unit = s.broker.queue("q").units[0]
            named = offsets(0), array("i", [1]), -1
            assert await s.broker.settling.ack(Held.named(group, unit, *named)) == (1, 0)

    run(main())


def test_a_lease_that_ran_out_during_a_restart_has_failed(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue(retry_policy=retries(5, "1s"))
            group = await s.broker.group(queue, "g")
            await s.put(queue, b"v")
            await s.broker.pull(group, s.broker.session(), 1, lease_ms=10_000)
            await s.broker.close()
            s.clock.advance(20)
            await s.open()
            waiting = asyncio.ensure_future(s.broker.pull(s.group_of(), s.broker.session(), 1, wait_s=60))
            await s.advance(1)
            assert [m.times for m in got(await waiting)] == [2]

    run(main())


def test_a_lease_can_be_extended_while_it_lasts(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue(retry_policy=retries(5, "1s"))
            group = await s.broker.group(queue, "g")
            await s.put(queue, b"v")
            [delivery] = await s.broker.pull(group, s.broker.session(), 1, lease_ms=5_000)
            await s.advance(4)
            assert await extend(s, delivery, 10) == (1, 0)
            await s.restart()
            await s.advance(9)
            group = s.group_of()
            assert await s.broker.pull(group, s.broker.session(), 1) == []
            await s.advance(1)
            await s.advance(1)
            [again] = await s.broker.pull(group, s.broker.session(), 1)
            assert [m.times for m in got([again])] == [2]
            first = offsets(0), array("i", [1]), again.consumer
            assert await s.broker.settling.extend(Held.named(group, again.unit, *first), s.clock.now_ms() + 10_000) == (
                0,
                1,
            )

    run(main())


def test_a_lease_that_failed_for_the_last_time_is_moved_once(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue(retry_policy=retries(0))
            group = await s.broker.group(queue, "g")
            await s.put(queue, b"v")
            [delivery] = await s.broker.pull(group, s.broker.session(), 1, lease_ms=5_000)
            s.clock.advance(5)
            s.broker.alarms.ring()
            s.broker.alarms.ring()
            assert await s.broker.settling.ack(Held(delivery)) == (0, 1), "it is on its way to the dead letters"
            await s.quiet()
            assert (s.dead_letters(), group.depth()) == (1, 0)

    run(main())


def test_a_message_on_its_way_to_the_dead_letters_is_handed_out_no_more(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue(retry_policy=retries(0))
            consumer = await s.consumer(queue)
            await s.put(queue, b"1", b"2")
            first, second = await s.receive(consumer)
            s.clock.advance(30)
            s.broker.alarms.ring()
            assert [m.value for m in await s.receive(consumer)] == [b"2"]
            await s.quiet()
            assert (s.dead_letters(), consumer.held) == (1, 1)
            again = await s.consumer(queue, "other")
            three = await s.receive(again)
            rejecting = asyncio.ensure_future(s.reject(again, three[0]))
            await asyncio.sleep(0)
            again.leave()
            assert await rejecting == (1, 0)
            assert [m.value for m in await s.receive(await s.consumer(queue, "other"))] == [b"2"]
            assert (s.dead_letters(), first.times, second.times) == (2, 1, 1)

    run(main())


def test_what_was_released_is_free_after_a_restart_too(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue(partitions=1)
            group = await s.broker.group(queue, "g")
            await s.put(queue, b"1")
            [taken] = await s.broker.pull(group, s.broker.session(), 1)
            await s.broker.ledger.flush([taken.unit])
            assert s.broker.settling.release(Held(taken)).settled.done == 1
            await s.restart()
            assert [m.times for m in got(await s.broker.pull(s.group_of(), s.broker.session(), 1))] == [2]

    run(main())


def test_what_was_released_is_free_after_a_crash_too(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path / "0") as s:
            queue = await s.queue(partitions=1)
            group = await s.broker.group(queue, "g")
            await s.put(queue, b"1")
            [taken] = await s.broker.pull(group, s.broker.session(), 1)
            await s.broker.ledger.flush([taken.unit])
            s.broker.settling.release(Held(taken))
            await s.quiet()
            await s.crash(tmp_path / "1")
            assert [m.times for m in got(await s.broker.pull(s.group_of(), s.broker.session(), 1))] == [2]

    run(main())
