"""Dead letters: messages a group has given up on, moved whole, with user properties that say whence and why.

A move is one frame with its settlement and never fails for what a message contains: properties that cannot be read are
carried along behind ours."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from penstock.core.errors import InvalidArgument
from penstock.kernels.letters import Said
from penstock.log.batch import Row
from penstock.log.columns import Columns
from penstock.log.properties import user_property
from penstock.queues.names import GroupName, MessageId, parse_group_name, parse_message_id
from penstock.queues.properties import MAX_STRING_BYTES, encode_user_properties, with_properties

MAX_DETAIL_BYTES = 1024
MAX_ADDED_BYTES = 4096 + MAX_STRING_BYTES
"""A move adds no more than that to a message, and so does a redrive; about 300 bytes where the group has no long
filter."""
_STATE_BYTES = 64 << 10


def max_message_bytes(frame_bytes: int, *, is_redriven: bool = False) -> int:
    """How large a message may be, with its key, topic and properties, where a frame holds so much: as a dead letter and
    as a redriven one it takes more, and its settlement goes into the same frame."""
    kept = _STATE_BYTES + MAX_ADDED_BYTES * (1 if is_redriven else 2)
    # Frames of less than 1.6 MB, which only small journals have, keep an eighth.
    return frame_bytes - min(kept, frame_bytes // (16 if is_redriven else 8))


QUEUE, PARTITION, OFFSET, MESSAGE_ID = "dlq-queue", "dlq-partition", "dlq-offset", "dlq-message-id"
GROUP, REASON, DETAIL = "dlq-group", "dlq-reason", "dlq-detail"
DELIVERY_COUNT, FAILURES, FIRST_FAILED, TIME = "dlq-delivery-count", "dlq-failures", "dlq-first-failed", "dlq-time"
REDRIVEN_FROM = "redriven-from"
REDRIVE_GROUP = "redrive-group"
"""The only group that gets the message; heeded only in batches of the producer REDRIVEN."""

REDRIVEN = (1 << 64) - 1
"""The producer of batches with redriven messages: all others need not be looked into for REDRIVE_GROUP."""

FACTS = (QUEUE, PARTITION, OFFSET, MESSAGE_ID, GROUP, REASON, DETAIL, DELIVERY_COUNT, FAILURES, FIRST_FAILED, TIME)
_FACT_NAMES = {name.encode() for name in FACTS}
_NUMBER_DIGITS = 18

NOTHING_SAID: Final = Said(b"", b"", b"", b"", b"", -1, b"", b"", b"", b"", set(), 0, 0)
"""of messages that were never stored"""

Edit = Callable[[Row], Row]


class Reason(enum.StrEnum):
    """Why a message was given up on."""

    REJECTED = "rejected"
    MAX_RETRIES = "max-retries"
    TOTAL_TIMEOUT = "total-timeout"
    MAX_DELIVERIES = "max-deliveries"
    EXPIRED = "expired"
    MAX_LENGTH = "maxlen"

    @property
    def amqp(self) -> str:
        """As RabbitMQ says it in `x-death`."""
        return self.value if self in (Reason.REJECTED, Reason.EXPIRED, Reason.MAX_LENGTH) else "delivery_limit"


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """Whence and why. The topic under which the message was published stays the topic of its record."""

    source: MessageId
    group: GroupName
    reason: Reason
    moved_ms: int
    detail: str = ""
    """what the consumer said"""
    delivery_count: int = 0
    failures: int = 0
    first_failed_ms: int = 0
    """0 for one that never failed"""


def from_properties(properties: bytes) -> DeadLetter | None:
    """None for a message that no move has brought here."""
    try:
        return DeadLetter(
            source=parse_message_id(_text(properties, MESSAGE_ID)),
            group=parse_group_name(_text(properties, GROUP)),
            reason=_reason(_text(properties, REASON)),
            moved_ms=_number(properties, TIME),
            detail=_text(properties, DETAIL),
            delivery_count=_number(properties, DELIVERY_COUNT),
            failures=_number(properties, FAILURES),
            first_failed_ms=_number(properties, FIRST_FAILED),
        )
    except InvalidArgument:
        return None


def without(properties: bytes) -> bytes:
    """The properties the message had before it was moved, and before it was redriven."""
    return with_properties(properties, (), drop=(*FACTS, REDRIVEN_FROM, REDRIVE_GROUP))


def said(facts: DeadLetter, prefix: str, retries: int, shift: int) -> Said:
    """What all letters of a move say; the source's offset and what was counted of it are each one's own. `prefix` is
    what the ids of its messages begin with. Those that failed for good without more than `retries` failures took too
    long; -1 for moves without failures. `shift` is between stored times and those that run."""
    pairs = dict(_pairs(facts))
    late = dict(_pairs(replace(facts, reason=Reason.TOTAL_TIMEOUT)))
    nobodys = (Reason.EXPIRED, Reason.MAX_LENGTH)
    return Said(
        _encoded(pairs, QUEUE, PARTITION) + _begun(OFFSET),
        _begun(MESSAGE_ID),
        _clean(prefix, MAX_STRING_BYTES),
        _encoded(pairs, GROUP, REASON) + _begun(DELIVERY_COUNT),
        _encoded(late, GROUP, REASON) + _begun(DELIVERY_COUNT),
        retries,
        _begun(FAILURES),
        _begun(FIRST_FAILED),
        _encoded(pairs, DETAIL),
        _encoded(pairs, TIME),
        _FACT_NAMES,
        shift,
        1 if facts.reason in nobodys else 0,
    )


def _encoded(pairs: dict[str, bytes], *names: str) -> bytes:
    return encode_user_properties([(name, pairs[name]) for name in names if name in pairs])


def _begun(name: str) -> bytes:
    """A user property up to its value's length."""
    return encode_user_properties([(name, b"")])[:-2]


