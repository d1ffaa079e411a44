"""Followers of a queue that stop reading, come back and leave, in every order that a seed makes."""

from __future__ import annotations

import asyncio
import json
import random
import re
from pathlib import Path

import pytest
from tests.support.broker import LARGE, stage

from penstock.broker.queues.queue import Queue
from penstock.gateways.http.events import feed
from penstock.gateways.http.events.events import EventStream
from penstock.gateways.http.events.feed import Feeds, Follower
from penstock.gateways.http.messages.cursors import Vector
from penstock.gateways.http.server.outlet import Outlet

_EVENT = re.compile(rb"id: ([0-9:,]+)\ndata: (\{.*\})\n\n")


class _Flow:
    write_paused = False


class _Outlet(Outlet):
    """Keeps what is written, and is full by itself now and then, until the test says otherwise."""

    __slots__ = ("data", "flow", "random")

    def __init__(self, dice: random.Random) -> None:
        self.flow, self.random, self.data = _Flow(), dice, list[bytes]()
        super().__init__(asyncio.Transport(), self.flow)

    def write(self, data: bytes | memoryview) -> None:
        self.data.append(bytes(data))
        self.flow.write_paused = self.random.random() < 0.1

    def resume(self) -> None:
        self.flow.write_paused = False
        self.make_room()


class Client:
    """One that takes up where it was cut off, which may be in the middle of an event."""

    def __init__(self, queue: Queue, feeds: Feeds, dice: random.Random) -> None:
        self._queue, self._feeds, self._dice = queue, feeds, dice
        self.texts: list[int] = []
        self.offsets: dict[int, list[int]] = {}
        self.place = Vector({})
        self._open()

    def _open(self) -> None:
        followed = self._feeds.of(self._queue, False)
        self.outlet = _Outlet(self._dice)
        self._stream = EventStream(self.outlet, lambda: True)
        self._follower = Follower(followed, self._stream, self.place)
        self._task = asyncio.ensure_future(self._follower.follow())

    async def leave(self, is_cut: bool) -> None:
        self._stream.finish()
        self.outlet.resume()
        await self._task
        data = _unchunked(b"".join(self.outlet.data))
        data = data[: self._dice.randint(0, len(data))] if is_cut else data
        for identity, message in _EVENT.findall(data):
            self.place = Vector.parse(identity.decode())
            found = json.loads(message)
            self.texts.append(int(found["text"].split()[0]))
            self.offsets.setdefault(found["partition"], []).append(found["offset"])

    async def come_back(self) -> None:
        await self.leave(is_cut=True)
        self._open()

    @property
    def is_caught_up(self) -> bool:
        return self._follower.place == Vector.end_of(self._queue) and not self._stream.is_full


def _unchunked(data: bytes) -> bytes:
    parts, at = [], 0
    while at < len(data):
        begin = data.index(b"\r\n", at) + 2
        end = begin + int(data[at : begin - 2], 16)
        parts.append(data[begin:end])
        at = end + 2
    return b"".join(parts)


@pytest.mark.parametrize("seed", range(6))
def test_everybody_gets_every_message_once_and_in_order(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Others come to their turn in the middle of a round.
    monkeypatch.setattr(feed, "_IN_A_TURN", 2)
    asyncio.run(_walk(tmp_path, random.Random(seed)))


async def _walk(tmp_path: Path, dice: random.Random) -> None:
    async with stage(tmp_path, shard=LARGE) as made:
        queue, feeds = await made.queue(partitions=3), Feeds()
        clients = [Client(queue, feeds, dice) for _ in range(12)]
        sent = 0
        for _ in range(120):
            if dice.random() < 0.6:
                size = dice.choice((10, 10, 10, 3000, 3000, 40_000))
                values = [b"%d " % (sent + i) + b"x" * size for i in range(dice.randint(1, 5))]
                sent += len(values)
                await made.put(queue, *values, keys=[b"k%d" % dice.randint(0, 9) for _ in values])
            client = dice.choice(clients)
            if dice.random() < 0.2:
                await client.come_back()
            else:
                client.outlet.resume()
            await asyncio.sleep(0)
        while not all(client.is_caught_up for client in clients):
            for client in clients:
                client.outlet.resume()
            await asyncio.sleep(0.001)
        for client in clients:
            await client.leave(is_cut=False)
            assert sorted(client.texts) == list(range(sent))
            assert all(offsets == list(range(len(offsets))) for offsets in client.offsets.values())
        assert not queue.listening


def test_places_are_read_as_they_are_written() -> None:
    vector = Vector({2: 5, 0: 17, 1: 0})
    assert vector.text == "0:17,2:5"
    assert Vector.parse("0:17,2:5") == vector
    assert Vector.parse("") == Vector.parse(Vector({}).text) == Vector({})
    assert vector.moved(1, 3).text == "0:17,1:3,2:5"
    assert vector.around(1) == ("0:17,1:", ",2:5")
