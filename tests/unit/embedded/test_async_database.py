from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.support.loop import run
from tests.unit.embedded.conftest import SMALL

import penstock
from penstock.core.errors import Closed, DirectoryInUse, InvalidArgument, StaleSettlement


def test_the_async_face_puts_takes_and_settles(directory: Path) -> None:
    async def main() -> None:
        async with penstock.open_async(directory, options=SMALL) as db:
            await db.declare("orders", partitions=2)
            assert (await db.put("orders", b"a", key=b"k")).startswith("orders@1:")
            await db.put_many("orders", [b"b", b"c"], keys=[b"k", b"k"])
            async with db.consume("orders", "billing", idle_timeout=0.05) as messages:
                values = []
                async for message in messages:
                    values.append(message.value)
                    await message.ack()
                assert values == [b"a", b"b", b"c"]
                with pytest.raises(StaleSettlement):
                    await message.ack()
            assert [message.value async for message in db.browse("orders", limit=2)] == [b"a", b"b"]
            await db.replay("orders", "billing")
            async with db.consume("orders", "billing") as messages:
                batch = await messages.get_many(10, timeout=5)
                assert await messages.ack_many(batch) == (3, 0)
                assert await messages.get(timeout=0) is None
            assert await db.queues() == ["orders"]
            assert (await db.describe("orders")).depth == 0

    run(main())


def test_a_failure_a_rejection_and_a_transaction_awaited(directory: Path) -> None:
    async def main() -> None:
        async with penstock.open_async(directory, options=SMALL) as db:
            await db.put_many("orders", [b"a", b"b", b"c"])
            async with db.consume("orders") as messages:
                first = await messages.get(timeout=5)
                assert first is not None
                await first.retry(delay=3600)
                second = await messages.get(timeout=5)
                assert second is not None
                await second.dead_letter("no")
                third = await messages.get(timeout=5)
                assert third is not None
                async with db.transaction() as transaction:
                    transaction.put("invoices", b"invoice")
                    transaction.ack(third)
                with pytest.raises(StaleSettlement):
                    async with db.transaction() as late:
                        late.ack(third)
            assert [letter.value async for letter in db.browse("$dlq/orders")] == [b"b"]
            assert [message.value async for message in db.browse("invoices")] == [b"invoice"]
            assert (await db.groups("orders"))[0].in_flight == 0

    run(main())


def test_administration_and_publishing_awaited(directory: Path) -> None:
    async def main() -> None:
        db = await penstock.open_async(directory, options=SMALL)
        await db.declare({"name": "readings", "topics": ["sensors/#"], "partitions": 1})
        assert await db.publish("sensors/1", b"21") == ["readings"]
        await db.change("readings", limits={"max_message_size": "1KiB"})
        await db.pause("readings")
        messages = db.consume("readings")
        assert await messages.get(timeout=0.02) is None
        await db.resume("readings")
        assert await messages.get(timeout=5) is not None
        assert await db.commit("readings", "default", 0, 1) == 1
        await messages.close()
        assert await db.purge("readings") == 1
        await db.delete("readings", "default")
        await db.delete("readings")
        await db.close()
        await db.close()
        with pytest.raises(Closed):
            await db.put("readings", b"x")

    run(main())


def test_requests_from_tasks_get_their_replies(directory: Path) -> None:
    async def main() -> None:
        async with penstock.open_async(directory, options=SMALL) as db:

            async def serve() -> None:
                async with db.consume("rpc", idle_timeout=1) as requests:
                    for _ in range(5):
                        request = await requests.get()
                        assert request is not None
                        await request.reply(request.value + b"!")
                        await request.ack()

            serving = asyncio.ensure_future(serve())
            replies = await asyncio.gather(*[db.request("rpc", b"%d" % i, timeout="5s") for i in range(5)])
            assert [reply.value for reply in replies] == [b"%d!" % i for i in range(5)]
            await serving

    run(main())


def test_messages_are_not_lost_to_a_cancelled_get(directory: Path) -> None:
    async def main() -> None:
        async with penstock.open_async(directory, options=SMALL) as db, db.consume("orders") as messages:
            for i in range(20):
                waiting = asyncio.ensure_future(messages.get())
                await asyncio.sleep(0)
                putting = asyncio.ensure_future(db.put("orders", b"%d" % i))
                await asyncio.sleep(0.0005 * (i % 4))
                waiting.cancel()
                await putting
                message = None
                try:
                    message = await waiting
                except asyncio.CancelledError:
                    message = await messages.get(timeout=5)
                assert message is not None and message.value == b"%d" % i
                await message.ack()

    run(main())


def test_a_consumer_that_was_cancelled_while_joining_holds_no_partition(directory: Path) -> None:
    async def main() -> None:
        async with penstock.open_async(directory, options=SMALL) as db:
            await db.put("orders", b"x")
            joining = asyncio.ensure_future(db.consume("orders").__aenter__())
            await asyncio.sleep(0)
            joining.cancel()
            with pytest.raises(asyncio.CancelledError):
                await joining
            async with db.consume("orders") as messages:
                assert await messages.get(timeout=5) is not None

    run(main())


def test_one_directory_serves_several_loops_one_after_the_other(directory: Path) -> None:
    db = run(_opened(directory))
    run(_put(db))
    run(_put(db))
    run(_close(db))


async def _opened(directory: Path) -> penstock.AsyncDatabase:
    return await penstock.open_async(directory, options=SMALL)


async def _put(db: penstock.AsyncDatabase) -> None:
    await asyncio.gather(*[db.put("orders", b"x") for _ in range(20)])
    with pytest.raises(InvalidArgument):
        await db.put_many("orders", [])


async def _close(db: penstock.AsyncDatabase) -> None:
    assert (await db.describe("orders")).messages == 40
    await db.close()


def test_a_directory_in_use_cannot_be_opened_again(directory: Path) -> None:
    async def main() -> None:
        async with penstock.open_async(directory, options=SMALL):
            with pytest.raises(DirectoryInUse, match="penstock serve"):
                await penstock.open_async(directory)
            with pytest.raises(DirectoryInUse, match="penstock serve"):
                penstock.open(directory)

    run(main())


def test_tasks_that_share_a_consumer_each_keep_their_time_and_a_stop_reaches_all(directory: Path) -> None:
    async def main() -> None:
        async with penstock.open_async(directory, options=SMALL) as db, db.consume("orders") as messages:
            for_ever = [asyncio.ensure_future(messages.get()) for _ in range(3)]
            await asyncio.sleep(0.01)
            assert await messages.get(timeout=0.01) is None
            await messages.stop()
            assert await asyncio.gather(*for_ever) == [None, None, None]

    run(main())
