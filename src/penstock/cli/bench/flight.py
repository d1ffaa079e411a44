"""Loads of the Arrow Flight listener. Its client waits in threads, one a connection."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa

from penstock.cli.bench.load import Load, Result, Share, measured
from penstock.cli.table_source import FlightLogin
from penstock.client.flight import FlightClient, FlightRefused
from penstock.core.errors import ErrorCode

Call = Callable[[FlightClient], int]
"""one request, and the messages of it"""
_LOOK_S = 0.05


async def publish(login: FlightLogin, namespace: str | None, load: Load) -> Result:
    """Rows become messages; each answer says that they are on disk."""
    values = pa.array([load.value.encode()] * load.batch, pa.binary())
    rows = pa.RecordBatch.from_arrays([values], ["value"])

    def next_call(share: Share) -> Call | None:
        count = share.take(load.batch)
        if not count:
            return None

        def append(client: FlightClient) -> int:
            client.append(load.queue, rows.slice(0, count), namespace=namespace)
            return count

        return append

    return await _measured("flight-publish", login, load, next_call)


async def read(login: FlightLogin, namespace: str | None, load: Load) -> Result:
    """Messages that are there, as tables: each request reads so many of a partition."""
    ranges = await _ranges(login, namespace, load)

    def next_call(share: Share) -> Call | None:
        if not ranges:
            return None
        partition, start, stop = ranges.popleft()

        def get(client: FlightClient) -> int:
            return sum(batch.num_rows for batch in client.read(load.queue, partition, start, stop, namespace=namespace))

        return get

    return await _measured("flight-read", login, load, next_call)


async def _measured(kind: str, login: FlightLogin, load: Load, next_call: Callable[[Share], Call | None]) -> Result:
    loop = asyncio.get_running_loop()
    with ThreadPoolExecutor(load.connections) as threads:

        async def work(share: Share) -> None:
            with login.connected() as client:
                while (call := next_call(share)) is not None:
                    begun_s = time.perf_counter()
                    share.note(begun_s, await loop.run_in_executor(threads, call, client))

        return await measured(kind, load, work)


async def _ranges(login: FlightLogin, namespace: str | None, load: Load) -> deque[tuple[int, int, int]]:
    """Of all that was published; that is seen here a moment later."""
    deadline_s = time.monotonic() + 30
    with login.connected() as client:
        while True:
            try:
                partitions = client.partitions(load.queue, namespace)
            except FlightRefused as error:
                if error.code is not ErrorCode.NO_SUCH_QUEUE or time.monotonic() > deadline_s:
                    raise
                partitions = []
            if sum(one.rows for one in partitions) >= load.messages or time.monotonic() > deadline_s:
                break
            await asyncio.sleep(_LOOK_S)
    wanted, left = deque[tuple[int, int, int]](), load.messages
    for one in partitions:
        end = min(one.end, one.start + left)
        left -= end - one.start
        wanted.extend((one.number, start, min(start + load.batch, end)) for start in range(one.start, end, load.batch))
    return wanted
