"""Publishing to several queues and settling what it was made from, all or nothing: one frame."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass

from penstock.broker.delivery import Delivery
from penstock.broker.ledger import drained, state_parts
from penstock.broker.publisher import Publisher
from penstock.broker.publishing import Published, Publishing, passing
from penstock.broker.queue import Placed, Queue
from penstock.broker.settling import Settling
from penstock.broker.unit import Unit
from penstock.core.errors import InvalidArgument, StaleSettlement
from penstock.core.types import Purpose
from penstock.log.columns import Columns
from penstock.log.shard import Part, Shard
from penstock.queues.names import MessageId


@dataclass(frozen=True, slots=True)
class _Put:
    queue: Queue
    columns: Columns
    partition: int | None


@dataclass(frozen=True, slots=True)
class _Ack:
    delivery: Delivery
    offsets: array[int]
    deliveries: array[int] | None


class Transaction:
    """Gather with put() and ack(), then commit() once. Until then nothing has happened. Used from the loop."""

    def __init__(self, shard: Shard, publishing: Publishing, settling: Settling, publisher: Publisher) -> None:
        self._shard, self._publishing, self._settling = shard, publishing, settling
        self._publisher = publisher
        self._puts: list[_Put] = []
        self._acks: list[_Ack] = []
        self._is_done = False

    def put(self, queue: Queue, columns: Columns, partition: int | None = None) -> None:
        self._refuse_done()
        self._puts.append(_Put(queue, columns, partition))

    def ack(self, delivery: Delivery, offsets: array[int], deliveries: array[int] | None = None) -> None:
        """Messages of a delivery; `deliveries` as in Settling.ack."""
        self._refuse_done()
        self._acks.append(_Ack(delivery, offsets, deliveries))

    async def commit(self) -> list[Published]:
        """What each put() gave, in order. StaleSettlement, with nothing done, if a delivery is no longer current;
        TooLarge for more than a frame holds; else as publishing."""
        self._refuse_done()
        self._is_done = True
        parts: list[Part] = []
        places: list[list[tuple[int, Columns]]] = []
        if not self._puts and not self._acks:
            return []
        async with passing(put.queue for put in self._puts):
            for put in self._puts:
                self._publishing.refuse(put.queue, put.columns)
            for put in self._puts:
                some, placed = await self._publishing.accept(put.queue, put.columns, self._publisher, put.partition)
                parts += some
                places.append(placed)
            self._shard.refuse_publishes()
            offsets = iter(await self._shard.commit(parts, Purpose.SETTLE, self._settle))
        self._after()
        return [
            Published(put.queue, [Placed(number, next(offsets), mine.count) for number, mine in placed])
            for put, placed in zip(self._puts, places, strict=True)
        ]

    def _settle(self) -> Sequence[Part]:
        """In the turn in which the frame is staged: all deliveries are current, and then settled, or none is."""
        for ack in self._acks:
            self._refuse_stale(ack)
        for ack in self._acks:
            delivery = ack.delivery
            delivery.group.cursor(delivery.unit).ack(ack.offsets, ack.deliveries, delivery.consumer)
        cursors: dict[Unit, set[int]] = {}
        for ack in self._acks:
            cursors.setdefault(ack.delivery.unit, set()).add(ack.delivery.group.number)
        return state_parts({unit: drained(unit, groups) for unit, groups in cursors.items()})

    def _refuse_stale(self, ack: _Ack) -> None:
        group, unit = ack.delivery.group, ack.delivery.unit
        current = group.cursor(unit).held(ack.offsets, ack.deliveries, ack.delivery.consumer)
        if len(current) < len(ack.offsets):
            stale = next(iter(set(ack.offsets) - set(current)), ack.offsets[0])
            message = MessageId(group.queue.name, group.queue.incarnation, unit.partition, stale)
            raise StaleSettlement(str(message), "the transaction came too late; nothing of it was done")

    def _after(self) -> None:
        for ack in self._acks:
            self._settling.after_ack(ack.delivery.group, ack.delivery.unit, ack.delivery.consumer)
        for put in self._puts:
            put.queue.published += put.columns.count

    def _refuse_done(self) -> None:
        if self._is_done:
            raise InvalidArgument("the transaction was committed: begin another one")
