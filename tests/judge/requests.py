"""What a program asks of a broker, in words of no protocol. All of it is plain values: what a failure prints can be
pasted into a test as it is."""

from __future__ import annotations

from typing import NamedTuple


class Producer(NamedTuple):
    """Who numbers its messages. Of a request with an idempotency key the id is the key, `is_key` is set, and the
    numbers begin at 0."""

    id: str
    epoch: int = 0
    sequence: int = 0
    is_key: bool = False


class Message(NamedTuple):
    value: bytes
    key: str | None = None
    headers: tuple[tuple[str, str], ...] = ()


class Publish(NamedTuple):
    """One message to a topic, or to `$queue/…`."""

    topic: str
    message: Message
    qos: int = 1
    retain: bool = False
    partition: int | None = None
    producer: Producer | None = None
    is_again: bool = False
    """QoS 2: the packet of the request before it once more, before its PUBREL"""


class PublishMany(NamedTuple):
    """Messages with a topic each: all or none."""

    messages: tuple[tuple[str, Message], ...]
    qos: int = 1
    retain: bool = False


class Put(NamedTuple):
    """Messages into one queue, whatever its bindings: all or none."""

    queue: str
    messages: tuple[Message, ...]
    partition: int | None = None
    producer: Producer | None = None
    form: str = "json"
    """of the body: json, texts (values alone), raw (one message)"""


class Subscribe(NamedTuple):
    filter: str
    qos: int = 1


class Unsubscribe(NamedTuple):
    filter: str


class Receive(NamedTuple):
    queue: str
    group: str
    most: int = 3


class Settle(NamedTuple):
    """`verb`: ack, nack (to come again at once) or reject. `pick` chooses among all deliveries so far."""

    verb: str
    pick: int


class Transaction(NamedTuple):
    """Puts, and acknowledgements of deliveries: all or none."""

    puts: tuple[Put, ...]
    picks: tuple[int, ...] = ()


class Malformed(NamedTuple):
    """A packet that ends its connection: a topic name with a wildcard."""


Request = Publish | PublishMany | Put | Subscribe | Unsubscribe | Receive | Settle | Transaction | Malformed


class Door(NamedTuple):
    """How somebody comes in. `kind`: mqtt3, mqtt5, ws5 (MQTT 5 over WebSocket), http, or embedded."""

    kind: str
    principal: str = "root"


class Turn(NamedTuple):
    """Requests of several connections at once, each with the number of its connection; those of a connection stay in
    order. `split` says how their bytes are cut, `seed` where, and in which order the pieces of connections go out."""

    requests: tuple[tuple[int, Request], ...]
    split: str = "whole"
    """whole: all that a connection sends in one write; packets: a write for each; bytes: for each byte; any: cut
    anywhere; burst: as whole, and all connections are written to before the broker looks at one"""
    seed: int = 0


class Program(NamedTuple):
    doors: tuple[Door, ...]
    turns: tuple[Turn, ...]
    auto_create: bool = True


PREFIX = "x"
"""what names of queues and topics begin with in a program: each run puts one of its own there"""


def shown(value: object) -> str:
    """As Python, without what is so anyway."""
    fields: tuple[str, ...] | None = getattr(value, "_fields", None)
    if fields is None:
        return f"({''.join(f'{shown(each)}, ' for each in value)})" if isinstance(value, tuple) else repr(value)
    defaults: dict[str, object] = getattr(value, "_field_defaults", {})
    said = [(name, getattr(value, name)) for name in fields]
    told = [f"{name}={shown(each)}" for name, each in said if name not in defaults or each != defaults[name]]
    return f"{type(value).__name__}({', '.join(told)})"
