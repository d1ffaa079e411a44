"""Native properties of AMQP 0.9.1 written the long way, and what readers must make of them: the reference that the
kernels are held against."""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TypeAlias

Pairs: TypeAlias = "Sequence[tuple[bytes, Typed]]"

_INTEGERS = {"b": ">b", "B": ">B", "s": ">h", "U": ">h", "u": ">H", "I": ">i", "i": ">I", "l": ">q", "L": ">q"}
_NUMBERS = {**_INTEGERS, "T": ">Q", "f": ">f", "d": ">d"}
MAX_TEXT = 65535


@dataclass(frozen=True)
class Typed:
    """A value of a field table, under the letter of its type."""

    kind: str
    value: object = None

    def encoded(self) -> bytes:
        kind, value = self.kind, self.value
        if kind == "V":
            return b"V"
        if kind == "t":
            return b"t" + bytes([bool(value)])
        if kind in _NUMBERS:
            return kind.encode() + struct.pack(_NUMBERS[kind], value)
        if kind == "D":
            assert isinstance(value, tuple)
            return b"D" + struct.pack(">Bi", *value)
        if kind in "Sx":
            assert isinstance(value, bytes)
            return kind.encode() + _long(value)
        assert isinstance(value, list)
        if kind == "A":
            return b"A" + _long(b"".join(each.encoded() for each in value))
        return b"F" + _long(table(value))

    def text(self) -> bytes:
        """As a header's value."""
        kind, value = self.kind, self.value
        if kind == "V":
            return b""
        if kind == "S" and is_text(value):
            assert isinstance(value, bytes)
            return value
        if kind in "Sx":
            assert isinstance(value, bytes)
            return base64.b64encode(value)
        return self.json().strip('"').encode() if kind in "fd" else self.json().encode()

    def json(self) -> str:
        kind, value = self.kind, self.value
        if kind == "V":
            return "null"
        if kind == "t":
            return "true" if value else "false"
        if kind in "fd":
            [found] = struct.unpack(_NUMBERS[kind], struct.pack(_NUMBERS[kind], value))
            return repr(found) if found - found == 0 else f'"{found!r}"'
        if kind in _NUMBERS:
            return str(value)
        if kind == "D":
            assert isinstance(value, tuple)
            return str(Decimal(value[1]).scaleb(-value[0]))
        if kind in "Sx":
            assert isinstance(value, bytes)
            return _json_text(value, kind == "x")
        assert isinstance(value, list)
        if kind == "A":
            return "[" + ",".join(each.json() for each in value) + "]"
        return "{" + ",".join(f"{_json_text(name)}:{each.json()}" for name, each in value) + "}"


@dataclass(frozen=True)
class Native:
    """None for a property that is not there."""

    content_type: bytes | None = None
    content_encoding: bytes | None = None
    headers: Pairs | None = None
    delivery_mode: int | None = None
    priority: int | None = None
    correlation_id: bytes | None = None
    reply_to: bytes | None = None
    expiration: bytes | None = None
    message_id: bytes | None = None
    timestamp: int | None = None
    type: bytes | None = None
    user_id: bytes | None = None
    app_id: bytes | None = None
    cluster_id: bytes | None = None

    def values(self) -> bytes:
        """Flags and values, as a content header has them."""
        parts = [
            _maybe(self.content_type),
            _maybe(self.content_encoding),
            None if self.headers is None else _long(table(self.headers)),
            None if self.delivery_mode is None else bytes([self.delivery_mode]),
            None if self.priority is None else bytes([self.priority]),
            _maybe(self.correlation_id),
            _maybe(self.reply_to),
            _maybe(self.expiration),
            _maybe(self.message_id),
            None if self.timestamp is None else self.timestamp.to_bytes(8, "big"),
            _maybe(self.type),
            _maybe(self.user_id),
            _maybe(self.app_id),
            _maybe(self.cluster_id),
        ]
        flags = sum(1 << (15 - place) for place, part in enumerate(parts) if part is not None)
        return flags.to_bytes(2, "big") + b"".join(part for part in parts if part is not None)

    def stored(self) -> bytes:
        """As the NATIVE column has it."""
        return b"\x91" + self.values()

    def view(self, own: bytes = b"", taken: Sequence[bytes] = (), fields: Sequence[int] = ()) -> bytes:
        """Behind PROPERTIES that have headers of the names `taken` and the MQTT properties `fields`."""
        made = [own]
        own_fields = set(fields)

        def header(name: bytes, value: bytes) -> None:
            if name not in taken and len(value) <= MAX_TEXT:
                made.append(b"\x26" + _two(name) + _two(value))

        def short(name: bytes, value: bytes | None) -> None:
            if value is not None:
                header(name, value if is_text(value) else base64.b64encode(value))

        if self.content_type is not None and 3 not in own_fields and is_text(self.content_type):
            made.append(b"\x03" + _two(self.content_type))
        short(b"content-encoding", self.content_encoding)
        if self.reply_to and 8 not in own_fields and is_text(self.reply_to):
            if b"+" in self.reply_to or b"#" in self.reply_to:
                header(b"reply-to", self.reply_to)
            else:
                made.append(b"\x08" + _two(self.reply_to if self.reply_to[:1] == b"$" else b"$queue/" + self.reply_to))
        short(b"message-id-of-sender", self.message_id)
        short(b"timestamp-of-sender", None if self.timestamp is None else str(self.timestamp).encode())
        short(b"type", self.type)
        short(b"user-id", self.user_id)
        short(b"app-id", self.app_id)
        short(b"cluster-id", self.cluster_id)
        correlation, is_decoded = self.correlation_id, False
        for name, value in self.headers or ():
            if name == b"x-payload-format" and value in (Typed("S", b"0"), Typed("S", b"1")) and 1 not in own_fields:
                made.append(bytes([1, value.value == b"1"]))
                own_fields.add(1)
                continue
            if name == b"x-correlation-id-encoding" and value == Typed("S", b"base64") and not is_decoded:
                decoded = _decoded(correlation)
                if decoded is not None:
                    correlation, is_decoded = decoded, True
                    continue
            if is_text(name):
                header(name, value.text())
        if correlation is not None and 9 not in own_fields:
            made.append(b"\x09" + _two(correlation))
        return b"".join(made)


