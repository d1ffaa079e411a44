"""Which sequences of which producers a queue has taken: what is sent twice is stored once.

One `Producers` serves the producers whose id hashes to one partition, out of that partition's state log. `check`
decides, `apply` remembers. A record is applied in the same turn in which its frame is staged, so a retry that overtakes
the commit finds the first one: the caller waits for `Duplicate.call` before it answers.

A producer costs about 400 bytes and a call about 340, up to `max_bytes` in all. Over that, of those who were silent the
longest only the last call stays (older duplicates are still told, without offsets), then they are forgotten as after
24 h. The default holds 90,000 producers with a call each, or 95 with 2,000."""

from __future__ import annotations

import hashlib
from array import array
from bisect import bisect_right
from collections import Counter, OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from struct import Struct, error
from typing import Final, NamedTuple

from penstock.core.errors import FencedProducer, InvalidArgument, OutOfOrder
from penstock.core.ports import Buffer

REMEMBERED_CALLS = 5
REMEMBERED_SEQUENCES = 2000
FORGOTTEN_AFTER_MS = 24 * 3600 * 1000
UNKNOWN = -1
"""Partition and offset of a row that was taken longer ago than is remembered."""
MAX_PRODUCER_BYTES = 255
_LARGEST = 2**63 - 1
_MOST_ROWS = 2**31 - 1

# By tracemalloc, CPython 3.11: an id with its places in the tables, a call without placements, a placement.
_PRODUCER_BYTES, _CALL_BYTES, _PLACEMENT_BYTES = 400, 190, 150

_HEAD = Struct("<BqqIH")
"""bytes of the producer id, which follows; epoch, base sequence, rows, placements"""
_PLACEMENT = Struct("<iqI")


class Placement(NamedTuple):
    """The rows of a call that went to one partition have the offsets from `base_offset` on, in their order."""

    partition: int
    base_offset: int
    rows: int


@dataclass(frozen=True, slots=True)
class Call:
    """One publish call of a producer: `count` sequences from `base_sequence` on, and where its rows went. `order` has,
    where that is more than one partition, the number of its placement for each row: in one byte up to 256 placements,
    above in two, the low one first."""

    producer: bytes
    epoch: int
    base_sequence: int
    count: int
    placements: tuple[Placement, ...]
    order: bytes = b""

    @classmethod
    def scattered(
        cls, producer: bytes, epoch: int, base_sequence: int, placements: Iterable[Placement], partitions: Sequence[int]
    ) -> Call:
        """A call whose row i went to partition `partitions[i]`."""
        placed = tuple(placements)
        if len(placed) == 1:
            return cls(producer, epoch, base_sequence, len(partitions), placed)
        numbers = {placement.partition: number for number, placement in enumerate(placed)}
        order = _packed(map(numbers.__getitem__, partitions), len(placed))
        return cls(producer, epoch, base_sequence, len(partitions), placed, order)

    @property
    def end_sequence(self) -> int:
        """The first one behind the call."""
        return self.base_sequence + self.count

    @property
    def memory_bytes(self) -> int:
        return _CALL_BYTES + _PLACEMENT_BYTES * len(self.placements) + len(self.order)

    def locate(self, first: int, stop: int, partitions: array[int], offsets: array[int], at: int) -> None:
        """Write partition and offset of rows first..stop-1 to the places from `at` on."""
        order = _unpacked(self.order, len(self.placements)) if self.order else bytes(stop)
        nexts = [placement.base_offset for placement in self.placements]
        for row in range(stop):
            number = order[row]
            if row >= first:
                partitions[at + row - first] = self.placements[number].partition
                offsets[at + row - first] = nexts[number]
            nexts[number] += 1


def _packed(numbers: Iterable[int], placements: int) -> bytes:
    return bytes(numbers) if placements <= 256 else array("H", numbers).tobytes()


def _unpacked(order: bytes, placements: int) -> Sequence[int]:
    if placements <= 256:
        return order
    numbers = array("H")
    numbers.frombytes(order)
    return numbers


def encode(call: Call) -> bytes:
    """The call as a record of a state log."""
    head = _HEAD.pack(len(call.producer), call.epoch, call.base_sequence, call.count, len(call.placements))
    return b"".join([head, call.producer, *[_PLACEMENT.pack(*placement) for placement in call.placements], call.order])


def decode(data: Buffer) -> Call:
    """InvalidArgument unless the bytes are exactly one call that makes sense."""
    try:
        size, epoch, base_sequence, count, placed = _HEAD.unpack_from(data)
        at = _HEAD.size + size
        producer = bytes(data[_HEAD.size : at])
        placements = tuple(
            [Placement._make(_PLACEMENT.unpack_from(data, at + _PLACEMENT.size * i)) for i in range(placed)]
        )
    except error as short:
        raise InvalidArgument("a producer's call ends too early") from short
    call = Call(producer, epoch, base_sequence, count, placements, bytes(data[at + _PLACEMENT.size * placed :]))
    _check_ranges(producer, epoch, base_sequence, count)
    _check_placements(call)
    return call


