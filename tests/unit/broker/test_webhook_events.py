"""Each kind of event is told once when it begins, and not for each message."""

from __future__ import annotations

from pathlib import Path
from unittest import mock

import pytest
from tests.support.broker import Stage, stage
from tests.support.loop import run
from tests.support.receiver import Receiver, receiving

from penstock.broker.queues.queue import Queue
from penstock.broker.webhooks.events import Event, Hook
from penstock.broker.webhooks.watch import Edges
from penstock.core.errors import DiskLow, JournalFailed, QueueFull
from penstock.log.shard import Shard

LOOKED_S = 5.0
QUIET_S = 60.0


async def looked(s: Stage, seconds: float = LOOKED_S) -> None:
    """Time for a look at everything, and for what it has to tell."""
    for _ in range(round(seconds)):
        await s.advance(1)
    await s.broker._watch.finish()
    await s.broker.webhooks.idle()


async def overfill(s: Stage, queue: Queue) -> None:
    for _ in range(3):
        with pytest.raises(QueueFull):
            await s.put(queue, b"too many")


async def drain(s: Stage, queue: Queue) -> None:
    consumer = await s.consumer(queue)
    await s.ack(consumer, *await s.receive(consumer))
    consumer.leave()


def test_a_full_queue_is_told_once_until_it_was_not_full_and_some_time_has_passed(tmp_path: Path) -> None:
    async def main(receiver: Receiver) -> None:
        async with stage(tmp_path) as s:
            s.broker.webhooks.apply([Hook(receiver.url, frozenset({Event.QUEUE_FULL}))])
            queue = await s.queue(limits={"max_queue_depth": 2})
            (await s.consumer(queue)).leave()
            await looked(s)
            assert receiver.requests == []
            await s.put(queue, b"1", b"2")
            await overfill(s, queue)
            await looked(s, 3 * LOOKED_S)
            assert receiver.events == ["queue-full"], "once while it lasts"
            await drain(s, queue)
            await looked(s)
            await s.put(queue, b"1", b"2")
            await looked(s)
            assert len(receiver.requests) == 1, "not again so soon"
            await looked(s, QUIET_S)
            assert len(receiver.requests) == 2, "it is full still when the quiet time is over"

    with receiving() as receiver:
        run(main(receiver))
    facts = receiver.requests[0].facts
    assert (facts["queue"], facts["depth"], facts["limit"], facts["refused"]) == ("q", 2, 2, 3)


def test_a_queue_that_was_full_between_two_looks_is_told(tmp_path: Path) -> None:
    async def main(receiver: Receiver) -> None:
        async with stage(tmp_path) as s:
            s.broker.webhooks.apply([Hook(receiver.url, frozenset({Event.QUEUE_FULL}))])
            queue = await s.queue(limits={"max_queue_depth": 1})
            (await s.consumer(queue)).leave()
            await s.put(queue, b"1")
            await overfill(s, queue)
            await drain(s, queue)
            await looked(s)
            assert receiver.events == ["queue-full"]

    with receiving() as receiver:
        run(main(receiver))


def test_what_was_refused_before_somebody_wanted_to_know_is_no_event(tmp_path: Path) -> None:
    async def main(receiver: Receiver) -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue(limits={"max_queue_depth": 1})
            (await s.consumer(queue)).leave()
            await s.put(queue, b"1")
            await overfill(s, queue)
            await drain(s, queue)
            await looked(s)
            s.broker.webhooks.apply([Hook(receiver.url, frozenset({Event.QUEUE_FULL}))])
            await looked(s, 2 * LOOKED_S)
            assert receiver.requests == []

    with receiving() as receiver:
        run(main(receiver))


def test_lag_is_told_at_the_threshold_of_each_hook(tmp_path: Path) -> None:
    async def main(low: Receiver, high: Receiver) -> None:
        async with stage(tmp_path) as s:
            lag = frozenset({Event.LAG})
            s.broker.webhooks.apply([Hook(low.url, lag, lag_threshold=2), Hook(high.url, lag, lag_threshold=4)])
            queue = await s.queue()
            (await s.consumer(queue)).leave()
            await s.put(queue, b"1", b"2")
            await looked(s)
            assert (len(low.requests), len(high.requests)) == (0, 0), "not over it"
            await s.put(queue, b"3")
            await looked(s, 2 * LOOKED_S)
            assert (len(low.requests), len(high.requests)) == (1, 0)
            await s.put(queue, b"4", b"5")
            await looked(s, 2 * LOOKED_S)
            assert (len(low.requests), len(high.requests)) == (1, 1)

    with receiving() as low, receiving() as high:
        run(main(low, high))
    facts = low.requests[0].facts
    assert (facts["queue"], facts["group"], facts["lag"], facts["threshold"]) == ("q", "g", 3, 2)


