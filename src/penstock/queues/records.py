"""What a state log holds: the fate of messages in one partition, for all its groups, in 64-bit words.

Each record says how things are, not how they came about, so that replaying one twice changes nothing."""

from __future__ import annotations

import enum
import struct
from array import array
from collections.abc import Iterator
from typing import NamedTuple

from penstock.core.errors import InvalidArgument
from penstock.core.ports import Buffer

_HEAD = struct.Struct("<BBHI")
"""kind, 0, 0, group"""
_WORD = 8
ENTRY_WORDS = 7


class Kind(enum.IntEnum):
    DELIVERED = 1
    """next offset, then ranges: offsets up to there are settled but for the ranges, which wait to be settled"""
    ENTRIES = 2
    """what is known of single messages: Entry after Entry"""
    SETTLED = 3
    """ranges"""
    PLACED = 4
    """next offset, end of history: the group begins there, whatever was before"""
    CALL = 5
    """bytes: a producer's call (queues/dedup.py)"""


class State(enum.IntEnum):
    """How a message waits, as records and windows number it."""

    HELD = 1
    """by a connection; free after a restart, which counts"""
    LEASED = 2
    BACKOFF = 3
    READY = 4


class Entry(NamedTuple):
    """An unsettled message. `time`: end of its lease, or when it is visible again; `first`: its first delivery."""

    offset: int
    state: int
    time: int
    deliveries: int
    failures: int
    returns: int
    first: int


class StateRecord(NamedTuple):
    kind: Kind
    group: int
    words: array[int]
    data: bytes = b""


def encode(record: StateRecord) -> bytes:
    return _HEAD.pack(record.kind, 0, 0, record.group) + record.words.tobytes() + record.data


def decode(data: Buffer) -> StateRecord:
    """InvalidArgument where it is no record: the checksum of the batch held, so another version wrote it."""
    if len(data) < _HEAD.size:
        raise InvalidArgument("a state record is shorter than its head")
    number, _, _, group = _HEAD.unpack_from(data)
    try:
        kind = Kind(number)
    except ValueError as error:
        raise InvalidArgument(f"no kind of state record has the number {number}") from error
    rest = bytes(data[_HEAD.size :])
    if kind is Kind.CALL:
        return StateRecord(kind, group, array("q"), rest)
    words = array("q")
    if len(rest) % _WORD:
        raise InvalidArgument("a state record ends inside a word")
    words.frombytes(rest)
    _check_words(kind, len(words))
    return StateRecord(kind, group, words)


def _check_words(kind: Kind, count: int) -> None:
    fits = {
        Kind.DELIVERED: count % 2 == 1,
        Kind.ENTRIES: count % ENTRY_WORDS == 0,
        Kind.SETTLED: count % 2 == 0,
        Kind.PLACED: count == 2,
    }
    if not fits[kind]:
        raise InvalidArgument(f"a state record of kind {kind.name} has {count} words")


def delivered(group: int, following: int, ranges: array[int]) -> StateRecord:
    return StateRecord(Kind.DELIVERED, group, array("q", [following]) + ranges)


def settled(group: int, ranges: array[int]) -> StateRecord:
    return StateRecord(Kind.SETTLED, group, ranges)


def entries(group: int, found: list[Entry]) -> StateRecord:
    return StateRecord(Kind.ENTRIES, group, array("q", [word for entry in found for word in entry]))


def placed(group: int, following: int, history_end: int) -> StateRecord:
    return StateRecord(Kind.PLACED, group, array("q", [following, history_end]))


def call(data: bytes) -> StateRecord:
    return StateRecord(Kind.CALL, 0, array("q"), data)


def entries_of(record: StateRecord) -> Iterator[Entry]:
    words = record.words
    for at in range(0, len(words), ENTRY_WORDS):
        yield Entry(*words[at : at + ENTRY_WORDS])


def ranges_of(words: array[int], at: int = 0) -> Iterator[tuple[int, int]]:
    for i in range(at, len(words), 2):
        yield words[i], words[i + 1]
