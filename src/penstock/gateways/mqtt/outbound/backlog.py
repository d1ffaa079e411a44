"""Messages that wait until their receiver may be sent more, bounded."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque

from penstock.gateways.mqtt.options import QueuedPolicy
from penstock.gateways.mqtt.outbound.packets import Packets
from penstock.gateways.wire.budget import Budget


class Backlog:
    """Of one session that is connected and does not outlive the connection."""

    __slots__ = ("_budget", "_bytes", "_chunks", "_max_bytes", "_max_messages", "_messages", "_policy", "dropped")

    def __init__(self, max_messages: int, max_bytes: int, policy: QueuedPolicy, budget: Budget) -> None:
        """What waits is taken from the budget of all, as if nobody else waited for the same bytes."""
        self._max_messages, self._max_bytes, self._policy, self._budget = max_messages, max_bytes, policy, budget
        self._chunks: deque[Packets] | None = None
        """made when something waits: an empty one takes 760 bytes"""
        self._messages = self._bytes = 0
        self.dropped = 0

    def __len__(self) -> int:
        return self._messages

    def put(self, packets: Packets) -> bool:
        """Whether all of it, or with drop-oldest the newest of it, waits now."""
        room = self._room_for(packets)
        if room < len(packets) and self._policy is QueuedPolicy.DROP_OLDEST:
            limit_bytes = min(self._max_bytes, self._bytes + self._budget.room_bytes)
            self._append(packets)
            while self._messages > self._max_messages or self._bytes > limit_bytes:
                self._drop_oldest(limit_bytes)
            return True
        if room:
            self._append(packets if room == len(packets) else packets.part(0, room))
        self.dropped += len(packets) - room
        return room == len(packets)

    def take(self, limit: int) -> Packets | None:
        """The first ones, at most `limit`, of one chunk; None if nothing waits."""
        if not self._chunks or limit <= 0:
            return None
        chunk = self._chunks.popleft()
        if len(chunk) > limit:
            self._chunks.appendleft(chunk.part(limit, len(chunk)))
            chunk = chunk.part(0, limit)
        self._messages -= len(chunk)
        self._count(-len(chunk.data))
        return chunk

    def take_all(self) -> list[Packets]:
        chunks, self._chunks, self._messages = list(self._chunks or ()), None, 0
        self._count(-self._bytes)
        return chunks

    def _room_for(self, packets: Packets) -> int:
        room = min(len(packets), self._max_messages - self._messages)
        left = min(self._max_bytes - self._bytes, self._budget.room_bytes)
        while room and packets.ends[room - 1] > left:
            room -= 1
        return max(room, 0)

    def _append(self, packets: Packets) -> None:
        if self._chunks is None:
            self._chunks = deque()
        self._chunks.append(packets)
        self._messages += len(packets)
        self._count(len(packets.data))

    def _count(self, size: int) -> None:
        self._bytes += size
        self._budget.take(size)

    def _drop_oldest(self, limit_bytes: int) -> None:
        """As many of the oldest chunk as are too many, or all of it."""
        assert self._chunks is not None, "what is too much is there"
        chunk = self._chunks[0]
        excess, excess_bytes = self._messages - self._max_messages, self._bytes - limit_bytes
        count = max(min(excess, len(chunk)), bisect_left(chunk.ends, excess_bytes) + 1 if excess_bytes > 0 else 0)
        self.take(min(count, len(chunk)))
        self.dropped += min(count, len(chunk))
