"""The settings of a queue: what there is, with which defaults and bounds, and what may change while it runs.

Durations are milliseconds and sizes bytes in memory; outside they are written as people do, under the attribute's name
without its unit. None is no limit: outside 0, null or "none"."""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from typing import Annotated

import msgspec

from penstock.core.errors import InvalidArgument, InvalidSetting
from penstock.core.patterns import FILTER, LEVELS, NAME, PLAIN
from penstock.core.queue_paths import (
    DEAD_LETTER_PREFIX,
    QUEUE_PREFIX,
    dead_letter_queue,
    is_dead_letter_queue,
    queue_topic,
)
from penstock.core.settings.numbers import Count, Duration, Factor, Size
from penstock.core.settings.overlay import overlay
from penstock.core.settings.texts import ListOf, Text
from penstock.core.settings.values import outside
from penstock.core.settings.words import Choice, Flag
from penstock.core.types import MAX_PARTITIONS, Compression, Durability
from penstock.log import records
from penstock.log.journal.frames import MAX_FRAME_BYTES
from penstock.queues.names import (
    DEFAULT_NAMESPACE,
    check_exchange_name,
    check_filter,
    check_namespace,
    check_queue_name,
    queue_address,
    queue_of_publish_topic,
)

# A message is stored in one frame, with its key, topic and properties, each up to 64 KiB, and the headers around them.
MAX_MESSAGE_BYTES = MAX_FRAME_BYTES - (256 << 10)

MAX_ROUTING_KEY_BYTES = 255
_HOUR_MS = 3_600_000
_DAY_MS = 24 * _HOUR_MS
_LEASE_MS = 30_000
_MANY = 1 << 50
_MOST_FILTERS = 1000
# Settings of capabilities that come later, refused by name so that nobody takes them for working.
_LATER = ("delay", "priority", "schema")
_DEAD_LETTER_TOPIC = rf"\$(dlq|queue)/{LEVELS}"
_ANY_NAME = "[ -~]{0,255}"
_WEBHOOK = re.compile(r"https?://[!-.0-~][!-~]{0,2000}")


class Ordering(enum.Enum):
    NONE = "none"
    """nothing is held back"""
    PARTITION = "partition"
    """no message while an earlier one of its key waits"""
    STRICT = "strict"
    """no message while an earlier one waits: one partition"""


class Overflow(enum.Enum):
    REJECT = "reject"
    DROP_OLDEST = "drop-oldest"
    REJECT_DEAD_LETTER = "reject-dead-letter"
    """refused, and a dead letter"""


class Expiry(enum.Enum):
    """What happens to messages that are too old."""

    WHEN_READ = "when-read"
    """a group passes them over when it comes to them"""
    AT_HEAD = "at-head"
    """they leave group `default` when they are the next to be handed out, consumers or not, and become dead letters"""


class Unkeyed(enum.Enum):
    """Where a message without a key goes."""

    STICKY = "sticky"
    """a partition that its publisher keeps: order per publisher"""
    SPREAD = "spread"
    """the partitions in turn"""


class Settled(enum.Enum):
    """What retention does with messages that every group has settled."""

    KEEP = "keep"
    DELETE = "delete"


class RoutingMode(enum.Enum):
    PROXY = "proxy"
    DIRECT = "direct"


class PartitionStrategy(enum.Enum):
    HASH = "hash"


