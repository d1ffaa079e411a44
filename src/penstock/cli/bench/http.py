"""Loads of the HTTP listener."""

from __future__ import annotations

import time
from contextlib import aclosing

from penstock.cli.bench.load import Arrivals, Load, Result, Share, measured
from penstock.client.http.async_client import AsyncClient
from penstock.client.http.intake import ConsumeOptions
from penstock.client.http.settlements import settlement

_GROUP = "http-receive"
_WAIT_S = 1.0
_ACK = ("ack", None, None, None)


async def publish(client: AsyncClient, load: Load) -> Result:
    """Each answer says that its messages are on disk."""
    values = [load.value] * load.batch

    async def work(share: Share) -> None:
        while count := share.take(load.batch):
            begun_s = time.perf_counter()
            await client.publish_many(load.queue, values[:count])
            share.note(begun_s, count)

    return await measured("http-publish", load, work)


async def receive(client: AsyncClient, load: Load) -> Result:
    """Messages that are there are taken and acknowledged."""
    options = ConsumeOptions(load.queue, _GROUP, max=load.batch, wait_s=_WAIT_S)

    async def work(share: Share) -> None:
        while share.done < load.messages:
            begun_s = time.perf_counter()
            messages = (await client.ask(options.receive())).messages
            if not messages:
                return
            await client.ask(settlement(_ACK, [message.receipt or "" for message in messages]))
            share.note(begun_s, len(messages))

    return await measured("http-receive", load, work)


async def events(client: AsyncClient, load: Load) -> Result:
    """Each connection is a stream of server-sent events of the queue, from its first message on."""

    async def work(share: Share) -> None:
        arrivals = Arrivals(share, load.batch)
        async with aclosing(client.events(load.queue, from_="earliest")) as stream:
            async for _ in stream:
                arrivals.note()

    return await measured("http-events", load, work)
