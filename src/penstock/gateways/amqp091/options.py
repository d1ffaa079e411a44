"""Every knob of the protocol."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.core.errors import InvalidArgument

LEAST_FRAME_BYTES = 4096


@dataclass(frozen=True, slots=True)
class AmqpOptions:
    product: str = "RabbitMQ"
    version: str = "3.13.7"
    """clients decide by these two what they may ask for"""
    channel_max: int = 2047
    frame_max: int = 131_072
    heartbeat_s: int = 60
    """what is proposed to clients; 0 for none"""
    handshake_timeout_s: float = 10.0
    max_message_bytes: int = 16_515_072
    """15.75 MiB: what a frame of the journal holds beside what belongs to it"""
    max_unfinished_bytes: int = 64 << 20
    """of messages in several frames that are not there whole, of one connection"""
    max_backlog_bytes: int = 256 << 10
    """what a channel may send while it waits for an answer, before its connection is not read"""
    max_outbound_bytes: int = 4 << 20
    """encoded and not taken by the peer: above it no more is delivered to it"""
    memory_bytes: int | None = None
    """of what all peers together have not taken, or not sent whole; None: usual_budget_bytes()"""
    max_consumers_per_channel: int = 10_000
    delivery_timeout_s: float | None = 1800.0
    """a channel that holds a message for longer is closed; None: never"""

    def __post_init__(self) -> None:
        if not LEAST_FRAME_BYTES <= self.frame_max <= 1 << 24:
            raise InvalidArgument(f"a frame_max of {self.frame_max}: give {LEAST_FRAME_BYTES} to {1 << 24}")


@dataclass(slots=True)
class CurrentOptions:
    """An operator may change them while clients are connected."""

    now: AmqpOptions
