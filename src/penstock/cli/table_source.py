"""Where a command finds queues as tables: a data directory, or a server's Arrow Flight."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from penstock.cli.arguments import EXISTING_DIRECTORY
from penstock.queues.names import DEFAULT_NAMESPACE

if TYPE_CHECKING:
    import pyarrow as pa

    from penstock.client.flight import FlightClient, Partition
    from penstock.tables.table import QueueTable

_FILE = click.Path(dir_okay=False, exists=True, path_type=Path)


@dataclass(frozen=True, slots=True)
class FlightLogin:
    """Of a server whose listener is at `url`, grpc:// or grpc+tls://."""

    url: str
    token: str | None = None
    user: str | None = None
    password: str | None = None
    ca_file: Path | None = None

    def connected(self) -> FlightClient:
        """Close it."""
        from penstock.client.flight import FlightClient

        return FlightClient(self.url, token=self.token, user=self.user, password=self.password, ca=self.ca_file)


@dataclass(frozen=True, slots=True)
class DirectorySource:
    """A server may be at work on it, or none."""

    path: Path
    namespace: str = DEFAULT_NAMESPACE

    def __str__(self) -> str:
        return str(self.path)

    def anywhere(self) -> DirectorySource:
        """For processes with another working directory."""
        return replace(self, path=self.path.resolve())

    def queues(self) -> list[str]:
        from penstock.tables.table import TableDirectory

        directory = TableDirectory(self.path)
        try:
            return directory.queues(self.namespace)
        finally:
            directory.close()

    def open_table(self, queue: str) -> QueueTable:
        from penstock.tables.table import QueueTable

        return QueueTable.open(self.path, queue, self.namespace)


@dataclass(frozen=True, slots=True)
class FlightSource:
    login: FlightLogin
    namespace: str | None = None

    def __str__(self) -> str:
        return self.login.url

    def anywhere(self) -> FlightSource:
        """For processes with another working directory."""
        ca_file = self.login.ca_file
        return replace(self, login=replace(self.login, ca_file=None if ca_file is None else ca_file.resolve()))

    def queues(self) -> list[str]:
        client = self.login.connected()
        try:
            return client.queues()
        finally:
            client.close()

    def open_table(self, queue: str) -> FlightTable:
        return FlightTable(self.login.connected(), queue, self.namespace)


class FlightTable:
    """A queue of a server, over a connection of its own."""

    def __init__(self, client: FlightClient, queue: str, namespace: str | None) -> None:
        self._client, self._queue, self._namespace = client, queue, namespace

    def partitions(self) -> list[Partition]:
        return self._client.partitions(self._queue, self._namespace)

    def offset_at_time(self, partition: int, timestamp_ms: int) -> int:
        return self._client.offset_at_time(self._queue, timestamp_ms, self._namespace)[partition]

    def read(
        self, partition: int, start: int, stop: int, columns: Sequence[str], *, log: int | None = None
    ) -> Iterator[pa.RecordBatch]:
        return self._client.read(self._queue, partition, start, stop, columns, namespace=self._namespace, log=log)

    def close(self) -> None:
        self._client.close()


Source = DirectorySource | FlightSource

_OPTIONS = (
    click.option(
        "--data",
        metavar="DIR",
        envvar="PENSTOCK_DATA",
        type=EXISTING_DIRECTORY,
        help="A data directory, of a running server or of none.",
    ),
    click.option("--url", metavar="URL", help="Arrow Flight of a server: grpc://HOST:PORT or grpc+tls://HOST:PORT."),
    click.option("--token", metavar="TOKEN", help="Log in with this token or API key."),
    click.option("--user", metavar="NAME", help="Log in as this user."),
    click.option("--password-file", metavar="FILE", type=_FILE, help="Its first line is the password."),
    click.option("--ca-file", metavar="FILE", type=_FILE, help="Trust certificates that this one signed."),
    click.option("--namespace", metavar="NAME", help="Of the queues.  [default: that of the login, or default]"),
)


def source_options(command: Callable[..., object]) -> Callable[..., object]:
    """The options, as one parameter `source`."""

    @functools.wraps(command)
    def with_source(
        data: Path | None,
        url: str | None,
        token: str | None,
        user: str | None,
        password_file: Path | None,
        ca_file: Path | None,
        namespace: str | None,
        **given: object,
    ) -> object:
        if (data is None) == (url is None):
            raise click.UsageError("say where the queues are: --data DIR, or --url grpc://HOST:PORT of a server")
        if data is not None:
            return command(source=DirectorySource(data, namespace or DEFAULT_NAMESPACE), **given)
        login = FlightLogin(
            url or "", token or os.environ.get("PENSTOCK_TOKEN"), user, _first_line(password_file), ca_file
        )
        return command(source=FlightSource(login, namespace), **given)

    wrapped: Callable[..., object] = with_source
    for option in reversed(_OPTIONS):
        wrapped = option(wrapped)
    return wrapped


def _first_line(file: Path | None) -> str | None:
    return None if file is None else file.read_text(encoding="utf-8").split("\n", 1)[0].rstrip("\r")
