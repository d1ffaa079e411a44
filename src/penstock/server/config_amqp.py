"""What can be set of AMQP 0.9.1."""

from __future__ import annotations

from typing import Annotated

import msgspec

from penstock.core.errors import InvalidArgument
from penstock.core.settings.numbers import Count, Duration, Size
from penstock.core.settings.texts import Text
from penstock.gateways.amqp091.options import LEAST_FRAME_BYTES, AmqpOptions

_DEFAULTS = AmqpOptions()
_MOST_FRAME_BYTES = 1 << 24


def _check_words(text: str) -> None:
    if not text or not text.isprintable() or len(text) > 100:
        raise InvalidArgument(f"{text[:80]!r} is not what a server is called: write it like RabbitMQ or 3.13.7")


class Amqp(msgspec.Struct, frozen=True, kw_only=True):
    product: Annotated[str, Text(_check_words)] = _DEFAULTS.product
    """what the server says it is: clients decide by it which of RabbitMQ's extensions they use"""
    version: Annotated[str, Text(_check_words)] = _DEFAULTS.version
    """and which version of that product it behaves like"""
    channel_max: Annotated[int, Count(1, 65_535)] = _DEFAULTS.channel_max
    """most channels of one connection"""
    frame_max_bytes: Annotated[int, Size(LEAST_FRAME_BYTES, _MOST_FRAME_BYTES)] = _DEFAULTS.frame_max
    """largest frame that is offered to clients"""
    heartbeat_ms: Annotated[int | None, Duration(1000, or_none=True)] = _DEFAULTS.heartbeat_s * 1000
    """interval of heartbeats that is offered to clients, in whole seconds"""
    handshake_timeout_ms: Annotated[int, Duration()] = round(_DEFAULTS.handshake_timeout_s * 1000)
    """from accepting a connection to its login, handshakes of TLS and WebSocket included"""
    max_message_size_bytes: Annotated[int, Size(1, _DEFAULTS.max_message_bytes)] = _DEFAULTS.max_message_bytes
    """largest message that a client may publish"""
    max_outbound_size_bytes: Annotated[int, Size(64 << 10, 1 << 40)] = _DEFAULTS.max_outbound_bytes
    """encoded for one connection and not taken by the peer: above it nothing more is delivered to it"""
    memory_size_bytes: Annotated[int | None, Size(16 << 20, 1 << 40, or_none=True)] = _DEFAULTS.memory_bytes
    """memory for what all clients together have not read, or not sent completely: when it is used up the client that
    takes most is disconnected; none: an eighth of the memory of the machine or container, at most 512 MiB"""
    delivery_timeout_ms: Annotated[int | None, Duration(1000, or_none=True)] = 1_800_000
    """a channel that does not answer a delivery for so long is closed, and its messages go to others"""

    def options(self) -> AmqpOptions:
        timeout_ms = self.delivery_timeout_ms
        return AmqpOptions(
            product=self.product,
            version=self.version,
            channel_max=self.channel_max,
            frame_max=self.frame_max_bytes,
            heartbeat_s=(self.heartbeat_ms or 0) // 1000,
            handshake_timeout_s=self.handshake_timeout_ms / 1000,
            max_message_bytes=self.max_message_size_bytes,
            max_outbound_bytes=self.max_outbound_size_bytes,
            memory_bytes=self.memory_size_bytes,
            delivery_timeout_s=None if timeout_ms is None else timeout_ms / 1000,
        )
