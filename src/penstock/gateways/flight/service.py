"""The calls of Flight: which tables there are, where the rows of one are, the rows; rows for a queue, and actions."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TypeAlias
from urllib.parse import unquote

import msgspec
import pyarrow as pa
from pyarrow import flight

from penstock.core.errors import ErrorCode, InvalidArgument, NotAuthorised, PenstockError
from penstock.core.queue_paths import canonical_queue
from penstock.gateways.beside.frames import MAX_BODY_BYTES, Caller, Reply
from penstock.gateways.beside.lines import LOGIN_PREFIX, Unexpected
from penstock.gateways.beside.server_intake import ServerIntake, answered
from penstock.gateways.beside.server_line import Refused, checked_authorization
from penstock.gateways.flight.commands import (
    Command,
    PlaceMetadata,
    PutCommand,
    RowsMetadata,
    Ticket,
    command_of_path,
    parse_command,
    parse_put,
    parse_ticket,
    time_ms,
)
from penstock.gateways.flight.heads import Action, BatchHead, CommitRows, PutBegin
from penstock.gateways.flight.messages import Answer, Options
from penstock.gateways.flight.problems import problem_of
from penstock.gateways.flight.questions import FlightLine
from penstock.gateways.flight.receipts import Receipts
from penstock.gateways.flight.row_stream import RowStream, opened
from penstock.gateways.flight.rows_body import parse_rows_body
from penstock.gateways.flight.streams import Budget, Readers, Streams
from penstock.log.reading.extents import Extent
from penstock.log.upkeep.allocation import give_back_freed_memory
from penstock.tables.partition_rows import Reading
from penstock.tables.schema import projected
from penstock.tables.table import Partition, QueueTable

ACTIONS = {
    "commit": "make staged rows messages, once for a query and epoch",
    "commit-rows": "the same for rows that come with it, and for staged ones",
    "abandon": "let go of staged rows",
    "committed": "the epochs of a query that are known to be committed",
    "release": "let another login go on with a query, and with a pipeline's name; for administrators",
}

# Of record batches that are laid out for the log at a time: each takes its size once more.
_LAID_OUT_BYTES = 128 << 20
# Of record batches that are received at a time, by all and by one client: three of the largest, and two.
_RECEIVED_BYTES, _RECEIVED_BYTES_PER_CLIENT = 192 << 20, 128 << 20
# After the last large one: what they left between pieces that are still in use goes back to the system.
_REST_S = 1.0

_AUTHORIZATION = "authorization"
_Headers = Mapping[str, Sequence[str | bytes]]
_Rows: TypeAlias = "pa.RecordBatch | tuple[pa.RecordBatch, bytes]"


class Said(flight.ServerMiddleware):  # type: ignore[misc]  # pyarrow ships no types
    """The header of a call. Who shakes hands with a name and a password gets them back as a token: nothing is kept
    here, and each call is looked at by itself."""

    def __init__(self, authorization: str | None, is_handshake: bool) -> None:
        super().__init__()
        self.authorization, self._is_handshake = authorization, is_handshake

    def sending_headers(self) -> dict[str, str]:
        kind, _, value = (self.authorization or "").partition(" ")
        if not self._is_handshake or kind.lower() != "basic":
            return {}
        return {_AUTHORIZATION: f"Bearer {LOGIN_PREFIX}{value.strip()}"}


class _Listener(flight.ServerMiddlewareFactory):  # type: ignore[misc]  # as above
    def start_call(self, info: flight.CallInfo, headers: _Headers) -> Said:
        value = next(iter(headers.get(_AUTHORIZATION) or ()), None)
        value = value.decode("latin-1") if isinstance(value, bytes) else value
        return Said(value, info.method == flight.FlightMethod.HANDSHAKE)


class _NoHandshake(flight.ServerAuthHandler):  # type: ignore[misc]  # as above
    """Without one Flight refuses handshakes; who calls is found out by the header."""

    def authenticate(self, outgoing: object, incoming: object) -> None:
        return

    def is_valid(self, token: bytes) -> str:
        return ""


class FlightService(flight.FlightServerBase):  # type: ignore[misc]  # as above
    """Listens when it is made; its threads call what is below. OSError or ArrowException if it cannot."""

    def __init__(self, options: Options, line: FlightLine, intake: ServerIntake) -> None:
        self._line, self._intake = line, intake
        self._readers = Readers(Path(options.directory))
        self._streams = Streams(options.max_streams, options.max_streams_per_client)
        self._budget = Budget(_LAID_OUT_BYTES)
        self._receipts = Receipts(_RECEIVED_BYTES, _RECEIVED_BYTES_PER_CLIENT)
        has_tls = options.certificate is not None
        host = f"[{options.host}]" if ":" in options.host else options.host
        super().__init__(
            f"{'grpc+tls' if has_tls else 'grpc'}://{host}:{options.port}",
            auth_handler=_NoHandshake(),
            tls_certificates=[(options.certificate, options.key)] if has_tls else None,
            verify_client=options.client_ca is not None,
            root_certificates=options.client_ca,
            middleware={_AUTHORIZATION: _Listener()},
        )
        threading.Thread(target=self._give_back_memory, name="penstock-memory", daemon=True).start()

    def _give_back_memory(self) -> None:
        """What batches took; not between two of a stream, whose pages would be taken anew."""
        while True:
            self._receipts.rested(_REST_S)
            give_back_freed_memory()

    def list_flights(self, context: flight.ServerCallContext, criteria: bytes) -> Iterator[flight.FlightInfo]:
        """Tables that the caller may read; `criteria` is a pattern over their names, empty for all."""
        with translated(self._line), self._readers.one() as directory:
            pattern = _text(criteria) or None
            who, _ = self._ask(context, None, [])
            tables = directory.tables(who.namespace)
            names = list(tables) if pattern is None else directory.matching(pattern, who.namespace)
            _, allowed = self._ask(context, None, names)
            schema = projected(None)
        for queue in allowed:
            whole = tables.get(queue, [])
            tickets = [_whole(queue, who.namespace, one) for one in whole]
            descriptor = flight.FlightDescriptor.for_path(queue)
            yield _info(schema, descriptor, whole, tickets, [(None, None)] * len(whole))

    def get_flight_info(
        self, context: flight.ServerCallContext, descriptor: flight.FlightDescriptor
    ) -> flight.FlightInfo:
        with translated(self._line):
            command = _command(descriptor)
            schema = projected(command.columns)
            namespace, queue = self._may_read(context, command.queue, command.namespace)
            with self._readers.one() as directory:
                table = directory.table(queue, namespace)
                partitions = _chosen(table, command)
                tickets = [_ticket(table, one, command) for one in partitions]
                facts = [(table.size_bytes(one), table.extents(one)) for one in partitions]
            return _info(schema, descriptor, partitions, tickets, facts)

    def get_schema(self, context: flight.ServerCallContext, descriptor: flight.FlightDescriptor) -> flight.SchemaResult:
        with translated(self._line):
            command = _command(descriptor)
            self._may_read(context, command.queue, command.namespace)
            return flight.SchemaResult(projected(command.columns))

    def do_get(self, context: flight.ServerCallContext, ticket: flight.Ticket) -> flight.FlightDataStream:
        with translated(self._line):
            wanted = parse_ticket(ticket.ticket)
            schema = projected(wanted.columns)
            who, allowed = self._ask(context, wanted.namespace, _meanings(wanted.queue))
            queue = self._meant(who, allowed, wanted.queue)
            client = f"{who.name} {_peer(context)}"
        return flight.GeneratorStream(schema, self._batches(wanted, queue, who.namespace, client))

    def do_put(
        self,
        context: flight.ServerCallContext,
        descriptor: flight.FlightDescriptor,
        reader: flight.MetadataRecordBatchReader,
        writer: flight.FlightMetadataWriter,
    ) -> None:
        """Each record batch is answered by one message of metadata once it is durable."""
        with translated(self._line):
            command = _put_command(descriptor)
            begin = PutBegin(
                self._intake.next_id(),
                self._caller(context, command.namespace),
                command.queue,
                command.action == "stage",
                command.writer,
                command.partition,
                command.create_queue,
            )
            with opened(self._intake, begin) as stream:
                client = f"{stream.name} {_peer(context)}"
                with self._streams.one(client):
                    tell = lambda said: writer.write(pa.py_buffer(said))  # noqa: E731
                    receive = partial(self._receipts.one, client)
                    RowStream(self._intake, command, stream, self._budget, receive, tell).run(reader)

    def list_actions(self, context: flight.ServerCallContext) -> list[flight.ActionType]:
        return [flight.ActionType(*each) for each in ACTIONS.items()]

    def do_action(self, context: flight.ServerCallContext, action: flight.Action) -> Iterator[flight.Result]:
        """One result, as JSON."""
        with translated(self._line):
            if action.type not in ACTIONS:
                raise InvalidArgument(f"no action {action.type[:80]!r}: there are {', '.join(ACTIONS)}")
            body = action.body.to_pybytes()
            if not 0 < len(body) <= MAX_BODY_BYTES:
                raise InvalidArgument(f"the body of an action has 1 to {MAX_BODY_BYTES} bytes, this one {len(body)}")
            if action.type == "commit-rows":
                reply = self._commit_rows(context, body)
            else:
                asked = Action(self._intake.next_id(), self._caller(context, None), action.type, len(body))
                reply = self._intake.ask(asked, [body])
        yield flight.Result(pa.py_buffer(bytes(reply.result)))

    def _commit_rows(self, context: flight.ServerCallContext, body: bytes) -> Reply:
        with self._budget.taken(len(body)):
            head, groups = parse_rows_body(body)
            caller, commit = self._caller(context, head.namespace), bytes(head.commit)
            batches = [BatchHead(group.size_bytes) for group in groups]
            asked = CommitRows(self._intake.next_id(), caller, len(commit), head.queue, batches, head.create_queue)
            reply = self._intake.send(asked, [commit, *(piece for group in groups for piece in group.pieces)])
        return answered(reply)

    def _batches(self, wanted: Ticket, queue: str, namespace: str, client: str) -> Iterator[_Rows]:
        with translated(self._line), self._streams.one(client), self._readers.one() as directory:
            table = directory.table(queue, namespace)
            for each in wanted.ranges:
                offsets = (each.partition, each.start, each.stop)
                reading = table.read(*offsets, wanted.columns, skip_trimmed=wanted.skip_trimmed, log=each.log)
                yield from _said_with(reading) if wanted.skip_trimmed else reading

    def _caller(self, context: flight.ServerCallContext, namespace: str | None) -> Caller:
        said: Said = context.get_middleware(_AUTHORIZATION)
        return Caller(checked_authorization(said.authorization), _peer(context), namespace)

    def _may_read(self, context: flight.ServerCallContext, queue: str, namespace: str | None) -> tuple[str, str]:
        """The namespace that counts, and the queue's name. What was acknowledged before can be read when it returns."""
        who, allowed = self._ask(context, namespace, _meanings(queue), is_fresh=True)
        return who.namespace, self._meant(who, allowed, queue)

    def _meant(self, who: Answer, allowed: Sequence[str], queue: str) -> str:
        """The name of a queue that may be read. A table by another name is opened by none that was not asked for."""
        meanings = _meanings(queue)
        if len(allowed) == len(meanings) == 1:
            return meanings[0]
        with self._readers.one() as directory:
            name = directory.named(queue, who.namespace)
        if name not in allowed:
            raise _not_allowed(who, queue)
        return name

    def _ask(
        self, context: flight.ServerCallContext, namespace: str | None, queues: Sequence[str], *, is_fresh: bool = False
    ) -> tuple[Answer, list[str]]:
        said: Said = context.get_middleware(_AUTHORIZATION)
        return self._line.readable(said.authorization, _peer(context), namespace, queues, is_fresh=is_fresh)


