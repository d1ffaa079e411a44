"""`FlightClient`: queues of a server as tables."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from pyarrow import flight

from penstock.client.flight.problems import translated
from penstock.client.flight.reading import Rows
from penstock.client.flight.values import Partition
from penstock.core.errors import InvalidArgument

_SCHEMES = ("grpc://", "grpc+tls://", "grpc+tcp://")


class FlightClient:
    """Talks to `listeners.flight` of a server: `grpc://host:port`, or `grpc+tls://`, with `ca` a file with certificates
    in PEM if not the machine's own count. Log in with a token or API key, or with user and password. Any thread; not
    across a fork. Connects with the first call. What fails raises FlightRefused with the server's code, or
    ConnectionLost."""

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        user: str | None = None,
        password: str | None = None,
        ca: str | Path | None = None,
    ) -> None:
        if not url.startswith(_SCHEMES):
            raise InvalidArgument(f"{url!r} is no address of a Flight listener: write it like grpc://127.0.0.1:8815")
        self._options = flight.FlightCallOptions(headers=_login(token, user, password))
        with translated():
            self._client = flight.FlightClient(url, tls_root_certs=None if ca is None else Path(ca).read_bytes())

    def __enter__(self) -> FlightClient:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self._client.close()

    # Reading

    def queues(self, pattern: str | None = None) -> list[str]:
        """Names of those that may be read, dead-letter queues among them; `*` is any text, `?` one character."""
        with translated():
            found = list(self._client.list_flights((pattern or "").encode(), self._options))
        return [info.descriptor.path[0].decode() for info in found]

    def partitions(
        self, queue: str, namespace: str | None = None, *, start_time_ms: int | None = None
    ) -> list[Partition]:
        """By number, as of now; with a time, each from its first row on that is not older. What a publisher was
        answered is seen here a moment later."""
        descriptor = flight.FlightDescriptor.for_command(
            _json(queue=queue, namespace=namespace, start_time=start_time_ms)
        )
        with translated():
            info = self._client.get_flight_info(descriptor, self._options)
        return [_partition(json.loads(endpoint.app_metadata)) for endpoint in info.endpoints]

    def offset_at_time(self, queue: str, time_ms: int, namespace: str | None = None) -> dict[int, int]:
        """For each partition the offset of the first row that is not older than that (ms since 1970); its end if there
        is none."""
        return {one.number: one.start for one in self.partitions(queue, namespace, start_time_ms=time_ms)}

    def read(
        self,
        queue: str,
        partition: int,
        start: int,
        stop: int,
        columns: Sequence[str] | None = None,
        *,
        namespace: str | None = None,
        skip_trimmed: bool = False,
        log: int | None = None,
    ) -> Rows:
        """Rows at offsets start..stop, not including `stop`, which may be as far as partitions() said. All columns but
        `headers`, unless some are named. Rows that are gone are an error, or passed over and told in `skipped`. With
        `log` a queue that was created anew meanwhile is refused, by the code QUEUE_REPLACED."""
        place = {"queue": queue, "namespace": namespace, "partition": partition, "start": start, "stop": stop}
        wanted = _json(**place, columns=columns and list(columns), skip_trimmed=skip_trimmed, log=log)
        with translated():
            return Rows(self._client.do_get(flight.Ticket(wanted), self._options))


def _login(token: str | None, user: str | None, password: str | None) -> list[tuple[bytes, bytes]]:
    if token is not None and user is not None:
        raise InvalidArgument("log in with a token or with user and password, not with both")
    if (user is None) != (password is None):
        raise InvalidArgument("user and password belong together: give both, or neither")
    if token is not None:
        return [(b"authorization", b"Bearer " + token.encode())]
    if user is None or password is None:
        return []
    return [(b"authorization", b"Basic " + base64.b64encode(f"{user}:{password}".encode()))]


def _json(**wanted: object) -> bytes:
    return json.dumps({name: value for name, value in wanted.items() if value is not None}).encode()


def _partition(said: dict[str, int]) -> Partition:
    return Partition(said["partition"], said["start"], said["end"], said["rows"], said["log"])
