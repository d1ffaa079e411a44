"""A stream of lines, each a message: taken in batches as they come, so that the stream may be endless."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field

import msgspec
from msgspec import UNSET, UnsetType

from penstock.broker.publish.request import Published
from penstock.broker.queue import Queue
from penstock.codecs.http.messages import OutgoingMessage
from penstock.core.errors import PenstockError
from penstock.gateways.http.bodies import columns_of
from penstock.gateways.http.exchange import Exchange, decoded
from penstock.gateways.http.problems import Problem, Refusal, problem_of, problem_reply
from penstock.gateways.http.reply import Reply, json_reply
from penstock.log.columns import Columns

LINES = "application/x-ndjson"
_BATCH_LINES = 1000
_ERRORS_TOLD = 100

_decoder = msgspec.json.Decoder(OutgoingMessage)

Numbered = tuple[int, OutgoingMessage]
"""a message and its line, counted from 1"""


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
        messages: list[Numbered] = []
        for line in lines:
            self.read += 1
            if not line.strip():
                continue
            try:
                messages.append((self.read, self._message(line)))
            except Refusal as refusal:
                self.failed += 1
                self.refuse(self.read, refusal)
        waiting = _by_partition(messages)
        while waiting:
            try:
                await self._put(*waiting[0])
            except (PenstockError, Refusal) as error:
                self._fail([each for _, some in waiting for each in some], error)
                raise
            del waiting[0]

    async def _put(self, partition: int | None, messages: Sequence[Numbered]) -> None:
        self.exchange.take_rate(len(messages))
        broker, publisher = self.exchange.ports.broker, self.exchange.connection.publisher
        columns = columns_of([message for _, message in messages])
        self.queue = await broker.publishing.routes.made(self.queue, [columns], partition, made=self.made)
        self._took(messages, columns, await broker.publishing.put(self.queue, columns, publisher, partition))
        self.accepted += len(messages)
        self.exchange.state.counters.received += len(messages)

    def _took(self, messages: Sequence[Numbered], columns: Columns, published: Published) -> None:
        """Nobody asks where each of them is."""

    def _fail(self, messages: Sequence[Numbered], error: PenstockError | Refusal) -> None:
        """The stream ends with it."""
        self.failed += len(messages)

    def _message(self, line: bytes) -> OutgoingMessage:
        """Refusal for what would be refused with all others of its commit."""
        message, count = _decoded(line), self.queue.settings.partitions
        if message.partition is not None and not 0 <= message.partition < count:
            detail = f"queue {self.queue.name!r} has no partition {message.partition}, it has {count}"
            raise Refusal(400, "invalid-argument", detail, "partition")
        return message

    def report(self, stopped: Problem | None = None) -> LinesReport:
        return LinesReport(self.read, self.accepted, self.failed, self.errors, stopped, True if self.made else UNSET)

    def refuse(self, line: int, error: PenstockError | Refusal) -> None:
        if len(self.errors) < _ERRORS_TOLD:
            self.errors.append(LineError(line, problem_of(error, self.exchange.request_id)))


async def publish_lines(exchange: Exchange, queue: Queue) -> Reply:
    """200 if every line was taken, 207 if some were; else what went wrong first."""
    check_lines(exchange)
    lines = Lines(exchange, queue)
    try:
        async for some in read_lines(exchange, lines):
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


def check_lines(exchange: Exchange) -> None:
    """Refusal for what a stream cannot have."""
    if exchange.header(b"idempotency-key") is not None:
        detail = "lines cannot be sent again under one Idempotency-Key: send `messages` in one body of JSON"
        raise Refusal(400, "invalid-argument", detail, "Idempotency-Key")


async def read_lines(exchange: Exchange, lines: Lines) -> AsyncIterator[list[bytes]]:
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


def _decoded(line: bytes) -> OutgoingMessage:
    """With its value found to be one: Refusal."""
    try:
        message = _decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        message = decoded(line, OutgoingMessage, "line")
    columns_of([message], "line")
    return message


def _by_partition(messages: Sequence[Numbered]) -> list[tuple[int | None, list[Numbered]]]:
    found: dict[int | None, list[Numbered]] = {}
    for numbered in messages:
        found.setdefault(numbered[1].partition, []).append(numbered)
    return list(found.items())