def _meanings(queue: str) -> list[str]:
    """The very name, and what it may be another way to write."""
    return list(dict.fromkeys((queue, canonical_queue(queue))))


@contextmanager
def translated(line: FlightLine) -> Iterator[None]:
    """Errors on their way to a client. Of those that nobody foresaw, the server's log gets the kind and the place: the
    text may have data in it."""
    try:
        yield
    except (PenstockError, Refused) as error:
        raise problem_of(error) from None
    except Exception as error:
        frame = traceback.extract_tb(error.__traceback__, -1)[-1]
        line.say(Unexpected(f"{type(error).__name__} in {Path(frame.filename).name}:{frame.lineno}"))
        raise flight.FlightInternalError("something went wrong in the server; its log says where") from None


def _not_allowed(who: Answer, queue: str) -> Refused:
    return Refused(ErrorCode.NOT_AUTHORISED, str(NotAuthorised(f"{who.name} may not read queue {queue!r}")))


def _peer(context: flight.ServerCallContext) -> str:
    """An IP address, of `ipv4:127.0.0.1:5000` or `ipv6:%5B::1%5D:5000`."""
    return unquote(context.peer().partition(":")[2]).rpartition(":")[0].strip("[]")


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise InvalidArgument("the criteria are not UTF-8: write a pattern over names, like orders*") from None


