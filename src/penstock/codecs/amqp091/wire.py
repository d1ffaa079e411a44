"""Numbers, strings and field tables as AMQP 0.9.1 writes them, with all field types of RabbitMQ's dialect.

What is read is held against the bytes there are, and a table against 64 KiB and 32 levels, before anything is taken."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal

from penstock.codecs.amqp091.errors import AmqpError, Fault
from penstock.codecs.amqp091.kinds import MAX_TABLE_BYTES, MAX_TABLE_DEPTH, Field, FieldValue, Table
from penstock.core.errors import InvalidArgument, TooLarge

# L has no sign in the specification; RabbitMQ reads it as l.
_SIGNED = {"b": 1, "s": 2, "I": 4, "l": 8, "L": 8}
_UNSIGNED = {"B": 1, "u": 2, "i": 4, "T": 8}
_FLOATS = {"f": struct.Struct(">f"), "d": struct.Struct(">d")}
_MAX_SHORTSTR_BYTES, _MAX_SCALE = 255, 255


def ill_formed(detail: str) -> AmqpError:
    return AmqpError(Fault.SYNTAX, detail=detail)


class Reader:
    """Walks over a payload, or a part of it; SYNTAX_ERROR where it would leave it."""

    __slots__ = ("_data", "_has_bad_text", "at", "end", "is_other_size")

    def __init__(self, data: bytes, start: int = 0, end: int | None = None) -> None:
        self._data, self.at, self.end = data, start, len(data) if end is None else end
        self._has_bad_text = False
        self.is_other_size = False
        """it was refused because it has fewer bytes than its fields, or more"""

    def take(self, size: int, what: str) -> bytes:
        if size > self.end - self.at:
            self.is_other_size = True
            raise ill_formed(f"{what} needs {size} bytes, and {self.end - self.at} are left")
        self.at += size
        return self._data[self.at - size : self.at]

    def unsigned(self, size: int, what: str) -> int:
        return int.from_bytes(self.take(size, what), "big")

    def shortstr(self, what: str) -> str:
        """FRAME_ERROR at finish(), as RabbitMQ has it, if it is no UTF-8."""
        data = self.take(self.unsigned(1, what), what)
        try:
            return data.decode()
        except UnicodeDecodeError:
            self._has_bad_text = True
            return ""

    def longstr(self, what: str) -> bytes:
        return self.take(self.unsigned(4, what), what)

    def table(self, what: str, depth: int = 1) -> dict[str, Field]:
        """With its length in front. A name that is no UTF-8 has surrogates in it."""
        inner = self._part(what, depth)
        found: dict[str, Field] = {}
        while inner.at < inner.end:
            name = inner.take(inner.unsigned(1, what), what).decode("utf-8", "surrogateescape")
            found.setdefault(name, inner.field(what, depth))
        return found

    def array(self, what: str, depth: int) -> tuple[Field, ...]:
        inner = self._part(what, depth)
        found = []
        while inner.at < inner.end:
            found.append(inner.field(what, depth))
        return tuple(found)

    def field(self, what: str, depth: int) -> Field:
        kind = chr(self.unsigned(1, what))
        return Field(kind, self._value(kind, what, depth))

    def finish(self, what: str) -> None:
        if self.at != self.end:
            self.is_other_size = True
            raise ill_formed(f"{self.end - self.at} bytes are left over at the end of {what}")
        if self._has_bad_text:
            raise AmqpError(Fault.BAD_TEXT)

    def _part(self, what: str, depth: int) -> Reader:
        """Of a table or an array: what its length says."""
        size = self.unsigned(4, what)
        if size > MAX_TABLE_BYTES or depth > MAX_TABLE_DEPTH:
            raise ill_formed(f"{what} is over {MAX_TABLE_BYTES} bytes, or over {MAX_TABLE_DEPTH} tables deep")
        start = self.at
        self.take(size, what)
        return Reader(self._data, start, start + size)

    def _value(self, kind: str, what: str, depth: int) -> FieldValue:
        if kind in _SIGNED:
            return int.from_bytes(self.take(_SIGNED[kind], what), "big", signed=True)
        if kind in _UNSIGNED:
            return self.unsigned(_UNSIGNED[kind], what)
        if kind in _FLOATS:
            return float(_FLOATS[kind].unpack(self.take(_FLOATS[kind].size, what))[0])
        match kind:
            case "S":
                return self.longstr(what).decode("utf-8", "surrogateescape")
            case "x":
                return self.longstr(what)
            case "t":
                return self.unsigned(1, what) != 0
            case "F":
                return self.table(what, depth + 1)
            case "A":
                return self.array(what, depth + 1)
            case "D":
                scale = self.unsigned(1, what)
                return Decimal(self.unsigned(4, what)).scaleb(-scale)
            case "V":
                return None
            case _:
                raise ill_formed(f"{what} has a field of the unknown type {kind!r}")


def unsigned_bytes(value: int, size: int, what: str) -> bytes:
    if not 0 <= value < 1 << 8 * size:
        raise InvalidArgument(f"{what} is {value}: give 0 to {(1 << 8 * size) - 1}")
    return value.to_bytes(size, "big")


def shortstr_bytes(text: str, what: str) -> bytes:
    data = _encoded(text, what)
    if len(data) > _MAX_SHORTSTR_BYTES:
        raise TooLarge(what, len(data), _MAX_SHORTSTR_BYTES)
    return bytes([len(data)]) + data


def longstr_bytes(data: bytes, what: str) -> bytes:
    return unsigned_bytes(len(data), 4, what) + data


def table_bytes(table: Table, what: str) -> bytes:
    """With its length in front."""
    return longstr_bytes(b"".join([_name(name, what) + field_bytes(table[name], what) for name in table]), what)


def field_bytes(field: Field, what: str) -> bytes:
    return field.kind.encode() + _writer(field.kind)(field, what)


def field_of(value: object) -> Field:
    """The type that RabbitMQ's own clients take for a plain value; InvalidArgument where there is none."""
    match value:
        case Field():
            return value
        case bool():
            return Field("t", value)
        case int():
            return _number_field(value)
        case float():
            return Field("d", value)
        case str():
            return Field("S", value)
        case bytes():
            return Field("x", value)
        case None:
            return Field("V", None)
        case Decimal():
            return Field("D", value)
        case Mapping():
            return Field("F", table_of(value))
        case Sequence():
            return Field("A", tuple(map(field_of, value)))
        case _:
            raise InvalidArgument(f"a table has no type for {type(value).__name__}")


