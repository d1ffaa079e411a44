"""Messages of a request put into a queue, and where they are, as their publisher is told."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
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


class _Runs(NamedTuple):
    """Rows in the order in which they came: each lies in the run of its number, one behind the other."""

    placed: Sequence[Placed]
    numbers: array[int]

    def encoded(self, queue: Queue, tail: bytes) -> bytes:
        """As JSON, with a comma behind each."""
        heads = [b'{"id":%s' % msgspec.json.encode(queue.message_id_prefix(run.partition))[:-1] for run in self.placed]
        middles = [b'","partition":%d,"offset":' % run.partition for run in self.placed]
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
    count, created = columns.count + known, b',"created":true' if is_created else b""
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
