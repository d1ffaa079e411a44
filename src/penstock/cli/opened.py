"""Commands about queues open the broker on a data directory, do their work, and close it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import click

from penstock.broker.broker import Broker
from penstock.broker.group import Group
from penstock.cli.directory import DataDirectory
from penstock.cli.failures import FAILED
from penstock.core.errors import DirectoryInUse, PenstockError
from penstock.queues.names import DEFAULT_NAMESPACE, parse_group_name

Result = TypeVar("Result")
Command = TypeVar("Command", bound=Callable[..., object])


class DirectoryHeld(DirectoryInUse):
    """The same, with what helps somebody who wants to work on queues."""

    def __init__(self, directory: str, holder: str) -> None:
        PenstockError.__init__(
            self,
            f"{directory} is held by {holder}: stop that process and run this again, "
            f"or do the same in it with the embedded API (penstock.open)",
        )
        self.directory, self.holder = directory, holder


def on_broker(directory: Path, act: Callable[[Broker], Awaitable[Result]], *, may_create: bool = False) -> Result:
    """What `act` returns, given the broker of a directory. DirectoryFormat if it is no data directory, unless one may
    be made; DirectoryHeld if a process has it open."""
    if not may_create:
        DataDirectory.at(directory)
    try:
        return asyncio.run(_act(directory, act))
    except DirectoryInUse as error:
        raise DirectoryHeld(error.directory, error.holder) from None


async def _act(directory: Path, act: Callable[[Broker], Awaitable[Result]]) -> Result:
    async with await Broker.open(directory) as broker:
        return await act(broker)


def group_of(broker: Broker, queue: str, namespace: str, group: str) -> Group:
    """NoSuchQueue, NoSuchGroup."""
    return broker.queue(queue, namespace).group(parse_group_name(group))


def namespace_option(command: Command) -> Command:
    return click.option(
        "--namespace", metavar="NAME", default=DEFAULT_NAMESPACE, show_default=True, help="Where the queue is."
    )(command)


def queue_argument(command: Command) -> Command:
    return click.argument("queue", metavar="QUEUE")(command)


def group_argument(command: Command) -> Command:
    return click.argument("group", metavar="GROUP")(command)


def yes_option(command: Command) -> Command:
    return click.option("-y", "--yes", is_flag=True, help="Do not ask.")(command)


def refuse_unless_confirmed(yes: bool, question: str) -> None:
    """Ends the command, where there is a terminal after a no, else without --yes."""
    if yes or (sys.stdin.isatty() and click.confirm(question, err=True)):
        return
    click.echo("penstock: nothing was changed: run it with --yes to do this", err=True)
    raise click.exceptions.Exit(FAILED)
