"""Calls that are done together with others: each gets its own answer."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest
from tests.support.loop import run
from tests.unit.embedded.conftest import SMALL

import penstock
from penstock.core.errors import Closed, NoSuchQueue, QueueFull, StaleSettlement, TooLarge


def test_every_put_gets_the_id_of_its_own_message(directory: Path) -> None:
    async def main() -> None:
        async with penstock.open_async(directory, options=SMALL) as db:
            await db.declare("orders", partitions=5)
            keys = [None if i % 4 == 0 else b"%d" % (i % 7) for i in range(200)]
            puts = [
                db.put("orders", b"%d" % i, key=key, partition=3 if i % 10 == 0 else None, headers={"n": str(i)})
                for i, key in enumerate(keys)
            ]
            ids = await asyncio.gather(*puts)
            stored = {
                message.id: (message.value, message.key, message.headers) async for message in db.browse("orders")
            }
            assert len(stored) == 200
            assert [stored[id] for id in ids] == [(b"%d" % i, key, {"n": str(i)}) for i, key in enumerate(keys)]
            assert all(":3:" in id for id in ids[::10])

    run(main())


def test_puts_of_one_task_after_the_other_keep_their_order(directory: Path) -> None:
    async def main() -> None:
        async with penstock.open_async(directory, options=SMALL) as db:
            await db.declare("orders", partitions=3)
            await asyncio.gather(*[db.put("orders", b"%d" % i, key=b"k") for i in range(100)])
            assert [message.value async for message in db.browse("orders")] == [b"%d" % i for i in range(100)]

    run(main())


def test_a_put_that_is_refused_does_no_harm_to_those_beside_it(directory: Path) -> None:
    async def main() -> None:
        async with penstock.open_async(directory, options=SMALL) as db:
            await db.declare("orders", partitions=2, limits={"max_message_size": "10B"})
            values = [b"x" * (11 if i == 7 else 3) for i in range(20)]
            answers = await asyncio.gather(*[db.put("orders", value) for value in values], return_exceptions=True)
            assert isinstance(answers[7], TooLarge)
            assert all(isinstance(answer, str) for i, answer in enumerate(answers) if i != 7)
            assert len([1 async for _ in db.browse("orders")]) == 19

    run(main())


def test_puts_that_are_gathered_share_the_room_of_a_queue(directory: Path) -> None:
    async def main() -> None:
        async with penstock.open_async(directory, options=SMALL) as db:
            await db.declare("orders", partitions=3, limits={"max_queue_depth": 10})
            await db.replay("orders", "g")
            puts = [db.put("orders", b"v", partition=i % 3) for i in range(30)]
            answers = await asyncio.gather(*puts, return_exceptions=True)
            assert sum(isinstance(answer, QueueFull) for answer in answers) == 20
            assert len([1 async for _ in db.browse("orders")]) == 10

    run(main())


def test_all_puts_to_a_queue_that_may_not_be_made_are_refused(directory: Path) -> None:
    async def main() -> None:
        async with penstock.open_async(directory, auto_create=False) as db:
            answers = await asyncio.gather(*[db.put("orders", b"x") for _ in range(5)], return_exceptions=True)
            assert [type(answer) for answer in answers] == [NoSuchQueue] * 5

    run(main())


def test_of_several_acknowledgements_of_a_message_one_counts(directory: Path) -> None:
    async def main() -> None:
        async with penstock.open_async(directory, options=SMALL) as db:
            await db.put_many("orders", [b"%d" % i for i in range(20)])
            async with db.consume("orders") as messages:
                batch = await messages.get_many(20, timeout=5)
                twice = [message.ack() for message in [*batch, *batch]]
                answers = await asyncio.gather(*twice, return_exceptions=True)
                assert answers[:20] == [None] * 20
                assert all(isinstance(answer, StaleSettlement) for answer in answers[20:])

    run(main())


def test_closing_among_many_puts_answers_them_all_and_keeps_what_was_answered(directory: Path) -> None:
    db = penstock.open(directory, options=SMALL)
    db.declare("orders", partitions=3)
    ids: list[str] = []

    def put() -> None:
        with pytest.raises(Closed):
            while True:
                ids.append(db.put("orders", b"x"))

    threads = [threading.Thread(target=put) for _ in range(12)]
    for thread in threads:
        thread.start()
    while len(ids) < 100:
        threading.Event().wait(0.001)
    db.close()
    for thread in threads:
        thread.join()
    with penstock.open(directory, options=SMALL) as again:
        assert {message.id for message in again.browse("orders")} >= set(ids)


def test_a_put_waits_while_partitions_are_added(directory: Path) -> None:
    with penstock.open(directory, options=SMALL) as db:
        db.declare("orders", partitions=1)
        db.put("orders", b"first", key=b"k")
        queue = db._runtime.broker.queue("orders")
        db._runtime.run(queue.gate.close())
        put = threading.Thread(target=db.put, args=("orders", b"second", b"k"))
        put.start()
        put.join(0.2)
        assert put.is_alive()
        assert queue.units[0].data.end == 1

        async def open_again() -> None:
            queue.gate.open()

        db._runtime.run(open_again())
        put.join(10)
        assert queue.units[0].data.end == 2
