"""A stream of lines whose sender wants to know what became of each: a line of the answer for a line of the stream."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from penstock.broker.publish.request import Published
from penstock.broker.queue import Queue
from penstock.core.errors import PenstockError
from penstock.gateways.http.exchange import Disconnected, Exchange
from penstock.gateways.http.problems import Problem, Refusal, problem_of
from penstock.gateways.http.publish_lines import LINES, Lines, Numbered, check_lines, read_lines
from penstock.gateways.http.published import results_of
from penstock.log.columns import Columns

_encoder = msgspec.json.Encoder()


class LineResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """Of one line, counted from 1: where its message is, which is on disk then, or why it was not taken."""

    line: int
    id: str | None = None
    partition: int | None = None
    offset: int | None = None
    created: bool = False
    """the queue did not exist, and was created for this message and those behind it"""
    error: Problem | None = None


@dataclass(slots=True)
class _Answered(Lines):
    """Results wait until those of all lines that were read together are known, and no longer."""

    results: list[LineResult] = field(default_factory=list)

    async def take(self, lines: Sequence[bytes]) -> None:
        try:
            await Lines.take(self, lines)
        finally:
            self.results.sort(key=_line)

    def _took(self, messages: Sequence[Numbered], columns: Columns, published: Published) -> None:
        unkeyed = self.exchange.connection.publisher.partition(self.queue)
        placed = results_of(self.queue, columns, published.placed, unkeyed)
        is_created = bool(self.made) and not self.accepted
        for (line, _), each in zip(messages, placed, strict=True):
            self.results.append(LineResult(line, each.id, each.partition, each.offset, is_created))
            is_created = False

    def _fail(self, messages: Sequence[Numbered], error: PenstockError | Refusal) -> None:
        for line, _ in messages:
            self.refuse(line, error)

    def refuse(self, line: int, error: PenstockError | Refusal) -> None:
        self.results.append(LineResult(line, error=problem_of(error, self.exchange.request_id)))

    async def tell(self) -> None:
        """A client that does not read its results is let go: it would hold up its own stream for good."""
        results, self.results = self.results, []
        if not self.exchange.is_started:
            await self.exchange.start(207, [(b"content-type", LINES.encode())])
        try:
            async with asyncio.timeout(self.exchange.options.stall_timeout_s):
                await self.exchange.send(_encoder.encode_lines(results))
        except TimeoutError:
            await self.exchange.abort()
            raise Disconnected from None


async def answer_lines(exchange: Exchange, queue: Queue) -> None:
    """207: the answer has a status for each line. It ends early, and the connection with it, where no more lines can be
    taken; those that were read have their error, those that have no result were not read."""
    check_lines(exchange)
    lines = _Answered(exchange, queue)
    is_stopped = False
    try:
        async for some in read_lines(exchange, lines):
            await lines.take(some)
            await lines.tell()
    except (PenstockError, Refusal) as error:
        is_stopped = True
        if not lines.results:
            lines.refuse(lines.read + 1, error)
    if lines.results or not exchange.is_started:
        await lines.tell()
    await exchange.end()
    if is_stopped:
        exchange.hang_up()


def _line(result: LineResult) -> int:
    return result.line