def table(pairs: Pairs) -> bytes:
    return b"".join(_short(name) + value.encoded() for name, value in pairs)


def is_text(value: object) -> bool:
    """As MQTT defines a string."""
    assert isinstance(value, bytes)
    try:
        return "\0" not in value.decode()
    except UnicodeDecodeError:
        return False


def _decoded(correlation: bytes | None) -> bytes | None:
    try:
        return None if correlation is None else base64.b64decode(correlation, validate=True)
    except ValueError:
        return None


def _json_text(value: bytes, is_bytes: bool = False) -> str:
    try:
        text = None if is_bytes else value.decode()
    except UnicodeDecodeError:
        text = None
    if text is None:
        return f'"{base64.b64encode(value).decode()}"'
    made = json.dumps(text, ensure_ascii=False)
    for short, code in (("\\n", 10), ("\\r", 13), ("\\t", 9), ("\\b", 8), ("\\f", 12)):
        made = _replaced(made, short, f"\\u{code:04x}")
    return made


def _replaced(text: str, escape: str, by: str) -> str:
    """Escapes only, not what looks like one behind an escaped backslash."""
    out, at = "", 0
    while at < len(text):
        piece = text[at : at + 2] if text[at] == "\\" else text[at]
        out += by if piece == escape else piece
        at += len(piece)
    return out


def _maybe(value: bytes | None) -> bytes | None:
    return None if value is None else _short(value)


def _short(value: bytes) -> bytes:
    return bytes([len(value)]) + value


def _long(value: bytes) -> bytes:
    return len(value).to_bytes(4, "big") + value


def _two(value: bytes) -> bytes:
    return len(value).to_bytes(2, "big") + value


TASK = Native(
    content_type=b"application/json",
    content_encoding=b"utf-8",
    headers=[
        (b"lang", Typed("S", b"py")),
        (b"retries", Typed("I", 3)),
        (b"eta", Typed("V")),
        (b"argsrepr", Typed("A", [Typed("S", b"a"), Typed("t", True)])),
    ],
    delivery_mode=2,
    priority=0,
    correlation_id=b"c-1",
    reply_to=b"answers",
    message_id=b"m-1",
    timestamp=1_700_000_000,
    app_id=b"worker",
)
"""As a task of Celery has them."""
TASK_HEADERS = (
    ("content-encoding", "utf-8"),
    ("message-id-of-sender", "m-1"),
    ("timestamp-of-sender", "1700000000"),
    ("app-id", "worker"),
    ("lang", "py"),
    ("retries", "3"),
    ("eta", ""),
    ("argsrepr", '["a",true]'),
)
"""What readers see beside content type, reply address and correlation id."""
