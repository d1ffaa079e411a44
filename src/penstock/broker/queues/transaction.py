"""Publishing to several queues and settling what it was made from, all or nothing: one frame."""

from __future__ import annotations

from array import array

from penstock.broker.feed.held import Held
from penstock.broker.feed.settling import Settling
from penstock.broker.publish.publisher import Publisher
from penstock.broker.publish.publishing import Publishing
from penstock.broker.publish.request import Published, PublishRequest, Put
from penstock.broker.queues.ledger import Statement
from penstock.broker.queues.queue import Queue
from penstock.broker.queues.unit import Unit
from penstock.core.errors import InvalidArgument, StaleSettlement
from penstock.core.types import Purpose
from penstock.log.columns import Columns
from penstock.log.journal.late import Late
from penstock.queues.cursor import Cursor
from penstock.queues.names import MessageId

# What was handed out and is not in the state log goes before a settlement in its frame: if it is much, in one before.
_MANY_OFFSETS = 4096
# At most, of a settlement in a frame: for itself and for each of its messages.
_ACK_BYTES = 128


class Acks:
    """Settlements that go into a frame with something else, all of them or none. Used from the loop."""

    def __init__(self, settling: Settling) -> None:
        self._settling = settling
        self._all: list[Held] = []

    def __bool__(self) -> bool:
        return bool(self._all)

    def add(self, held: Held) -> None:
        self._all.append(held)

    @property
    def bytes_at_most(self) -> int:
        """What they take in a frame."""
        return sum([_ACK_BYTES * (1 + len(held)) for held in self._all])

    async def prepare(self) -> None:
        """Before they are staged: what was handed out and is in no frame yet would be too much beside them."""
        for cursor, unit in self._settled():
            if cursor.unsaid_span > _MANY_OFFSETS:
                await self._settling.note(unit)

    def late(self, room: int) -> Late:
        """In the turn in which the frame is staged: all deliveries are current, and then settled, or none is:
        StaleSettlement."""
        self.refuse_stale()
        statement = Statement(room)
        for (cursor, unit), offsets in self._settled().items():
            statement.settle(unit, cursor, offsets)

        def apply() -> None:
            statement.apply()
            for held in self._all:
                delivery = held.delivery
                cursor = delivery.group.cursor(delivery.unit)
                cursor.ack(held.offsets, held.counts, delivery.consumer, is_said=True)

        return Late(statement.parts(), apply)

    def done(self) -> None:
        """The frame is committed."""
        for held in self._all:
            self._settling.after_ack(held)

    def refuse_stale(self) -> None:
        for held in self._all:
            _refuse_stale(held)

    def _settled(self) -> dict[tuple[Cursor, Unit], array[int]]:
        """The offsets of all, by where they are."""
        found: dict[tuple[Cursor, Unit], array[int]] = {}
        for held in self._all:
            unit = held.delivery.unit
            found.setdefault((held.delivery.group.cursor(unit), unit), array("q")).extend(held.offsets)
        return {place: offsets for place, offsets in found.items() if offsets}


class Transaction:
    """Gather with put() and ack(), then commit() once. Until then nothing has happened. Used from the loop."""

    def __init__(self, publishing: Publishing, settling: Settling, publisher: Publisher) -> None:
        self._publishing, self._publisher = publishing, publisher
        self._puts: list[Put] = []
        self._acks = Acks(settling)
        self._is_done = False

    def put(self, queue: Queue, columns: Columns, partition: int | None = None) -> None:
        """Into a queue that is there, or one as Routes.wanted() says, which is made by commit()."""
        self._refuse_done()
        self._puts.append(Put(queue, columns, self._publisher, partition))

    def ack(self, held: Held) -> None:
        self._refuse_done()
        self._acks.add(held)

    async def commit(self) -> list[Published]:
        """What each put() gave, in order. Refused with nothing done: first for what publishing refuses, with TooLarge
        for more than a frame holds too, then with StaleSettlement if a delivery is no longer current."""
        self._refuse_done()
        self._is_done = True
        if not self._puts and not self._acks:
            return []
        await self._make_queues()
        await self._acks.prepare()
        published = await self._publishing.intake.stage(
            PublishRequest(self._puts, late=self._acks.late, purpose=Purpose.SETTLE)
        )
        self._acks.done()
        return published

    async def _make_queues(self) -> None:
        """Those that puts name and that are not there, if nothing of the whole is refused, in the order of commit()."""
        if not any(put.queue.is_unmade for put in self._puts):
            return
        routes = self._publishing.routes
        for put in self._puts:
            routes.refuse([(put.queue, put.rows)], put.partition)
        routes.refuse_together([(put.queue, put.rows) for put in self._puts], self._acks.bytes_at_most)
        self._acks.refuse_stale()
        for number, put in enumerate(self._puts):
            made = await routes.made(put.queue, [put.rows], put.partition)
            self._puts[number] = put._replace(queue=made)

    def _refuse_done(self) -> None:
        if self._is_done:
            raise InvalidArgument("the transaction was committed: begin another one")


def _refuse_stale(held: Held) -> None:
    group, unit, offsets = held.delivery.group, held.delivery.unit, held.offsets
    current = group.cursor(unit).held(offsets, held.counts, held.delivery.consumer)
    if len(current) < len(offsets):
        stale = next(iter(set(offsets) - set(current)), offsets[0])
        message = MessageId(group.queue.name, group.queue.incarnation, unit.partition, stale)
        raise StaleSettlement(str(message), "the transaction came too late; nothing of it was done")
