"""Messages of a request put into a queue, and where they are, as their publisher is told."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

import msgspec

from penstock.broker.publish.request import ProducerCall, Published
from penstock.broker.queues.queue import Placed, Queue
from penstock.gateways.http.server.exchange import Exchange
from penstock.kernels import json_messages, rows
from penstock.log.columns import Columns

_ZERO = array("i", [0])
# Two offsets of 20 digits at most, and a comma.
_NUMBERS_BYTES = 42
_DUPLICATE, _FRESH = b',"duplicate":true}', b"}"


async def put(
    exchange: Exchange, queue: Queue, columns: Columns, partition: int | None, producer: ProducerCall | None = None
) -> Published:
    """Committed when it returns."""
    publishing, publisher = exchange.ports.broker.publishing, exchange.connection.publisher
    if producer is None and (staged := publishing.put_now(queue, columns, publisher, partition)) is not None:
        placed, committed = staged
        await committed
        return Published(queue, placed)
    return await publishing.put(queue, columns, publisher, partition, producer)


@lru_cache(4096)
def _parts(prefix: str, partition: int) -> tuple[bytes, bytes]:
    """What stands before the offset in the id of a message, and between that and the offset alone."""
    return b'{"id":%s' % msgspec.json.encode(prefix)[:-1], b'","partition":%d,"offset":' % partition


class _Runs(NamedTuple):
    """Rows in the order in which they came: each lies in the run of its number, one behind the other."""

    placed: Sequence[Placed]
    numbers: array[int]

    def encoded(self, queue: Queue, tail: bytes) -> bytes:
        """As JSON, with a comma behind each."""
        parts = [_parts(queue.message_id_prefix(run.partition), run.partition) for run in self.placed]
        if len(self.numbers) == 1:
            (head, middle), offset = parts[0], self.placed[0].base_offset
            return b"%b%d%b%d%b," % (head, offset, middle, offset, tail)
        heads, middles = [head for head, _ in parts], [middle for _, middle in parts]
        longest = max(map(len, heads)) + max(map(len, middles)) + len(tail) + _NUMBERS_BYTES
        out, following = bytearray(longest * len(self.numbers)), array("q", [run.base_offset for run in self.placed])
        end = json_messages.encode_placed(self.numbers, following, heads, middles, tail, out)
        return bytes(memoryview(out)[:end])

    def rows(self) -> Iterator[tuple[int, int]]:
        """Partition and offset of each."""
        following = [run.base_offset for run in self.placed]
        for number in self.numbers:
            yield self.placed[number].partition, following[number]
            following[number] += 1


def report_of_one(queue: Queue, placed: Placed, *, is_created: bool) -> bytes:
    """A PublishReport of a message that was stored now."""
    return _report(1, 0, _Runs((placed,), _ZERO).encoded(queue, _FRESH), is_created)


def report(published: Published, columns: Columns, unkeyed: int, *, is_created: bool) -> bytes:
    """A PublishReport. Rows taken before come first, in their order; the others by partition, those
    without a key in `unkeyed`."""
    queue, placed, known = published
    results = b""
    if known:
        placed, before = list(placed), list[Placed]()
        while sum([run.rows for run in before]) < known:
            before.append(placed.pop(0))
        numbers = array("i", [number for number, run in enumerate(before) for _ in range(run.rows)])
        results, columns = _Runs(before, numbers).encoded(queue, _DUPLICATE), columns.part(known, columns.count)
    if placed:
        results += fresh(queue, columns, placed, unkeyed).encoded(queue, _FRESH)
    return _report(columns.count + known, known, results, is_created)


def _report(count: int, known: int, results: bytes, is_created: bool) -> bytes:
    created = b',"created":true' if is_created else b""
    return b'{"accepted":%d,"duplicates":%d,"results":[%b]%b}' % (count, known, results[:-1], created)


def fresh(queue: Queue, columns: Columns, placed: Sequence[Placed], unkeyed: int) -> _Runs:
    """Of rows that were stored now."""
    numbers = _ZERO * columns.count
    if len(placed) > 1:
        runs = _ZERO * queue.settings.partitions
        for number, run in enumerate(placed):
            runs[run.partition] = number
        rows.take_int32(runs, columns.partitions(queue.settings.partitions, unkeyed), numbers)
    return _Runs(placed, numbers)
