"""`penstock consume`: messages of a queue, looked at or taken."""

from __future__ import annotations

import asyncio
import re
import secrets
import signal
import sys
from collections.abc import AsyncIterator, Awaitable
from dataclasses import dataclass, replace

import click

from penstock.cli.completions import queue_argument
from penstock.cli.connections import on_server
from penstock.cli.failures import INTERRUPTED
from penstock.cli.output import output_option
from penstock.cli.queue.browse import rendered
from penstock.cli.target import Target, target_options
from penstock.client.http.async_client import AsyncClient
from penstock.client.http.events import MESSAGE
from penstock.client.http.incoming import StoredMessage
from penstock.client.http.intake import ConsumeOptions
from penstock.client.http.options import Retries
from penstock.client.http.settlements import Kind, settlement
from penstock.core.errors import PenstockError

_PAGE = 500
_FOLLOW_WAIT_S = 20.0
# So long nothing comes before a run that does not follow ends.
_LAST_WAIT_S = 1.0
_ACK = ("ack", None, None, None)
_GIVE_BACK = ("release", None, None, None)
# A person stops it, not a restart of the server.
_PATIENT = Retries(attempts=1000, first_delay_s=0.2, longest_delay_s=5.0)


@dataclass(frozen=True, slots=True)
class ConsumeRequest:
    queue: str
    start: str | None
    """None: from now on"""
    partition: int | None
    pattern: re.Pattern[bytes] | None
    most: int | None
    is_following: bool
    output: str

    def wants(self, message: StoredMessage) -> bool:
        is_there = self.partition is None or message.partition == self.partition
        return is_there and (self.pattern is None or self.pattern.search(message.value) is not None)

    def show(self, message: StoredMessage) -> None:
        sys.stdout.buffer.write(rendered(message, self.output))
        sys.stdout.buffer.flush()


@click.command()
@queue_argument
@click.option(
    "-g", "--group", metavar="GROUP", help="Consume as a member of this consumer group and acknowledge messages."
)
@click.option("-f", "--follow", is_flag=True, help="Keep waiting for new messages until interrupted.")
@click.option(
    "--from", "start", metavar="START", help="Start here: a duration back from now (2h), a time, or an offset."
)
@click.option("--from-beginning", is_flag=True, help="Start at the oldest message.")
@click.option("-p", "--partition", metavar="N", type=click.IntRange(min=0), help="Only this partition.")
@click.option("--grep", metavar="RE", help="Only messages whose value matches this regular expression.")
@click.option("-n", "--max", "most", metavar="N", type=click.IntRange(min=1), help="End after N messages.")
@click.option(
    "--ack/--no-ack",
    default=None,
    help="With --group: acknowledge printed messages, or return them at the end without counting a failure.",
)
@target_options
@output_option("text")
def consume(
    target: Target,
    queue: str,
    group: str | None,
    follow: bool,
    start: str | None,
    from_beginning: bool,
    partition: int | None,
    grep: str | None,
    most: int | None,
    ack: bool | None,
    output: str,
) -> int:
    """Print messages of a queue.

    Without --group, messages are only read: nothing is acknowledged, and every run prints the same messages. Reading
    starts at the oldest message, or with --follow at the newest, unless --from is given. With --group, messages are
    consumed: from the group's position on, and printed messages are acknowledged. A new group starts at --from, or at
    the oldest message.

    \b
    Examples:
      penstock consume orders --max 10
      penstock consume orders --follow
      penstock consume orders --from 2h --grep 'status.*failed' -o json
      penstock consume orders --group billing --follow
    """
    if start is not None and from_beginning:
        raise click.UsageError("--from and --from-beginning exclude each other")
    if group is None and ack:
        raise click.UsageError("--ack needs --group; leave it out to only read")
    if group is not None and (grep is not None or partition is not None):
        raise click.UsageError("a group gets all messages: leave --grep and --partition out, or leave --group out")
    place = start or ("earliest" if from_beginning or group is not None or not follow else None)
    request = ConsumeRequest(queue, place, partition, _pattern(grep), most, follow, output)
    if follow:
        retries = replace(_PATIENT, notice=Absence(str(target)).note)
        target = replace(target, options=replace(target.options, retries=retries))

    async def act(client: AsyncClient) -> int:
        if group is not None:
            return await _interruptible(_take(client, request, group, is_acked=ack is not False))
        return await _interruptible(_follow(client, request) if follow else _look(client, request))

    return on_server(target, act)


