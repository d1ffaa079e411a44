"""What a channel in tx mode gathers until it commits."""

from __future__ import annotations

from typing import NamedTuple

from penstock.gateways.amqp091.tags import Part


class Answers(NamedTuple):
    """Deliveries that the client answered alike."""

    parts: list[Part]
    is_ack: bool
    requeues: bool


class Gathered:
    """Publishes as they came, to be looked at again when they are committed; answers, which are given back if they are
    not."""

    __slots__ = ("answers", "frames", "messages")

    def __init__(self) -> None:
        self.frames, self.messages = bytearray(), 0
        self.answers: list[Answers] = []

    def clear(self) -> None:
        self.frames, self.messages, self.answers = bytearray(), 0, []
