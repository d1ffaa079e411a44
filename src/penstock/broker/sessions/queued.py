"""The messages of one session that are not settled: ids, places, sizes and flags in one array."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from penstock.broker.feed.stored import StoredBatch
from penstock.broker.sessions.messages import MessageLog
from penstock.kernels import session_entries as kernel

MESSAGE_FLAGS = 0x3F
# Settled entries at the front of an array are cut off when they are more than these and more than half of it.
_SLACK_ENTRIES = 64


class Taken(NamedTuple):
    """Messages of one batch, in the order in which they came for the session."""

    stored: StoredBatch
    rows: array[int]
    message_ids: array[int]
    flags: bytearray
    """as they were when the messages were accepted"""


class Following(NamedTuple):
    message_id: int
    offset: int
    bytes: int


class Queued:
    """Used from the loop. An id is the offset at which a message came, and stays when the message is copied; ids rise.
    Handed out is everything below a cursor."""

    __slots__ = ("_cursor", "_head", "bytes", "count", "entries", "last_id", "messages")

    def __init__(self, messages: MessageLog) -> None:
        self.messages = messages
        self.entries = array("q")
        self.last_id = -1
        self.count = self.bytes = 0
        self._head = self._cursor = 0

    def restore(self, entries: array[int], last_id: int) -> None:
        """As they were dumped; the first is not settled."""
        self.entries, self.last_id = entries, last_id
        offsets = self._living()
        self.messages.living.add(offsets, 1)
        self._count(len(offsets), kernel.total_bytes(entries))

    def dump(self) -> bytes:
        return self.entries[3 * self._head :].tobytes()

    def clear(self) -> None:
        """Nothing of it is wanted any more."""
        self.messages.living.add(self._living(), -1)
        self._count(-self.count, -self.bytes)
        self.entries, self._head = array("q"), 0

    # What comes and goes

    def extend(self, entries: array[int], size: int) -> None:
        """Messages of so many bytes came; that they are wanted is counted for all sessions together."""
        self.entries.extend(entries)
        self.last_id = entries[-3]
        self._count(len(entries) // 3, size)

    def move(self, copies: array[int]) -> None:
        """Messages lie elsewhere."""
        freed, moved = array("q", bytes(8 * len(copies))), array("q", bytes(8 * len(copies)))
        count = kernel.move(self.entries, copies, freed, moved)
        self.messages.living.add(moved[:count], 1)
        self.messages.living.add(freed[:count], -1)

    def adopt(self, copies: array[int], known_until: int) -> None:
        """After a restart: as move(), and what was copied before it was known is put where it belongs. The record it
        was copied from may be gone."""
        for at in range(0, len(copies), kernel.WORDS):
            copy = copies[at : at + kernel.WORDS]
            place = kernel.WORDS * kernel.find(self.entries, copy[0])
            if copy[0] >= known_until and self.entries[place : place + 1] != copy[:1]:
                self.entries[place:place] = copy
                self.last_id = max(self.last_id, copy[0])
                self.messages.living.add(copy[1:2], 1)
                self._count(1, kernel.total_bytes(copy))
        self.move(copies)

    def settle(self, message_ids: array[int]) -> None:
        """Those that are not there are passed over."""
        freed = array("q", bytes(8 * len(message_ids) + 8))
        self._free(freed, kernel.settle(self.entries, message_ids, freed))

    def settle_below(self, message_id: int) -> None:
        freed = array("q", bytes(8 * (len(self.entries) // 3 + 1)))
        self._free(freed, kernel.settle_below(self.entries, message_id, freed))

    @property
    def floor(self) -> int:
        """Every id below it is settled."""
        return self.entries[3 * self._head] if 3 * self._head < len(self.entries) else self.last_id + 1

    def oldest(self, excess: int, excess_bytes: int) -> array[int]:
        """Ids to settle so that so many fewer messages and bytes are queued, of those that were not handed out."""
        named = array("q", bytes(8 * (len(self.entries) // 3)))
        place = kernel.find(self.entries, self._cursor)
        return named[: kernel.oldest(self.entries, place, excess, excess_bytes, named)]

    def offset_of(self, message_id: int) -> int | None:
        """Where it lies; None if it is settled."""
        place = 3 * kernel.find(self.entries, message_id)
        if place >= len(self.entries) or self.entries[place] != message_id:
            return None
        return None if self.entries[place + 2] & kernel.SETTLED else self.entries[place + 1]

    def open_below(self, message_id: int, qos: int) -> list[int]:
        """Ids of messages with that QoS that are neither settled nor left out by the last rewind()."""
        stop = kernel.WORDS * kernel.find(self.entries, message_id)
        ids, words = self.entries[0 : stop : kernel.WORDS], self.entries[2 : stop : kernel.WORDS]
        hidden = kernel.SETTLED | kernel.IN_FLIGHT
        return [one for one, word in zip(ids, words, strict=True) if not word & hidden and word & 3 == qos]

    def is_in_flight(self, message_id: int) -> bool:
        """Whether it was left out by the last rewind()."""
        place = kernel.WORDS * kernel.find(self.entries, message_id)
        if place >= len(self.entries) or self.entries[place] != message_id:
            return False
        return bool(self.entries[place + 2] & kernel.IN_FLIGHT)

    # Handing out

    @property
    def next(self) -> Following | None:
        """The next message to be handed out."""
        if self._cursor > self.last_id:
            return None
        place = 3 * self._next_place()
        if place >= len(self.entries):
            return None
        message_id, offset, word = self.entries[place : place + kernel.WORDS]
        return Following(message_id, offset, word >> 8)

    def rewind(self, in_flight: Iterable[int]) -> None:
        """Hand out everything again, but these."""
        self._cursor = 0
        kernel.mark_in_flight(self.entries, array("q", in_flight))

    def take_near(self, limit: int, limit_bytes: int, gone: list[int]) -> list[Taken]:
        """The next messages, up to `limit`, and `limit_bytes` unless the first alone is larger, as long as no file has
        to be read. Ids of those that expired go to `gone`."""
        found: list[Taken] = []
        while limit > 0 and limit_bytes > 0 and (following := self.next) is not None:
            stored = self.messages.followed.near(following.offset)
            if stored is None or not stored.holds(following.offset) or (found and following.bytes > limit_bytes):
                break
            taken, size = self._take_from(stored, limit, limit_bytes, gone)
            if taken is not None:
                found.append(taken)
                limit -= len(taken.rows)
            limit_bytes -= size
        return found

    async def fetch(self, message_id: int, offset: int) -> bool:
        """Read the batch, so that it is at hand. False if the message is not where it should be; OffsetOutOfRange too,
        if it has not been copied elsewhere meanwhile."""
        stored = await self.messages.followed.stored(offset)
        return (stored is not None and stored.holds(offset)) or self.offset_of(message_id) != offset

    def look_up(self, message_ids: Sequence[int], found: list[Taken]) -> int:
        """Add messages that were handed out before, as far as no file has to be read; how many were passed."""
        for passed, message_id in enumerate(message_ids):
            if (offset := self.offset_of(message_id)) is None:
                continue
            stored = self.messages.followed.near(offset)
            if stored is None or not stored.holds(offset):
                return passed
            if not found or found[-1].stored is not stored:
                found.append(Taken(stored, array("i"), array("q"), bytearray()))
            found[-1].rows.append(stored.row_from(offset))
            found[-1].message_ids.append(message_id)
            found[-1].flags.append(self.entries[3 * kernel.find(self.entries, message_id) + 2] & MESSAGE_FLAGS)
        return len(message_ids)

    def _next_place(self) -> int:
        return kernel.next_open(self.entries, kernel.find(self.entries, self._cursor))

    def _take_from(
        self, stored: StoredBatch, limit: int, limit_bytes: int, gone: list[int]
    ) -> tuple[Taken | None, int]:
        """From the batch that holds the next message; with the bytes of it."""
        place, bounds = self._next_place(), (stored.first, stored.end)
        most = min(limit, len(self.entries) // 3 - place, len(stored))
        offsets, message_ids = array("q", bytes(8 * most)), array("q", bytes(8 * most))
        flags, stopped = bytearray(most), array("q", (0, 0))
        count = kernel.take(self.entries, place, *bounds, most, limit_bytes, offsets, message_ids, flags, stopped)
        self._cursor = message_ids[count - 1] + 1
        rows = array("i", bytes(4 * count))
        found = kernel.rows_of(offsets[:count], stored.offsets, rows)
        taken = Taken(stored, rows, message_ids[:count], flags[:count])
        expired = stored.expired(self.messages.timeline.now_at(stored.batch.header.base_timestamp), 0)
        if found == count and expired is None:
            return taken, stopped[1]
        return _without(taken, expired or bytearray(len(stored)), gone), stopped[1]

    def _living(self) -> array[int]:
        offsets = array("q", bytes(8 * (len(self.entries) // 3)))
        return offsets[: kernel.living_offsets(self.entries, offsets)]

    def _free(self, freed: array[int], count: int) -> None:
        if not count:
            return
        self.messages.living.add(freed[:count], -1)
        self._count(-count, -freed[count])
        self._head = kernel.settled_prefix(self.entries, self._head)
        if 3 * self._head == len(self.entries):
            self.entries, self._head = array("q"), 0
        elif self._head > _SLACK_ENTRIES and 6 * self._head > len(self.entries):
            del self.entries[: 3 * self._head]
            self._head = 0

    def _count(self, messages: int, size: int) -> None:
        self.count += messages
        self.bytes += size
        self.messages.totals.queued_messages += messages
        self.messages.totals.queued_bytes += size


def _without(taken: Taken, expired: bytearray, gone: list[int]) -> Taken | None:
    """Only what is there and has not expired; None if that is nothing."""
    keep = [place for place, row in enumerate(taken.rows) if row >= 0 and not expired[row]]
    kept = set(keep)
    gone += [message_id for place, message_id in enumerate(taken.message_ids) if place not in kept]
    if not keep:
        return None
    return Taken(
        taken.stored,
        array("i", [taken.rows[place] for place in keep]),
        array("q", [taken.message_ids[place] for place in keep]),
        bytearray(taken.flags[place] for place in keep),
    )