class _Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What every section is."""


def _check_dead_letter_topic(text: str) -> None:
    if queue_of_publish_topic(text) is None:
        raise InvalidArgument(f"{text!r} is an ordinary topic, not a queue's: write $dlq/<name> or $queue/<name>")


def _check_exchange(text: str) -> None:
    if text:
        check_exchange_name(text)


def _check_routing_key(text: str) -> None:
    if len(text.encode(errors="replace")) > MAX_ROUTING_KEY_BYTES or "\0" in text:
        raise InvalidArgument(
            f"{text[:80]!r} is not a routing key: write at most {MAX_ROUTING_KEY_BYTES} bytes in UTF-8, without NUL"
        )


def _check_webhook(text: str) -> None:
    if _WEBHOOK.fullmatch(text) is None:
        # It is not repeated: an address may be a secret.
        raise InvalidArgument("is not an address: write it whole, like https://example.com/alerts")


def _check_property_name(text: str) -> None:
    if not text.isprintable() or len(text.encode(errors="replace")) > 255:
        raise InvalidArgument(f"{text[:80]!r} is not the name of a property: write at most 255 printable bytes")


def _check_binding(text: str) -> None:
    check_filter(text)
    if text.startswith("$") and not text.startswith(QUEUE_PREFIX):
        raise InvalidArgument(f"{text!r} begins with $: bind ordinary topics, or topics that begin with {QUEUE_PREFIX}")


# One given twice counts once.
_FILTERS = ListOf(
    Text(_check_binding, pattern=rf"(?!\$)({FILTER})", least=1),
    of="topic filters",
    like='["orders/#"]',
    null=None,
    most=_MOST_FILTERS,
    is_unique=True,
)


class RetryPolicy(_Settings, frozen=True, kw_only=True):
    """What happens to a message whose delivery failed: it waits, longer each time, then it is a dead letter."""

    max_retries: Annotated[int | None, Count(0, 10_000, or_none=True, has_zero=True)] = 10
    initial_backoff_ms: Annotated[int, Duration(0)] = 5_000
    max_backoff_ms: Annotated[int, Duration(0)] = 300_000
    backoff_multiplier: Annotated[float, Factor(1.0, 1000.0)] = 2.0
    total_timeout_ms: Annotated[int | None, Duration(or_none=True)] = 3 * _HOUR_MS
    """since the first delivery"""


class DeadLetters(_Settings, frozen=True, kw_only=True):
    """Where messages go that are given up. Disabled, they are settled and counted."""

    enabled: Annotated[bool, Flag()] = True
    topic: Annotated[str | None, Text(_check_dead_letter_topic, or_none=True, pattern=_DEAD_LETTER_TOPIC)] = None
    """parse_queue() puts `$dlq/<queue>` here if nothing is written; None only for a dead-letter queue, and where an
    exchange is named"""
    exchange: Annotated[str | None, Text(_check_exchange, or_none=True, pattern=_ANY_NAME, or_empty=True)] = None
    """instead of a topic: they are published to it. The empty name is that of the default exchange"""
    routing_key: Annotated[str | None, Text(_check_routing_key, or_none=True, pattern=_ANY_NAME, or_empty=True)] = None
    """for that exchange; None: those that the message was published with"""
    alert_webhook: Annotated[str | None, Text(_check_webhook, or_none=True, pattern=_WEBHOOK.pattern)] = None


class Limits(_Settings, frozen=True, kw_only=True):
    max_message_size_bytes: Annotated[int, Size(1, MAX_MESSAGE_BYTES)] = 1 << 20
    max_queue_depth: Annotated[int | None, Count(1, _MANY, or_none=True)] = 100_000
    """messages that the slowest group has not settled"""
    max_ready: Annotated[int | None, Count(0, _MANY, or_none=True, has_zero=True)] = None
    """messages that nobody of group `default` holds"""
    max_ready_bytes_: Annotated[int | None, Size(0, _MANY, or_none=True, has_zero=True)] = None
    """the same, of their values"""
    message_ttl_ms: Annotated[int | None, Duration(or_none=True)] = 168 * _HOUR_MS
    expiry: Annotated[Expiry, Choice(Expiry)] = Expiry.WHEN_READ


class Performance(_Settings, frozen=True, kw_only=True):
    delivery_timeout_ms: Annotated[int | None, Duration(or_none=True)] = 30_000
    batch_size: Annotated[int, Count(1, 100_000)] = 500
    """most messages taken from a partition at once"""

    @property
    def lease_ms(self) -> int:
        """Of those who pull and ask for no time of their own: of them nobody knows when they are gone."""
        return _LEASE_MS if self.delivery_timeout_ms is None else self.delivery_timeout_ms


class Cluster(_Settings, frozen=True, kw_only=True):
    consumer_routing_mode: Annotated[RoutingMode, Choice(RoutingMode)] = RoutingMode.PROXY
    partition_strategy: Annotated[PartitionStrategy, Choice(PartitionStrategy)] = PartitionStrategy.HASH


class Retention(_Settings, frozen=True, kw_only=True):
    """How long messages are kept, settled or not. Bytes and messages are a partition's."""

    time_ms: Annotated[int | None, Duration(or_none=True)] = 168 * _HOUR_MS
    bytes: Annotated[int | None, Size(1, _MANY, or_none=True)] = None
    messages: Annotated[int | None, Count(1, _MANY, or_none=True)] = None
    settled: Annotated[Settled, Choice(Settled)] = Settled.KEEP
    time_check_interval_ms: Annotated[int, Duration(1000)] = 300_000


class Compaction(_Settings, frozen=True, kw_only=True):
    """Keep the last message of each key; `key` names a property that is the key instead of the message's."""

    enabled: Annotated[bool, Flag()] = False
    key: Annotated[str | None, Text(_check_property_name, or_none=True, pattern="[ -~]{1,255}")] = None
    lag_ms: Annotated[int, Duration(0)] = 300_000
    interval_ms: Annotated[int, Duration(1000)] = 600_000


