"""Where Penstock is meant to differ from RabbitMQ 3.10.8, each with its reason: what is made equal before transcripts
are compared, and what it says instead to single mistakes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

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
    headers = what.get("properties", {}).get("headers", ())
    if any(name == "x-death" for name, *_ in headers):
        # RabbitMQ itself writes the fields of a death in one order when it is new, and in another when it is counted.
        return {**what, "properties": {**what["properties"], "headers": _sorted(headers)}}
    return what


def _sorted(value: Any) -> Any:
    """Fields of tables by name, on every level."""
    if not isinstance(value, list):
        return value
    inner = [_sorted(each) for each in value]
    is_table = bool(inner) and all(isinstance(each, list) and len(each) == 3 for each in inner)
    return sorted(inner, key=lambda field: str(field[0])) if is_table else inner


_CRASHES = "RabbitMQ's reader crashes on it and says 541, or nothing; it is the client's mistake"
_UNSEEN = "RabbitMQ does not notice it, and the channel can do nothing more"
_UNUSED = "RabbitMQ fails with it; where a queue's leader is has no meaning here"
_TYPES = "RabbitMQ 4 closes the channel only, which clients of today expect; 3.10 the connection with 503"
_AT_ONCE = "RabbitMQ waits three seconds before it closes the socket"
_MALFORMED = "RabbitMQ crashes on it and closes the socket; it is a login that is refused"
_LIMITS = "connections, channels and queues of a user or a namespace have no limit here yet"
_SECRETS = "RabbitMQ does not look at the secret of a user with a password; it is a password that is wrong"
_REFUSED = "ACCESS_REFUSED - Login was refused using authentication mechanism {}. For details see the broker logfile."
MISTAKES: Mapping[str, Ours] = {
    "header-and-rubbish": Ours(_AT_ONCE, None),
    "frame-too-large-before-login": Ours(_AT_ONCE, None),
    "open-before-start": Ours(_AT_ONCE, None),
    "channel-before-start": Ours(_AT_ONCE, None),
    "login-empty-response": Ours(_MALFORMED, "connection", 403, _REFUSED.format("PLAIN")),
    "login-malformed-response": Ours(_MALFORMED, "connection", 403, _REFUSED.format("PLAIN")),
    "login-amqplain-malformed": Ours(_MALFORMED, "connection", 403, _REFUSED.format("AMQPLAIN")),
    "vhost-full": Ours(_LIMITS, None),
    "user-full": Ours(_LIMITS, None),
    "user-channels-full": Ours(_LIMITS, None),
    "queue-limit": Ours(_LIMITS, None),
    "secret-refused": Ours(_SECRETS, "connection", 530, "NOT_ALLOWED - New secret was refused by one of the backends"),
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
_TURNS = "which of several consumers with room is next: RabbitMQ's ring moves on at each message, ours at each turn"
SCENES: Mapping[str, str] = {
    "direct-reply-to": "RabbitMQ returns a mandatory answer that it has delivered",
    "round-robin-with-backlog": _TURNS,
    "prefetch-global-is-the-channels": _TURNS,
    "requeued-comes-to-another": _TURNS,
}
"""By their names in `scenes`: the reason why a scene is not compared."""
