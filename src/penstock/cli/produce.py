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

from penstock.cli.failures import INTERRUPTED
from penstock.cli.lines import LineReader, stop_on_signal
from penstock.cli.output import DATA_FORMATS, output_option, print_data, print_table
from penstock.cli.talking import on_server, queue_argument
from penstock.cli.target import Target, target_options
from penstock.client.http.async_client import AsyncClient
from penstock.client.http.outgoing import Sent
from penstock.client.http.producers import AsyncProducer

Command = TypeVar("Command", bound=Callable[..., object])

_FILE = click.Path(dir_okay=False, exists=True, path_type=Path)
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
    placed: dict[int, Run] = field(default_factory=dict)
    """filled as answers come back"""

    def note(self, promise: asyncio.Future[Sent]) -> None:
        if promise.cancelled() or promise.exception() is not None:
            return
        sent = promise.result()
        run = self.placed.setdefault(sent.partition, Run(sent.offset, sent.offset))
        run.first, run.last = min(run.first, sent.offset), max(run.last, sent.offset)
        run.messages += 1


def message_options(command: Command) -> Command:
    for option in (
        click.option("--partition", metavar="N", type=click.IntRange(min=0), help="This one, whatever the keys."),
        click.option("--content-type", metavar="TYPE", help="Like application/json."),
        click.option(
            "--header", "headers", metavar="NAME=VALUE", multiple=True, help="For every message. May be repeated."
        ),
        click.option(
            "--key-separator",
            metavar="SEP",
            default="",
            help=r"What stands before it in a line is the key (\t: a tab).",
        ),
    ):
        command = option(command)
    return command


@click.command()
@queue_argument
@click.argument("value", metavar="[VALUE]", required=False)
@click.option("-m", "--message", metavar="VALUE", help="The same as VALUE.")
@click.option("-k", "--key", metavar="KEY", help="Messages of a key go to one partition, in their order.")
@click.option(
    "--file",
    metavar="FILE",
    type=click.Path(dir_okay=False, exists=True, path_type=Path),
    help="A file is the message.",
)
@click.option("--stdin", "is_stdin", is_flag=True, help="Each line of standard input is a message.")
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
    output: str,
) -> int:
    """Put messages into a queue: one, a file, or a line each from standard input.

    What is said at the end to be put is on the server's disk, also if the command failed or was interrupted behind it.
    To topics, `penstock publish` does it over MQTT.

    \b
    Examples:
      penstock produce orders '{"id": 7}' --key alice --content-type application/json
      penstock produce orders --file order.json
      seq 100 | penstock produce orders --stdin
      echo 'user-7:signed in' | penstock produce events --stdin --key-separator : --header source=web
    """
    data = _value(value if message is None else message, file, is_stdin, value is not None and message is not None)
    if key is not None and data is None:
        raise click.UsageError("--key is for one message: lines have theirs by --key-separator")
    request = _request(queue, key_separator, headers, content_type, partition, key)
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
    output: str,
) -> int:
    """Publish a message a line from standard input: `penstock produce QUEUE --stdin`.

    At the end it prints where the messages went; all of these are durable, also if the command failed or was
    interrupted behind them. Messages with the same key go to the same partition.

    \b
    Examples:
      seq 100 | penstock queue put orders
      echo 'user-7:signed in' | penstock queue put events --key-separator : --header source=web
    """
    return _run(target, _request(queue, key_separator, headers, content_type, partition, None), None, output)


def _value(value: str | None, file: Path | None, is_stdin: bool, is_twice: bool) -> bytes | None:
    """None: from standard input."""
    if is_twice or [value is not None, file is not None, is_stdin].count(True) != 1:
        raise click.UsageError("give one of VALUE, --file and --stdin; an empty message is ''")
    if file is not None:
        return file.read_bytes()
    return None if value is None else value.encode(errors="surrogateescape")


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
        return await _produce(client, request, value)

    try:
        code = on_server(target, act)
    except BaseException:
        if request.placed:
            _print(request, output)
        raise
    _print(request, output)
    return code


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
) -> asyncio.Future[Sent]:
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


def _take_failure(promise: asyncio.Future[Sent], failed: list[BaseException]) -> None:
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
        print_data({"queue": request.queue, "messages": count, "placed": placed}, output)
        return
    click.echo(f"queue {request.queue}: {count:,} {'message' if count == 1 else 'messages'} put")
    if runs:
        columns = ["partition", "first", "last", "messages"]
        print_table(columns, [(number, run.first, run.last, run.messages) for number, run in runs], numbers=columns)
