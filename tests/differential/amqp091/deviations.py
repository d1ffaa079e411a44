"""Where Penstock is meant to differ from RabbitMQ 3.10.8, each with its reason: what is made equal before transcripts
are compared, and what it says instead to single mistakes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tests.differential.amqp091.told import Told


class Ours(NamedTuple):
    """Of a mistake: what Penstock says to it. `level` None: nothing is closed."""

    reason: str
    level: str | None
    code: int = 0
    text: str | None = ""
    """None: in words of our own"""


def normalised(came: Mapping[str, Sequence[Told]], is_publish: bool = False) -> dict[str, list[Told]]:
    """Of a publish, nothing says whether it is confirmed before it is delivered."""
    found = {where: [_equal(what) for what in each] for where, each in sorted(came.items())}
    if is_publish:
        for each in found.values():
            each.sort(key=lambda what: what.get("method") != "basic.deliver")
    return found


def _equal(what: Told) -> Told:
    if what.get("method") in ("basic.nack", "basic.ack"):
        # From a broker: one message is published at a time, so `multiple` says nothing; RabbitMQ sets it, and requeue,
        # on a single nack too.
        return {name: value for name, value in what.items() if name not in ("multiple", "requeue")}
    return what


_CRASHES = "RabbitMQ's reader crashes on it and says 541, or nothing; it is the client's mistake"
_UNSEEN = "RabbitMQ does not notice it, and the channel can do nothing more"
_UNUSED = "RabbitMQ fails with it; where a queue's leader is has no meaning here"
_TYPES = "RabbitMQ 4 closes the channel only, which clients of today expect; 3.10 the connection with 503"
_SILENT = "RabbitMQ closes what it cannot read before a login after three seconds, Penstock with its handshake timeout"
_SAID = "Penstock says what is wrong with the bytes, and where"
_LOGIN = "RabbitMQ's mechanism crashes on it; Penstock refuses it as any other login"
_NUMBERS = "Penstock names the method at which it happened"
MISTAKES: Mapping[str, Ours] = {
    "header-and-rubbish": Ours(_SILENT, None),
    "frame-too-large": Ours("RabbitMQ shows no payload, Penstock what it has of it", "connection", 501, None),
    "frame-too-large-by-one": Ours("RabbitMQ forgives eight bytes more than negotiated", "connection", 501, None),
    "method-cut": Ours(_SAID, "connection", 502, None),
    "method-too-long": Ours(_SAID, "connection", 502, None),
    "table-cut": Ours(_SAID, "connection", 502, None),
    "shortstr-no-utf8": Ours(_NUMBERS, "connection", 501, "FRAME_ERROR - Malformed UTF-8 in shortstr"),
    "connection-method-on-a-channel": Ours(_SAID, "connection", 503, None),
    "channel-max-exceeded": Ours(
        _NUMBERS,
        "connection",
        530,
        "NOT_ALLOWED - number of channels opened (2) has reached the negotiated channel_max (2)",
    ),
    "login-empty-response": Ours(_LOGIN, "connection", 403, None),
    "login-malformed-response": Ours(_LOGIN, "connection", 403, None),
    "login-amqplain-malformed": Ours(_LOGIN, "connection", 403, None),
    "secret-refused": Ours(
        "RabbitMQ takes any secret for users of its own; here it is a login", "connection", 530, None
    ),
    "method-unknown": Ours(_CRASHES, "connection", 503, "COMMAND_INVALID - unimplemented method"),
    "class-unknown": Ours(_CRASHES, "connection", 503, "COMMAND_INVALID - unimplemented method"),
    "method-unknown-on-0": Ours(_CRASHES, "connection", 503, "COMMAND_INVALID - unimplemented method"),
    "table-unknown-type": Ours(_CRASHES, "connection", 502, None),
    "properties-cut": Ours(_CRASHES, "connection", 502, None),
    "properties-with-continuation": Ours(_CRASHES, "connection", 502, None),
    "properties-unknown-flag": Ours(_UNSEEN, "connection", 502, None),
    "properties-too-long": Ours(_CRASHES, "connection", 502, None),
    "properties-table-unknown-type": Ours(_CRASHES, "connection", 502, None),
    "properties-table-cut": Ours(_CRASHES, "connection", 502, None),
    "body-too-long": Ours(_UNSEEN, "connection", 501, None),
    "exchange-type": Ours(_TYPES, "channel", 406, "PRECONDITION_FAILED - invalid exchange type 'strange'"),
    "exchange-type-empty": Ours(_TYPES, "channel", 406, "PRECONDITION_FAILED - invalid exchange type ''"),
    "queue-argument-x-queue-master-locator='strange'": Ours(_UNUSED, None),
    "queue-argument-x-queue-master-locator=1": Ours(_UNUSED, None),
    "queue-stream-offset": Ours(_CRASHES, "channel", 406, None),
}
"""By their names in `mistakes`."""
_LIMITS = "Penstock limits connections by address and user, in `rate_limit`; not the queues and connections of a vhost"
NOT_RUN: Mapping[str, str] = {
    "vhost-full": _LIMITS,
    "user-full": _LIMITS,
    "user-channels-full": _LIMITS,
    "queue-limit": _LIMITS,
}
"""Mistakes that cannot be made here."""
_TURNS = "which of several consumers with room is next: RabbitMQ's ring moves on at each message, ours at each turn"
SCENES: Mapping[str, str] = {
    "direct-reply-to": "RabbitMQ returns a mandatory answer that it has delivered",
    "round-robin-with-backlog": _TURNS,
    "prefetch-global-is-the-channels": _TURNS,
    "requeued-comes-to-another": _TURNS,
}
"""By their names in `scenes`: the reason why a scene is not compared."""
