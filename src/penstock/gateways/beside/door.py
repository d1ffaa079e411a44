"""A door whose listener is a process of its own, so that its work takes no time of the loop: started, watched, started
again. On the server's loop."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import msgspec

from penstock.core.errors import CannotListen
from penstock.gateways.beside.frames import HeadT
from penstock.gateways.beside.lines import (
    MAX_LINE_BYTES,
    Answer,
    CannotStart,
    Listening,
    ListenOptions,
    Question,
    Unexpected,
    line,
)
from penstock.gateways.beside.requests import Requests

logger = logging.getLogger("penstock.beside")

_START_S, _STOP_S = 60.0, 10.0
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 1.0, 30.0
# Questions that are looked at side by side; others wait in the socket.
_QUESTIONS_MAX = 64

QuestionT = TypeVar("QuestionT", bound=Question)


@dataclass(frozen=True, slots=True)
class Program:
    """What is run as `python -m MODULE LINE INTAKE`, under the name of its listener."""

    listener: str
    module: str
    environment: Mapping[str, str] = field(default_factory=dict)
    """what is not set otherwise"""


@dataclass(slots=True)
class _Child(Generic[HeadT]):
    process: asyncio.subprocess.Process
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    requests: Requests[HeadT]
    port: int = 0


class BesideDoor(Generic[HeadT, QuestionT]):
    """Use start(), then close(). One that ends by itself is started again. `requests` is called for each process that
    is started, `answer` for each question, and raises nothing that a caller can bring about."""

    def __init__(
        self,
        program: Program,
        options: ListenOptions,
        requests: Callable[[], Requests[HeadT]],
        questions: type[QuestionT],
        answer: Callable[[QuestionT], Awaitable[Answer]],
    ) -> None:
        self._program, self._options, self._requests, self._answer_to = program, options, requests, answer
        self._decoder = msgspec.json.Decoder(Listening | CannotStart | Unexpected | questions)
        self._kind = questions
        self._child: _Child[HeadT] | None = None
        self._watching: asyncio.Task[None] | None = None
        self._questions: set[asyncio.Task[None]] = set()

    @property
    def connection_count(self) -> int:
        """They are those of its process."""
        return 0

    @property
    def addresses(self) -> dict[str, tuple[str, int]]:
        return {self._program.listener: (self._options.host, self._options.port)}

    @property
    def not_accepting(self) -> list[str]:
        return [self._program.listener] if self._child is None else []

    async def start(self) -> None:
        """Clients can connect when it returns. CannotListen."""
        child = await self._begin()
        self._options = msgspec.structs.replace(self._options, port=child.port)
        self._child, self._watching = child, asyncio.create_task(self._watch(child))

    async def drain(self) -> None:
        """Streams end where they are, with close()."""

    async def close(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._watching
        if self._child is not None:
            # Closed before anybody watched it.
            await _end(self._child)
            self._child = None
        for task in self._questions:
            task.cancel()

    async def _watch(self, child: _Child[HeadT]) -> None:
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
            status = child.process.returncode
            logger.error("the listener %s ended status=%s: it is started again", self._program.listener, status)
            child, pause_s = await self._again(pause_s)

    async def _again(self, pause_s: float) -> tuple[_Child[HeadT], float]:
        while True:
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
            try:
                return await self._begin(), pause_s
            except (CannotListen, OSError) as error:
                logger.error("the listener %s cannot be started again error=%s", self._program.listener, error)

    async def _begin(self) -> _Child[HeadT]:
        ours, theirs = zip(*(socket.socketpair() for _ in range(2)), strict=True)
        descriptors = [end.fileno() for end in theirs]
        try:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-P", "-m", self._program.module, *map(str, descriptors)),
                stdin=asyncio.subprocess.DEVNULL,
                pass_fds=descriptors,
                env={**self._program.environment, **os.environ},
            )
        except BaseException:
            for end in ours:
                end.close()
            raise
        finally:
            for end in theirs:
                end.close()
        requests = self._requests()
        await asyncio.get_running_loop().create_connection(lambda: requests.intake, sock=ours[1])
        child = _Child(process, *await asyncio.open_connection(sock=ours[0], limit=MAX_LINE_BYTES), requests)
        try:
            child.port = await asyncio.wait_for(self._first_port(child), _START_S)
        except BaseException:
            await _end(child)
            raise
        return child

    async def _first_port(self, child: _Child[HeadT]) -> int:
        child.writer.write(line(self._options))
        said = await self._next(child)
        if isinstance(said, Listening):
            return said.port
        reason = said.reason if isinstance(said, CannotStart) else "its process ended"
        raise CannotListen(self._program.listener, self._options.host, self._options.port, reason)

    async def _listen(self, child: _Child[HeadT]) -> None:
        while (said := await self._next(child)) is not None:
            if isinstance(said, self._kind):
                while len(self._questions) >= _QUESTIONS_MAX:
                    await asyncio.wait(self._questions, return_when=asyncio.FIRST_COMPLETED)
                task = asyncio.create_task(self._answer(child, said))
                self._questions.add(task)
                task.add_done_callback(self._questions.discard)
            elif isinstance(said, Unexpected):
                logger.error("unexpected in the listener %s what=%s", self._program.listener, said.what)

    async def _answer(self, child: _Child[HeadT], question: QuestionT) -> None:
        answered = await self._answer_to(question)
        if not child.writer.is_closing():
            child.writer.write(line(answered))

    async def _next(self, child: _Child[HeadT]) -> Listening | CannotStart | Unexpected | QuestionT | None:
        """None at the end."""
        try:
            data = await child.reader.readline()
            return self._decoder.decode(data) if data else None
        except (ConnectionError, ValueError) as error:
            name, kind = self._program.listener, type(error).__name__
            logger.error("the listener %s said what cannot be read error=%s", name, kind)
            return None


async def _end(child: _Child[HeadT]) -> None:
    """It ends when nobody listens any more; one that does not is killed."""
    child.writer.close()
    await child.requests.close()
    try:
        await asyncio.wait_for(child.process.wait(), _STOP_S)
    except TimeoutError:
        child.process.kill()
        await child.process.wait()
