"""What the state log of sessions says. A record concerns one session, by its number, which is never used again."""

from __future__ import annotations

from typing import NamedTuple

import msgspec


class Subscription(NamedTuple):
    """`options` is the byte of MQTT 5: QoS, no local, retain as published, retain handling. `extra` belongs to the
    gateway."""

    options: int
    identifier: int = 0
    extra: bytes = b""


class Will(msgspec.Struct, frozen=True, array_like=True):
    """What is published when a client is gone without a word, `delay_s` later or when its session ends."""

    topic: bytes
    value: bytes
    properties: bytes = b""
    qos: int = 0
    retain: bool = False
    delay_s: int = 0
    expiry_s: int = 0


class Begun(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """`log`: which of the message logs is its."""

    number: int
    client_id: str
    namespace: str
    owner: str
    log: int
    expiry_s: int
    time_ms: int
    will: Will | None


class Ended(msgspec.Struct, frozen=True, array_like=True, tag=2):
    number: int


class Subscribed(msgspec.Struct, frozen=True, array_like=True, tag=3):
    number: int
    subscriptions: dict[str, Subscription]


class Unsubscribed(msgspec.Struct, frozen=True, array_like=True, tag=4):
    number: int
    filters: list[str]


class Connected(msgspec.Struct, frozen=True, array_like=True, tag=5):
    number: int
    owner: str
    expiry_s: int
    will: Will | None


class Disconnected(msgspec.Struct, frozen=True, array_like=True, tag=6):
    """`in_flight`: packet ids and message ids of what was sent with QoS 1 and not answered, in turn. `sent_below`:
    messages with a lower id may have been sent before a crash, nobody knows under which packet id. `last_packet_id`:
    new packet ids go on behind it; 0 for behind those in flight."""

    number: int
    time_ms: int
    expiry_s: int
    keeps_will: bool
    in_flight: list[int]
    sent_below: int = 0
    last_packet_id: int = 0


class WillPublished(msgspec.Struct, frozen=True, array_like=True, tag=7):
    number: int


class Settled(msgspec.Struct, frozen=True, array_like=True, tag=8):
    """Messages with ids below `below`, and these. `last_packet_id` is the last one given out until then; 0 if that is
    not known."""

    number: int
    below: int
    message_ids: list[int]
    last_packet_id: int = 0


class Sent(msgspec.Struct, frozen=True, array_like=True, tag=9):
    """With QoS 2, under these packet ids."""

    number: int
    packet_ids: list[int]
    message_ids: list[int]


class Received(msgspec.Struct, frozen=True, array_like=True, tag=10):
    """The client has the messages of these packet ids: they are settled, their ids are not free yet."""

    number: int
    packet_ids: list[int]


class Completed(msgspec.Struct, frozen=True, array_like=True, tag=11):
    """The packet ids are free."""

    number: int
    packet_ids: list[int]


class Held(msgspec.Struct, frozen=True, array_like=True, tag=12):
    """Messages came with QoS 2 under these packet ids; in the same frame as the messages."""

    number: int
    packet_ids: list[int]


class Released(msgspec.Struct, frozen=True, array_like=True, tag=13):
    number: int
    packet_ids: list[int]


StateRecord = (
    Begun
    | Ended
    | Subscribed
    | Unsubscribed
    | Connected
    | Disconnected
    | WillPublished
    | Settled
    | Sent
    | Received
    | Completed
    | Held
    | Released
)

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[StateRecord] = msgspec.msgpack.Decoder(StateRecord)


def encode(record: StateRecord) -> bytes:
    return _encoder.encode(record)


def decode(data: bytes) -> StateRecord:
    """msgspec.ValidationError if it is none."""
    return _decoder.decode(data)
