"""The buffer between the network and whoever takes messages."""

from __future__ import annotations

import asyncio

import pytest
from tests.support.loop import run

from penstock.client.mqtt.inbox import Inbox
from penstock.client.mqtt.message import Message
from penstock.core.errors import Closed


def message(payload: bytes = b"") -> Message:
    return Message("t", payload)


def test_space_is_waited_for_by_number_and_by_bytes() -> None:
    async def main(inbox: Inbox, *payloads: bytes) -> None:
        for payload in payloads:
            assert not inbox.is_full
            inbox.put(message(payload))
        bringing = asyncio.create_task(inbox.space())
        await asyncio.sleep(0)
        assert not bringing.done()
        await inbox.take()
        await bringing

    run(main(Inbox(2, 1 << 20), b"", b""))
    run(main(Inbox(100, 5000), b"x" * 5000))


def test_a_taker_that_gives_up_leaves_the_message_to_another() -> None:
    async def main() -> None:
        inbox = Inbox(10, 1 << 20)
        first, second = asyncio.create_task(inbox.take()), asyncio.create_task(inbox.take())
        await asyncio.sleep(0)
        inbox.put(message(b"x"))
        first.cancel()
        assert (await second).payload == b"x"
        assert first.cancelled()

    run(main())


def test_after_its_end_what_is_there_is_taken_and_then_the_error_told() -> None:
    async def main() -> None:
        inbox = Inbox(1, 1 << 20)
        inbox.put(message(b"x"))
        inbox.end(Closed("over"))
        await inbox.space()
        assert (await inbox.take()).payload == b"x"
        for _ in range(2):
            with pytest.raises(Closed, match="over"):
                await inbox.take()

    run(main())


def test_all_who_wait_are_told_of_the_end() -> None:
    async def main() -> None:
        inbox = Inbox(1, 1 << 20)
        takers = [asyncio.create_task(inbox.take()) for _ in range(3)]
        await asyncio.sleep(0)
        inbox.end(Closed("over"))
        assert [type(each) for each in await asyncio.gather(*takers, return_exceptions=True)] == [Closed] * 3

    run(main())
