"""The server's side of the Flight listener. The other is a process of its own, so that a reader at full speed does not
slow the loop: it reads the data directory, and asks here who may read what."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import sys
from dataclasses import dataclass

import msgspec

from penstock.broker.auth.access import Access
from penstock.broker.broker import Broker
from penstock.core.errors import CannotListen
from penstock.gateways.flight.login import answer
from penstock.gateways.flight.messages import (
    MAX_LINE_BYTES,
    CannotStart,
    Listening,
    Options,
    Question,
    Said,
    Unexpected,
    line,
)
from penstock.gateways.flight.writing import FlightWrites

logger = logging.getLogger("penstock.flight")

_PROGRAM = "penstock.gateways.flight.child"
_START_S, _STOP_S = 60.0, 10.0
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 1.0, 30.0
# glibc keeps what record batches took in heaps of many threads, more than twice of what they are; with fixed thresholds
# it goes back at once. Eight clients with batches of 30 MiB: 1264 MiB without, 678 with, 158 instead of 794 afterwards.
_ALLOCATION = {"MALLOC_ARENA_MAX": "1", "MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "131072"}
# Logins that are looked at side by side; others wait in the socket.
_QUESTIONS_MAX = 64


@dataclass(slots=True)
class _Child:
    process: asyncio.subprocess.Process
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    writes: FlightWrites
    port: int = 0


class FlightGateway:
    """Use start(), then close(). One that ends by itself is started again."""

    def __init__(self, broker: Broker, access: Access, options: Options, is_loopback: bool) -> None:
        self._broker, self._access, self._options, self._is_loopback = broker, access, options, is_loopback
        self._child: _Child | None = None
        self._watching: asyncio.Task[None] | None = None
        self._questions: set[asyncio.Task[None]] = set()

    @property
    def connection_count(self) -> int:
        """They are those of its process."""
        return 0

    @property
    def addresses(self) -> dict[str, tuple[str, int]]:
        return {"flight": (self._options.host, self._options.port)}

    @property
    def not_accepting(self) -> list[str]:
        return ["flight"] if self._child is None else []

    async def start(self) -> None:
        """Clients can connect when it returns. CannotListen."""
        child = await self._begin()
        self._options = msgspec.structs.replace(self._options, port=child.port)
        self._watching = asyncio.create_task(self._watch(child))

    async def drain(self) -> None:
        """Streams end where they are, with close()."""

    async def close(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._watching
        for task in self._questions:
            task.cancel()

    async def _watch(self, child: _Child) -> None:
        loop, pause_s = asyncio.get_running_loop(), _FIRST_PAUSE_S
        while True:
            self._child, begun_s = child, loop.time()
            try:
                await self._listen(child)
            finally:
                self._child = None
                await _end(child)
            if loop.time() - begun_s > _LONGEST_PAUSE_S:
                pause_s = _FIRST_PAUSE_S
            logger.error("the listener flight ended status=%s: it is started again", child.process.returncode)
            child, pause_s = await self._again(pause_s)

    async def _again(self, pause_s: float) -> tuple[_Child, float]:
        while True:
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
            try:
                return await self._begin(), pause_s
            except (CannotListen, OSError) as error:
                logger.error("the listener flight cannot be started again error=%s", error)

    async def _begin(self) -> _Child:
        ours, theirs = zip(*(socket.socketpair() for _ in range(2)), strict=True)
        descriptors = [end.fileno() for end in theirs]
        try:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-P", "-m", _PROGRAM, *map(str, descriptors)),
                stdin=asyncio.subprocess.DEVNULL,
                pass_fds=descriptors,
                env={**_ALLOCATION, **os.environ},
            )
        except BaseException:
            for end in ours:
                end.close()
            raise
        finally:
            for end in theirs:
                end.close()
        writes = FlightWrites(self._broker, self._access, self._is_loopback)
        await asyncio.get_running_loop().create_connection(lambda: writes.intake, sock=ours[1])
        child = _Child(process, *await asyncio.open_connection(sock=ours[0], limit=MAX_LINE_BYTES), writes)
        try:
            child.port = await asyncio.wait_for(self._first_port(child), _START_S)
        except BaseException:
            await _end(child)
            raise
        return child

    async def _first_port(self, child: _Child) -> int:
        child.writer.write(line(self._options))
        said = await _next(child)
        if isinstance(said, Listening):
            return said.port
        reason = said.reason if isinstance(said, CannotStart) else "its process ended"
        raise CannotListen("flight", self._options.host, self._options.port, reason)

    async def _listen(self, child: _Child) -> None:
        while (said := await _next(child)) is not None:
            if isinstance(said, Question):
                while len(self._questions) >= _QUESTIONS_MAX:
                    await asyncio.wait(self._questions, return_when=asyncio.FIRST_COMPLETED)
                task = asyncio.create_task(self._answer(child, said))
                self._questions.add(task)
                task.add_done_callback(self._questions.discard)
            elif isinstance(said, Unexpected):
                logger.error("unexpected in the listener flight what=%s", said.what)

    async def _answer(self, child: _Child, question: Question) -> None:
        answered = await answer(self._access, question, self._is_loopback)
        if question.is_fresh and any(answered.may_read):
            await self._broker.shard.show()
        if not child.writer.is_closing():
            child.writer.write(line(answered))


async def _next(child: _Child) -> Said | None:
    """None at the end."""
    try:
        data = await child.reader.readline()
        return msgspec.json.decode(data, type=Said) if data else None
    except (ConnectionError, ValueError) as error:
        logger.error("the listener flight said what cannot be read error=%s", type(error).__name__)
        return None


async def _end(child: _Child) -> None:
    """It ends when nobody listens any more; one that does not is killed."""
    child.writer.close()
    await child.writes.close()
    try:
        await asyncio.wait_for(child.process.wait(), _STOP_S)
    except TimeoutError:
        child.process.kill()
        await child.process.wait()
