"""A request's body as the value of a message, what belongs to it in headers."""

from __future__ import annotations

from penstock.codecs.http.messages import OutgoingMessage
from penstock.gateways.http.exchange import Exchange
from penstock.gateways.http.problems import Refusal

_HEADER = b"penstock-header-"


def raw_message(exchange: Exchange, body: bytes) -> OutgoingMessage:
    """Refusal names the header."""
    partition = _text(exchange, b"penstock-partition")
    if partition is not None and not (partition.isascii() and partition.isdecimal() and len(partition) < 10):
        detail = f"Penstock-Partition is {partition[:40]!r}: give a number"
        raise Refusal(400, "invalid-argument", detail, "Penstock-Partition")
    headers = [
        (name[len(_HEADER) :].decode(), _decoded(value, name.decode()))
        for name, value in exchange.scope["headers"]
        if name.startswith(_HEADER)
    ]
    return OutgoingMessage(
        base64=body,
        key=_text(exchange, b"penstock-key"),
        headers=headers or None,
        content_type=None if exchange.header(b"content-type") is None else _text(exchange, b"content-type"),
        reply_to=_text(exchange, b"penstock-reply-to"),
        correlation_id=_text(exchange, b"penstock-correlation-id"),
        topic=_text(exchange, b"penstock-topic"),
        partition=None if partition is None else int(partition),
    )


def _text(exchange: Exchange, name: bytes) -> str | None:
    value = exchange.header(name)
    return None if value is None else _decoded(value, name.decode())


def _decoded(value: bytes, name: str) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise Refusal(400, "invalid-argument", f"the header {name} is not UTF-8", name) from None
