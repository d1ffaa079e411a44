"""What clients ask for, as JSON: the command of a descriptor, and the ticket of an endpoint."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Literal, TypeVar

import msgspec

from penstock.core.errors import InvalidArgument
from penstock.log.reading.extents import Extent

MAX_REQUEST_BYTES = 64 << 10

Kind = TypeVar("Kind")

Number = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=300)]


class Command(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Rows of a queue: of one partition or all, from an offset or time on, up to and not including another. What is
    left out is everything. Times are ISO 8601, or ms since 1970."""

    queue: Name
    namespace: Name | None = None
    partition: Number | None = None
    start_offset: Number | None = None
    end_offset: Number | None = None
    start_time: str | Number | None = None
    end_time: str | Number | None = None
    columns: tuple[Name, ...] | None = None
    skip_trimmed: bool = False

    def __post_init__(self) -> None:
        if self.start_offset is not None and self.start_time is not None:
            raise ValueError("start_offset and start_time cannot both be given")
        if self.end_offset is not None and self.end_time is not None:
            raise ValueError("end_offset and end_time cannot both be given")


class Range(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Rows start..stop of one partition, which is refused if it is another log than `log`."""

    partition: Number
    start: Number
    stop: Number
    log: Number | None = None


class Ticket(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Rows start..stop of one partition, which is refused if it is another log than `log`; and behind them those of
    `more`, in that order."""

    queue: Name
    partition: Number
    start: Number
    stop: Number
    namespace: Name | None = None
    columns: tuple[Name, ...] | None = None
    skip_trimmed: bool = False
    log: Number | None = None
    more: tuple[Range, ...] = ()

    @property
    def ranges(self) -> list[Range]:
        return [Range(self.partition, self.start, self.stop, self.log), *self.more]


class PutCommand(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Rows for a queue: messages at once, batch by batch, or staged until they are committed. `writer`: stages live as
    long as the one who writes them. `partition`: of all rows, instead of their keys. Without `create_queue` a queue
    that does not exist is refused; else the answer names the one that was created."""

    queue: Name
    namespace: Name | None = None
    action: Literal["append", "stage"] = "append"
    writer: str = ""
    partition: Number | None = None
    create_queue: bool = True


class PlaceMetadata(msgspec.Struct, frozen=True):
    """What an endpoint says of its partition: the range of its ticket, the rows of the whole partition, its log, and
    in the answer to GetFlightInfo what all its rows take as they are stored, and where they lie among its offsets:
    `[start, stop, rows]`, ascending."""

    partition: int
    start: int
    end: int
    rows: int
    log: int | None
    size_bytes: int | None = None
    extents: tuple[Extent, ...] | None = None


class RowsMetadata(msgspec.Struct, frozen=True):
    """Beside rows: ranges of offsets in front of them that were gone and passed over."""

    skipped: list[tuple[int, int]]


def parse_command(data: bytes) -> Command:
    return _parse(data, Command, 'a command looks like {"queue": "orders", "start_time": "2026-01-31T12:00:00Z"}')


def parse_put(data: bytes) -> PutCommand:
    return _parse(data, PutCommand, 'a command for DoPut looks like {"queue": "orders", "action": "append"}')


def parse_ticket(data: bytes) -> Ticket:
    return _parse(data, Ticket, "take tickets from GetFlightInfo")


def command_of_path(path: list[bytes]) -> Command:
    """`orders`, or `orders` and a partition."""
    try:
        parts = [part.decode() for part in path]
        if len(parts) not in (1, 2):
            raise ValueError("it has a queue, and may have a partition")
        return msgspec.convert({"queue": parts[0]} | ({"partition": int(parts[1])} if parts[1:] else {}), Command)
    except (ValueError, msgspec.ValidationError) as error:
        raise InvalidArgument(f"not the path of a queue ({error}): write it like orders, or orders and 3") from None


def time_ms(value: str | int) -> int:
    if isinstance(value, int):
        return value
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        raise InvalidArgument(f"{value[:80]!r} is not a time: write it like 2026-01-31T12:00:00Z, or as ms") from None
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


def _parse(data: bytes, kind: type[Kind], advice: str) -> Kind:
    if len(data) > MAX_REQUEST_BYTES:
        raise InvalidArgument(f"a request of {len(data)} bytes is over {MAX_REQUEST_BYTES}: {advice}")
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidArgument(f"the request cannot be read ({error}): {advice}") from None
