"""The listener's side of the line to the server: questions of many threads, answered in any order."""

from __future__ import annotations

import itertools
import socket
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NoAnswer

import msgspec

from penstock.core.errors import Closed, ErrorCode
from penstock.gateways.flight.messages import (
    MAX_AUTHORIZATION,
    QUEUES_AT_ONCE,
    Answer,
    Options,
    Question,
    Said,
    line,
)

_ANSWER_S = 30.0


class Refused(Exception):
    """The server's answer: a code, and a text for whoever called."""

    def __init__(self, code: ErrorCode, reason: str) -> None:
        super().__init__(reason)
        self.code = code


def checked_authorization(authorization: str | None) -> str | None:
    """Refused for one that is too long to be asked about."""
    if authorization is not None and len(authorization) > MAX_AUTHORIZATION:
        raise Refused(ErrorCode.BAD_CREDENTIALS, f"the header authorization is over {MAX_AUTHORIZATION} bytes")
    return authorization


class ServerLine:
    """Any thread. `listen` runs in one of its own until the server is gone."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._lines = connection.makefile("rb")
        self._sending = threading.Lock()
        self._numbers = itertools.count()
        self._waiting: dict[int, Future[Answer]] = {}

    def options(self) -> Options:
        """The first line; before listen()."""
        return msgspec.json.decode(self._lines.readline(), type=Options)

    def say(self, message: Said) -> None:
        with self._sending:
            self._connection.sendall(line(message))

    def listen(self) -> None:
        for data in self._lines:
            answer = msgspec.json.decode(data, type=Answer)
            if (future := self._waiting.pop(answer.id, None)) is not None:
                future.set_result(answer)

    def readable(
        self, authorization: str | None, peer: str, namespace: str | None, queues: Sequence[str], *, is_fresh: bool
    ) -> tuple[Answer, list[str]]:
        """Who it is, and which of the queues it may read; `is_fresh`: what was acknowledged before can be read then.
        Refused; Closed if the server does not answer."""
        checked_authorization(authorization)
        allowed: list[str] = []
        for at in range(0, max(1, len(queues)), QUEUES_AT_ONCE):
            some = list(queues[at : at + QUEUES_AT_ONCE])
            answer = self._ask(Question(next(self._numbers), authorization, peer, namespace, some, is_fresh))
            allowed += [queue for queue, may in zip(some, answer.may_read, strict=True) if may]
        return answer, allowed

    def _ask(self, question: Question) -> Answer:
        future = self._waiting[question.id] = Future()
        try:
            self.say(question)
            answer = future.result(_ANSWER_S)
        except (OSError, NoAnswer):
            raise Closed("the server does not answer: try again in a moment") from None
        finally:
            self._waiting.pop(question.id, None)
        if answer.error is not None:
            raise Refused(ErrorCode(answer.error), answer.reason)
        return answer
