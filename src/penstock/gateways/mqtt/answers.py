"""Acknowledgements of publishes, in the order in which these came [MQTT-4.6.0-2]."""

from __future__ import annotations

from array import array
from collections import deque
from dataclasses import dataclass

from penstock.codecs.mqtt.kinds import PacketType
from penstock.gateways.mqtt.outbox import Outbox
from penstock.kernels.mqtt_encode import encode_acks


@dataclass(slots=True)
class Answer:
    kind: PacketType
    """PUBACK or PUBREC"""
    packet_ids: array[int]
    reasons: array[int] | None = None
    is_ready: bool = False


class Answers:
    """Of one connection."""

    __slots__ = ("_outbox", "_owed", "_version")

    def __init__(self, outbox: Outbox, version: int) -> None:
        self._outbox, self._version = outbox, version
        self._owed: deque[Answer] = deque()

    def __len__(self) -> int:
        return len(self._owed)

    def owe(self, kind: PacketType, packet_ids: array[int]) -> Answer:
        answer = Answer(kind, packet_ids)
        self._owed.append(answer)
        return answer

    def give(self, answer: Answer, reasons: array[int] | None = None) -> None:
        """It may be sent now; without reasons, all of it is success."""
        answer.reasons, answer.is_ready = reasons, True
        owed = self._owed
        while owed and owed[0].is_ready:
            ready = owed.popleft()
            self._outbox.write(encode_acks(ready.kind, ready.packet_ids, ready.reasons, self._version))