class QueueSettings(_Settings, frozen=True, kw_only=True):
    """Made by parse_queue(), change() or templates.resolve(), which check what concerns several settings."""

    name: Annotated[str, Text(check_queue_name, pattern=NAME)]
    namespace: Annotated[str, Text(check_namespace, pattern=PLAIN)] = DEFAULT_NAMESPACE
    topics: Annotated[tuple[str, ...], _FILTERS] = ()
    """filters that bind beside the queue's own address"""
    partitions: Annotated[int, Count(1, MAX_PARTITIONS)] = 10
    ordering: Annotated[Ordering, Choice(Ordering)] = Ordering.PARTITION
    retry_policy: RetryPolicy = RetryPolicy()
    dlq_config: DeadLetters = DeadLetters()
    limits: Limits = Limits()
    performance: Performance = Performance()
    cluster: Cluster = Cluster()
    overflow: Annotated[Overflow, Choice(Overflow)] = Overflow.REJECT
    durability: Annotated[Durability, Choice(Durability)] = Durability.COMMIT
    compression: Annotated[Compression, Choice(Compression)] = Compression.NONE
    unkeyed: Annotated[Unkeyed, Choice(Unkeyed)] = Unkeyed.STICKY
    retention: Retention = Retention()
    compaction: Compaction = Compaction()
    max_in_flight: Annotated[int, Count(1, 1_000_000)] = 1000
    """messages that one consumer holds"""
    max_deliveries: Annotated[int | None, Count(1, 30_000, or_none=True)] = 100
    """returns by disconnect, rebalance and restart, after which a message is a dead letter"""
    count_requeues: Annotated[bool, Flag()] = False
    """messages that a consumer gives back without a failure count for max_deliveries, too"""
    suspend_after: Annotated[int | None, Count(1, 1000, or_none=True)] = 3
    """delivery timeouts in a row after which a member that settles nothing gets no messages while others do; sooner
    where max_retries is less"""
    group_expiry_ms: Annotated[int | None, Duration(or_none=True)] = 7 * _DAY_MS
    expires_after_ms: Annotated[int | None, Duration(or_none=True)] = None
    """without a consumer, a pull or another declaration for so long, the queue is deleted"""
    derived_group_expiry_ms: Annotated[int | None, Duration(or_none=True)] = _HOUR_MS
    switch_timeout_ms: Annotated[int, Duration()] = 60_000
    group_window: Annotated[int, Count(1, 500_000)] = 100_000
    """unsettled messages of one partition that a group has in memory; delivery waits beyond it"""

    @property
    def dead_letter_queue(self) -> str | None:
        """The queue that is made where given-up messages go and nobody has declared one. None: nowhere."""
        return queue_of_publish_topic(self.dead_letter_topic or "")

    @property
    def dead_letter_topic(self) -> str | None:
        """Where given-up messages go: a declared queue's topic may be a prefix of it. None: nowhere."""
        return self.dlq_config.topic if self.dlq_config.enabled else None

    @property
    def dead_letter_exchange(self) -> str | None:
        """The exchange that given-up messages are published to."""
        return self.dlq_config.exchange if self.dlq_config.enabled else None

    @property
    def has_dead_letters(self) -> bool:
        return self.dead_letter_topic is not None or self.dead_letter_exchange is not None

    @property
    def limits_ready(self) -> bool:
        return self.limits.max_ready is not None or self.limits.max_ready_bytes_ is not None

    @property
    def looks_at_head(self) -> bool:
        """Whether messages leave it without a consumer: because they are too old, or too many."""
        is_ring = self.overflow is Overflow.DROP_OLDEST
        return self.limits.expiry is Expiry.AT_HEAD or (self.limits_ready and is_ring)


def parse_queue(data: Mapping[str, object] | bytes) -> QueueSettings:
    """Settings as people write them, an object or its JSON. InvalidSetting names what will not do and what would."""
    written = _document(data) if isinstance(data, bytes) else data
    if not isinstance(name := written.get("name"), str):
        raise InvalidSetting("name", "a queue needs one: write it in quotes")
    return _complete(overlay(_defaults(name, written.get("ordering") == "strict"), written, _LATER))


def parse_stored(data: Mapping[str, object]) -> QueueSettings:
    """As parse_queue(), of what queue_json() gave. What was stored before paths were percent-encoded has topics with a
    `%` that no path has now."""
    letters = data.get("dlq_config")
    topic = letters.get("topic") if isinstance(letters, Mapping) else None
    if isinstance(letters, Mapping) and isinstance(topic, str) and "%" in topic and _is_plain_text(topic, data["name"]):
        path = queue_address(topic) or ""
        data = {**data, "dlq_config": {**letters, "topic": queue_topic(path)}}
    return parse_queue(data)


