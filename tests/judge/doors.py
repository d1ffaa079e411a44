"""What every way into a broker is to a program: requests go in, answers and messages come out."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from tests.judge.reference import Sent
from tests.judge.requests import Door, Request
from tests.judge.words import Wire

PASSWORD = "judge"


class Held(NamedTuple):
    """A delivery that a receive gave."""

    queue: str
    group: str
    value: bytes
    delivery: int
    receipt: str
    id: str


class Connection(Protocol):
    """`answers` by the number of the request in its turn; `got` what receives gave."""

    door: Door
    answers: dict[int, Wire]
    got: dict[int, list[Held]]
    is_ended: bool
    delivered: list[Sent]
    settles_deliveries: bool
    """rather than whichever delivery of a message is current"""

    @property
    def ends_on_refusal(self) -> bool:
        """It cannot say no."""
        ...

    @property
    def has_headers(self) -> bool:
        """It can carry those of messages."""
        ...

    def fitting(self, request: Request) -> Request | None:
        """As much of it as this protocol can say; None if it cannot at all."""
        ...

    def as_stored(self, request: Request) -> Request:
        """With the headers that messages have once they are stored."""
        ...

    def told(self, code: str, request: Request) -> Wire | None:
        """What stands for an answer of the reference; None if there is none to such a request."""
        ...


class Socket(Connection, Protocol):
    """One that is bytes."""

    name: str

    def encode(self, number: int, request: Request, held: Held | None) -> bytes: ...

    def releases(self) -> bytes:
        """What is owed since the turn before."""
        ...

    def fence(self) -> bytes:
        """What is sent last in a turn: it is answered when all before it was taken in."""
        ...

    def write(self, data: bytes) -> None: ...

    def finish(self) -> None:
        """All of the turn is answered, or the connection is over."""
        ...

    def drain(self) -> None:
        """What the broker had to send by now is there."""
        ...

    def close(self) -> None: ...
