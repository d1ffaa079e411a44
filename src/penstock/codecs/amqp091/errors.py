"""What a peer is told when it is refused: every situation once, with its reply code and its text.

The texts are those of RabbitMQ 3.10.8 where it has one, because clients and their tests compare them. Soft errors close
the channel, hard ones the connection."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import NamedTuple

from penstock.codecs.amqp091.kinds import Field
from penstock.codecs.amqp091.methods import ChannelClose, ConnectionClose
from penstock.core.errors import ErrorCode, PenstockError

# The words of RabbitMQ for the types of fields.
_TYPES = {
    "t": "bool",
    "b": "byte",
    "B": "unsignedbyte",
    "s": "short",
    "u": "unsignedshort",
    "I": "signedint",
    "i": "unsignedint",
    "l": "long",
    "L": "long",
    "f": "float",
    "d": "double",
    "D": "decimal",
    "S": "longstr",
    "x": "binary",
    "T": "timestamp",
    "A": "array",
    "F": "table",
    "V": "void",
}
_MAX_TEXT_BYTES, _CUT_TEXT_BYTES = 255, 252
_ESCAPES = {
    "\b": "\\b",
    "\t": "\\t",
    "\n": "\\n",
    "\v": "\\v",
    "\f": "\\f",
    "\r": "\\r",
    "\x1b": "\\e",
    '"': '\\"',
    "\\": "\\\\",
}
_PRINTED = {chr(code): chr(code) for code in range(32, 127)} | _ESCAPES


class Reply(enum.IntEnum):
    CONTENT_TOO_LARGE = 311
    NO_ROUTE = 312
    NO_CONSUMERS = 313
    CONNECTION_FORCED = 320
    INVALID_PATH = 402
    ACCESS_REFUSED = 403
    NOT_FOUND = 404
    RESOURCE_LOCKED = 405
    PRECONDITION_FAILED = 406
    FRAME_ERROR = 501
    SYNTAX_ERROR = 502
    COMMAND_INVALID = 503
    CHANNEL_ERROR = 504
    UNEXPECTED_FRAME = 505
    RESOURCE_ERROR = 506
    NOT_ALLOWED = 530
    NOT_IMPLEMENTED = 540
    INTERNAL_ERROR = 541


SOFT = frozenset(
    {
        Reply.CONTENT_TOO_LARGE,
        Reply.NO_ROUTE,
        Reply.NO_CONSUMERS,
        Reply.ACCESS_REFUSED,
        Reply.NOT_FOUND,
        Reply.RESOURCE_LOCKED,
        Reply.PRECONDITION_FAILED,
    }
)


class Situation(NamedTuple):
    """`what` in a text is the kind and name of a thing, as `named` writes it."""

    reply: Reply
    text: str
    closes_connection: bool | None = None
    """None: as its reply says"""


@enum.unique
class Fault(enum.Enum):
    # Bytes and their order
    BAD_FRAME = Situation(Reply.FRAME_ERROR, "type {type}, {snippet}: {reason}")
    BAD_PAYLOAD = Situation(Reply.FRAME_ERROR, "cannot decode {detail}")
    BAD_TEXT = Situation(Reply.FRAME_ERROR, "Malformed UTF-8 in shortstr")
    BODY_TOO_LONG = Situation(Reply.FRAME_ERROR, "a body of {size} bytes was announced, and there are {over} more")
    SYNTAX = Situation(Reply.SYNTAX_ERROR, "{detail}")
    UNIMPLEMENTED = Situation(Reply.COMMAND_INVALID, "unimplemented method")
    WRONG_STATE = Situation(Reply.CHANNEL_ERROR, "unexpected method in connection state {state}")
    SECOND_OPEN = Situation(Reply.CHANNEL_ERROR, "second 'channel.open' seen")
    NOT_OPEN = Situation(Reply.CHANNEL_ERROR, "expected 'channel.open'")
    EXPECTED_METHOD = Situation(Reply.UNEXPECTED_FRAME, "expected method frame, got non method frame instead")
    EXPECTED_HEADER = Situation(
        Reply.UNEXPECTED_FRAME, "expected content header for class {class_id}, got non content header frame instead"
    )
    OTHER_CLASS = Situation(
        Reply.UNEXPECTED_FRAME, "expected content header for class {class_id}, got one for class {other} instead"
    )
    EXPECTED_BODY = Situation(Reply.UNEXPECTED_FRAME, "expected content body, got non content body frame instead")
    UNEXPECTED = Situation(Reply.UNEXPECTED_FRAME, "type {type}, {snippet}")
    TOO_MUCH_UNFINISHED = Situation(
        Reply.RESOURCE_ERROR, "unfinished messages of {size} bytes together are more than {limit}"
    )

    # Handshake
    UNKNOWN_MECHANISM = Situation(Reply.NOT_ALLOWED, "unknown authentication mechanism '{mechanism}'")
    INVALID_MECHANISM = Situation(Reply.NOT_ALLOWED, "invalid authentication mechanism '{mechanism}'")
    LOGIN_REFUSED = Situation(
        Reply.ACCESS_REFUSED,
        "Login was refused using authentication mechanism {mechanism}. For details see the broker logfile.",
        closes_connection=True,
    )
    NOT_LOOPBACK = Situation(
        Reply.ACCESS_REFUSED, "user '{user}' can only connect via localhost", closes_connection=True
    )
    NEGOTIATED = Situation(
        Reply.NOT_ALLOWED, "negotiated {what} = {value}{note} is {relation} than the {bound} allowed value ({limit})"
    )
    NO_VHOST = Situation(Reply.NOT_ALLOWED, "vhost {vhost} not found")
    VHOST_REFUSED = Situation(Reply.NOT_ALLOWED, "access to vhost '{vhost}' refused for user '{user}'")
    VHOST_DOWN = Situation(
        Reply.NOT_ALLOWED, "access to vhost '{vhost}' refused for user '{user}': vhost '{vhost}' is down"
    )
    VHOST_FULL = Situation(
        Reply.NOT_ALLOWED,
        "access to vhost '{vhost}' refused for user '{user}': connection limit ({limit}) is reached",
    )
    USER_FULL = Situation(
        Reply.NOT_ALLOWED, "connection refused for user '{user}': user connection limit ({limit}) is reached"
    )
    SECRET_REFUSED = Situation(Reply.NOT_ALLOWED, "New secret was refused by one of the backends")
    TOO_MANY_CHANNELS = Situation(
        Reply.NOT_ALLOWED, "number of channels opened ({count}) has reached the negotiated channel_max ({limit})"
    )
    TOO_MANY_CHANNELS_OF_USER = Situation(
        Reply.NOT_ALLOWED,
        "number of channels opened for user '{user}' has reached the maximum allowed user limit of ({limit})",
    )
    FORCED = Situation(Reply.CONNECTION_FORCED, "{reason}")
    INTERNAL = Situation(Reply.INTERNAL_ERROR, "{detail}")

    # Rights
    REFUSED = Situation(Reply.ACCESS_REFUSED, "access to {what} refused for user '{user}'")
    TOPIC_REFUSED = Situation(Reply.ACCESS_REFUSED, "access to topic '{topic}' in {what} refused for user '{user}'")
    USER_ID = Situation(
        Reply.PRECONDITION_FAILED, "user_id property set to '{user_id}' but authenticated user was '{user}'"
    )
    RESERVED_NAME = Situation(Reply.ACCESS_REFUSED, "{kind} name '{name}' contains reserved prefix 'amq.*'")
    DEFAULT_EXCHANGE = Situation(Reply.ACCESS_REFUSED, "operation not permitted on the default exchange")
    SYSTEM_DELETE = Situation(Reply.ACCESS_REFUSED, "deletion of system {what} not allowed")
    INTERNAL_EXCHANGE = Situation(Reply.ACCESS_REFUSED, "cannot publish to internal {what}")
    EXCLUSIVE_CONSUMER = Situation(Reply.ACCESS_REFUSED, "{what} in exclusive use")
    LOCKED = Situation(
        Reply.RESOURCE_LOCKED,
        "cannot obtain exclusive access to locked {what}. It could be originally declared on another connection or the"
        " exclusive property value does not match that of the original declaration.",
    )
    LOCKED_GET = Situation(
        Reply.RESOURCE_LOCKED,
        "cannot obtain access to locked {what}. basic.get operations are not supported by quorum queues with single"
        " active consumer",
    )

    # Things
    MISSING = Situation(Reply.NOT_FOUND, "no {what}")
    NO_PREVIOUS_QUEUE = Situation(Reply.NOT_FOUND, "no previously declared queue")
    NO_BINDING = Situation(Reply.NOT_FOUND, "no binding {key} between {source} and {destination}")
    INEQUIVALENT = Situation(
        Reply.PRECONDITION_FAILED, "inequivalent arg '{arg}' for {what}: received {received} but current is {current}"
    )
    INVALID_ARG = Situation(Reply.PRECONDITION_FAILED, "invalid arg '{arg}' for {what}: {reason}")
    INVALID_ARG_OF_TYPE = Situation(Reply.PRECONDITION_FAILED, "invalid arg '{arg}' for {what} of queue type {type}")
    INVALID_ARG_TYPE = Situation(Reply.PRECONDITION_FAILED, "invalid type '{type}' for arg '{arg}' in {what}")
    INVALID_PROPERTY = Situation(Reply.PRECONDITION_FAILED, "invalid property '{property}' for {what}")
    EXCHANGE_TYPE = Situation(Reply.PRECONDITION_FAILED, "invalid exchange type '{type}'")
    IN_USE = Situation(Reply.PRECONDITION_FAILED, "{what} in use")
    NOT_EMPTY = Situation(Reply.PRECONDITION_FAILED, "{what} not empty")
    QUEUE_LIMIT = Situation(
        Reply.PRECONDITION_FAILED, "cannot declare queue '{queue}': queue limit in vhost '{vhost}' ({limit}) is reached"
    )
    SERVER_NAMED = Situation(Reply.PRECONDITION_FAILED, "Cannot declare a server-named queue for type {type}")
    STREAM_PURGE = Situation(Reply.NOT_IMPLEMENTED, "queue.purge not supported by stream queues {what}")
    STREAM_GET = Situation(Reply.NOT_IMPLEMENTED, "basic.get not supported by stream queues {what}")
    STREAM_NO_ACK = Situation(Reply.NOT_IMPLEMENTED, "automatic acknowledgement not supported by stream queues {what}")
    STREAM_PREFETCH = Situation(Reply.PRECONDITION_FAILED, "consumer prefetch count is not set for '{what}'")
    X_MATCH = Situation(
        Reply.PRECONDITION_FAILED,
        'Invalid x-match field value <<"{value}">>; expected all, any, all-with-x, or any-with-x',
    )
    X_MATCH_TYPE = Situation(
        Reply.PRECONDITION_FAILED, "Invalid x-match field type {type} (value {value}); expected longstr"
    )
    HASH_KEY = Situation(Reply.PRECONDITION_FAILED, 'The binding key must be an integer: <<"{key}">>')
    HASH_WEIGHT = Situation(Reply.PRECONDITION_FAILED, "The binding key must be greater than 0")
    HASH_BOTH = Situation(Reply.PRECONDITION_FAILED, "hash-header and hash-property are mutually exclusive")
    HASH_PROPERTY = Situation(Reply.PRECONDITION_FAILED, "Unsupported property: {property}")

    # Messages
    TOO_LARGE = Situation(Reply.PRECONDITION_FAILED, "message size {size} is larger than configured max size {limit}")
    EXPIRATION = Situation(Reply.PRECONDITION_FAILED, "invalid expiration '{expiration}': {reason}")
    INVALID_MESSAGE = Situation(Reply.PRECONDITION_FAILED, "invalid message: {reason}")
    IMMEDIATE = Situation(Reply.NOT_IMPLEMENTED, "immediate=true")
    NO_ROUTE = Situation(Reply.NO_ROUTE, "")

    # Consumers and settlements
    TAG_IN_USE = Situation(Reply.NOT_ALLOWED, "attempt to reuse consumer tag '{tag}'")
    UNKNOWN_CONSUMER = Situation(Reply.NOT_FOUND, "unknown consumer tag '{tag}'")
    UNKNOWN_DELIVERY = Situation(Reply.PRECONDITION_FAILED, "unknown delivery tag {tag}")
    ACK_TIMEOUT = Situation(
        Reply.PRECONDITION_FAILED,
        "delivery acknowledgement on channel {channel} timed out. Timeout value used: {timeout_ms} ms. This timeout"
        " value can be configured, see consumers doc guide to learn more",
    )
    PREFETCH_SIZE = Situation(Reply.NOT_IMPLEMENTED, "prefetch_size!=0 ({size})")
    RECOVER = Situation(Reply.NOT_IMPLEMENTED, "requeue=false")
    FLOW = Situation(Reply.NOT_IMPLEMENTED, "active=false")
    GLOBAL_QOS = Situation(Reply.NOT_IMPLEMENTED, "{what} does not support global qos")
    REPLY_NO_ACK = Situation(Reply.PRECONDITION_FAILED, "reply consumer cannot acknowledge")
    REPLY_AGAIN = Situation(Reply.PRECONDITION_FAILED, "reply consumer already set")
    NO_REPLY_CONSUMER = Situation(Reply.PRECONDITION_FAILED, "fast reply consumer does not exist")

    PRECONDITION = Situation(Reply.PRECONDITION_FAILED, "{detail}")

    # Confirms and transactions
    TX_TO_CONFIRM = Situation(Reply.PRECONDITION_FAILED, "cannot switch from tx to confirm mode")
    CONFIRM_TO_TX = Situation(Reply.PRECONDITION_FAILED, "cannot switch from confirm to tx mode")
    NOT_TX = Situation(Reply.PRECONDITION_FAILED, "channel is not transactional")
    TX_TOO_LARGE = Situation(
        Reply.RESOURCE_ERROR, "transaction of {size} bytes is larger than {limit}", closes_connection=False
    )

    @property
    def reply(self) -> Reply:
        return self.value.reply

    @property
    def text(self) -> str:
        return self.value.text

    @property
    def is_hard(self) -> bool:
        closes = self.value.closes_connection
        return self.reply not in SOFT if closes is None else closes


class AmqpError(PenstockError):
    """What ends a channel or a connection. `channel`, `class_id` and `method_id` say at what; 0 is not known."""

    code = ErrorCode.PROTOCOL_ERROR

    def __init__(self, fault: Fault, channel: int = 0, at: tuple[int, int] = (0, 0), /, **facts: object) -> None:
        self.fault, self.channel = fault, channel
        self.class_id, self.method_id = at
        self.facts = facts
        super().__init__(self.reply_text)

    @property
    def reply_text(self) -> str:
        """NAME - text: no longer than a short string."""
        text = self.fault.text.format(**self.facts)
        return cut(f"{self.fault.reply.name} - {text}" if text else self.fault.reply.name)

    @property
    def is_hard(self) -> bool:
        """Whether the connection is closed; no channel can be where there is none."""
        return self.fault.is_hard or self.channel == 0

    def close(self) -> ConnectionClose | ChannelClose:
        """What is sent, on channel 0 or on `channel`."""
        kind = ConnectionClose if self.is_hard else ChannelClose
        return kind(int(self.fault.reply), self.reply_text, self.class_id, self.method_id)


def named(kind: str, name: str, vhost: str) -> str:
    """queue 'q' in vhost '/'"""
    return f"{kind} '{name}' in vhost '{vhost}'"


def inequivalent(
    arg: str, what: str, received: Field | None, current: Field | None, channel: int, at: tuple[int, int]
) -> AmqpError:
    """An argument of a declaration that is not what it was. RabbitMQ tells the types only where one of them is not
    there."""
    has_both = received is not None and current is not None
    said = [_untyped(field) if has_both else _typed(field) for field in (received, current)]
    return AmqpError(Fault.INEQUIVALENT, channel, at, arg=arg, what=what, received=said[0], current=said[1])


def type_name(field: Field) -> str:
    """As RabbitMQ calls the type."""
    return _TYPES[field.kind]


def printed(field: Field) -> str:
    """Its value as Erlang prints it."""
    return _term(field)


def _untyped(field: Field | None) -> str:
    return "none" if field is None or field.kind == "V" else f"'{_term(field, is_inner=False)}'"


def _typed(field: Field | None) -> str:
    return "none" if field is None else f"the value '{_term(field, is_inner=False)}' of type '{_TYPES[field.kind]}'"


def _term(field: Field, is_inner: bool = True) -> str:
    """A value as Erlang prints it."""
    value = field.value
    match value:
        case Mapping():
            pairs = [f'{{<<"{name}">>,{_pair(inner)}}}' for name, inner in value.items()]
            return f"[{','.join(pairs)}]"
        case tuple():
            pairs = [f"{{{_pair(inner)}}}" for inner in value]
            return f"[{','.join(pairs)}]"
        case str() | bytes():
            text = value if isinstance(value, str) else value.decode("utf-8", "replace")
            return f'<<"{text}">>' if is_inner else text
        case bool():
            return "true" if value else "false"
        case None:
            return "undefined"
        case _:
            return str(value)


def _pair(field: Field) -> str:
    return f"{_TYPES[field.kind]},{_term(field)}"


def cut(text: str) -> str:
    """As RabbitMQ shortens a reply text; never within a character."""
    encoded = text.encode("utf-8", "replace")
    if len(encoded) <= _MAX_TEXT_BYTES:
        return encoded.decode()
    return encoded[:_CUT_TEXT_BYTES].decode("utf-8", "ignore") + "..."


def snippet(payload: bytes) -> str:
    """The beginning of a payload, as Erlang prints it."""
    what = "all octets" if len(payload) <= 16 else "first 16 octets"
    return f"{what} = {_printed(payload[:16])}"


def octets(payload: bytes) -> str:
    """All of it as numbers."""
    return f"<<{','.join(map(str, payload))}>>"


def _printed(payload: bytes) -> str:
    """As text where all of it can be."""
    if not payload or not all(chr(each) in _PRINTED for each in payload):
        return octets(payload)
    return f'<<"{"".join([_PRINTED[chr(each)] for each in payload])}">>'
