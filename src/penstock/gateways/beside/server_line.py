"""The line to the server, in the process of a door: questions of many threads, answered in any order."""

from __future__ import annotations

import itertools
import socket
import threading
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NoAnswer
from typing import Generic, TypeVar

import msgspec

from penstock.core.errors import Closed, ErrorCode
from penstock.gateways.beside.lines import MAX_AUTHORIZATION, Answer, ListenOptions, Question, line

_ANSWER_S = 30.0

AnswerT = TypeVar("AnswerT", bound=Answer)
OptionsT = TypeVar("OptionsT", bound=ListenOptions)


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


class ServerLine(Generic[AnswerT]):
    """Any thread. `listen` runs in one of its own until the server is gone."""

    def __init__(self, connection: socket.socket, answers: type[AnswerT]) -> None:
        self._connection, self._answers = connection, answers
        self._lines = connection.makefile("rb")
        self._sending = threading.Lock()
        self._numbers = itertools.count()
        self._waiting: dict[int, Future[AnswerT]] = {}

    def options(self, kind: type[OptionsT]) -> OptionsT:
        """The first line; before listen()."""
        return msgspec.json.decode(self._lines.readline(), type=kind)

    def next_id(self) -> int:
        return next(self._numbers)

    def say(self, message: msgspec.Struct) -> None:
        with self._sending:
            self._connection.sendall(line(message))

    def listen(self) -> None:
        for data in self._lines:
            answer = msgspec.json.decode(data, type=self._answers)
            if (future := self._waiting.pop(answer.id, None)) is not None:
                future.set_result(answer)

    def ask(self, question: Question) -> AnswerT:
        """Refused; Closed if the server does not answer."""
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