def _command(descriptor: flight.FlightDescriptor) -> Command:
    if descriptor.descriptor_type == flight.DescriptorType.CMD:
        return parse_command(descriptor.command)
    return command_of_path(descriptor.path)


def _put_command(descriptor: flight.FlightDescriptor) -> PutCommand:
    if descriptor.descriptor_type == flight.DescriptorType.CMD:
        return parse_put(descriptor.command)
    wanted = command_of_path(descriptor.path)
    return PutCommand(wanted.queue, partition=wanted.partition)


def _chosen(table: QueueTable, command: Command) -> list[Partition]:
    partitions = table.partitions()
    if command.partition is None:
        return partitions
    found = [one for one in partitions if one.number == command.partition]
    if not found:
        raise InvalidArgument(f"queue {table.queue!r} has no partition {command.partition}, it has {len(partitions)}")
    return found


def _ticket(table: QueueTable, partition: Partition, command: Command) -> Ticket:
    """Never past what can be read now."""
    start, stop = command.start_offset, command.end_offset
    if command.start_time is not None:
        start = table.offset_at_time(partition.number, time_ms(command.start_time))
    if command.end_time is not None:
        stop = table.offset_at_time(partition.number, time_ms(command.end_time))
    stop = partition.end if stop is None else min(stop, partition.end)
    start = min(partition.start if start is None else start, stop)
    offsets = (partition.number, start, stop)
    return Ticket(
        table.queue, *offsets, table.namespace, command.columns, skip_trimmed=command.skip_trimmed, log=partition.log
    )


