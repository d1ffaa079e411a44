"""What the process of a door and the server say to each other, a line of JSON each. A door has questions and answers
of its own."""

from __future__ import annotations

import msgspec

MAX_LINE_BYTES = 1 << 20
MAX_AUTHORIZATION = 64 << 10
LOGIN_PREFIX = "basic:"
"""of a bearer token that is a name and a password once more, which the handshake of a door gives"""


class ListenOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Of a listener; a door's own are the first line that its process is given. Certificates and keys are PEM."""

    host: str
    port: int
    certificate: str | None = None
    key: str | None = None
    client_ca: str | None = None
    """clients need a certificate that comes from it"""


class Listening(msgspec.Struct, frozen=True, tag="listening"):
    port: int


class CannotStart(msgspec.Struct, frozen=True, tag="cannot-start"):
    reason: str


class Unexpected(msgspec.Struct, frozen=True, tag="unexpected"):
    """An error that nobody foresaw, for the server's log."""

    what: str


class Question(msgspec.Struct, frozen=True, tag="question"):
    """What a door asks has this and more."""

    id: int


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """`error` is an ErrorCode, with its text in `reason`; what a door is told has more beside them."""

    id: int
    error: str | None = None
    reason: str = ""


def line(message: msgspec.Struct) -> bytes:
    return msgspec.json.encode(message) + b"\n"