def _check_placements(call: Call) -> None:
    if not call.placements:
        raise InvalidArgument("a producer's call went to no partition")
    width = 0 if len(call.placements) == 1 else 1 if len(call.placements) <= 256 else 2
    if len(call.order) != width * call.count:
        raise InvalidArgument(f"a producer's call has {len(call.order)} bytes for the order of {call.count} rows")
    if any(partition < 0 or base < 0 or base + rows > _LARGEST for partition, base, rows in call.placements):
        raise InvalidArgument("a producer's call names a partition or offset out of range")
    if len({placement.partition for placement in call.placements}) != len(call.placements):
        raise InvalidArgument("a producer's call names a partition twice")
    found = Counter(_unpacked(call.order, len(call.placements))) if width else {0: call.count}
    if found != {number: placement.rows for number, placement in enumerate(call.placements)}:
        raise InvalidArgument("the rows of a producer's call are not those of its placements")


@dataclass(frozen=True, slots=True)
class Fresh:
    """No row of the call was taken before."""


FRESH: Final = Fresh()


@dataclass(frozen=True, slots=True)
class Duplicate:
    """The first `rows` of the call were taken before, by `calls` (the oldest first, the forgotten left out). The rows
    behind them, if there are any, are fresh: cut off the first ones and check again.
    `call` is the very object that was applied; once it is committed, so are all the rows."""

    base_sequence: int
    rows: int
    calls: tuple[Call, ...]
    call: Call

    def offsets(self) -> tuple[array[int], array[int]]:
        """Partition ('i') and offset ('q') of each of the rows, UNKNOWN where they are no longer remembered."""
        partitions, offsets = array("i", [UNKNOWN]) * self.rows, array("q", [UNKNOWN]) * self.rows
        for call in self.calls:
            first = max(self.base_sequence - call.base_sequence, 0)
            stop = min(self.base_sequence + self.rows - call.base_sequence, call.count)
            at = call.base_sequence + first - self.base_sequence
            call.locate(first, stop, partitions, offsets, at)
        return partitions, offsets


@dataclass(slots=True)
class _Producer:
    epoch: int
    next_sequence: int
    last_ms: int
    bytes: int
    calls: list[Call] = field(default_factory=list)
    sequences: int = 0

    def take(self, call: Call) -> None:
        continues = (self.epoch, self.next_sequence) == (call.epoch, call.base_sequence)
        self.calls.append(call)
        self.epoch, self.next_sequence = call.epoch, call.end_sequence
        self.sequences += call.count
        self.bytes += call.memory_bytes
        if not continues:
            self.keep_last_call()
        while len(self.calls) > REMEMBERED_CALLS and self.sequences - self.calls[0].count >= REMEMBERED_SEQUENCES:
            self._drop(1)

    def keep_last_call(self) -> None:
        self._drop(len(self.calls) - 1)

    def _drop(self, count: int) -> None:
        self.sequences -= sum([call.count for call in self.calls[:count]])
        self.bytes -= sum([call.memory_bytes for call in self.calls[:count]])
        del self.calls[:count]

    def remembers(self, call: Call) -> bool:
        return call.base_sequence < self.next_sequence and call in self.between(call.base_sequence, call.end_sequence)

    def between(self, first: int, stop: int) -> tuple[Call, ...]:
        """The calls that took sequences first..stop-1, as far as they are remembered."""
        after = bisect_right(self.calls, stop - 1, key=_base_sequence)
        return tuple([call for call in self.calls[:after] if call.end_sequence > first])


def _base_sequence(call: Call) -> int:
    return call.base_sequence


