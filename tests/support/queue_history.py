"""What those who publish and consume under fire have told: what they began, and what was acknowledged to them."""

from __future__ import annotations

import random
from pathlib import Path

import msgspec

Place = tuple[int, int]
"""partition, offset"""


class Opening(msgspec.Struct, frozen=True, tag=True):
    """A broker is about to be opened: what the one before it had not committed is lost."""

    run: int


class Message(msgspec.Struct, frozen=True, array_like=True):
    queue: str
    id: str
    key: str


class Putting(msgspec.Struct, frozen=True, tag=True):
    """Before the call. A producer that sends a call again tells it again; one that is named has its calls in order."""

    call: str
    producer: str
    messages: list[Message]


class Where(msgspec.Struct, frozen=True, array_like=True):
    queue: str
    partition: int
    base_offset: int
    """-1: taken before, and no longer known"""
    rows: int


class Put(msgspec.Struct, frozen=True, tag=True):
    """After it was acknowledged."""

    call: str
    placed: list[Where]


class Refused(msgspec.Struct, frozen=True, tag=True):
    """Nothing of the call was done, and nothing of a settlement under the same name."""

    call: str


class Took(msgspec.Struct, frozen=True, tag=True):
    """Messages of one partition were handed to a consumer of a group."""

    queue: str
    group: str
    consumer: int
    partition: int
    offsets: list[int]
    ids: list[str]
    deliveries: list[int]
    time_ms: int
    lease_end_ms: int = -1

    @property
    def was_over(self) -> bool:
        """The lease, before it was told: a pull may read on in other partitions meanwhile."""
        return 0 <= self.lease_end_ms <= self.time_ms


class Settling(msgspec.Struct, frozen=True, tag=True):
    """Before a consumer says of messages what became of them: `ack`, `fail` or `reject`."""

    call: str
    queue: str
    group: str
    consumer: int
    verb: str
    places: list[Place]
    time_ms: int


class Settled(msgspec.Struct, frozen=True, tag=True):
    """After that was acknowledged: how many it was done for; the others were stale."""

    call: str
    done: int


class Left(msgspec.Struct, frozen=True, tag=True):
    """A consumer is about to go; what it holds is free."""

    queue: str
    group: str
    consumer: int


class Letter(msgspec.Struct, frozen=True, tag=True):
    """Found among the dead letters in the end: what it was, and whose."""

    queue: str
    group: str
    partition: int
    offset: int
    id: str


class Drained(msgspec.Struct, frozen=True, tag=True):
    """Every group had settled everything, and every dead letter was told."""

    run: int


Event = Opening | Putting | Put | Refused | Took | Settling | Settled | Left | Letter | Drained
_decoder: msgspec.json.Decoder[Event] = msgspec.json.Decoder(Event)


def encode_event(event: Event) -> bytes:
    return msgspec.json.encode(event) + b"\n"


def read_events(path: Path) -> list[Event]:
    """The last line may be cut by the death of its writer."""
    return [_decoder.decode(line) for line in path.read_bytes().split(b"\n")[:-1]] if path.exists() else []


def value_of(message_id: str) -> bytes:
    """What stands for a message: its id, then bytes that only this id gives."""
    rng = random.Random(message_id)
    return message_id.encode() + b" " + rng.randbytes(int(4 ** rng.uniform(0, 4.5)))


def moved_id(call: str, message_id: str) -> str:
    """Of a message that a transaction has made from another one."""
    return f"{call}:{message_id}"


def id_of(value: bytes) -> str:
    """AssertionError for a value that is not what its id gives."""
    found = value.split(b" ", 1)[0].decode()
    assert value == value_of(found), f"the value of {found} is not what was put"
    return found


class BrokenPromise(AssertionError):
    pass


def require(holds: bool, what: str) -> None:
    if not holds:
        raise BrokenPromise(what)