def row_bytes(row: Row) -> int:
    """Of all that is stored of a message."""
    parts = row.value, row.key, row.topic, row.properties, row.native
    return sum([len(part) for part in parts if part is not None])


def redrive_columns(letters: Sequence[Row], edit: Edit | None = None, *, to_all_groups: bool = False) -> Columns:
    """Dead letters as they are published again: for the group that gave up on them, or all. `edit` is given each as it
    lies in the dead-letter queue; of the row it returns, offset, timestamp and expiry do not matter. Those that no move
    has brought there go to all groups."""
    return replace(_columns([_redriven(letter, edit, to_all_groups) for letter in letters]), producer_id=REDRIVEN)


def _redriven(letter: Row, edit: Edit | None, to_all_groups: bool) -> Row:
    facts = from_properties(letter.properties or b"")
    edited = edit(letter) if edit is not None else letter
    own = without(edited.properties or b"")
    if facts is None:
        return edited._replace(properties=own)
    headers = [(REDRIVEN_FROM, str(facts.source))]
    if not to_all_groups:
        headers.append((REDRIVE_GROUP, str(facts.group)))
    return edited._replace(properties=with_properties(own, headers))


def _columns(rows: Sequence[Row]) -> Columns:
    return Columns.of(
        [row.value for row in rows],
        keys=_given(row.key for row in rows),
        topics=_given(row.topic for row in rows),
        properties=_given(row.properties for row in rows),
        native=_given(row.native for row in rows),
    )


def _given(column: Iterable[bytes | None]) -> list[bytes] | None:
    """None for a column in which no row has anything: it is not stored."""
    entries = [entry or b"" for entry in column]
    return entries if any(entries) else None


def _pairs(facts: DeadLetter) -> list[tuple[str, bytes]]:
    source = facts.source
    found: list[tuple[str, object]] = [
        (QUEUE, source.queue),
        (PARTITION, source.partition),
        (OFFSET, source.offset),
        (MESSAGE_ID, source),
        (GROUP, facts.group),
        (REASON, facts.reason),
        (DELIVERY_COUNT, facts.delivery_count),
        (FAILURES, facts.failures),
        (FIRST_FAILED, facts.first_failed_ms or ""),
        (DETAIL, facts.detail),
        (TIME, facts.moved_ms),
    ]
    limits = {DETAIL: MAX_DETAIL_BYTES}
    return [(name, _clean(str(value), limits.get(name, MAX_STRING_BYTES))) for name, value in found if value != ""]


def _clean(text: str, limit: int) -> bytes:
    """As much as fits, of what MQTT can carry: a consumer's words must not hold up a move."""
    data = text.replace("\0", " ").encode(errors="replace")[:limit]
    return data.decode(errors="ignore").encode()


def _text(properties: bytes, name: str) -> str:
    return (user_property(properties, name.encode()) or b"").decode(errors="replace")


def _number(properties: bytes, name: str) -> int:
    text = _text(properties, name)
    if not text:
        return 0
    if len(text) > _NUMBER_DIGITS or not (text.isascii() and text.isdecimal()):
        raise InvalidArgument(f"{name} is not a number: {text[:80]!r}")
    return int(text)


def _reason(text: str) -> Reason:
    try:
        return Reason(text)
    except ValueError as error:
        known = ", ".join(reason.value for reason in Reason)
        raise InvalidArgument(f"{text[:80]!r} is not a reason for a dead letter: there are {known}") from error
