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
from penstock.cli.login_arguments import password_file_option, password_of, user_option
from penstock.queues.names import DEFAULT_NAMESPACE

if TYPE_CHECKING:
    import pyarrow as pa

    from penstock.client.flight import FlightClient, Partition
    from penstock.log.reading.extents import RowMap
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
        self._known: dict[int, Partition] = {}

    def partitions(self) -> list[Partition]:
        found = self._client.partitions(self._queue, self._namespace)
        self._known = {each.number: each for each in found}
        return found

    def row_map(self, partition: int) -> RowMap:
        """As of the last partitions()."""
        from penstock.log.reading.extents import Extent, RowMap

        known = self._known[partition]
        whole = [(known.start, known.end, known.end - known.start)]
        extents = whole if known.extents is None else known.extents
        return RowMap([Extent(*each) for each in extents], known.start, known.end)

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
        help="Data directory; a server may be running on it.",
    ),
    click.option(
        "--url", metavar="URL", help="Arrow Flight address of a server: grpc://HOST:PORT or grpc+tls://HOST:PORT."
    ),
    click.option("--token", metavar="TOKEN", help="Log in with this token or API key."),
    user_option(),
    password_file_option,
    click.option("--ca-file", metavar="FILE", type=_FILE, help="Trust only this certificate authority (PEM)."),
    click.option(
        "--namespace", metavar="NAME", help="Namespace of the queues.  [default: that of the login, or default]"
    ),
)


def source_options(command: Callable[..., object]) -> Callable[..., object]:
    """The options, as one parameter `source`."""

    @functools.wraps(command)
    def with_source(
        data: Path | None,
        url: str | None,
        token: str | None,
        username: str | None,
        password_file: Path | None,
        ca_file: Path | None,
        namespace: str | None,
        **given: object,
    ) -> object:
        if (data is None) == (url is None):
            raise click.UsageError("name the data: --data DIR, or --url grpc://HOST:PORT of a server")
        if data is not None:
            return command(source=DirectorySource(data, namespace or DEFAULT_NAMESPACE), **given)
        login = FlightLogin(
            url or "", token or os.environ.get("PENSTOCK_TOKEN"), username, _password(username, password_file), ca_file
        )
        return command(source=FlightSource(login, namespace), **given)

    wrapped: Callable[..., object] = with_source
    for option in reversed(_OPTIONS):
        wrapped = option(wrapped)
    return wrapped


def _password(username: str | None, file: Path | None) -> str | None:
    if username is None and file is not None:
        raise click.UsageError("a password needs --user")
    return None if username is None else password_of(file)
