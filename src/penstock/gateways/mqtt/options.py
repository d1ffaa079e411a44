"""Every knob of the protocol."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class QueuedPolicy(enum.StrEnum):
    """What happens to a message for a session that has as many waiting as it may."""

    DROP_NEWEST = "drop-newest"
    DROP_OLDEST = "drop-oldest"
    DISCONNECT = "disconnect"


@dataclass(frozen=True, slots=True)
class MqttOptions:
    max_packet_bytes: int = 8 << 20
    max_packet_bytes_before_login: int = 256 << 10
    connect_timeout_s: float = 10.0
    receive_maximum: int = 65_535
    maximum_qos: int = 2
    retain_available: bool = True
    topic_alias_maximum: int = 100
    max_session_expiry_s: int | None = None
    """a session asked for longer ends then"""
    max_keep_alive_s: int | None = None
    """a client that asks for longer, or for none, is told this one"""
    max_queued_messages: int = 1000
    max_queued_bytes: int = 10 << 20
    queued_policy: QueuedPolicy = QueuedPolicy.DROP_NEWEST
    max_outbound_bytes: int = 4 << 20
    """encoded and not taken by the peer: above it messages of QoS 0 are dropped, others wait"""
    memory_bytes: int | None = None
    """of what all peers together have not taken, or not sent whole; None: usual_budget_bytes()"""
    max_subscriptions: int = 10_000
    max_subscription_bytes: int = 2 << 20
    """of the filters of one session together"""
    sys_interval_s: float = 10.0
    durable_shares: tuple[str, ...] = ()
    """topic filters: a shared subscription that lies within them is a group of a queue unless it says otherwise"""


@dataclass(slots=True)
class CurrentOptions:
    """An operator may change them while clients are connected."""

    now: MqttOptions