def test_a_journal_that_failed_is_told_once(tmp_path: Path) -> None:
    async def main(receiver: Receiver) -> None:
        async with stage(tmp_path) as s:
            s.broker.webhooks.apply([Hook(receiver.url, frozenset({Event.LOG_POISONED}))])
            with mock.patch.object(Shard, "failure", JournalFailed("no such device")):
                await looked(s)
            assert receiver.events == ["log-poisoned"]

    with receiving() as receiver:
        run(main(receiver))
    assert "no such device" in str(receiver.requests[0].facts["reason"])


def test_a_poisoned_log_is_told_by_its_name(tmp_path: Path) -> None:
    async def main(receiver: Receiver) -> str:
        async with stage(tmp_path) as s:
            s.broker.webhooks.apply([Hook(receiver.url, frozenset({Event.LOG_POISONED}))])
            queue = await s.queue()
            await s.put(queue, b"1")
            log = queue.units[0].data
            s.broker.shard._engine._poison(log.number, "a commit failed")
            await looked(s)
            return str(log.name)

    with receiving() as receiver:
        name = run(main(receiver))
    [request] = receiver.requests
    assert (request.facts["event"], request.facts["log"]) == ("log-poisoned", name)


def test_a_low_disk_is_told_once(tmp_path: Path) -> None:
    async def main(receiver: Receiver) -> None:
        async with stage(tmp_path) as s:
            s.broker.webhooks.apply([Hook(receiver.url, frozenset({Event.DISK_LOW}))])
            with mock.patch.object(Shard, "disk_low", DiskLow(10, 100)):
                await looked(s)
            assert receiver.events == ["disk-low"]
            assert s.broker.shard.metrics.publishes_refused_disk == 0

    with receiving() as receiver:
        run(main(receiver))
    assert (receiver.requests[0].facts["free_bytes"], receiver.requests[0].facts["reserve_bytes"]) == (10, 100)


def test_dead_letters_are_told_to_the_queue_s_address_and_to_hooks_but_once_to_each(tmp_path: Path) -> None:
    async def main(mine: Receiver, all_of_them: Receiver) -> None:
        async with stage(tmp_path) as s:
            s.broker.webhooks.apply([Hook(all_of_them.url, frozenset({Event.DEAD_LETTERED}))])
            for name, url in (("a", mine.url), ("b", all_of_them.url)):
                queue = await s.queue(name, dlq_config={"enabled": True, "alert_webhook": url})
                consumer = await s.consumer(queue)
                await s.put(queue, b"1")
                await s.reject(consumer, *await s.receive(consumer))
                await s.broker.webhooks.idle()
            assert s.broker.webhooks.sent == 3

    with receiving() as mine, receiving() as all_of_them:
        run(main(mine, all_of_them))
        assert [request.facts["queue"] for request in mine.requests] == ["a"]
        assert [request.facts["queue"] for request in all_of_them.requests] == ["a", "b"]


# Edges


def test_an_edge_is_told_once_for_each_time_it_begins_but_not_within_the_quiet_time() -> None:
    edges = Edges(quiet_ms=10)
    looks = [(0, False), (1, True), (2, True), (3, False), (4, True), (11, True), (12, False), (40, True)]
    assert [now for now, holds in looks if edges.begins("key", holds, now)] == [1, 11, 40]


def test_edges_of_what_is_no_more_are_forgotten() -> None:
    edges = Edges(quiet_ms=10)
    assert edges.begins("gone", True, 0) and edges.begins("over", True, 0) and edges.begins("lasting", True, 0)
    edges.end_round(0)
    edges.begins("over", False, 20)
    edges.begins("lasting", True, 20)
    edges.end_round(20)
    assert len(edges) == 1
    assert not edges.begins("lasting", True, 30)