@dataclass(slots=True)
class Absence:
    """Says on standard error when the server is away, and when it is back: each once."""

    server: str
    is_away: bool = False

    def note(self, failure: PenstockError | None) -> None:
        if failure is not None and not self.is_away:
            click.echo(
                f"penstock: {self.server} cannot be reached ({failure}); waiting for it, Ctrl-C to quit", err=True
            )
        elif failure is None and self.is_away:
            click.echo(f"penstock: {self.server} can be reached again", err=True)
        self.is_away = failure is not None


def _pattern(grep: str | None) -> re.Pattern[bytes] | None:
    try:
        return None if grep is None else re.compile(grep.encode())
    except re.error as error:
        raise click.BadParameter(f"{grep!r} is not a regular expression: {error}", param_hint="--grep") from error


async def _look(client: AsyncClient, request: ConsumeRequest) -> None:
    page = _PAGE if request.most is None or request.pattern is not None else min(_PAGE, request.most)
    await _show_all(client.browse(request.queue, from_=request.start, partition=request.partition, page=page), request)


async def _follow(client: AsyncClient, request: ConsumeRequest) -> None:
    # A queue that is not there is known at once, and not after as many tries as a lost connection is worth.
    await client.queue_stats(request.queue)
    await _show_all(_events(client, request), request)


async def _events(client: AsyncClient, request: ConsumeRequest) -> AsyncIterator[StoredMessage]:
    async for event in client.events(request.queue, from_=request.start):
        if event.kind == MESSAGE:
            yield event.message
        else:
            click.echo(f"penstock: {event.kind}: {event.data}", err=True)


async def _show_all(messages: AsyncIterator[StoredMessage], request: ConsumeRequest) -> None:
    left = request.most
    async for message in messages:
        if request.wants(message):
            request.show(message)
            left = None if left is None else left - 1
            if left == 0:
                return


async def _take(client: AsyncClient, request: ConsumeRequest, group: str, *, is_acked: bool) -> None:
    """As many at a time as are wanted: nothing is held that is not printed."""
    left, held, consumer = request.most, list[str](), secrets.token_hex(8)
    try:
        while left != 0:
            options = ConsumeOptions(
                request.queue,
                group,
                max=min(left or _PAGE, _PAGE),
                wait_s=_FOLLOW_WAIT_S if request.is_following else _LAST_WAIT_S,
                start=request.start or "earliest",
            )
            messages = (await client.ask(options.receive(consumer))).messages
            if not messages and not request.is_following:
                return
            for message in messages:
                request.show(message)
            receipts = [message.receipt or "" for message in messages]
            if is_acked and receipts:
                await asyncio.shield(_settle(client, _ACK, receipts))
            elif receipts:
                held += receipts
            left = None if left is None else left - len(messages)
    finally:
        for first in range(0, len(held), _PAGE):
            await _settle(client, _GIVE_BACK, held[first : first + _PAGE])


async def _settle(client: AsyncClient, kind: Kind, receipts: list[str]) -> None:
    """What came too late is said: those messages come again."""
    report = await client.ask(settlement(kind, receipts))
    if report.stale:
        click.echo(f"penstock: {report.stale} of {len(receipts)} not settled: {report.advice}", err=True)


async def _interruptible(work: Awaitable[None]) -> int:
    """SIGINT and SIGTERM end it in order: what was printed is settled."""
    task = asyncio.ensure_future(work)
    came: list[signal.Signals] = []

    def stop(number: signal.Signals) -> None:
        came.append(number)
        task.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop, number)
    try:
        await task
    except asyncio.CancelledError:
        if not came:
            raise
    return INTERRUPTED if signal.SIGINT in came else 0
