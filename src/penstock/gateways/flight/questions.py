"""What the listener asks the server about its callers."""

from __future__ import annotations

import socket
from collections.abc import Sequence

from penstock.gateways.beside.server_line import ServerLine, checked_authorization
from penstock.gateways.flight.messages import QUEUES_AT_ONCE, Answer, Question


class FlightLine(ServerLine[Answer]):
    def __init__(self, connection: socket.socket) -> None:
        super().__init__(connection, Answer)

    def readable(
        self, authorization: str | None, peer: str, namespace: str | None, queues: Sequence[str], *, is_fresh: bool
    ) -> tuple[Answer, list[str]]:
        """Who it is, and which of the queues it may read; `is_fresh`: what was acknowledged before can be read then.
        Refused; Closed if the server does not answer."""
        checked_authorization(authorization)
        allowed: list[str] = []
        for at in range(0, max(1, len(queues)), QUEUES_AT_ONCE):
            some = list(queues[at : at + QUEUES_AT_ONCE])
            answer = self.ask(Question(self.next_id(), authorization, peer, namespace, some, is_fresh))
            allowed += [queue for queue, may in zip(some, answer.may_read, strict=True) if may]
        return answer, allowed
