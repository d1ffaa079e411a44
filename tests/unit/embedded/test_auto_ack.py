from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import penstock
from penstock.core.errors import InvalidArgument, StaleSettlement


def test_what_was_handed_out_before_is_acknowledged_by_coming_back(directory: Path) -> None:
    with penstock.open(directory) as db:
        db.put_many("orders", [b"a", b"b", b"c"])
        with db.consume("orders", auto_ack=0) as messages:
            for _ in range(2):
                assert messages.get(timeout=5) is not None
        with db.consume("orders") as messages:
            left = messages.get_many(10, timeout=5)
            assert sorted(left.values()) == [b"b", b"c"]


def test_a_message_that_is_being_handled_is_not_acknowledged(directory: Path) -> None:
    """Whoever fails in the middle of one gets it again."""
    with penstock.open(directory) as db:
        db.put("orders", b"a")
        with pytest.raises(ZeroDivisionError), db.consume("orders", auto_ack=0) as messages:
            assert messages.get(timeout=5) is not None
            raise ZeroDivisionError
        with db.consume("orders") as messages:
            assert messages.get(timeout=5) is not None


def test_nothing_is_acknowledged_before_its_time_but_all_at_the_end(directory: Path) -> None:
    with penstock.open(directory) as db, db.consume("orders", auto_ack=3600, idle_timeout=0) as messages:
        db.put_many("orders", [b"%d" % i for i in range(20)])
        for _ in range(10):
            assert messages.get(timeout=5) is not None
        assert db.describe("orders").depth == 20
        assert len(list(messages)) == 10
        assert db.describe("orders").depth == 0


def test_a_message_that_was_settled_otherwise_is_left_alone(directory: Path) -> None:
    with penstock.open(directory) as db:
        db.put("orders", b"poison")
        with db.consume("orders", auto_ack=0, idle_timeout=0) as messages:
            for message in messages:
                message.dead_letter("no use")
        assert [letter.value for letter in db.browse("$dlq/orders")] == [b"poison"]


def test_tasks_have_it_too(directory: Path) -> None:
    async def run() -> int:
        async with await penstock.open_async(directory) as db:
            await db.put_many("orders", [b"a", b"b"])
            async with db.consume("orders", auto_ack=0, idle_timeout=0) as messages:
                count = len([message async for message in messages])
            assert (await db.describe("orders")).depth == 0
            return count

    assert asyncio.run(run()) == 2


def test_an_interval_below_zero_is_refused(directory: Path) -> None:
    with penstock.open(directory) as db, pytest.raises(InvalidArgument, match="auto_ack"):
        db.consume("orders", auto_ack=-1)


def test_extending_a_message_that_was_taken_back_says_so(directory: Path) -> None:
    with penstock.open(directory) as db:
        db.put("orders", b"a")
        with db.consume("orders") as messages:
            message = messages.get(timeout=5)
            assert message is not None
            message.extend()
            message.ack()
            with pytest.raises(StaleSettlement):
                message.extend()
