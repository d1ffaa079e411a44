"""A stream of lines, each a message: taken in batches as they come, so that the stream may be endless. Its answer is a
report at the end or, for senders who want to know what became of each, a line for a line."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec
from msgspec import UNSET, UnsetType

from penstock.broker.publish.joint import Row, columns_of
from penstock.broker.publish.request import Published
from penstock.broker.queues.queue import Queue
from penstock.codecs.http.messages import OutgoingMessage
from penstock.core.errors import PenstockError
from penstock.gateways.http.messages.bodies import plain_columns, row_of
from penstock.gateways.http.messages.published import fresh, put
from penstock.gateways.http.server.exchange import Disconnected, Exchange, decoded
from penstock.gateways.http.server.problems import Problem, Refusal, problem_of, problem_reply
from penstock.gateways.http.server.reply import Reply, json_reply
from penstock.log.columns import Columns

LINES = "application/x-ndjson"
_BATCH_LINES = 1000
_ERRORS_TOLD = 100

_decoder = msgspec.json.Decoder(OutgoingMessage)

_encoder = msgspec.json.Encoder()


class _Some(NamedTuple):
    """Messages for one partition, or by key, and the line of each, counted from 1."""

    partition: int | None
    lines: Sequence[int]
    columns: Columns


class LineError(msgspec.Struct, frozen=True):
    """`line` counts from 1."""

    line: int
    error: Problem


class LinesReport(msgspec.Struct, frozen=True):
    """Of `lines` that were read, those that are not blank were accepted or failed."""

    lines: int
    accepted: int
    failed: int
    errors: list[LineError]
    """the first hundred"""
    stopped: Problem | None = None
    """why the rest of the stream was not read, and why lines failed that are not among the errors"""
    created: bool | UnsetType = UNSET
    """true: the queue did not exist, and was created for these messages"""


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
class Lines:
    exchange: Exchange
    queue: Queue
    """as Routes.wanted() says: made for the first lines that it takes"""
    read: int = 0
    accepted: int = 0
    failed: int = 0
    errors: list[LineError] = field(default_factory=list)
    made: list[Queue] = field(default_factory=list)
    """the queue, if it was made for the stream"""

    async def take(self, lines: Sequence[bytes]) -> None:
        """Those that can be read, in one commit for each partition that they name."""
        waiting = self._read(lines)
        while waiting:
            try:
                await self._put(*waiting[0])
            except (PenstockError, Refusal) as error:
                self._fail([line for some in waiting for line in some.lines], error)
                raise
            del waiting[0]

    def _read(self, lines: Sequence[bytes]) -> list[_Some]:
        first = self.read + 1
        columns = plain_columns(b"\n".join(lines), is_lines=True)
        if columns is not None and columns.count == len(lines):
            self.read += len(lines)
            return [_Some(None, range(first, first + len(lines)), columns)]
        found: dict[int | None, tuple[list[int], list[Row]]] = {}
        for line in lines:
            self.read += 1
            if not line.strip():
                continue
            try:
                partition, row = self._message(line)
            except Refusal as refusal:
                self.failed += 1
                self.refuse(self.read, refusal)
            else:
                numbers, rows = found.setdefault(partition, ([], []))
                numbers.append(self.read)
                rows.append(row)
        return [_Some(partition, numbers, columns_of(rows)) for partition, (numbers, rows) in found.items()]

    async def _put(self, partition: int | None, lines: Sequence[int], columns: Columns) -> None:
        self.exchange.take_rate(len(lines))
        routes = self.exchange.ports.broker.publishing.routes
        self.queue = await routes.made(self.queue, [columns], partition, made=self.made)
        self._took(lines, columns, await put(self.exchange, self.queue, columns, partition))
        self.accepted += len(lines)
        self.exchange.state.counters.received += len(lines)

    def _took(self, lines: Sequence[int], columns: Columns, published: Published) -> None:
        """Nobody asks where each of them is."""

    def _fail(self, lines: Sequence[int], error: PenstockError | Refusal) -> None:
        """The stream ends with it."""
        self.failed += len(lines)

    def _message(self, line: bytes) -> tuple[int | None, Row]:
        """With the partition it asks for. Refusal for what would be refused with all others of its commit."""
        try:
            message = _decoder.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            message = decoded(line, OutgoingMessage, "line")
        row, partition, count = row_of(message, "line"), message.partition, self.queue.settings.partitions
        if partition is not None and not 0 <= partition < count:
            detail = f"queue {self.queue.name!r} has no partition {partition}, it has {count}"
            raise Refusal(400, "invalid-argument", detail, "partition")
        return partition, row

    def report(self, stopped: Problem | None = None) -> LinesReport:
        return LinesReport(self.read, self.accepted, self.failed, self.errors, stopped, True if self.made else UNSET)

    def refuse(self, line: int, error: PenstockError | Refusal) -> None:
        if len(self.errors) < _ERRORS_TOLD:
            self.errors.append(LineError(line, problem_of(error, self.exchange.request_id)))


async def publish_lines(exchange: Exchange, queue: Queue) -> Reply:
    """200 if every line was taken, 207 if some were; else what went wrong first."""
    _check(exchange)
    lines = Lines(exchange, queue)
    try:
        async for some in _read_lines(exchange, lines):
            await lines.take(some)
    except (PenstockError, Refusal) as error:
        if not lines.accepted:
            raise
        return json_reply(lines.report(problem_of(error, exchange.request_id)), 207, [(b"connection", b"close")])
    if lines.failed and not lines.accepted:
        first = lines.errors[0]
        return problem_reply(
            Refusal(400, "malformed-body", f"no line was taken; line {first.line}: {first.error.detail}"),
            exchange.request_id,
        )
    return json_reply(lines.report(), 207 if lines.failed else 200)


def _check(exchange: Exchange) -> None:
    """Refusal for what a stream cannot have."""
    if exchange.header(b"idempotency-key") is not None:
        detail = "lines cannot be sent again under one Idempotency-Key: send `messages` in one body of JSON"
        raise Refusal(400, "invalid-argument", detail, "Idempotency-Key")


async def _read_lines(exchange: Exchange, lines: Lines) -> AsyncIterator[list[bytes]]:
    """As many as came together, up to a batch of them. Refusal for one that is too long."""
    rest, limit = bytearray(), exchange.options.max_body_bytes
    while (chunk := await exchange.chunk()) is not None:
        rest += chunk
        if b"\n" in chunk:
            *whole, last = bytes(rest).split(b"\n")
            rest = bytearray(last)
            for at in range(0, len(whole), _BATCH_LINES):
                yield whole[at : at + _BATCH_LINES]
        if len(rest) > limit:
            raise Refusal(413, "body-too-large", f"line {lines.read + 1} is over {limit} bytes", closes=True)
        exchange.hold(len(rest))
    if rest:
        yield [bytes(rest)]


@dataclass(slots=True)
class _Answered(Lines):
    """Results wait until those of all lines that were read together are known, and no longer."""

    results: list[LineResult] = field(default_factory=list)

    async def take(self, lines: Sequence[bytes]) -> None:
        try:
            await Lines.take(self, lines)
        finally:
            self.results.sort(key=_line)

    def _took(self, lines: Sequence[int], columns: Columns, published: Published) -> None:
        queue, is_created = self.queue, bool(self.made) and not self.accepted
        unkeyed = self.exchange.connection.publisher.partition(queue)
        places = fresh(queue, columns, published.placed, unkeyed).rows()
        for line, (partition, offset) in zip(lines, places, strict=True):
            message_id = f"{queue.message_id_prefix(partition)}{offset}"
            self.results.append(LineResult(line, message_id, partition, offset, is_created))
            is_created = False

    def _fail(self, lines: Sequence[int], error: PenstockError | Refusal) -> None:
        for line in lines:
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
    _check(exchange)
    lines = _Answered(exchange, queue)
    is_stopped = False
    try:
        async for some in _read_lines(exchange, lines):
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
