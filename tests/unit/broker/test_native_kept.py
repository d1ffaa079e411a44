"""Whatever becomes of a message inside the broker, what came by AMQP stays as it came."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.support.amqp091 import TASK, TASK_HEADERS
from tests.support.broker import Stage, stage
from tests.support.loop import run
from tests.support.staging import QUERY

from penstock.broker.browsing import browse
from penstock.broker.letters.redrive import redrive
from penstock.broker.publish.joint import Row as Joint
from penstock.log.batch import Row, encode
from penstock.log.columns import Columns
from penstock.log.encoded import Encoded
from penstock.log.view import viewed_properties
from penstock.queues.properties import Envelope, unpack

NATIVE = TASK.stored()
ONE = Columns.of([b"task"], keys=[b"k"], native=[NATIVE])


async def rows_in(s: Stage, queue: str) -> list[Row]:
    return [message.row async for message in browse(s.broker, s.broker.queue(queue))]


def shown(row: Row) -> Envelope:
    return unpack(viewed_properties(row.properties, row.native) or b"")


def test_a_dead_letter_has_them_and_the_facts_beside_them(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue()
            consumer = await s.consumer(queue)
            await s.broker.publishing.put(queue, ONE, s.publisher)
            await s.reject(consumer, *await s.receive(consumer), detail="no")
            for _ in range(2):
                [row] = await rows_in(s, "$dlq/q")
                assert row.native == NATIVE
                envelope = shown(row)
                assert (envelope.header("dlq-reason"), envelope.header("dlq-detail")) == ("rejected", "no")
                assert envelope.headers[-len(TASK_HEADERS) :] == TASK_HEADERS
                assert (envelope.content_type, envelope.reply_to) == ("application/json", "$queue/answers")
                await s.restart()

    run(main())


def test_a_redriven_message_is_the_one_that_came(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue()
            consumer = await s.consumer(queue)
            await s.broker.publishing.put(queue, ONE, s.publisher)
            await s.reject(consumer, *await s.receive(consumer))
            assert (await redrive(s.broker, s.broker.queue("$dlq/q"))).done == 1
            _, row = await rows_in(s, "q")
            assert (row.value, row.key, row.native) == (b"task", b"k", NATIVE)
            assert shown(row).headers[-len(TASK_HEADERS) :] == TASK_HEADERS
            [delivery] = await consumer.receive(10)
            assert delivery.stored.view.properties(delivery.rows[0]) == viewed_properties(row.properties, NATIVE)

    run(main())


def test_transactions_and_staged_epochs_keep_them(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            one, two = await s.queue("one"), await s.queue("two", partitions=2)
            transaction = s.broker.transaction(s.publisher)
            transaction.put(one, ONE)
            transaction.put(two, ONE)
            await transaction.commit()
            behind = await s.broker.staging.stage(two, ONE, writer="w", partition=None)
            beside = Encoded.checked(encode(ONE))
            await s.broker.staging.commit(QUERY, 0, [behind], rows=[(two, beside)])
            await s.restart()
            found = [row.native for name in ("one", "two") for row in await rows_in(s, name)]
            assert found == [NATIVE] * 4

    run(main())


def test_a_publish_by_topic_brings_them_to_every_queue_that_is_bound(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            names = [f"q{number}" for number in range(5)]
            for number, name in enumerate(names):
                await s.queue(name, partitions=1 + number % 3, topics=["t/#"])
            keys, natives = [b"%d" % number for number in range(9)], [NATIVE, b"", NATIVE] * 3
            columns = Columns.of(keys, keys=keys, topics=[b"t/1", b"t/2", b"u"] * 3, native=natives)
            await s.broker.publishing.publish(columns, s.publisher)
            for name in names:
                found = {row.value: row.native for row in await rows_in(s, name)}
                assert found == {key: NATIVE if int(key) % 3 == 0 else None for key in keys if int(key) % 3 < 2}

    run(main())


def test_messages_that_are_put_together_keep_them(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue()
            puts, rows = (
                s.broker.publishing.joint,
                [Joint(b"a", native=NATIVE), Joint(b"b"), Joint(b"c", native=NATIVE)],
            )
            await asyncio.gather(*[puts.put_and_wait(queue, row, s.publisher) for row in rows])
            assert [(row.value, row.native) for row in await rows_in(s, "q")] == [
                (b"a", NATIVE),
                (b"b", None),
                (b"c", NATIVE),
            ]

    run(main())


def test_rows_of_a_turn_go_to_their_partitions_with_them(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue(partitions=4)
            keys = [b"%d" % number for number in range(20)]
            natives = [b"\x91\x04\0\x01" + b"%d" % (number % 10) if number % 3 else b"" for number in range(20)]
            await s.broker.publishing.put(queue, Columns.of(keys, keys=keys, native=natives), s.publisher)
            found = {row.value: row.native or b"" for row in await rows_in(s, "q")}
            assert found == dict(zip(keys, natives, strict=True))

    run(main())
