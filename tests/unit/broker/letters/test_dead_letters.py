from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest
from tests.support.broker import Got, Stage, retries, stage
from tests.support.loop import run
from tests.support.receiver import receiving

from penstock.broker.feed import settling
from penstock.broker.feed.consumer import Consumer
from penstock.core.errors import LogPoisoned
from penstock.queues.deadletter import DeadLetter, Reason, from_properties


async def letters(s: Stage, name: str = "$dlq/q") -> list[tuple[bytes, DeadLetter]]:
    """Consumed like any queue."""
    consumer = await s.consumer(s.broker.queue(name), "undertaker")
    found = []
    for delivery in await consumer.receive(100):
        batch = delivery.stored.batch
        for row in delivery.rows:
            facts = from_properties(batch.properties(row) or b"")
            assert facts is not None
            found.append((batch.value(row), facts))
    return found


async def one_message(s: Stage, **settings: object) -> tuple[Consumer, Got]:
    queue = await s.broker.declare({"name": "q", "partitions": 1, **settings})
    consumer = await s.consumer(queue)
    await s.put(queue, b"v", keys=[b"k"], topics=[b"$queue/q/eu"])
    [message] = await s.receive(consumer)
    return consumer, message


def test_a_message_that_failed_too_often_is_a_dead_letter_with_its_facts(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            consumer, message = await one_message(s, retry_policy=retries(1, "10s"))
            first_ms = s.clock.now_ms()
            await s.fail(consumer, message)
            await s.advance(10)
            [message] = await s.receive(consumer)
            assert await s.fail(consumer, message, detail="no such customer") == (1, 0)
            assert (consumer.group.depth(), consumer.held) == (0, 0)
            [(value, facts)] = await letters(s)
            assert value == b"v"
            assert str(facts.source) == f"q@{s.broker.queue('q').incarnation}:0:0"
            assert (facts.group.name, facts.reason, facts.detail) == ("g", Reason.MAX_RETRIES, "no such customer")
            assert (facts.delivery_count, facts.failures) == (2, 2)
            assert facts.moved_ms == first_ms + 10_000

    run(main())


def test_key_and_topic_stay_with_a_dead_letter(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            consumer, message = await one_message(s)
            await s.reject(consumer, message)
            undertaker = await s.consumer(s.broker.queue("$dlq/q"))
            [delivery] = await undertaker.receive(1)
            batch, row = delivery.stored.batch, delivery.rows[0]
            assert (batch.key(row), batch.topic(row)) == (b"k", b"$queue/q/eu")

    run(main())


def test_a_rejected_message_is_a_dead_letter_at_once(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            consumer, message = await one_message(s)
            assert await s.reject(consumer, message, detail="bad") == (1, 0)
            [(_, facts)] = await letters(s)
            assert (facts.reason, facts.detail, facts.failures) == (Reason.REJECTED, "bad", 0)

    run(main())


def test_a_message_that_came_back_too_often_is_a_dead_letter(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            consumer, _ = await one_message(s, max_deliveries=2)
            for _ in range(2):
                consumer.leave()
                consumer = await s.consumer(s.broker.queue("q"))
                assert len(await s.receive(consumer)) == 1
            consumer.leave()
            await s.quiet()
            [(_, facts)] = await letters(s)
            assert (facts.reason, facts.delivery_count, facts.failures) == (Reason.MAX_DELIVERIES, 3, 0)

    run(main())


def test_a_message_that_takes_too_long_in_all_is_a_dead_letter(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            policy = retries(100, "10m", total_timeout="15m")
            consumer, message = await one_message(s, retry_policy=policy)
            await s.fail(consumer, message)
            await s.advance(600)
            [message] = await s.receive(consumer)
            await s.fail(consumer, message)
            await s.advance(600)
            [message] = await s.receive(consumer)
            await s.fail(consumer, message)
            [(_, facts)] = await letters(s)
            assert (facts.reason, facts.failures) == (Reason.TOTAL_TIMEOUT, 3)

    run(main())


def test_without_a_dead_letter_queue_messages_are_dropped_and_counted(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            consumer, message = await one_message(s, dlq_config={"enabled": False}, retry_policy=retries(0))
            await s.fail(consumer, message)
            tally = consumer.group.cursor(consumer.group.queue.units[0]).tally
            assert (tally.dropped, tally.dead_lettered, consumer.group.depth()) == (1, 0, 0)
            assert [queue.name for queue in s.broker.queues] == ["q"]
            await s.restart()
            assert s.group_of().depth() == 0

    run(main())


def test_a_dead_letter_is_moved_not_copied(tmp_path: Path) -> None:
    """Move and settlement are one frame: after a restart the message is in one place."""

    async def main() -> None:
        async with stage(tmp_path) as s:
            consumer, message = await one_message(s)
            await s.reject(consumer, message)
            await s.put(s.broker.queue("q"), b"w")
            [message] = await s.receive(consumer)
            frames = s.broker.shard.metrics.frames
            await s.reject(consumer, message)
            assert s.broker.shard.metrics.frames == frames + 1
            await s.restart()
            assert (s.dead_letters(), s.group_of().depth()) == (2, 0)

    run(main())


def test_each_group_gives_up_for_itself(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            consumer, message = await one_message(s)
            other = await s.consumer(s.broker.queue("q"), "other")
            await s.reject(consumer, message)
            assert [m.value for m in await s.receive(other)] == [b"v"]
            assert [facts.group.name for _, facts in await letters(s)] == ["g"]

    run(main())


def test_queues_may_share_a_dead_letter_topic(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            for name in ("a", "b"):
                queue = await s.queue(name, dlq_config={"enabled": True, "topic": "$queue/graves"})
                consumer = await s.consumer(queue)
                await s.put(queue, name.encode())
                await s.reject(consumer, *await s.receive(consumer))
            found = await letters(s, "graves")
            assert sorted((value, facts.source.queue) for value, facts in found) == [(b"a", "a"), (b"b", "b")]

    run(main())


def test_a_move_never_fails_for_a_limit(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            graves = await s.queue("graves", limits={"max_queue_depth": 1, "max_message_size": 1})
            await s.consumer(graves)
            queue = await s.queue(dlq_config={"enabled": True, "topic": "$queue/graves"})
            consumer = await s.consumer(queue)
            await s.put(queue, *[b"value"] * 5)
            assert await s.reject(consumer, *await s.receive(consumer)) == (5, 0)
            assert s.dead_letters("graves") == 5

    run(main())


def test_dead_letter_queues_have_no_limits_of_their_own_by_default(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            consumer, message = await one_message(s)
            await s.reject(consumer, message)
            settings = s.broker.queue("$dlq/q").settings
            assert settings.limits.max_queue_depth is None and settings.limits.message_ttl_ms is None
            assert settings.retention.time_ms is None and settings.dead_letter_queue is None
            assert s.broker.queue("q.dlq") is s.broker.queue("dlq/q") is s.broker.queue("$dlq/q")

    run(main())


def test_a_move_goes_on_after_a_restart(tmp_path: Path) -> None:
    """What came back too often over restarts is moved when the broker opens."""

    async def main() -> None:
        async with stage(tmp_path) as s:
            consumer, _ = await one_message(s, max_deliveries=1)
            consumer.leave()
            (await s.consumer(s.broker.queue("q"))).leave()
            queue = s.broker.queue("q")
            consumer = await s.consumer(queue)
            assert [m.times for m in await s.receive(consumer)] == [2]
            consumer.leave()
            await s.restart()
            await s.quiet()
            assert (s.dead_letters(), s.group_of().depth()) == (1, 0)
            assert await s.receive(s.broker.join(s.group_of())) == []

    run(main())


def test_a_commit_beats_a_move_that_is_under_way(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            consumer, message = await one_message(s)
            rejecting = asyncio.ensure_future(s.reject(consumer, message))
            await asyncio.sleep(0)
            await s.broker.settling.commit(consumer.group, s.broker.queue("q").units[0], 1)
            await rejecting
            assert (s.dead_letters(), consumer.group.depth(), consumer.held) == (0, 0, 0)

    run(main())


# Alerts


def test_a_webhook_is_told_of_dead_letters_with_their_facts(tmp_path: Path) -> None:
    async def main(url: str) -> None:
        async with stage(tmp_path) as s:
            consumer, message = await one_message(s, dlq_config={"enabled": True, "alert_webhook": url})
            await s.reject(consumer, message, detail="bad")
            await s.broker.webhooks.idle()
            assert s.broker.webhooks.sent == 1

    with receiving() as receiver:
        run(main(receiver.url))
        [body] = receiver.bodies
    told = msgspec.json.decode(body)
    assert (told["queue"], told["dead_letter_queue"], told["count"]) == ("q", "$dlq/q", 1)
    assert (told["messages"][0]["reason"], told["messages"][0]["detail"]) == ("rejected", "bad")


def test_a_webhook_that_fails_is_tried_again_and_never_blocks_delivery(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main(url: str) -> None:
        async with stage(tmp_path) as s:
            s.broker.webhooks.first_retry_s = 0.01
            queue = await s.queue(dlq_config={"enabled": True, "alert_webhook": url})
            consumer = await s.consumer(queue)
            await s.put(queue, b"1", b"2", b"3")
            for message in await s.receive(consumer):
                await s.reject(consumer, message)
            assert s.dead_letters() == 3, "before any alert was sent"
            await s.broker.webhooks.idle()
            assert (s.broker.webhooks.sent, s.broker.webhooks.failed) == (2, 1)

    with receiving(503, 200, 404) as receiver:
        run(main(receiver.url))
        assert len(receiver.bodies) == 4
    assert "event not delivered" in caplog.text
    assert receiver.url not in caplog.text, "an address may be a secret"


def test_what_waits_behind_a_message_that_is_given_up_comes_at_once(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue(retry_policy=retries(0))
            consumer = await s.consumer(queue)
            await s.put(queue, b"bad", keys=[b"k"])
            [bad] = await s.receive(consumer)
            await s.put(queue, b"behind", keys=[b"k"])
            assert await s.broker.pull(consumer.group, s.broker.session(), 1) == []
            assert await s.receive(consumer) == []
            await s.fail(consumer, bad)
            assert [m.value for m in await s.receive(consumer)] == [b"behind"]

    run(main())


def test_a_rejected_message_that_cannot_be_moved_now_is_moved_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settling, "_MOVE_AGAIN_S", 0.01)

    async def main() -> None:
        async with stage(tmp_path) as s:
            consumer, message = await one_message(s)
            dead, _ = await s.broker.declaring.subscribed("$dlq/q")
            logs = [(await dead.unit(partition)).data for partition in range(dead.settings.partitions)]
            for log in logs:
                log.fault = LogPoisoned(log.name, "a test")
            with pytest.raises(LogPoisoned):
                await s.reject(consumer, message, detail="why")
            assert consumer.group.depth() == 1
            for log in logs:
                log.fault = None
            for _ in range(1000):
                if consumer.group.depth():
                    await asyncio.sleep(0.01)
            [(value, facts)] = await letters(s)
            assert (value, facts.reason, facts.detail) == (b"v", Reason.REJECTED, "why")

    run(main())
