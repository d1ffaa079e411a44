"""Commands ask a server over HTTP. A directory that no server has is asked in the same way, in this process."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

import click

from penstock.cli.failures import FAILED
from penstock.cli.target import Target
from penstock.client.http.async_client import AsyncClient
from penstock.core.errors import DirectoryInUse, PenstockError

Result = TypeVar("Result")
Command = TypeVar("Command", bound=Callable[..., object])


class DirectoryHeld(DirectoryInUse):
    """The same, with the way that is open."""

    def __init__(self, directory: Path, holder: str, url: str | None) -> None:
        way = (
            f"it serves {url}: ask it with --url {url} in place of --data"
            if url is not None
            else "stop that process and run this again, or do the same in it with the embedded API (penstock.open)"
        )
        PenstockError.__init__(self, f"{directory} is held by {holder}; {way}")
        self.directory, self.holder, self.url = str(directory), holder, url


def on_server(target: Target, act: Callable[[AsyncClient], Awaitable[Result]], *, may_create: bool = False) -> Result:
    """What `act` returns, given a client of the target. Of a directory: DirectoryFormat if it is none, unless one may
    be made; DirectoryHeld if a process has it open. Before one is made, `act` is tried in another one that goes again,
    so that what is refused leaves nothing behind."""
    if may_create and target.is_unmade:
        with TemporaryDirectory(prefix="penstock-") as tried:
            asyncio.run(_act(replace(target, directory=Path(tried)), act, may_create))
    return asyncio.run(_act(target, act, may_create))


async def _act(target: Target, act: Callable[[AsyncClient], Awaitable[Result]], may_create: bool) -> Result:
    async with connected(target, may_create=may_create) as client:
        return await act(client)


@asynccontextmanager
async def connected(target: Target, *, may_create: bool = False) -> AsyncIterator[AsyncClient]:
    """on_server() for who is in a loop already."""
    if target.directory is None:
        async with AsyncClient.of(target.options) as client:
            yield client
        return
    from penstock.cli.directory import DataDirectory
    from penstock.server.offline import open_directory

    if not may_create:
        DataDirectory.at(target.directory)
    async with AsyncExitStack() as opened:
        try:
            connect = await opened.enter_async_context(open_directory(target.directory))
        except DirectoryInUse as error:
            raise _held(target.directory, error) from None
        yield await opened.enter_async_context(AsyncClient.of(replace(target.options, connect=connect)))


def _held(directory: Path, error: DirectoryInUse) -> DirectoryHeld:
    from penstock.log.disk import DirectoryLock
    from penstock.server.ready import SERVER_FILE, read_ready

    holder, ready = DirectoryLock.holder(directory), read_ready(directory / SERVER_FILE)
    is_server = holder is not None and ready is not None and ready.pid == holder.pid
    return DirectoryHeld(directory, error.holder, ready.url if ready is not None and is_server else None)


def destructive(command: Command) -> Command:
    """--yes and --dry-run."""
    for option in (
        click.option("--dry-run", is_flag=True, help="Show what would be done; change nothing."),
        click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation."),
    ):
        command = option(command)
    return command


def refuse_unless_confirmed(target: Target, yes: bool, question: str) -> None:
    """Nobody is asked about what is on this machine. Elsewhere it ends the command: on a terminal after a no, else
    without --yes."""
    if yes or target.is_local or (sys.stdin.isatty() and click.confirm(f"{question} ({target})", err=True)):
        return
    click.echo(f"penstock: nothing was changed on {target}: run it with --yes to do this", err=True)
    raise click.exceptions.Exit(FAILED)
