"""Waiting for what a member is handed, as an outlet does for a feed."""

from __future__ import annotations

import asyncio

from penstock.broker.feed.consumer import Consumer
from penstock.broker.feed.delivery import Delivery


async def arrivals(consumer: Consumer, limit: int, wait_s: float) -> list[Delivery]:
    """Up to `limit` messages as soon as any are there; none after `wait_s`, or when it is closed meanwhile."""
    told = asyncio.Event()
    consumer.told = told.set
    until = asyncio.get_running_loop().time() + wait_s
    while not (found := await consumer.receive(limit)):
        try:
            async with asyncio.timeout_at(until):
                await told.wait()
        except TimeoutError:
            break
        if consumer.is_closed:
            break
        told.clear()
    return found
