"""`FlightClient`: queues of a server as tables."""

from __future__ import annotations

import base64
import json
import logging
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import flight

from penstock.client.flight.problems import translated
from penstock.client.flight.put_stream import Open, Stager, append, stream_of
from penstock.client.flight.rows import Rows
from penstock.client.flight.values import Committed, CommittedPlace, Partition, PartitionRange, Placed, StagedRange
from penstock.core.closing import Closing
from penstock.core.errors import InvalidArgument

logger = logging.getLogger("penstock.client.flight")

# A server that restarts is found again within a second; gRPC would let up to two minutes pass between two tries.
_RECONNECT = [("grpc.initial_reconnect_backoff_ms", 100), ("grpc.max_reconnect_backoff_ms", 1000)]
_SCHEMES = ("grpc://", "grpc+tls://", "grpc+tcp://")


class FlightClient(Closing):
    """Talks to `listeners.flight` of a server: `grpc://host:port`, or `grpc+tls://`, with `ca` a file with certificates
    in PEM, or their bytes, if not the machine's own count. Log in with a token or API key, or with user and password.
    Any thread; not across a fork. Connects with the first call. What fails raises FlightRefused with the server's code,
    or ConnectionLost."""

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        user: str | None = None,
        password: str | None = None,
        ca: str | Path | bytes | None = None,
    ) -> None:
        if not url.startswith(_SCHEMES):
            raise InvalidArgument(
                f"{url!r} is not the address of a Flight listener: write it like grpc://127.0.0.1:8815"
            )
        self._options = flight.FlightCallOptions(headers=_login(token, user, password))
        with translated():
            certificates = Path(ca).read_bytes() if isinstance(ca, str | Path) else ca
            self._client = flight.FlightClient(url, tls_root_certs=certificates, generic_options=_RECONNECT)

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
        answered is seen here, or a moment later where the server writes much."""
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
        more: Sequence[PartitionRange] = (),
    ) -> Rows:
        """Rows at offsets start..stop, not including `stop`, which may be as far as partitions() said. All columns but
        `headers`, unless some are named. Rows that are gone are an error, or passed over and told in `skipped`. With
        `log` a queue that was created again meanwhile is refused, by the code QUEUE_REPLACED. `more` are read behind
        these, one after the other, by the same call."""
        place = {"queue": queue, "namespace": namespace, "partition": partition, "start": start, "stop": stop}
        behind = {"more": [asdict(each) for each in more]} if more else {}
        wanted = _json(**place, columns=columns and list(columns), skip_trimmed=skip_trimmed, log=log, **behind)
        with translated():
            return Rows(self._client.do_get(flight.Ticket(wanted), self._options))

    # Writing

    def append(
        self,
        queue: str,
        rows: pa.RecordBatch | pa.Table,
        *,
        namespace: str | None = None,
        partition: int | None = None,
        create_queue: bool = True,
    ) -> list[Placed]:
        """Rows with the columns `value`, and `key`, `topic`, `headers`, `partition` where they are wanted, as messages;
        durable when it returns. `native` is that of rows that were read from a queue. Each 4 MiB are stored whole or
        not at all: if it raises, some may be stored. A queue that does not exist is created, and a warning logged,
        where the server creates queues by itself; without `create_queue` it is NO_SUCH_QUEUE."""
        wanted = {"namespace": namespace, "partition": partition, "create_queue": create_queue}
        return append(self._putting(queue, "append", **wanted), rows)

    def stager(
        self,
        queue: str,
        *,
        writer: str = "",
        namespace: str | None = None,
        partition: int | None = None,
        create_queue: bool = True,
    ) -> Stager:
        """To stage rows of a queue that become messages with commit(). Stages live for 24 h after the last rows of the
        same writer, which is any text; without one, after their own. `create_queue` as in append()."""
        wanted = {"namespace": namespace, "partition": partition, "create_queue": create_queue}
        return Stager(self._putting(queue, "stage", writer=writer, **wanted))

    def commit(
        self,
        query: str,
        epoch: int,
        ranges: Sequence[StagedRange],
        *,
        pipeline: str | None = None,
        reset: bool = False,
        queues: Sequence[str] = (),
        namespace: str | None = None,
        single: bool = False,
    ) -> Committed:
        """All rows become messages of their queues at once, durably, or none does. Said again for the same query and
        epoch it changes nothing and answers as before: after ConnectionLost, say it again. A pipeline's name belongs to
        one query: another is refused with PIPELINE_KNOWN, unless it is reset on purpose. Query and name belong to
        the login that used them first: NOT_AUTHORISED for others. An epoch without rows names the queues it is for.
        `single`: the query is this one write, with an id of its own; the server forgets it after a day, or after ten
        thousand others."""
        body = {"query": query, "epoch": epoch, "ranges": [asdict(each) for each in ranges]}
        named = {"queues": list(queues), "namespace": namespace} if queues else {}
        wanted = {**body, "pipeline": pipeline or "", "reset": reset, "single": single, **named}
        return _committed(self._act("commit", json.dumps(wanted).encode()))

    def commit_rows(
        self,
        query: str,
        epoch: int,
        queue: str,
        rows: Sequence[pa.RecordBatch],
        ranges: Sequence[StagedRange] = (),
        *,
        pipeline: str | None = None,
        reset: bool = False,
        namespace: str | None = None,
        create_queue: bool = True,
        single: bool = False,
    ) -> Committed:
        """commit() of rows of one queue that were never staged, by one call; those of `ranges` become messages behind
        them. Batches of one schema, without a column `partition`, 8 MiB in all. Refused as append() is, with nothing
        committed."""
        commit = {"query": query, "epoch": epoch, "ranges": [asdict(each) for each in ranges]}
        commit |= {"pipeline": pipeline or "", "reset": reset, "single": single}
        head = _json(queue=queue, namespace=namespace, create_queue=create_queue, commit=commit)
        said = self._act("commit-rows", head + b"\n" + stream_of(rows))
        if (created := said.get("created_queue")) is not None:
            logger.warning("created queue %r, which did not exist", created)
        return _committed(said)

    def abandon(self, ranges: Sequence[StagedRange]) -> int:
        """Let go of what will not be committed; how many there were still."""
        count: int = self._act("abandon", _json(ranges=[asdict(each) for each in ranges]))["count"]
        return count

    def committed(self, query: str) -> list[int]:
        """The epochs of a query that are known to be committed: the last hundred."""
        epochs: list[int] = self._act("committed", _json(query=query))["epochs"]
        return epochs

    def release(self, query: str, *, pipeline: str | None = None) -> None:
        """Let another login go on with a query, and with a pipeline's name: they belong to who uses them next, and
        what is staged for the query is let go. For administrators."""
        self._act("release", _json(query=query, pipeline=pipeline or ""))

    def _putting(self, queue: str, action: str, **wanted: object) -> Open:
        if wanted.get("create_queue"):
            del wanted["create_queue"]  # servers before it do not know the word
        descriptor = flight.FlightDescriptor.for_command(_json(queue=queue, action=action, **wanted))
        return lambda schema: self._client.do_put(descriptor, schema, self._options)

    def _act(self, kind: str, body: bytes) -> dict[str, Any]:
        with translated():
            results = list(self._client.do_action(flight.Action(kind, body), self._options))
        said: dict[str, Any] = json.loads(results[0].body.to_pybytes())
        return said


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


def _committed(said: dict[str, Any]) -> Committed:
    return Committed(tuple(CommittedPlace(**each) for each in said["placed"]), said["is_repeated"])


def _partition(said: dict[str, Any]) -> Partition:
    place = said["partition"], said["start"], said["end"], said["rows"], said["log"], said.get("size_bytes") or 0
    extents = said.get("extents")
    return Partition(*place, None if extents is None else tuple((start, stop, rows) for start, stop, rows in extents))
