"""What the process of the listener and the server say to each other, a line of JSON each."""

from __future__ import annotations

import msgspec

MAX_LINE_BYTES = 1 << 20
# Names of 255 bytes, each byte six characters in JSON at worst, fit a line beside the credentials.
QUEUES_AT_ONCE = 256
MAX_AUTHORIZATION = 64 << 10

LOGIN_PREFIX = "basic:"
"""of a bearer token that is a name and a password once more, which a handshake gives"""


class Options(msgspec.Struct, frozen=True):
    """Of the listener; the first line that its process is given. Certificates and keys are PEM."""

    directory: str
    host: str
    port: int
    certificate: str | None = None
    key: str | None = None
    client_ca: str | None = None
    """clients need a certificate that comes from it"""
    max_streams: int = 32
    max_streams_per_client: int = 8


class Listening(msgspec.Struct, frozen=True, tag="listening"):
    port: int


class CannotStart(msgspec.Struct, frozen=True, tag="cannot-start"):
    reason: str


class Unexpected(msgspec.Struct, frozen=True, tag="unexpected"):
    """An error that nobody foresaw, for the server's log."""

    what: str


class Question(msgspec.Struct, frozen=True, tag="question"):
    """Who is it, and which of these queues may it read? `is_fresh`: answered when what was acknowledged before can be
    read."""

    id: int
    authorization: str | None
    peer: str
    namespace: str | None
    queues: list[str]
    is_fresh: bool = False


class Answer(msgspec.Struct, frozen=True, tag="answer"):
    """`error` is an ErrorCode, with its text in `reason`; else `may_read` has a word for each queue."""

    id: int
    name: str = ""
    namespace: str = ""
    may_read: list[bool] = []
    error: str | None = None
    reason: str = ""


Said = Listening | CannotStart | Unexpected | Question


def line(message: Said | Answer | Options) -> bytes:
    return msgspec.json.encode(message) + b"\n"
