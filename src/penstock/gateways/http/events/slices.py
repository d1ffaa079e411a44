"""A queue as event streams get it: encoded once, for all who stand at the same place."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass

import msgspec

from penstock.broker.queues.queue import Queue
from penstock.broker.queues.unit import Unit
from penstock.gateways.http.events.events import chunk, event
from penstock.gateways.http.messages.cursors import Vector
from penstock.gateways.http.messages.message_rows import message_of
from penstock.gateways.http.messages.partition_parts import Part, read_part

_SLICE_ROWS = 64
_SLICE_BYTES = 16 << 10
# What was encoded lately, of one queue: whoever is a little behind, or comes back with many others, finds it there.
_KEPT_BYTES, _KEPT_SLICES = 1 << 20, 1024

_encode = msgspec.json.Encoder().encode


class Gap(msgspec.Struct, frozen=True):
    """Event `gap`: these offsets are gone, removed by retention or a purge, or because the queue was created again."""

    partition: int
    start: int = msgspec.field(name="from")
    stop: int = msgspec.field(name="to")


@dataclass(frozen=True, slots=True)
class Slice:
    """Events as they are sent, and where a reader stands who has got them."""

    data: bytes
    after: Vector


class Slices:
    """Of one queue in one encoding. Readers go from place to place on one chain of slices, so that those who follow
    each other closely get the same bytes."""

    def __init__(self, queue: Queue, is_base64: bool) -> None:
        self._queue, self._is_base64 = queue, is_base64
        self._kept: OrderedDict[Vector, Slice] = OrderedDict()
        self._kept_bytes = 0
        self._reading: dict[Vector, asyncio.Task[Slice | None]] = {}

    async def following(self, place: Vector, stop: Vector) -> Slice | None:
        """What comes next at a place; None if that is not before the stop in any partition. Stops only ever move on:
        what one reader was given, a later one may have too."""
        kept = self._kept.get(place)
        if kept is not None:
            return kept
        reading = self._reading.get(place)
        if reading is None:
            reading = self._reading[place] = asyncio.get_running_loop().create_task(self._read(place, stop))
            reading.add_done_callback(lambda done: self._forget(place, done))
        # Others wait for it too.
        return await asyncio.shield(reading)

    def _forget(self, place: Vector, done: asyncio.Task[Slice | None]) -> None:
        del self._reading[place]
        if not done.cancelled():
            # All who waited for it may be gone, and nobody else would look at what went wrong.
            done.exception()

    async def _read(self, place: Vector, stop: Vector) -> Slice | None:
        behind = [unit for unit in self._queue.units.values() if place[unit.partition] < stop[unit.partition]]
        if not behind:
            return None
        parts, size, at = [], 0, place
        share = max(1, _SLICE_ROWS // len(behind))
        for unit in _in_turn(behind, place):
            part = await read_part(unit, at[unit.partition], stop[unit.partition], share)
            data, at = self._encoded(unit, part, at, _SLICE_BYTES - size)
            parts.append(data)
            size += len(data)
            if size >= _SLICE_BYTES:
                break
        framed = chunk(b"".join(parts)) if size else b""
        return self._keep(place, Slice(framed, at))

    def _encoded(self, unit: Unit, part: Part, at: Vector, room_bytes: int) -> tuple[bytes, Vector]:
        """Events of a part up to that size, one at least, and the place behind them."""
        partition, queue = unit.partition, self._queue
        if part.is_gap:
            after = at.moved(partition, part.next)
            gap = Gap(partition, at[partition], part.next)
            return event(_encode(gap), after.text, "gap"), after
        prefix, (before, behind) = queue.message_id_prefix(partition), at.around(partition)
        events: list[bytes] = []
        size = 0
        for row in part.rows:
            if size >= room_bytes and events:
                return b"".join(events), at.moved(partition, row.offset)
            data = _encode(message_of(prefix, queue.name, partition, row, self._is_base64))
            events.append(event(data, f"{before}{row.offset + 1}{behind}"))
            size += len(events[-1])
        return b"".join(events), at.moved(partition, part.next)

    def _keep(self, place: Vector, made: Slice) -> Slice:
        self._kept[place] = made
        self._kept_bytes += len(made.data)
        while len(self._kept) > _KEPT_SLICES or (self._kept_bytes > _KEPT_BYTES and len(self._kept) > 1):
            self._kept_bytes -= len(self._kept.popitem(last=False)[1].data)
        return made


def _in_turn(units: list[Unit], place: Vector) -> list[Unit]:
    """Each place begins with another one, and always with the same: a slice may be full before it has come to all."""
    turn = sum(place.offsets.values()) % len(units)
    return units[turn:] + units[:turn]
