"""Dead letters made one by one, the long way: what the kernel that makes many is held against."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from penstock.log.batch import Row
from penstock.log.columns import Columns
from penstock.queues.deadletter import FACTS, MAX_DETAIL_BYTES, DeadLetter
from penstock.queues.properties import MAX_STRING_BYTES, with_properties


def to_properties(facts: DeadLetter, original: bytes) -> bytes:
    """The properties of the dead letter: the facts, then the message's own, without facts of an earlier move."""
    said: list[tuple[str, object]] = [
        ("dlq-queue", facts.source.queue),
        ("dlq-partition", facts.source.partition),
        ("dlq-offset", facts.source.offset),
        ("dlq-message-id", facts.source),
        ("dlq-group", facts.group),
        ("dlq-reason", facts.reason),
        ("dlq-delivery-count", facts.delivery_count),
        ("dlq-failures", facts.failures),
        ("dlq-first-failed", facts.first_failed_ms or ""),
        ("dlq-detail", facts.detail),
        ("dlq-time", facts.moved_ms),
    ]
    pairs = [(name, _clean(str(value), name)) for name, value in said if value != ""]
    return with_properties(original, pairs, drop=FACTS)


def dead_letter(row: Row, facts: DeadLetter) -> Row:
    return row._replace(properties=to_properties(facts, row.properties or b""))


def columns_for_move(letters: Sequence[Row]) -> Columns:
    return Columns.of(
        [row.value for row in letters],
        keys=_given(row.key for row in letters),
        topics=_given(row.topic for row in letters),
        properties=_given(row.properties for row in letters),
        native=_given(row.native for row in letters),
    )


def _given(column: Iterable[bytes | None]) -> list[bytes] | None:
    entries = [entry or b"" for entry in column]
    return entries if any(entries) else None


def _clean(text: str, name: str) -> bytes:
    limit = MAX_DETAIL_BYTES if name == "dlq-detail" else MAX_STRING_BYTES
    data = text.replace("\0", " ").encode(errors="replace")[:limit]
    return data.decode(errors="ignore").encode()
