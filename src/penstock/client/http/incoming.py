"""Messages as a server gives them out."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, Generic, TypeVar

import msgspec

from penstock.codecs.http.messages import Message

F = TypeVar("F")
"""what a settlement is waited for with: a future of asyncio, or one of threads"""

Settle = Callable[["Verdict"], F]


class StoredMessage(Message, frozen=True, kw_only=True):
    """A message that was read. Its value is bytes; text, or what JSON has, where it is that. One of a live topic is in
    no queue: it has no id, and -1 as partition and offset."""

    id: str = ""
    queue: str = ""
    partition: int = -1
    offset: int = -1
    deliveries: int = 0
    """how often it was handed out, this time included; 0 if it was only looked at"""


class Verdict(msgspec.Struct, frozen=True):
    """What becomes of one delivery."""

    receipt: str
    verb: str
    """ack, nack, reject, extend, release: those with the same fields below go in one request"""
    delay_s: float | None = None
    reason: str | None = None
    visibility_s: float | None = None


class Delivered(Generic[F]):
    """A message that is the caller's until its visibility ends; then it comes again, unless it was settled. Settling
    returns at once: it is sent with others. The future says whether it was in time."""

    __slots__ = ("_message", "_settle", "is_settled")

    def __init__(self, message: StoredMessage, settle: Settle[F]) -> None:
        self._message, self._settle = message, settle
        self.is_settled = False

    def __repr__(self) -> str:
        return f"<Message {self.id}>"

    # What it is

    @property
    def id(self) -> str:
        return self._message.id

    @property
    def queue(self) -> str:
        return self._message.queue

    @property
    def partition(self) -> int:
        return self._message.partition

    @property
    def offset(self) -> int:
        return self._message.offset

    @property
    def value(self) -> bytes:
        return self._message.value

    @property
    def text(self) -> str:
        return self._message.text

    def json(self) -> Any:  # whatever its sender put there
        return self._message.json()

    @property
    def key(self) -> str | None:
        return self._message.key

    @property
    def key_bytes(self) -> bytes | None:
        return self._message.key_bytes

    @property
    def headers(self) -> list[tuple[str, str]]:
        return self._message.headers

    def header(self, name: str) -> str | None:
        return self._message.header(name)

    @property
    def timestamp(self) -> datetime:
        return self._message.timestamp

    @property
    def deliveries(self) -> int:
        return self._message.deliveries

    @property
    def stored(self) -> StoredMessage:
        """All there is of it: content type, topic, reply address."""
        return self._message

    # What becomes of it

    def ack(self) -> F:
        """Acknowledge."""
        self.is_settled = True
        return self._settle(Verdict(self._receipt, "ack"))

    def retry(self, delay_s: float | None = None, reason: str = "") -> F:
        """Not done: it comes again, after the delay or the queue's own."""
        self.is_settled = True
        return self._settle(Verdict(self._receipt, "nack", delay_s=delay_s, reason=reason or None))

    def dead_letter(self, reason: str = "") -> F:
        """Never to be done: to the dead letters."""
        self.is_settled = True
        return self._settle(Verdict(self._receipt, "reject", reason=reason or None))

    def release(self) -> F:
        """Return it without counting a failure."""
        self.is_settled = True
        return self._settle(Verdict(self._receipt, "release"))

    def extend(self, visibility_s: float) -> F:
        """It stays the caller's for so long from now on."""
        return self._settle(Verdict(self._receipt, "extend", visibility_s=visibility_s))

    @property
    def _receipt(self) -> str:
        return self._message.receipt or ""
