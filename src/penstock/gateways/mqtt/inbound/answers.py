"""Acknowledgements of publishes, in the order in which these came [MQTT-4.6.0-2].

Those of a turn are sent to all clients together: see `turn_answers`. Others are owed to one client, and wait here until
all that was owed before them has left. Where answers of a turn would come behind others that wait they wait here as
well, so that whatever waits here comes behind every turn that is under way."""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from penstock.codecs.mqtt.errors import shortened
from penstock.codecs.mqtt.kinds import PacketType
from penstock.codecs.mqtt.packets import Packet, PubAck, PubRec
from penstock.codecs.mqtt.properties import Properties
from penstock.codecs.mqtt.reasons import ReasonCode
from penstock.gateways.mqtt.inbound.client_columns import ClientColumns
from penstock.gateways.wire.outbox import Outbox
from penstock.kernels.mqtt_encode import encode_acks

_NOTHING: Mapping[int, Told] = {}


class Refused(NamedTuple):
    """Why something was not done: for programs, and for people."""

    reason: ReasonCode
    detail: str

    @property
    def explained(self) -> Properties:
        return Properties(reason_string=shortened(self.detail))


class Noted(NamedTuple):
    """It was done, with something that people may not expect."""

    detail: str
    reason: ReasonCode = ReasonCode.SUCCESS

    @property
    def explained(self) -> Properties:
        return Properties(reason_string=shortened(self.detail))


Told = Refused | Noted

UNROUTED = Noted("no queue is bound to the exchange for this message", ReasonCode.NO_MATCHING_SUBSCRIBERS)


def created(*queues: str) -> Noted:
    """A request made them because it named them."""
    return Noted("; ".join([f"created queue {name!r}, which did not exist" for name in queues]))


@dataclass(slots=True, eq=False)
class Answer:
    kind: PacketType
    """PUBACK or PUBREC"""
    packet_ids: array[int]
    told: Mapping[int, Told] | None = None
    """by packet identifier; None while it is not ready"""


@dataclass(slots=True, eq=False)
class Encoded:
    """Answers of a turn as they will be sent."""

    data: bytes
    is_ready: bool = False


class Answers:
    """Of one connection."""

    __slots__ = ("_columns", "_encode", "_outbox", "_owed", "_slot", "_version")

    def __init__(
        self, outbox: Outbox, version: int, encode: Callable[[Packet], bytes], columns: ClientColumns, slot: int
    ) -> None:
        self._outbox, self._version, self._encode = outbox, version, encode
        self._columns: ClientColumns | None = columns
        self._slot = slot
        self._owed: deque[Answer | Encoded] | None = None
        """made when something is owed: an empty one takes 760 bytes, and most clients only listen"""

    def __len__(self) -> int:
        """Those of turns included."""
        return len(self._owed or ()) + (0 if self._columns is None else self._columns.owed[self._slot])

    def owe(self, kind: PacketType, packet_ids: array[int]) -> Answer:
        answer = Answer(kind, packet_ids)
        self._append(answer)
        return answer

    def owe_encoded(self, data: bytes) -> Encoded:
        answer = Encoded(data)
        self._append(answer)
        return answer

    def _append(self, answer: Answer | Encoded) -> None:
        if self._owed is None:
            self._owed = deque()
        self._owed.append(answer)
        self._note()

    def give(self, answer: Answer, told: Mapping[int, Told] = _NOTHING) -> None:
        """It may be sent now; nothing told of a packet identifier is success without a word."""
        answer.told = told
        self.give_ready()

    def give_encoded(self, answer: Encoded) -> None:
        answer.is_ready = True
        self.give_ready()

    def forget(self, answer: Encoded) -> None:
        """It will not be sent; nothing if the connection is gone."""
        if self._owed is not None and answer in self._owed:
            self._owed.remove(answer)
            self.give_ready()

    def leave(self) -> None:
        """The connection is gone, and its slot is another's."""
        self._columns = self._owed = None

    def give_ready(self) -> None:
        """What is ready, and has nothing before it that is not."""
        owed = self._owed
        if self._columns is None or self._columns.owed[self._slot]:
            return
        while owed and (data := self._ready(owed[0])) is not None:
            owed.popleft()
            self._outbox.write(data)
        self._note()

    def _note(self) -> None:
        if self._columns is not None:
            self._columns.waiting[self._slot] = len(self._owed or ())

    def _ready(self, answer: Answer | Encoded) -> bytes | bytearray | None:
        if isinstance(answer, Encoded):
            return answer.data if answer.is_ready else None
        if answer.told is None:
            return None
        if not answer.told:
            return encode_acks(answer.kind, answer.packet_ids, None, self._version)
        return b"".join([self._explained(answer, number) for number in answer.packet_ids])

    def _explained(self, answer: Answer, packet_id: int) -> bytes:
        assert answer.told is not None
        told = answer.told.get(packet_id)
        packet = PubAck if answer.kind is PacketType.PUBACK else PubRec
        return self._encode(packet(packet_id) if told is None else packet(packet_id, told.reason, told.explained))
