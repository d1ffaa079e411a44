"""What can be set of the MQTT protocol."""

from __future__ import annotations

from typing import Annotated

import msgspec

from penstock.broker.topics.shares import SharedStrategy
from penstock.broker.topics.topics import TopicOptions
from penstock.core.settings.numbers import Count, Duration, Size
from penstock.core.settings.texts import ListOf, Text
from penstock.core.settings.words import Choice, Flag
from penstock.gateways.mqtt.options import MqttOptions, QueuedPolicy
from penstock.queues.names import check_filter

# The length of a packet is written in four bytes of seven bits, behind one byte of kind.
_LARGEST_PACKET_BYTES = (1 << 28) - 1 + 5
_MOST_BYTES = 1 << 40
_DEFAULTS, _TOPICS = MqttOptions(), TopicOptions()


class Mqtt(msgspec.Struct, frozen=True, kw_only=True):
    max_packet_size_bytes: Annotated[int, Size(1 << 10, _LARGEST_PACKET_BYTES)] = _DEFAULTS.max_packet_bytes
    """largest packet that a client may send"""
    max_packet_size_before_login_bytes: Annotated[int, Size(1 << 10, _LARGEST_PACKET_BYTES)] = (
        _DEFAULTS.max_packet_bytes_before_login
    )
    """largest packet before the client has logged in"""
    connect_timeout_ms: Annotated[int, Duration()] = round(_DEFAULTS.connect_timeout_s * 1000)
    """from accepting a connection to its login, handshakes of TLS and WebSocket included"""
    receive_maximum: Annotated[int, Count(1, 65_535)] = _DEFAULTS.receive_maximum
    """messages of QoS 1 and 2 that a client may send before the first of them is answered"""
    maximum_qos: Annotated[int, Count(0, 2)] = _DEFAULTS.maximum_qos
    """highest QoS that clients may publish with"""
    retain_available: Annotated[bool, Flag()] = _DEFAULTS.retain_available
    """whether messages may be retained"""
    topic_alias_maximum: Annotated[int, Count(0, 65_535)] = _DEFAULTS.topic_alias_maximum
    """number of topic aliases that a client may use"""
    max_session_expiry_ms: Annotated[int | None, Duration(1000, or_none=True)] = None
    """longest session expiry; longer ones are shortened to it"""
    max_keep_alive_ms: Annotated[int | None, Duration(1000, or_none=True)] = None
    """longest keep alive; a client that asks for more, or for none, is given this one"""
    max_queued_messages: Annotated[int, Count(1, 1 << 30)] = _DEFAULTS.max_queued_messages
    """most messages that wait for one session"""
    max_queued_size_bytes: Annotated[int, Size(1 << 10, _MOST_BYTES)] = _DEFAULTS.max_queued_bytes
    """most bytes that wait for one session"""
    queued_policy: Annotated[QueuedPolicy, Choice(QueuedPolicy)] = _DEFAULTS.queued_policy
    """what happens to a message for a session that has as many waiting as it may"""
    max_outbound_size_bytes: Annotated[int, Size(64 << 10, _MOST_BYTES)] = _DEFAULTS.max_outbound_bytes
    """encoded for one connection and not taken by the peer: above it messages of QoS 0 are dropped, others wait"""
    memory_size_bytes: Annotated[int | None, Size(16 << 20, 1 << 40, or_none=True)] = _DEFAULTS.memory_bytes
    """memory for what all clients together have not read, or not sent completely, and for their topic filters, topic
    aliases and wills: when it runs short each client gets less, and when it is used up the client that takes most is
    disconnected, and more than a few filters and long wills are refused; none: an eighth of the memory of the machine
    or container, at most 512 MiB"""
    max_subscriptions: Annotated[int, Count(1, 1 << 30)] = _DEFAULTS.max_subscriptions
    """most subscriptions of one session"""
    max_subscription_size_bytes: Annotated[int, Size(64 << 10, _MOST_BYTES)] = _DEFAULTS.max_subscription_bytes
    """total size of the topic filters of one session; a subscription beyond it is refused with 0x97"""
    sys_interval_ms: Annotated[int | None, Duration(1000, or_none=True)] = round(_DEFAULTS.sys_interval_s * 1000)
    """how often the topics below $SYS are published"""
    shared_strategy: Annotated[SharedStrategy, Choice(SharedStrategy)] = _TOPICS.shared_strategy
    """which member of a shared subscription gets a message; `sticky` is the same one for every message of a topic"""
    durable_shares: Annotated[tuple[str, ...], ListOf(Text(check_filter))] = _DEFAULTS.durable_shares
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
            memory_bytes=self.memory_size_bytes,
            max_subscriptions=self.max_subscriptions,
            max_subscription_bytes=self.max_subscription_size_bytes,
            sys_interval_s=(self.sys_interval_ms or 0) / 1000,
            durable_shares=self.durable_shares,
        )

    def topic_options(self) -> TopicOptions:
        return TopicOptions(self.shared_strategy, self.retain_available)


def _seconds(duration_ms: int | None) -> int | None:
    return None if duration_ms is None else duration_ms // 1000
