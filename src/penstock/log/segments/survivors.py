"""Which records compaction removes: one backward walk over what may go, or several that share the keys out.

Walking back, the first record met of a key is its last one and stays; what is met later is superseded."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import pairwise

from penstock.core.errors import CorruptBatch, LogDamaged
from penstock.core.ports import Disk
from penstock.log.batch import KEY, PROPERTIES, VALUE, Batch
from penstock.log.properties import user_property
from penstock.log.segments.index import places
from penstock.log.segments.segments import SealedSegment
from penstock.log.view import viewed

# A shorter key stands for itself, a longer one is represented by a digest of this length: the two cannot be mistaken.
_DIGEST_BYTES = 16


@dataclass(frozen=True, slots=True)
class BatchTable:
    """Where the batches of a segment lie, and the number of each one's first row; one entry more for the end."""

    positions: array[int]
    rows: array[int]

    def __len__(self) -> int:
        return len(self.rows) - 1


@dataclass(slots=True)
class Marks:
    """Rows of one segment that are to go: a bit a row, and their number in each batch."""

    bits: bytearray
    per_batch: array[int]
    total: int = 0

    @classmethod
    def none(cls, table: BatchTable) -> Marks:
        return cls(bytearray(table.rows[-1] + 7 >> 3), array("i", bytes(4 * len(table))))

    def add(self, batch: int, row: int) -> None:
        byte, bit = row >> 3, 1 << (row & 7)
        if not self.bits[byte] & bit:
            self.bits[byte] |= bit
            self.per_batch[batch] += 1
            self.total += 1

    def unmarked(self, first_row: int, stop_row: int) -> array[int]:
        """Numbers inside the batch of the rows that stay."""
        bits = self.bits
        return array(
            "i", [row - first_row for row in range(first_row, stop_row) if not bits[row >> 3] >> (row & 7) & 1]
        )


@dataclass(frozen=True, slots=True)
class Question:
    """`candidates`, the oldest of the log, may lose records, and only they supersede. Tombstones not newer than
    `tombstone_ms` go once nothing older of their key is left in the log."""

    log: str
    candidates: Sequence[SealedSegment]
    property: str | None
    tombstone_ms: float


@dataclass(slots=True)
class Verdict:
    marks: list[Marks]
    """one for each candidate"""
    newest_tombstone_ms: int | None = None
    """of those that stay; None if none does"""


@dataclass(slots=True)
class _Share:
    """The keys of one walk: those whose hash leaves `remainder` modulo `modulus`, a power of two."""

    modulus: int
    remainder: int
    seen: set[bytes] = field(default_factory=set)
    expired: dict[bytes, tuple[int, int, int, int]] = field(default_factory=dict)
    """last records of their keys that are old tombstones: segment, batch, row, timestamp"""

    def halve(self) -> _Share:
        """Keep half of the keys; the other half, to be walked for later."""
        half, self.modulus = self.modulus, self.modulus * 2
        mask, remainder = self.modulus - 1, self.remainder
        self.seen = {key for key in self.seen if hash(key) & mask == remainder}
        self.expired = {key: place for key, place in self.expired.items() if hash(key) & mask == remainder}
        return _Share(self.modulus, self.remainder + half)


def judge(question: Question, disk: Disk, max_keys: int, between: Callable[[], None]) -> Verdict:
    """Holds about `max_keys` keys in memory, and a bit for every record of the candidates. LogDamaged if a segment is
    not what its list entry says."""
    log = question.log
    verdict = Verdict([Marks.none(table_of(log, map_segment(disk, each), each)) for each in question.candidates])
    shares = [_Share(1, 0)]
    while shares:
        _Walk(question, disk, verdict, shares, max_keys, between).run()
    return verdict


def all_but(log: str, segment: SealedSegment, kept: array[int], disk: Disk, between: Callable[[], None]) -> Marks:
    """Everything but records of these offsets, which rise. LogDamaged as judge()."""
    data = map_segment(disk, segment)
    table = table_of(log, data, segment)
    marks, place = Marks.none(table), 0
    for number, (start, stop) in enumerate(pairwise(table.positions)):
        between()
        first = table.rows[number]
        try:
            offsets = Batch.parse(data[start:stop]).offsets()
        except CorruptBatch as error:
            raise LogDamaged(log, segment.path, start, error.reason) from error
        for row, offset in enumerate(offsets, first):
            while place < len(kept) and kept[place] < offset:
                place += 1
            if place == len(kept) or kept[place] != offset:
                marks.add(number, row)
    return marks


