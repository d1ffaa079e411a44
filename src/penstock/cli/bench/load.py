"""What a load of `penstock bench` is, and how long it took."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import msgspec

from penstock.client.errors import ConnectionLost

# Longer than a server takes for anything that it was asked here.
_STALLED_S = 60.0
_PERCENTS = {"p50": 50.0, "p90": 90.0, "p99": 99.0, "p99.9": 99.9, "max": 100.0}


@dataclass(frozen=True, slots=True)
class Load:
    queue: str
    messages: int
    size_bytes: int
    connections: int
    batch: int
    """messages of a request; of MQTT, those of a connection that are not acknowledged yet"""

    @property
    def value(self) -> str:
        return "x" * self.size_bytes


class Result(msgspec.Struct, frozen=True):
    """`latency_ms` is that of a request; of mqtt-publish that of a message; of what is delivered unasked, how long a
    connection's next batch took."""

    kind: str
    messages: int
    size_bytes: int
    connections: int
    batch: int
    seconds: float
    messages_per_s: float
    latency_ms: dict[str, float]


Run = Callable[["Share"], Awaitable[None]]
"""what one connection does, until nothing is left or it is cancelled"""


class Share:
    """What is left to do, shared by all connections; and how long each step took. Of the loop's thread."""

    def __init__(self, messages: int) -> None:
        self._messages = self._left = messages
        self.done = 0
        self.latencies_s: list[float] = []
        self.last_s = time.perf_counter()
        """when something was done last: to find out that nothing is left takes a while, and is no work"""
        self._is_over = asyncio.Event()

    def take(self, most: int) -> int:
        count = min(self._left, most)
        self._left -= count
        return count

    def note(self, begun_s: float, messages: int) -> None:
        """A step that is done."""
        self.arrived(messages)
        self.latencies_s.append(self.last_s - begun_s)

    def arrived(self, messages: int) -> None:
        """What comes behind the last is not counted."""
        if self._is_over.is_set():
            return
        self.last_s = time.perf_counter()
        self.done += messages
        if self.done >= self._messages:
            self._is_over.set()

    async def over(self) -> None:
        await self._is_over.wait()


class Arrivals:
    """Messages of one stream: every so many of them are a step."""

    def __init__(self, share: Share, batch: int) -> None:
        self._share, self._batch = share, batch
        self._begun_s, self._count = time.perf_counter(), 0

    def note(self) -> None:
        self._share.arrived(1)
        self._count += 1
        if self._count == self._batch:
            self._share.latencies_s.append(self._share.last_s - self._begun_s)
            self._begun_s, self._count = self._share.last_s, 0


async def measured(kind: str, load: Load, run: Run) -> Result:
    """Until all messages are done, or no connection finds more to do. ConnectionLost if a minute passes without any."""
    share, begun_s = Share(load.messages), time.perf_counter()
    await _all_done(kind, share, [asyncio.ensure_future(run(share)) for _ in range(load.connections)])
    seconds = max(share.last_s - begun_s, 1e-9)
    return Result(
        kind,
        share.done,
        load.size_bytes,
        load.connections,
        load.batch,
        round(seconds, 3),
        round(share.done / seconds, 1),
        percentiles_ms(share.latencies_s),
    )


async def _all_done(kind: str, share: Share, connections: list[asyncio.Future[None]]) -> None:
    over = asyncio.ensure_future(share.over())
    working: set[asyncio.Future[None]] = set(connections)
    try:
        while working and not over.done():
            before = share.done
            done, _ = await asyncio.wait({*working, over}, timeout=_STALLED_S, return_when=asyncio.FIRST_COMPLETED)
            working -= done
            for connection in done:
                connection.result()
            if not done and share.done == before:
                raise ConnectionLost(
                    f"{kind}: nothing came for {_STALLED_S:.0f} s after {before} messages: see the log of the server"
                )
    finally:
        for future in (over, *working):
            future.cancel()
        await asyncio.gather(over, *connections, return_exceptions=True)


def percentiles_ms(latencies_s: list[float]) -> dict[str, float]:
    """The smallest that so many are not above."""
    ordered = sorted(latencies_s)
    last = len(ordered) - 1
    places = {name: min(last, max(0, -(-len(ordered) * percent // 100) - 1)) for name, percent in _PERCENTS.items()}
    return {name: round(ordered[int(place)] * 1000, 3) for name, place in places.items()} if ordered else {}