def _is_plain_text(topic: str, queue: object) -> bool:
    if topic == f"{DEAD_LETTER_PREFIX}{queue}":
        return True
    try:
        queue_of_publish_topic(topic)
    except InvalidArgument:
        return True
    return False


def check_settings(written: Mapping[str, object]) -> None:
    """InvalidSetting for the first that will not do for any queue."""
    overlay(QueueSettings(name="any"), written, _LATER)


def queue_json(settings: QueueSettings) -> dict[str, object]:
    """All settings as people write them; parse_queue() of it gives the same."""
    return outside(settings)


def change(settings: QueueSettings, changes: Mapping[str, object]) -> QueueSettings:
    """`settings` with the changes put over them, section by section. InvalidSetting for what cannot change."""
    changed = _complete(overlay(settings, changes, _LATER))
    for fixed, why in _FIXED.items():
        if getattr(changed, fixed) != getattr(settings, fixed):
            raise InvalidSetting(fixed, f"cannot change: {why}")
    if changed.ordering != settings.ordering and Ordering.STRICT in (changed.ordering, settings.ordering):
        raise InvalidSetting("ordering", "cannot change to or from strict: declare another queue and move the messages")
    if changed.partitions < settings.partitions:
        raise InvalidSetting(
            "partitions",
            f"cannot go down from {settings.partitions} to {changed.partitions}, messages are in all of them: "
            f"declare another queue and move the messages",
        )
    return changed


def log_settings(settings: QueueSettings) -> records.LogSettings:
    """For the log that holds the messages of a partition."""
    return records.LogSettings(
        durability=settings.durability,
        compression=settings.compression,
        retention=_log_retention(settings.retention),
        compaction=_log_compaction(settings.compaction),
    )


_FIXED = {
    "name": "ids of messages carry it; declare another queue",
    "namespace": "logs and rights carry it; declare the queue there",
}


def _document(data: bytes) -> Mapping[str, object]:
    try:
        return msgspec.json.decode(data, type=dict[str, object])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidArgument(f"the settings of a queue are not a JSON object: {error}") from None


def _defaults(name: str, strict: bool) -> QueueSettings:
    settings = QueueSettings(name=name, partitions=1) if strict else QueueSettings(name=name)
    if not is_dead_letter_queue(name):
        return settings
    return msgspec.structs.replace(
        settings,
        dlq_config=DeadLetters(enabled=False),
        limits=Limits(max_queue_depth=None, message_ttl_ms=None),
        retention=Retention(time_ms=None),
    )


def _complete(settings: QueueSettings) -> QueueSettings:
    """With the defaults that follow from other settings; InvalidSetting where settings do not go together."""
    letters, default = settings.dlq_config, queue_topic(dead_letter_queue(settings.name))
    if letters.exchange is not None and letters.topic == default:
        letters = msgspec.structs.replace(letters, topic=None)
    elif letters.exchange is None and letters.topic is None and not is_dead_letter_queue(settings.name):
        letters = msgspec.structs.replace(letters, topic=default)
    settings = msgspec.structs.replace(settings, dlq_config=letters)
    _check_together(settings)
    return settings


def _check_together(settings: QueueSettings) -> None:
    retry, letters = settings.retry_policy, settings.dlq_config
    if settings.ordering is Ordering.STRICT and settings.partitions != 1:
        raise InvalidSetting("partitions", f"{settings.partitions} with ordering strict, which means 1: leave it out")
    if retry.initial_backoff_ms > retry.max_backoff_ms:
        raise InvalidSetting("retry_policy.initial_backoff", "greater than max_backoff: lower it, or raise that")
    if letters.exchange is not None and letters.topic is not None:
        raise InvalidSetting("dlq_config.exchange", f"beside the topic {letters.topic}: leave one of them out")
    if letters.routing_key is not None and letters.exchange is None:
        raise InvalidSetting("dlq_config.routing_key", "without an exchange it is for nobody: name dlq_config.exchange")
    if letters.enabled and letters.topic is None and letters.exchange is None:
        raise InvalidSetting("dlq_config.topic", "a dead-letter queue has none of its own unless named: write one")
    if settings.dead_letter_queue == settings.name:
        raise InvalidSetting("dlq_config.topic", f"{letters.topic} is this queue itself: name another, or disable it")


def _log_retention(retention: Retention) -> records.Retention | None:
    if retention.time_ms is None and retention.bytes is None and retention.messages is None:
        return None
    time_s = None if retention.time_ms is None else retention.time_ms / 1000
    return records.Retention(time_s, retention.bytes, retention.messages)


def _log_compaction(compaction: Compaction) -> records.Compaction | None:
    if not compaction.enabled:
        return None
    return records.Compaction(
        property=compaction.key, lag_s=compaction.lag_ms / 1000, interval_s=compaction.interval_ms / 1000
    )
