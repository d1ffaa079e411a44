"""Receipt handles: what names a delivery over HTTP, and what settles it."""

from __future__ import annotations

import secrets
from array import array
from collections.abc import Iterable
from typing import NamedTuple

from penstock.broker.broker import FIRST_SESSION, Broker
from penstock.broker.feed.held import Held
from penstock.broker.queues.group import Group
from penstock.broker.queues.queue import Queue
from penstock.broker.queues.unit import Unit
from penstock.core.errors import InvalidArgument
from penstock.queues.names import parse_receipt_handle

ADVICE = {
    "stale": "their time was over, or they were settled before: what is not settled comes again; ask for a longer "
    "visibility, or extend it in time",
    "restarted": "they were handed out before the server was started again: their messages come again when their "
    "lease is over; receive them again, and settle the new receipts",
    "gone": "there is no such queue, partition or group here any more, or they are of another namespace",
    "malformed": "that is no receipt: send `receipt` of a received message as it is",
}
"""by what is wrong with receipts: why, and what to do"""
_NUMBER_DIGITS = 18  # int() itself refuses thousands of them
_MOST_NAMED = 10_000


_Place = tuple[Group, Unit, int]
"""what one consumer of a group has of a partition"""


class Receipted(NamedTuple):
    """What some receipts name that one consumer has of a partition."""

    held: Held
    receipts: list[str]
    """of each message"""


class Receipts:
    """Of one gateway. A receipt names the consumer that it was given to, tells deliveries apart by their count, and by
    a word that changes with every start, as a crash may forget that a message was handed out."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._word = secrets.token_hex(4)
        self._named: dict[tuple[int, str, str], int] = {}

    def session(self, group: Group, user: str, name: str | None) -> int:
        """The number of one who pulls: a key in flight at one is given to no other. Each request is a consumer of its
        own, unless it names one of its user's. A name that was not used for long is forgotten: who comes with it again
        waits for what it held before, as anybody would."""
        if name is None:
            return self._broker.session()
        known = group.number, user, name
        number = self._named.pop(known, None)
        self._named[known] = number = self._broker.session() if number is None else number
        if len(self._named) > _MOST_NAMED:
            del self._named[next(iter(self._named))]
        return number

    def suffix(self, group: Group, consumer: int) -> str:
        """What follows the count of deliveries."""
        return f"~{self._word}-{group.number}-{consumer}"

    def find(
        self, receipts: Iterable[str], namespace: str, only: Queue | None = None
    ) -> tuple[list[Receipted], dict[str, str]]:
        """Where they lead in the namespace, and what is wrong with those that lead nowhere: a word of ADVICE. `only`
        that queue is looked at: whoever has seen one receipt could spell those of others."""
        found: dict[_Place, tuple[array[int], array[int], list[str]]] = {}
        wrong: dict[str, str] = {}
        for receipt in receipts:
            try:
                place, offset, count = self._place(receipt)
                queue = place[0].queue
                if queue.namespace != namespace or only not in (None, queue):
                    raise LookupError("gone")
            except InvalidArgument:
                wrong[receipt] = "malformed"
            except LookupError as error:
                wrong[receipt] = str(error.args[0])
            else:
                offsets, counts, mine = found.setdefault(place, (array("q"), array("i"), []))
                offsets.append(offset)
                counts.append(count)
                mine.append(receipt)
        return [
            Receipted(Held.named(group, unit, offsets, counts, consumer), mine)
            for (group, unit, consumer), (offsets, counts, mine) in found.items()
        ], wrong

    def _place(self, receipt: str) -> tuple[_Place, int, int]:
        handle = parse_receipt_handle(receipt)
        word, *numbers = handle.nonce.split("-")
        if len(numbers) != 2 or not all(_is_number(number) for number in numbers):
            raise InvalidArgument("no numbers of a group and a consumer")
        queue = self._broker.declaring.by_incarnation.get(handle.message.incarnation)
        if queue is None or queue.name != handle.message.queue:
            raise LookupError("gone")
        unit = queue.units.get(handle.message.partition)
        group = next((group for group in queue.groups.values() if str(group.number) == numbers[0]), None)
        if unit is None or group is None:
            raise LookupError("gone")
        if word != self._word:
            raise LookupError("restarted")
        return (group, unit, _consumer(group, numbers[1])), handle.message.offset, handle.delivery_count


def _consumer(group: Group, number: str) -> int:
    """One who pulls, or a member: one that has left holds nothing."""
    if int(number) >= FIRST_SESSION:
        return int(number)
    found = next((member for member in group.consumers if str(member) == number), None)
    if found is None:
        raise LookupError("stale")
    return found


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= _NUMBER_DIGITS
