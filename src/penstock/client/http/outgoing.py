"""Messages on their way to a server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypedDict, Unpack

import msgspec
from msgspec import UNSET, Raw

from penstock.client.http.options import API
from penstock.client.http.requests import Ask, segment
from penstock.codecs.http.exchanges import ExchangeMessage, ExchangeReport
from penstock.codecs.http.messages import OutgoingMessage, PublishReport, TopicMessage, TopicReport
from penstock.core.errors import InvalidArgument

Acks = Literal["none", "leader", "all"]
Headers = Mapping[str, str] | Sequence[tuple[str, str]]
Key = str | bytes


class Carried(TypedDict, total=False):
    """What a message may carry beside value, key and headers."""

    content_type: str | None
    reply_to: str | None
    correlation_id: str | None


class QueueCarried(Carried, total=False):
    """In a queue also the topic that it was published to, as far as the publisher says."""

    topic: str | None


@dataclass(frozen=True, slots=True)
class Sequenced:
    """Who numbers its messages, so that those sent twice are stored once."""

    producer: str
    epoch: int
    sequence: int


_encoder = msgspec.json.Encoder()


def outgoing(
    value: object,
    key: Key | None = None,
    headers: Headers | None = None,
    partition: int | None = None,
    qos: int | None = None,
    retain: bool = False,
    **carried: Unpack[QueueCarried],
) -> TopicMessage:
    """Bytes stay bytes, a string is text, anything else is JSON; InvalidArgument for what JSON has not."""
    is_bytes = isinstance(value, (bytes, bytearray, memoryview))
    return TopicMessage(
        text=value if isinstance(value, str) else UNSET,
        base64=bytes(value) if isinstance(value, (bytes, bytearray, memoryview)) else UNSET,
        json=UNSET if is_bytes or isinstance(value, str) else Raw(_json(value)),
        key=key if isinstance(key, str) else None,
        key_base64=key if isinstance(key, bytes) else None,
        headers=(dict(headers) if isinstance(headers, Mapping) else list(headers)) if headers else None,
        partition=partition,
        qos=1 if qos is None else qos,
        retain=retain,
        **carried,
    )


def encoded(message: TopicMessage) -> bytes:
    """As JSON. InvalidArgument for text that JSON has not."""
    return _json(message)


def _json(value: object) -> bytes:
    try:
        return _encoder.encode(value)
    except (TypeError, ValueError, RecursionError, UnicodeEncodeError) as error:
        raise InvalidArgument(f"the message cannot be sent as JSON ({error}): give bytes, or what JSON has") from None


def publish_messages(
    queue: str,
    messages: Sequence[bytes],
    acks: Acks,
    sequenced: Sequenced | None = None,
    idempotency_key: str | None = None,
) -> Ask[PublishReport]:
    """Encoded messages in one request: all are taken, or none."""
    parts = [b'{"messages":[', b",".join(messages), b"]"]
    if sequenced is not None:
        said = {"id": sequenced.producer, "epoch": sequenced.epoch, "sequence": sequenced.sequence}
        parts.append(b',"producer":%s' % _encoder.encode(said))
    return Ask(
        "POST",
        f"{API}/queues/{segment(queue)}/messages",
        PublishReport,
        query={"acks": None if acks == "all" else acks},
        body=b"".join([*parts, b"}"]),
        headers={} if idempotency_key is None else {"Idempotency-Key": idempotency_key},
        is_repeatable=sequenced is not None or idempotency_key is not None,
    )


def publish_to_topic(topic: str, message: TopicMessage) -> Ask[TopicReport]:
    return Ask("POST", f"{API}/topics/{segment(topic)}/messages", TopicReport, body=encoded(message))


def publish_to_exchange(
    exchange: str, routing_key: str, message: TopicMessage, mandatory: bool = False
) -> Ask[ExchangeReport]:
    """The default exchange is `amq.default`."""
    fields = {name: getattr(message, name) for name in OutgoingMessage.__struct_fields__}
    body = _json(ExchangeMessage(**fields, routing_key=routing_key))
    query = {"mandatory": True} if mandatory else {}
    return Ask("POST", f"{API}/exchanges/{segment(exchange)}/messages", ExchangeReport, query=query, body=body)