def table_of(values: Mapping[str, object]) -> dict[str, Field]:
    return {name: field_of(values[name]) for name in values}


def plain(field: Field) -> object:
    """The value alone, tables and arrays as dicts and lists of plain values."""
    if isinstance(field.value, Mapping):
        return {name: plain(inner) for name, inner in field.value.items()}
    if isinstance(field.value, tuple):
        return [plain(inner) for inner in field.value]
    return field.value


def _number_field(value: int) -> Field:
    if -(1 << 31) <= value < 1 << 31:
        return Field("I", value)
    if -(1 << 63) <= value < 1 << 63:
        return Field("l", value)
    raise InvalidArgument(f"a whole number in a table has 64 bits, not {value}")


def _encoded(text: str, what: str) -> bytes:
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise InvalidArgument(f"{what} has characters that UTF-8 cannot say") from None


def _name(name: str, what: str) -> bytes:
    return shortstr_bytes(name, f"a name in {what}")


def _writer(kind: str) -> Callable[[Field, str], bytes]:
    if kind in _SIGNED or kind in _UNSIGNED:
        return _number
    if kind in _FLOATS:
        return _float
    if (found := _WRITERS.get(kind)) is None:
        raise InvalidArgument(f"tables have no type {kind!r}")
    return found


def _wrong(field: Field, what: str) -> InvalidArgument:
    return InvalidArgument(f"a field of type {field.kind!r} in {what} cannot be {field.value!r:.100}")


def _number(field: Field, what: str) -> bytes:
    if not isinstance(field.value, int):
        raise _wrong(field, what)
    try:
        if field.kind in _SIGNED:
            return field.value.to_bytes(_SIGNED[field.kind], "big", signed=True)
        return field.value.to_bytes(_UNSIGNED[field.kind], "big")
    except OverflowError:
        raise _wrong(field, what) from None


def _float(field: Field, what: str) -> bytes:
    if not isinstance(field.value, float | int):
        raise _wrong(field, what)
    try:
        return _FLOATS[field.kind].pack(field.value)
    except OverflowError:
        raise _wrong(field, what) from None


def _string(field: Field, what: str) -> bytes:
    if not isinstance(field.value, str):
        raise _wrong(field, what)
    return longstr_bytes(_encoded(field.value, what), what)


def _binary(field: Field, what: str) -> bytes:
    if not isinstance(field.value, bytes):
        raise _wrong(field, what)
    return longstr_bytes(field.value, what)


def _boolean(field: Field, what: str) -> bytes:
    return b"\1" if field.value else b"\0"


def _inner_table(field: Field, what: str) -> bytes:
    if not isinstance(field.value, Mapping):
        raise _wrong(field, what)
    return table_bytes(field.value, what)


def _array(field: Field, what: str) -> bytes:
    if not isinstance(field.value, tuple):
        raise _wrong(field, what)
    return longstr_bytes(b"".join([field_bytes(inner, what) for inner in field.value]), what)


def _decimal(field: Field, what: str) -> bytes:
    if not isinstance(field.value, Decimal) or not field.value.is_finite():
        raise _wrong(field, what)
    sign, digits, exponent = field.value.as_tuple()
    unscaled = int("".join(map(str, digits)) or "0")
    if sign or not isinstance(exponent, int) or not -_MAX_SCALE <= exponent <= 0 or unscaled >= 1 << 32:
        raise _wrong(field, what)
    return bytes([-exponent]) + unscaled.to_bytes(4, "big")


def _void(field: Field, what: str) -> bytes:
    return b""


_WRITERS: dict[str, Callable[[Field, str], bytes]] = {
    "S": _string,
    "x": _binary,
    "t": _boolean,
    "F": _inner_table,
    "A": _array,
    "D": _decimal,
    "V": _void,
}
