"""Numbers and types that the other modules share: frames, domains of fields, values in tables."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated, NamedTuple, TypeAlias, Union

PROTOCOL_HEADER = b"AMQP\x00\x00\x09\x01"
FRAME_END = 0xCE
FRAME_HEAD_BYTES, EMPTY_FRAME_BYTES = 7, 8
MIN_FRAME_MAX = 4096
MAX_TABLE_BYTES, MAX_TABLE_DEPTH = 64 << 10, 32
"""of what a peer sent"""


class FrameType(enum.IntEnum):
    METHOD = 1
    HEADER = 2
    BODY = 3
    HEARTBEAT = 8


class Sender(enum.Enum):
    CLIENT = "client"
    SERVER = "server"


class Domain(enum.Enum):
    """How a field of a method is written."""

    OCTET = "octet"
    SHORT = "short"
    LONG = "long"
    LONGLONG = "longlong"
    BIT = "bit"
    SHORTSTR = "shortstr"
    LONGSTR = "longstr"
    TABLE = "table"


class Field(NamedTuple):
    """A value in a table, with the letter of its type, in the dialect of RabbitMQ.

    t bool; b s I l whole numbers of 8 to 64 bits, L as l, B u i without a sign; f d floats; D decimal; S string (what
    is no UTF-8 as surrogates); x bytes; T seconds since 1970; A array; F table; V nothing."""

    kind: str
    value: FieldValue


FieldValue: TypeAlias = Union[bool, int, float, Decimal, str, bytes, "tuple[Field, ...]", "Mapping[str, Field]", None]
Table: TypeAlias = Mapping[str, Field]
"""The first of several fields of the same name."""

Octet: TypeAlias = Annotated[int, Domain.OCTET]
Short: TypeAlias = Annotated[int, Domain.SHORT]
Long: TypeAlias = Annotated[int, Domain.LONG]
LongLong: TypeAlias = Annotated[int, Domain.LONGLONG]
Bit: TypeAlias = Annotated[bool, Domain.BIT]
ShortStr: TypeAlias = Annotated[str, Domain.SHORTSTR]
LongStr: TypeAlias = Annotated[bytes, Domain.LONGSTR]
Arguments: TypeAlias = Annotated[Table, Domain.TABLE]