def _whole(queue: str, namespace: str, partition: Partition) -> Ticket:
    return Ticket(queue, partition.number, partition.start, partition.end, namespace, log=partition.log)


def _said_with(reading: Reading) -> Iterator[_Rows]:
    """Rows, with what was passed over in front of them; at the end without rows."""
    told = 0
    for batch in reading:
        skipped, told = reading.skipped[told:], len(reading.skipped)
        yield (batch, msgspec.json.encode(RowsMetadata(skipped))) if skipped else batch
    if skipped := reading.skipped[told:]:
        yield pa.RecordBatch.from_pylist([], schema=reading.schema), msgspec.json.encode(RowsMetadata(skipped))


def _is_whole(partitions: list[Partition], tickets: list[Ticket]) -> bool:
    pairs = zip(partitions, tickets, strict=True)
    return all((one.start, one.end) == (ticket.start, ticket.stop) for one, ticket in pairs)


def _info(
    schema: pa.Schema,
    descriptor: flight.FlightDescriptor,
    partitions: list[Partition],
    tickets: list[Ticket],
    facts: Sequence[tuple[int | None, tuple[Extent, ...] | None]],
) -> flight.FlightInfo:
    """An endpoint for each partition, at the server that was asked."""
    endpoints = [_endpoint(one, ticket, *each) for one, ticket, each in zip(partitions, tickets, facts, strict=True)]
    rows = sum(one.rows for one in partitions) if _is_whole(partitions, tickets) else -1
    return flight.FlightInfo(schema, descriptor, endpoints, rows, -1)


def _endpoint(
    partition: Partition, ticket: Ticket, size_bytes: int | None, extents: tuple[Extent, ...] | None
) -> flight.FlightEndpoint:
    said = PlaceMetadata(
        partition.number, ticket.start, ticket.stop, partition.rows, partition.log, size_bytes, extents
    )
    return flight.FlightEndpoint(msgspec.json.encode(ticket), [], app_metadata=msgspec.json.encode(said))
