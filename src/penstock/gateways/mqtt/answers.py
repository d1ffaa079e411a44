"""Acknowledgements of publishes, in the order in which these came [MQTT-4.6.0-2]."""

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
from penstock.gateways.mqtt.outbox import Outbox
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

    @property
    def reason(self) -> ReasonCode:
        return ReasonCode.SUCCESS

    @property
    def explained(self) -> Properties:
        return Properties(reason_string=shortened(self.detail))


Told = Refused | Noted


def created(*queues: str) -> Noted:
    """A request made them because it named them."""
    return Noted("; ".join([f"created queue {name!r}, which did not exist" for name in queues]))


@dataclass(slots=True)
class Answer:
    kind: PacketType
    """PUBACK or PUBREC"""
    packet_ids: array[int]
    told: Mapping[int, Told] | None = None
    """by packet identifier; None while it is not ready"""


class Later:
    """In place of the answers to what a turn brought of a connection: they are sent with those to others."""

    __slots__ = ()
    kind, told, packet_ids = PacketType.PUBACK, None, array("i")


class Answers:
    """Of one connection."""

    __slots__ = ("_encode", "_outbox", "_owed", "_version")

    def __init__(self, outbox: Outbox, version: int, encode: Callable[[Packet], bytes]) -> None:
        self._outbox, self._version, self._encode = outbox, version, encode
        self._owed: deque[Answer | Later] = deque()

    def __len__(self) -> int:
        return len(self._owed)

    def owe(self, kind: PacketType, packet_ids: array[int]) -> Answer:
        answer = Answer(kind, packet_ids)
        self._owed.append(answer)
        return answer

    def give(self, answer: Answer, told: Mapping[int, Told] = _NOTHING) -> None:
        """It may be sent now; nothing told of a packet identifier is success without a word."""
        answer.told = told
        self._give_ready()

    def owe_later(self, later: Later) -> None:
        """Answers that somebody else will send, in their turn: see is_due()."""
        self._owed.append(later)

    def is_due(self, later: Later) -> bool:
        """Whether nothing before them is owed any more, so that they may be sent behind what was sent so far."""
        if self._owed[0] is not later:
            return False
        self._outbox.flush()
        return True

    def forget(self, later: Later) -> None:
        """They were sent, or will not be."""
        self._owed.remove(later)
        self._give_ready()

    def replace(self, later: Later, packet_ids: array[int]) -> None:
        """They are sent here, when it is their turn."""
        self._owed[self._owed.index(later)] = Answer(PacketType.PUBACK, packet_ids, _NOTHING)
        self._give_ready()

    def _give_ready(self) -> None:
        owed = self._owed
        while owed and owed[0].told is not None:
            ready = owed.popleft()
            assert isinstance(ready, Answer)
            if not ready.told:
                self._outbox.write(encode_acks(ready.kind, ready.packet_ids, None, self._version))
            else:
                self._outbox.write(b"".join([self._explained(ready, number) for number in ready.packet_ids]))

    def _explained(self, answer: Answer, packet_id: int) -> bytes:
        assert answer.told is not None
        told = answer.told.get(packet_id)
        packet = PubAck if answer.kind is PacketType.PUBACK else PubRec
        return self._encode(packet(packet_id) if told is None else packet(packet_id, told.reason, told.explained))
