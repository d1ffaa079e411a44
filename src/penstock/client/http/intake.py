"""Taking messages of a group, for consumers of every kind."""

from __future__ import annotations

import asyncio
import secrets
from dataclasses import dataclass

import msgspec

from penstock.client.http.incoming import StoredMessage, Verdict
from penstock.client.http.promises import Promise
from penstock.client.http.requests import Ask, Requests, ask, segment
from penstock.client.http.settlements import Settlements
from penstock.codecs.http.deliveries import MOST_RECEIVED
from penstock.codecs.http.spans import LONGEST_WAIT_S
from penstock.core.errors import InvalidArgument


class Received(msgspec.Struct, frozen=True):
    messages: list[StoredMessage]


@dataclass(frozen=True, slots=True)
class ConsumeOptions:
    queue: str
    group: str = "default"
    """made if it is not there"""
    max: int = 100
    """messages of one answer"""
    wait_s: float = 20.0
    """the server waits so long for the first message; then it is asked again"""
    visibility_s: float | None = None
    """so long messages are the caller's; None is the queue's delivery_timeout"""
    auto_commit_s: float | None = None
    """what was handed out is acknowledged when more is asked for, so often at most; None: by ack() only"""
    start: str = "earliest"
    """where a group begins that is made now: earliest, latest, a time, or a duration: so long ago"""

    def __post_init__(self) -> None:
        if not 1 <= self.max <= MOST_RECEIVED:
            raise InvalidArgument(f"max is 1 to {MOST_RECEIVED} messages, not {self.max}")
        if not 0 <= self.wait_s <= LONGEST_WAIT_S:
            raise InvalidArgument(f"wait_s is 0 to {LONGEST_WAIT_S:g} seconds, not {self.wait_s:g}")
        if self.auto_commit_s is not None and self.auto_commit_s < 0:
            raise InvalidArgument("auto_commit is the seconds between two acknowledgements: 0 or more")

    def receive(self, consumer: str | None = None) -> Ask[Received]:
        """`consumer` is who asks, over several requests; None: each request is somebody else."""
        body: dict[str, object] = {"group": self.group, "max": self.max, "wait": self.wait_s, "start": self.start}
        if consumer is not None:
            body["consumer"] = consumer
        if self.visibility_s is not None:
            body["visibility"] = self.visibility_s
        asked = ask("POST", f"/queues/{segment(self.queue)}/receive", Received, body)
        # What an answer held that was lost comes again when its visibility ends.
        return Ask(asked.method, asked.path, Received, body=asked.body, is_repeatable=True, wait_s=self.wait_s)


class Intake:
    """Of one consumer, used from one loop. next() until it gives none, stop() from anywhere, close() in the end."""

    def __init__(self, options: ConsumeOptions, requests: Requests) -> None:
        self.options, self._requests = options, requests
        self.settlements = Settlements(requests.send)
        self._stopped = asyncio.Event()
        self._name = secrets.token_hex(8)
        """the server gives messages of a key that it has not settled to nobody else"""

    @property
    def is_stopped(self) -> bool:
        return self._stopped.is_set()

    def stop(self) -> None:
        """next() ends without messages, also while it waits."""
        self._stopped.set()

    async def next(self) -> list[StoredMessage]:
        """At least one message, none after stop(). What is to be settled is sent first."""
        while not self.is_stopped:
            await self.settlements.flush()
            if found := await self._receive():
                return found
        return []

    def put(self, verdict: Verdict, promise: Promise[bool]) -> None:
        self.settlements.put(verdict, promise)

    async def close(self, unread: list[StoredMessage]) -> None:
        """Sends what is to be settled. Messages that nobody was given are given back."""
        self.stop()
        loop = asyncio.get_running_loop()
        for message in unread:
            self.put(Verdict(message.receipt or "", "release"), loop.create_future())
        await self.settlements.flush()

    async def _receive(self) -> list[StoredMessage]:
        receiving = asyncio.ensure_future(self._requests.send(self.options.receive(self._name)))
        stopping = asyncio.ensure_future(self._stopped.wait())
        try:
            await asyncio.wait((receiving, stopping), return_when=asyncio.FIRST_COMPLETED)
            return receiving.result().messages if receiving.done() else []
        finally:
            # The connection goes with the request: the server takes back what it was about to hand out.
            for task in (receiving, stopping):
                task.cancel()
            await asyncio.gather(receiving, stopping, return_exceptions=True)