class Producers:
    """What is remembered of the producers of one partition. One caller at a time; no clock: times are given."""

    def __init__(self, max_bytes: int = 64 << 20) -> None:
        self.max_bytes = max_bytes
        self.bytes = 0
        """What is remembered costs about that much memory."""
        # Both in the order of the producers' last calls; the second has those with more than one call.
        self._producers: OrderedDict[bytes, _Producer] = OrderedDict()
        self._with_calls: OrderedDict[bytes, _Producer] = OrderedDict()

    def __len__(self) -> int:
        return len(self._producers)

    def knows(self, producer: bytes) -> bool:
        return producer in self._producers

    def check(
        self, producer: bytes, epoch: int, base_sequence: int, count: int, said: bytes | None = None
    ) -> Fresh | Duplicate:
        """What of a call of `count` rows is new. Changes nothing: apply() the fresh part before the next check.
        OutOfOrder for a sequence that does not follow the last one taken, FencedProducer for an epoch below the
        producer's; a producer or epoch not known may begin at any sequence. Errors name it as `said`, if it is."""
        _check_ranges(producer, epoch, base_sequence, count)
        known = self._producers.get(producer)
        if known is None or epoch > known.epoch:
            return FRESH
        if epoch < known.epoch:
            raise FencedProducer(_printable(said or producer), epoch)
        if base_sequence == known.next_sequence:
            return FRESH
        if base_sequence > known.next_sequence:
            raise OutOfOrder(_printable(said or producer), known.next_sequence, base_sequence)
        rows = min(count, known.next_sequence - base_sequence)
        calls = known.between(base_sequence, base_sequence + rows)
        return Duplicate(base_sequence, rows, calls, calls[-1] if calls else known.calls[-1])

    def apply(self, record: Call, now_ms: int) -> None:
        """The call was taken, at that time. Live, in replay and from a dump alike: a record that does not continue what
        is known of its producer was accepted after that had been forgotten, so it begins anew. One that is remembered
        changes nothing but the time."""
        known = self._producers.get(record.producer)
        if known is None:
            known = self._begin(record, now_ms)
        known.last_ms = now_ms
        self._producers.move_to_end(record.producer)
        if not known.remembers(record):
            self.bytes -= known.bytes
            known.take(record)
            self.bytes += known.bytes
        if len(known.calls) > 1:
            self._with_calls[record.producer] = known
            self._with_calls.move_to_end(record.producer)
        self._keep_bounds()

    def expire(self, now_ms: int) -> int:
        """Forget who has sent nothing for 24 h; how many that were. Costs what it forgets, not what it keeps."""
        forgotten = 0
        self._heed_clock_set_back(now_ms)
        while self._producers and self._oldest().last_ms + FORGOTTEN_AFTER_MS <= now_ms:
            self._forget_oldest()
            forgotten += 1
        return forgotten

    def dump(self) -> list[tuple[Call, int]]:
        """Records and times that make an equal state when they are applied in this order to an empty one."""
        return [(call, known.last_ms) for known in self._producers.values() for call in known.calls]

    def _begin(self, record: Call, now_ms: int) -> _Producer:
        known = _Producer(record.epoch, record.base_sequence, now_ms, _PRODUCER_BYTES + len(record.producer))
        self._producers[record.producer] = known
        self.bytes += known.bytes
        return known

    def _keep_bounds(self) -> None:
        while self.bytes > self.max_bytes and self._with_calls:
            _, silent = self._with_calls.popitem(last=False)
            self.bytes -= silent.bytes
            silent.keep_last_call()
            self.bytes += silent.bytes
        while self.bytes > self.max_bytes and len(self._producers) > 1:
            self._forget_oldest()

    def _oldest(self) -> _Producer:
        return next(iter(self._producers.values()))

    def _forget_oldest(self) -> None:
        producer, known = self._producers.popitem(last=False)
        self._with_calls.pop(producer, None)
        self.bytes -= known.bytes

    def _heed_clock_set_back(self, now_ms: int) -> None:
        """A time from before that would keep its producer, and all behind it, for longer than 24 h."""
        if self._producers and self._oldest().last_ms > now_ms:
            for known in self._producers.values():
                known.last_ms = min(known.last_ms, now_ms)


def owned(owner: str, producer: str) -> bytes:
    """The id under which a producer of a login is remembered: nobody else's, and none that a producer can give itself,
    as those are text. InvalidArgument for one that is too long."""
    said, name = producer.encode(), owner.encode()
    _check_producer(said)
    return b"\xfe" + hashlib.blake2b(b"%d/%s%s" % (len(name), name, said), digest_size=32).digest()


def _check_producer(producer: bytes) -> None:
    if not 0 < len(producer) <= MAX_PRODUCER_BYTES:
        raise InvalidArgument(f"a producer id has 1 to {MAX_PRODUCER_BYTES} bytes, this one {len(producer)}")


def _check_ranges(producer: bytes, epoch: int, base_sequence: int, count: int) -> None:
    _check_producer(producer)
    if not 0 <= epoch <= _LARGEST:
        raise InvalidArgument(f"producer epoch {epoch} is outside 0..{_LARGEST}")
    if not 0 < count <= _MOST_ROWS or not 0 <= base_sequence <= _LARGEST - count:
        raise InvalidArgument(f"sequence {base_sequence} with {count} rows is outside 0..{_LARGEST}")


def _printable(producer: bytes) -> str:
    return producer.decode(errors="backslashreplace")
