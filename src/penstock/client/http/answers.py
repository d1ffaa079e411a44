"""What a server tells about itself. Fields that a newer server adds are passed over."""

from __future__ import annotations

from typing import Generic, TypeVar

import msgspec

from penstock.client.http.incoming import StoredMessage
from penstock.codecs.http.dead_letters import DeadLetterMessage

T = TypeVar("T")

Facts = dict[str, object]
"""where what is told is shown, and not worked with"""


class Page(msgspec.Struct, Generic[T], frozen=True):
    """A part of a list; `next` is the cursor of the one behind it."""

    items: list[T]
    next: str | None = None


class MessagePage(msgspec.Struct, frozen=True):
    messages: list[StoredMessage]
    next: str | None = None


class DeadLetter(DeadLetterMessage, frozen=True):
    message: StoredMessage


class DeadLetters(msgspec.Struct, frozen=True):
    """`waiting` in all; `queue` is where they are, None before the first one came."""

    queue: str | None
    waiting: int
    items: list[DeadLetter]
