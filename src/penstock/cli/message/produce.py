"""`penstock produce` and `penstock queue put`: messages to a queue, gathered into batches."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import click

from penstock.cli.completions import queue_argument
from penstock.cli.connections import on_server
from penstock.cli.failures import INTERRUPTED, NotThere
from penstock.cli.message.lines import LineReader, stop_on_signal
from penstock.cli.message.options import value_of, value_options
from penstock.cli.output import DATA_FORMATS, output_option, print_data, print_table
from penstock.cli.target import Target, target_options
from penstock.client.http.async_client import AsyncClient
from penstock.client.http.errors import HttpRefused
from penstock.client.http.producers import AsyncProducer
from penstock.codecs.http.messages import PublishedMessage

Command = TypeVar("Command", bound=Callable[..., object])

_TAKE_LINES, _TAKE_BYTES = 500, 4 << 20


@dataclass(slots=True)
class Run:
    """Messages of one partition that the command has put; others may have come between them."""

    first: int
    last: int
    messages: int = 0


@dataclass(slots=True)
class ProduceRequest:
    queue: str
    separator: bytes
    key: bytes | None
    headers: tuple[tuple[str, str], ...]
    content_type: str | None
    partition: int | None
    may_create: bool = True
    is_created: bool = False
    placed: dict[int, Run] = field(default_factory=dict)
    """filled as answers come back"""

    def note(self, promise: asyncio.Future[PublishedMessage]) -> None:
        if promise.cancelled() or promise.exception() is not None:
            return
        sent = promise.result()
        run = self.placed.setdefault(sent.partition, Run(sent.offset, sent.offset))
        run.first, run.last = min(run.first, sent.offset), max(run.last, sent.offset)
        run.messages += 1


def message_options(command: Command) -> Command:
    for option in (
        click.option("--no-create", is_flag=True, help="Fail if the queue does not exist."),
        click.option(
            "--partition", metavar="N", type=click.IntRange(min=0), help="Publish to this partition and ignore keys."
        ),
        click.option("--content-type", metavar="TYPE", help="Content type of the messages, like application/json."),
        click.option(
            "--header", "headers", metavar="NAME=VALUE", multiple=True, help="Header of every message. Can be repeated."
        ),
        click.option(
            "--key-separator",
            metavar="SEP",
            default="",
            help=r"Separator between key and value in a line (\t: a tab).",
        ),
    ):
        command = option(command)
    return command


@click.command()
@queue_argument
@click.argument("value", metavar="[VALUE]", required=False)
@click.option("-m", "--message", metavar="VALUE", help="The message, like VALUE.")
@click.option("-k", "--key", metavar="KEY", help="Key of the message; messages with the same key stay in order.")
@value_options
@message_options
@target_options
@output_option()
def produce(
    target: Target,
    queue: str,
    value: str | None,
    message: str | None,
    key: str | None,
    file: Path | None,
    is_stdin: bool,
    key_separator: str,
    headers: tuple[str, ...],
    content_type: str | None,
    partition: int | None,
    no_create: bool,
    output: str,
) -> int:
    """Publish messages to a queue: one, a file, or each line of standard input.

    Messages reported at the end are on the server's disk, even if the command failed or was interrupted afterwards. If
    the queue does not exist, the server creates it with default settings and the command says so on standard error;
    with --no-create it fails instead. To publish to topics, use `penstock publish`.

    \b
    Examples:
      penstock produce orders '{"id": 7}' --key alice --content-type application/json
      penstock produce orders --file order.json
      seq 100 | penstock produce orders --stdin
      echo 'user-7:signed in' | penstock produce events --stdin --key-separator : --header source=web
    """
    is_twice = value is not None and message is not None
    data = value_of("VALUE", value if message is None else message, file, is_stdin, is_twice=is_twice)
    if key is not None and data is None:
        raise click.UsageError("--key is for one message: with --stdin use --key-separator")
    request = _request(queue, key_separator, headers, content_type, partition, key)
    request.may_create = not no_create
    return _run(target, request, data, output)


@click.command()
@queue_argument
@message_options
@target_options
@output_option()
def put(
    target: Target,
    queue: str,
    key_separator: str,
    headers: tuple[str, ...],
    content_type: str | None,
    partition: int | None,
    no_create: bool,
    output: str,
) -> int:
    """Publish each line of standard input as a message, like `penstock produce QUEUE --stdin`.

    Messages reported at the end are durable, even if the command failed or was interrupted afterwards.
    Messages with the same key go to the same partition.

    \b
    Examples:
      seq 100 | penstock queue put orders
      echo 'user-7:signed in' | penstock queue put events --key-separator : --header source=web
    """
    request = _request(queue, key_separator, headers, content_type, partition, None)
    request.may_create = not no_create
    return _run(target, request, None, output)


def _request(
    queue: str,
    key_separator: str,
    headers: tuple[str, ...],
    content_type: str | None,
    partition: int | None,
    key: str | None,
) -> ProduceRequest:
    pairs = [header.partition("=") for header in headers]
    if wrong := next((name for name, equals, _ in pairs if not equals or not name), None):
        raise click.BadParameter(f"{wrong!r}: write it like colour=red", param_hint="--header")
    return ProduceRequest(
        queue,
        key_separator.replace(r"\t", "\t").encode(),
        None if key is None else key.encode(errors="surrogateescape"),
        tuple((name, text) for name, _, text in pairs),
        content_type,
        partition,
    )


def _run(target: Target, request: ProduceRequest, value: bytes | None, output: str) -> int:
    async def act(client: AsyncClient) -> int:
        was_there = await _is_there(client, request.queue)
        if not was_there and not request.may_create:
            raise NotThere(f"no queue {request.queue!r}: see `penstock queue list`, or leave --no-create out")
        try:
            return await _produce(client, request, value)
        finally:
            if not was_there and request.placed and await _is_there(client, request.queue):
                request.is_created = True
                click.echo(f"penstock: created queue {request.queue!r}, which did not exist", err=True)

    try:
        code = on_server(target, act)
    except BaseException:
        if request.placed:
            _print(request, output)
        raise
    _print(request, output)
    return code


async def _is_there(client: AsyncClient, queue: str) -> bool:
    """Yes, as far as one can see: who may publish may not be allowed to look."""
    try:
        await client.queue_stats(queue)
    except HttpRefused as error:
        return error.status != 404
    return True


async def _produce(client: AsyncClient, request: ProduceRequest, value: bytes | None) -> int:
    lines = LineReader(sys.stdin.fileno()) if value is None else None
    interrupted = stop_on_signal(lines)
    async with client.producer(request.queue, linger_s=0.0 if lines is None else 0.005) as producer:
        if lines is None:
            await _send(producer, request, request.key, value or b"")
        else:
            await _send_lines(producer, request, lines)
    return INTERRUPTED if signal.SIGINT in interrupted else 0


async def _send_lines(producer: AsyncProducer, request: ProduceRequest, lines: LineReader) -> None:
    failed: list[BaseException] = []
    async for line in _lines(lines):
        key, found, rest = line.partition(request.separator) if request.separator else (b"", b"", line)
        promise = await _send(producer, request, key if found else None, rest if found else line)
        promise.add_done_callback(lambda done: _take_failure(done, failed))
        # What cannot be stored ends it; lines that were not read yet stay where they are.
        if failed:
            return


async def _send(
    producer: AsyncProducer, request: ProduceRequest, key: bytes | None, value: bytes
) -> asyncio.Future[PublishedMessage]:
    promise = await producer.send(
        _as_text(value), key, request.headers, partition=request.partition, content_type=request.content_type
    )
    promise.add_done_callback(request.note)
    return promise


def _as_text(value: bytes) -> str | bytes:
    """Text takes a third less than base64."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value


def _take_failure(promise: asyncio.Future[PublishedMessage], failed: list[BaseException]) -> None:
    if not promise.cancelled() and (error := promise.exception()) is not None:
        failed.append(error)


async def _lines(lines: LineReader) -> AsyncIterator[bytes]:
    while taken := await lines.take(_TAKE_LINES, _TAKE_BYTES):
        for line in taken:
            yield line


def _print(request: ProduceRequest, output: str) -> None:
    runs = sorted(request.placed.items())
    count = sum([run.messages for _, run in runs])
    if output in DATA_FORMATS:
        placed = [
            {"partition": partition, "first_offset": run.first, "last_offset": run.last, "messages": run.messages}
            for partition, run in runs
        ]
        facts = {"queue": request.queue, "created": request.is_created, "messages": count, "placed": placed}
        print_data(facts, output)
        return
    click.echo(f"queue {request.queue}: {count:,} {'message' if count == 1 else 'messages'} put")
    if runs:
        columns = ["partition", "first", "last", "messages"]
        print_table(columns, [(number, run.first, run.last, run.messages) for number, run in runs], numbers=columns)