def map_segment(disk: Disk, segment: SealedSegment) -> memoryview:
    file = disk.open_read(segment.path)
    try:
        return file.map()[: segment.info.bytes]
    finally:
        file.close()


def table_of(log: str, data: memoryview, segment: SealedSegment) -> BatchTable:
    positions, rows = array("q", [0]), array("q", [0])
    for place in places(data, 0, len(data)):
        positions.append(place.position + place.bytes)
        rows.append(rows[-1] + place.records)
    if positions[-1] != segment.info.bytes or rows[-1] != segment.info.records:
        reason = f"{rows[-1]} records lie before it, there should be {segment.info.records}"
        raise LogDamaged(log, segment.path, positions[-1], reason)
    return BatchTable(positions, rows)


class _Walk:
    """One walk back over all segments, for the last of `shares`; more are put there if it meets too many keys."""

    def __init__(
        self,
        question: Question,
        disk: Disk,
        verdict: Verdict,
        shares: list[_Share],
        max_keys: int,
        between: Callable[[], None],
    ) -> None:
        self._question, self._disk, self._verdict, self._shares = question, disk, verdict, shares
        self._share = shares.pop()
        self._max_keys, self._between = max_keys, between
        self._name = question.property.encode() if question.property is not None else None

    def run(self) -> None:
        for number in reversed(range(len(self._question.candidates))):
            self._walk_segment(self._question.candidates[number], number)
        for segment_number, batch_number, row, _ in self._share.expired.values():
            self._verdict.marks[segment_number].add(batch_number, row)

    def _walk_segment(self, segment: SealedSegment, number: int) -> None:
        data = map_segment(self._disk, segment)
        table = table_of(self._question.log, data, segment)
        for i in reversed(range(len(table))):
            self._between()
            try:
                batch = Batch.parse(data[table.positions[i] : table.positions[i + 1]])
            except CorruptBatch as error:
                raise LogDamaged(self._question.log, segment.path, table.positions[i], error.reason) from error
            self._judge_batch(batch, _tokens(batch, self._name), number, i, table.rows[i])

    def _judge_batch(self, batch: Batch, tokens: list[bytes], segment: int, number: int, first_row: int) -> None:
        share, marks = self._share, self._verdict.marks[segment]
        mask, remainder, seen = share.modulus - 1, share.remainder, share.seen
        is_empty = _empty_values(batch)
        for row in reversed(range(len(tokens))):
            token = tokens[row]
            if not token or hash(token) & mask != remainder:
                continue
            if token in seen:
                marks.add(number, first_row + row)
                self._keep_tombstone(token)
                continue
            seen.add(token)
            if is_empty(row):
                self._meet_tombstone(token, (segment, number, first_row + row, batch.header.max_timestamp))
        self._shrink()

    def _meet_tombstone(self, token: bytes, place: tuple[int, int, int, int]) -> None:
        if place[3] <= self._question.tombstone_ms:
            self._share.expired[token] = place
        else:
            self._stays(place[3])

    def _keep_tombstone(self, token: bytes) -> None:
        """Something older of its key goes only now: who is reading that must still find the tombstone behind it."""
        if (place := self._share.expired.pop(token, None)) is not None:
            self._stays(place[3])

    def _stays(self, timestamp: int) -> None:
        self._verdict.newest_tombstone_ms = max(self._verdict.newest_tombstone_ms or 0, timestamp)

    def _shrink(self) -> None:
        while len(self._share.seen) > self._max_keys:
            self._shares.append(self._share.halve())


def _tokens(batch: Batch, property_name: bytes | None) -> list[bytes]:
    """What stands for the key of each row; empty where it has none."""
    entries = _entries(batch, KEY) if property_name is None else _entries(viewed(batch), PROPERTIES)
    if property_name is not None:
        entries = [user_property(entry, property_name) or b"" for entry in entries]
    return [
        entry if len(entry) < _DIGEST_BYTES else blake2b(entry, digest_size=_DIGEST_BYTES).digest() for entry in entries
    ]


def _entries(batch: Batch, column: int) -> list[bytes]:
    found = batch.var_column(column)
    if found is None:
        return [b""] * len(batch)
    _, offsets, content = found
    data = bytes(content)
    return [data[start:end] for start, end in pairwise(offsets.cast("i"))]


def _empty_values(batch: Batch) -> Callable[[int], bool]:
    found = batch.var_column(VALUE)
    if found is None:
        return lambda row: True
    offsets = found[1].cast("i")
    return lambda row: bool(offsets[row] == offsets[row + 1])
