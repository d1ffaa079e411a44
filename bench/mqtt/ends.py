"""Publishers and consumers of a load: each has a connection and keeps count of what passed through it."""

from __future__ import annotations

import struct
from array import array
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from bench.mqtt.link import PeerFailed, Room
from bench.mqtt.speech import ConsumerParts, PublisherParts

# A send of ~70 KiB: more at once gains nothing on loopback.
_MESSAGES_A_SEND = 256
_NUMBER, _STAMP = struct.Struct(">Q"), struct.Struct(">8xQ")


@dataclass(slots=True)
class Gate:
    """What a publisher waits for: `share` of these make one message done."""

    share: int = 1
    passed: int = 0

    @property
    def messages(self) -> int:
        return self.passed // self.share


class Publisher:
    """Has at most `window` messages outstanding, by the slowest of its gates. Stops when `is_open` is false.
    `acks` is the gate that its acknowledgements open, None if it asks for none."""

    def __init__(self, parts: PublisherParts, window: int, gates: Sequence[Gate], acks: Gate | None) -> None:
        self.parts, self.acks = parts, acks
        self.is_open, self.sent = True, 0
        self._window, self._gates = window, gates

    @property
    def is_done(self) -> bool:
        return not self.is_open and not self.parts.link.is_blocked and self._outstanding() <= 0

    @property
    def waits_for_others(self) -> bool:
        """Whether it may go on when something came that was not for itself."""
        return any(gate is not self.acks for gate in self._gates)

    def fill(self, now_ns: int) -> None:
        """Send what the window has room for, as long as the socket takes it."""
        link = self.parts.link
        while self.is_open and not link.is_blocked:
            free = self._window - self._outstanding()
            if free <= 0:
                return
            self._send(min(free, _MESSAGES_A_SEND), now_ns)

    def readable(self, room: Room, now_ns: int) -> None:
        link = self.parts.link
        stop = link.receive(room)
        count, read_bytes = self.parts.acks.read(room.data, stop)
        link.keep(room, read_bytes, stop)
        if count:
            self._acknowledged(count, now_ns)

    def _acknowledged(self, count: int, now_ns: int) -> None:
        if self.acks is None:
            raise PeerFailed("an acknowledgement of a message that asked for none")
        self.acks.passed += count

    def _send(self, count: int, stamp_ns: int) -> None:
        data = self.parts.ring.take(count, stamp_ns)
        self.sent += len(data) // self.parts.ring.frame_bytes
        self.parts.link.send(data)

    def _outstanding(self) -> int:
        return self.sent - min([gate.messages for gate in self._gates])


class PacedPublisher(Publisher):
    """Sends each message when it is due; one that has to wait keeps the time at which it was. `latencies_ns` are from
    then until the acknowledgement."""

    def __init__(self, parts: PublisherParts, window: int, acks: Gate) -> None:
        super().__init__(parts, window, (acks,), acks)
        self.due_ns: deque[int] = deque()
        self.latencies_ns = array("q")
        self._unanswered_ns: deque[int] = deque()

    @property
    def is_done(self) -> bool:
        return not self.due_ns and super().is_done

    def fill(self, now_ns: int) -> None:
        while self.due_ns and not self.parts.link.is_blocked and self._outstanding() < self._window:
            stamp_ns = self.due_ns.popleft()
            self._unanswered_ns.append(stamp_ns)
            self._send(1, stamp_ns)

    def _acknowledged(self, count: int, now_ns: int) -> None:
        super()._acknowledged(count, now_ns)
        self.latencies_ns.extend([now_ns - self._unanswered_ns.popleft() for _ in range(count)])


class Consumer:
    """Takes and settles. One that is not `checked` counts, which is cheaper where the same goes to a thousand; one that
    is `timed` keeps how long each message took since it was due. `gate` is what a publisher waits for."""

    def __init__(
        self, parts: ConsumerParts, gate: Gate | None = None, checked: bool = True, timed: bool = False
    ) -> None:
        self.parts, self.checked = parts, checked
        self.received, self.sum_of_numbers = 0, 0
        self.latencies_ns = array("q")
        self._gate, self._timed = gate, timed

    def readable(self, room: Room, now_ns: int) -> None:
        link = self.parts.link
        stop = link.receive(room)
        payloads_at, read_bytes, answer = self.parts.deliveries.read(room.data, stop)
        if self.checked:
            self._look_at(room.data, payloads_at, now_ns)
        link.keep(room, read_bytes, stop)
        if answer:
            link.send(answer)
        self.received += len(payloads_at)
        if self._gate is not None:
            self._gate.passed += len(payloads_at)

    def fill(self, now_ns: int) -> None:
        """Sends nothing of its own."""

    def _look_at(self, data: bytearray, payloads_at: Sequence[int], now_ns: int) -> None:
        number, stamp = _NUMBER.unpack_from, _STAMP.unpack_from
        self.sum_of_numbers += sum([number(data, at)[0] for at in payloads_at])
        if self._timed:
            self.latencies_ns.extend([now_ns - stamp(data, at)[0] for at in payloads_at])
