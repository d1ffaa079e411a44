"""What can be set of the MQTT protocol."""

from __future__ import annotations

from typing import Annotated

import msgspec

from penstock.gateways.mqtt.options import MqttOptions, QueuedPolicy, SharedStrategy
from penstock.queues.names import check_filter
from penstock.queues.settings_text import Choice, Count, Duration, Flag, Size
from penstock.server.schema import Texts

# The length of a packet is written in four bytes of seven bits, behind one byte of kind.
_LARGEST_PACKET_BYTES = (1 << 28) - 1 + 5
_MOST_BYTES = 1 << 40
_DEFAULTS = MqttOptions()


class Mqtt(msgspec.Struct, frozen=True, kw_only=True):
    max_packet_size_bytes: Annotated[int, Size(1 << 10, _LARGEST_PACKET_BYTES)] = _DEFAULTS.max_packet_bytes
    """of a packet that a client sends"""
    max_packet_size_before_login_bytes: Annotated[int, Size(1 << 10, _LARGEST_PACKET_BYTES)] = (
        _DEFAULTS.max_packet_bytes_before_login
    )
    """the same until the client is known"""
    connect_timeout_ms: Annotated[int, Duration()] = round(_DEFAULTS.connect_timeout_s * 1000)
    """from accepting a connection to its login, handshakes of TLS and WebSocket included"""
    receive_maximum: Annotated[int, Count(1, 65_535)] = _DEFAULTS.receive_maximum
    """messages of QoS 1 and 2 that a client may send before the first of them is answered"""
    maximum_qos: Annotated[int, Count(0, 2)] = _DEFAULTS.maximum_qos
    """what clients may publish with"""
    retain_available: Annotated[bool, Flag()] = _DEFAULTS.retain_available
    """whether messages may be retained"""
    topic_alias_maximum: Annotated[int, Count(0, 65_535)] = _DEFAULTS.topic_alias_maximum
    """aliases that a client may use"""
    max_session_expiry_ms: Annotated[int | None, Duration(1000, or_none=True)] = None
    """a session that is asked to stay longer ends then"""
    max_keep_alive_ms: Annotated[int | None, Duration(1000, or_none=True)] = None
    """a client that asks for longer, or for none, is told this one"""
    max_queued_messages: Annotated[int, Count(1, 1 << 30)] = _DEFAULTS.max_queued_messages
    """that wait for one session"""
    max_queued_size_bytes: Annotated[int, Size(1 << 10, _MOST_BYTES)] = _DEFAULTS.max_queued_bytes
    """the same in bytes"""
    queued_policy: Annotated[QueuedPolicy, Choice(QueuedPolicy)] = _DEFAULTS.queued_policy
    """what happens to a message for a session that has as many waiting as it may"""
    max_outbound_size_bytes: Annotated[int, Size(64 << 10, _MOST_BYTES)] = _DEFAULTS.max_outbound_bytes
    """encoded for one connection and not taken by the peer: above it messages of QoS 0 are dropped, others wait"""
    max_subscriptions: Annotated[int, Count(1, 1 << 30)] = _DEFAULTS.max_subscriptions
    """of one session"""
    sys_interval_ms: Annotated[int | None, Duration(1000, or_none=True)] = round(_DEFAULTS.sys_interval_s * 1000)
    """how often the topics below $SYS are published"""
    shared_strategy: Annotated[SharedStrategy, Choice(SharedStrategy)] = _DEFAULTS.shared_strategy
    """which member of a shared subscription gets a message; `sticky` is the same one for every message of a topic"""
    durable_shares: Annotated[tuple[str, ...], Texts(check_filter)] = _DEFAULTS.durable_shares
    """topic filters: `$share/<group>/<filter>` is durable if these match every topic that its filter matches, and the
    client does not say `durable: false`; `["#"]` is all of them"""

    def options(self) -> MqttOptions:
        return MqttOptions(
            max_packet_bytes=self.max_packet_size_bytes,
            max_packet_bytes_before_login=self.max_packet_size_before_login_bytes,
            connect_timeout_s=self.connect_timeout_ms / 1000,
            receive_maximum=self.receive_maximum,
            maximum_qos=self.maximum_qos,
            retain_available=self.retain_available,
            topic_alias_maximum=self.topic_alias_maximum,
            max_session_expiry_s=_seconds(self.max_session_expiry_ms),
            max_keep_alive_s=_seconds(self.max_keep_alive_ms),
            max_queued_messages=self.max_queued_messages,
            max_queued_bytes=self.max_queued_size_bytes,
            queued_policy=self.queued_policy,
            max_outbound_bytes=self.max_outbound_size_bytes,
            max_subscriptions=self.max_subscriptions,
            sys_interval_s=(self.sys_interval_ms or 0) / 1000,
            shared_strategy=self.shared_strategy,
            durable_shares=self.durable_shares,
        )


def _seconds(duration_ms: int | None) -> int | None:
    return None if duration_ms is None else duration_ms // 1000
