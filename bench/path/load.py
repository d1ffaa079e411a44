"""The records that are written, and those who write them."""

from __future__ import annotations

import asyncio
import os
import time

from penstock.core.types import Durability
from penstock.log.columns import Columns
from penstock.log.names import log_name
from penstock.log.partition import Log
from penstock.log.records import LogSettings
from penstock.log.shard import Shard

MESSAGE_BYTES = 256
BATCH_MESSAGES = 500
BATCH_BYTES = MESSAGE_BYTES * BATCH_MESSAGES
IN_FLIGHT = 8


def batch_columns(messages: int = BATCH_MESSAGES) -> Columns:
    """Values alone, of random bytes: nothing a file system could compress."""
    return Columns.of([os.urandom(MESSAGE_BYTES) for _ in range(messages)])


def full_columns(messages: int = BATCH_MESSAGES) -> Columns:
    """Every field that a record can have."""
    return Columns.of(
        [os.urandom(MESSAGE_BYTES) for _ in range(messages)],
        keys=[b"customer-%06d" % (i * 7919 % 100_000) for i in range(messages)],
        topics=[b"orders/region-%d" % (i % 10) for i in range(messages)],
        properties=[b"\x26\x00\x06origin\x00\x04shop" for _ in range(messages)],
        native=[b"\x00\x01\x02\x03" for _ in range(messages)],
        expiry=[1_900_000_000_000 + i for i in range(messages)],
    )


async def append_batches(shard: Shard, log: Log, columns: Columns, batches: int, in_flight: int = IN_FLIGHT) -> None:
    """Append the columns so many times, with a fixed number of appends waiting at a time."""
    left = iter(range(batches))

    async def writer() -> None:
        for _ in left:
            await shard.append(log, columns)

    await asyncio.gather(*[writer() for _ in range(in_flight)])


async def timed_append(shard: Shard, log: Log, columns: Columns, batches: int, in_flight: int = IN_FLIGHT) -> float:
    """Seconds until the last append is acknowledged, whatever that means for the log."""
    begun = time.perf_counter()
    await append_batches(shard, log, columns, batches, in_flight)
    return time.perf_counter() - begun


async def log_of(shard: Shard, durability: Durability) -> Log:
    return await shard.create(log_name(durability.name.lower()), LogSettings(durability=durability))
