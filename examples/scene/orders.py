"""The scene's part over HTTP: what a program does that speaks no MQTT."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from penstock.client.http.async_client import AsyncClient
from penstock.core.errors import ErrorCode, PenstockError

QUEUE, GROUP = "orders", "shipping"
_ORDERS = 1000
_PATIENCE_S = 30.0

Say = Callable[[str], None]


class NotKept(PenstockError):
    """The server did not do what the scene says that it does."""

    code = ErrorCode.REFUSED


async def trade(url: str, run: str, say: Say) -> None:
    """Orders are put, once however often they are sent, looked at, taken and done with. `run` tells runs apart."""
    async with AsyncClient(url) as client, asyncio.timeout(_PATIENCE_S):
        await client.create_queue(QUEUE, {"partitions": 4}, if_absent=True)
        await _put(client, run, say)
        await _look(client, run, say)
        await _take(client, run, say)


async def _put(client: AsyncClient, run: str, say: Say) -> None:
    async with client.producer(QUEUE) as producer:
        for number in range(_ORDERS):
            await producer.send({"run": run, "order": number}, key=f"customer-{number % 10}")
    say(f"{_ORDERS:,} orders put into the queue {QUEUE}, gathered into batches, each on disk before it is answered")
    sent = [await client.publish(QUEUE, {"run": run}, idempotency_key=f"{run}-last") for _ in range(2)]
    if not sent[1].duplicate:
        raise NotKept("an order that was sent twice with one idempotency key was stored twice")
    say(f"one more, sent twice with an idempotency key: stored once, as {sent[0].id}")


async def _look(client: AsyncClient, run: str, say: Say) -> None:
    seen = 0
    async for message in client.browse(QUEUE, from_="1h", page=1000):
        seen += message.json().get("run") == run
    if seen != _ORDERS + 1:
        raise NotKept(f"{_ORDERS + 1} orders were put, and {seen} are there to be looked at")
    say(f"{seen:,} orders looked at, none of them consumed")


async def _take(client: AsyncClient, run: str, say: Say) -> None:
    taken = 0
    async with client.consume(QUEUE, GROUP, max=200) as messages:
        async for message in messages:
            taken += message.json().get("run") == run
            message.ack()
            if taken == _ORDERS + 1:
                break
    group = await client.group(QUEUE, GROUP)
    say(f"{taken:,} orders taken and acknowledged by the group {GROUP}, which has {group.lag:,} left")
