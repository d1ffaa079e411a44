"""Settings of a queue: the documented JSON makes one, everything comes back as it was, and mistakes are named."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from penstock.core.errors import ErrorCode, InvalidArgument, InvalidSetting
from penstock.core.settings.numbers import Duration
from penstock.core.types import Compression, Durability
from penstock.core.units import duration_text
from penstock.log import records
from penstock.queues.settings import (
    MAX_MESSAGE_BYTES,
    Compaction,
    DeadLetters,
    Expiry,
    Limits,
    Ordering,
    Overflow,
    Performance,
    QueueSettings,
    Retention,
    RetryPolicy,
    Settled,
    Unkeyed,
    change,
    log_settings,
    parse_queue,
    queue_json,
)

DOCUMENTED = b"""\
{
  "name": "tasks",
  "topics": ["$queue/tasks/#", "orders/#"],
  "partitions": 10,
  "ordering": "partition",

  "retry_policy": {
    "max_retries": 10,
    "initial_backoff": "5s",
    "max_backoff": "5m",
    "backoff_multiplier": 2.0,
    "total_timeout": "3h"
  },

  "dlq_config": {
    "enabled": true,
    "topic": "$dlq/tasks/image-processing",
    "alert_webhook": "https://supermq.com/alerts/queue-failure"
  },

  "limits": {
    "max_message_size": 1048576,
    "max_queue_depth": 100000,
    "message_ttl": "168h"
  },

  "performance": {
    "delivery_timeout": "30s",
    "batch_size": 1
  },

  "cluster": {
    "consumer_routing_mode": "proxy",
    "partition_strategy": "hash"
  }
}
"""

EVERYTHING: dict[str, object] = {
    "name": "shop/orders",
    "namespace": "eu",
    "topics": ["orders/#", "$queue/other/+"],
    "partitions": 3,
    "ordering": "none",
    "retry_policy": {
        "max_retries": 0,
        "initial_backoff": "250ms",
        "max_backoff": "1m30s",
        "backoff_multiplier": 1,
        "total_timeout": "none",
    },
    "dlq_config": {
        "enabled": False,
        "topic": None,
        "exchange": "dead",
        "routing_key": "orders",
        "alert_webhook": "http://localhost:9/x",
    },
    "limits": {
        "max_message_size": "2MiB",
        "max_queue_depth": 0,
        "max_ready": 0,
        "max_ready_bytes": "1MB",
        "message_ttl": None,
        "expiry": "at-head",
    },
    "performance": {"delivery_timeout": "2m", "batch_size": 7},
    "cluster": {"consumer_routing_mode": "direct", "partition_strategy": "hash"},
    "overflow": "drop-oldest",
    "durability": "interval",
    "compression": "zstd",
    "unkeyed": "spread",
    "retention": {
        "time": "36h",
        "bytes": "1GB",
        "messages": 5,
        "settled": "delete",
        "time_check_interval": "10s",
    },
    "compaction": {"enabled": True, "key": "user-id", "lag": 0, "interval": "1h"},
    "max_in_flight": 5,
    "max_deliveries": "none",
    "count_requeues": True,
    "suspend_after": 5,
    "group_expiry": "none",
    "expires_after": "30s",
    "derived_group_expiry": "5m",
    "switch_timeout": "1s",
    "group_window": 10,
}


def queue(**written: object) -> QueueSettings:
    return parse_queue({"name": "orders", **written})


def refused(**written: object) -> InvalidSetting:
    with pytest.raises(InvalidSetting) as raised:
        queue(**written)
    return raised.value


def test_the_documented_json_makes_a_queue_unchanged() -> None:
    settings = parse_queue(DOCUMENTED)
    assert settings.name == "tasks"
    assert settings.topics == ("$queue/tasks/#", "orders/#")
    assert (settings.partitions, settings.ordering) == (10, Ordering.PARTITION)
    assert settings.retry_policy == RetryPolicy(
        max_retries=10,
        initial_backoff_ms=5_000,
        max_backoff_ms=300_000,
        backoff_multiplier=2.0,
        total_timeout_ms=10_800_000,
    )
    webhook = "https://supermq.com/alerts/queue-failure"
    assert settings.dlq_config == DeadLetters(topic="$dlq/tasks/image-processing", alert_webhook=webhook)
    assert settings.dead_letter_queue == "$dlq/tasks/image-processing"
    assert settings.limits == Limits(
        max_message_size_bytes=1_048_576, max_queue_depth=100_000, message_ttl_ms=604_800_000
    )
    assert settings.performance == Performance(delivery_timeout_ms=30_000, batch_size=1)


def test_what_is_not_written_has_the_documented_default() -> None:
    documented = json.loads(DOCUMENTED)
    documented["performance"]["batch_size"] = 500
    documented["dlq_config"] = {"alert_webhook": None}
    documented["topics"] = []
    assert parse_queue(documented) == parse_queue({"name": "tasks"})
    settings = queue()
    assert settings.dead_letter_queue == "$dlq/orders"
    assert (settings.namespace, settings.overflow, settings.unkeyed) == ("default", Overflow.REJECT, Unkeyed.STICKY)
    assert (settings.durability, settings.compression) == (Durability.COMMIT, Compression.NONE)
    assert settings.retention == Retention(
        time_ms=604_800_000, bytes=None, messages=None, settled=Settled.KEEP, time_check_interval_ms=300_000
    )
    assert settings.compaction == Compaction(enabled=False, key=None, lag_ms=300_000, interval_ms=600_000)
    assert (settings.max_in_flight, settings.max_deliveries, settings.group_window) == (1000, 100, 100_000)
    assert (settings.group_expiry_ms, settings.derived_group_expiry_ms) == (604_800_000, 3_600_000)
    assert settings.switch_timeout_ms == 60_000


def test_every_setting_is_read() -> None:
    settings, defaults = parse_queue(EVERYTHING), queue()
    written = queue_json(settings)
    assert written.keys() == queue_json(defaults).keys() == EVERYTHING.keys()
    for key, value in queue_json(defaults).items():
        below = EVERYTHING[key]
        assert written[key] != value
        assert not isinstance(below, dict) or below.keys() == msgspec.to_builtins(value).keys()
    assert settings.limits == Limits(
        max_message_size_bytes=2 << 20,
        max_queue_depth=None,
        max_ready=0,
        max_ready_bytes_=1_000_000,
        message_ttl_ms=None,
        expiry=Expiry.AT_HEAD,
    )
    assert settings.retry_policy.max_backoff_ms == 90_000
    assert settings.retry_policy.total_timeout_ms is None
    assert settings.compaction.lag_ms == 0
    assert settings.dead_letter_queue is None


@pytest.mark.parametrize(
    "written", [{"name": "q"}, {"name": "$dlq/q"}, {"name": "q", "ordering": "strict"}, EVERYTHING]
)
def test_settings_come_back_from_what_is_written(written: dict[str, object]) -> None:
    settings = parse_queue(written)
    assert parse_queue(queue_json(settings)) == settings
    assert parse_queue(json.dumps(queue_json(settings)).encode()) == settings
    assert change(settings, queue_json(settings)) == settings


@given(st.integers(1, 36_500 * 86_400_000))
@examples(max_examples=200, deadline=None)
def test_any_duration_comes_back_from_its_text(duration_ms: int) -> None:
    assert Duration().read("x", duration_text(duration_ms)) == duration_ms


@pytest.mark.parametrize(
    ("duration_ms", "text"), [(0, "0s"), (90_000, "90s"), (300_000, "5m"), (604_800_000, "7d"), (1_001, "1001ms")]
)
def test_a_duration_is_written_in_its_largest_whole_unit(duration_ms: int, text: str) -> None:
    assert duration_text(duration_ms) == text


@pytest.mark.parametrize("none", [0, None, "none", "None", "0s"])
def test_no_limit_is_written_in_several_ways(none: object) -> None:
    settings = queue(limits={"message_ttl": none}, retention={"time": none}, group_expiry=none)
    assert settings.limits.message_ttl_ms is None
    assert settings.retention.time_ms is None
    assert settings.group_expiry_ms is None


@pytest.mark.parametrize("none", [0, None, "none"])
@pytest.mark.parametrize("key", ["partitions", "max_in_flight", "switch_timeout", "group_window"])
def test_what_needs_a_limit_cannot_be_without(key: str, none: object) -> None:
    assert refused(**{key: none}).path == key


@pytest.mark.parametrize(
    ("written", "path", "nearest"),
    [
        ({"patitions": 3}, "patitions", "partitions"),
        ({"limits": {"max_depth": 3}}, "limits.max_depth", "limits.max_queue_depth"),
        ({"max_queue_depth": 3}, "max_queue_depth", "limits.max_queue_depth"),
        ({"retention": {"max_mesage_size": 3}}, "retention.max_mesage_size", "limits.max_message_size"),
        ({"dlq": {}}, "dlq", "dlq_config"),
        ({"compaction": {"enable": True}}, "compaction.enable", "compaction.enabled"),
        ({"dlq_config": {"enable": True}}, "dlq_config.enable", "dlq_config.enabled"),
        ({"xyzzy": {}}, "xyzzy", None),
        ({"retry_policy": {"max_retrys": 3}}, "retry_policy.max_retrys", "retry_policy.max_retries"),
        ({"ordering": "stict"}, "ordering", "strict"),
    ],
)
def test_an_unknown_word_is_named_with_the_nearest_known_one(
    written: dict[str, object], path: str, nearest: str | None
) -> None:
    error = refused(**written)
    assert (error.path, error.nearest) == (path, nearest)
    assert error.code is ErrorCode.INVALID_SETTING


def test_where_nothing_is_near_the_known_keys_are_listed() -> None:
    assert "max_message_size, max_queue_depth, max_ready, max_ready_bytes, message_ttl" in str(
        refused(limits={"xyzzy": 1})
    )


@pytest.mark.parametrize("key", ["delay", "delay_max", "priority", "priority_levels", "schema", "schema_id"])
def test_settings_of_later_capabilities_are_refused_by_name(key: str) -> None:
    assert "not available yet" in str(refused(**{key: 1}))
    assert refused(limits={key: 1}).path == f"limits.{key}"


@pytest.mark.parametrize(
    ("written", "path", "allowed"),
    [
        ({"partitions": 0}, "partitions", "1 to 10000"),
        ({"partitions": 10_001}, "partitions", "1 to 10000"),
        ({"partitions": "3"}, "partitions", "whole number"),
        ({"partitions": 1.5}, "partitions", "whole number"),
        ({"partitions": True}, "partitions", "whole number"),
        ({"ordering": "fifo"}, "ordering", "none, partition, strict"),
        ({"ordering": None}, "ordering", "none, partition, strict"),
        ({"durability": 2}, "durability", "memory, interval, commit"),
        ({"overflow": "drop_oldest"}, "overflow", "reject, drop-oldest"),
        ({"cluster": {"partition_strategy": "dynamic"}}, "cluster.partition_strategy", "one of hash"),
        ({"topics": "orders/#"}, "topics", "list"),
        ({"topics": ["orders/#/x"]}, "topics[0]", "wrong place"),
        ({"topics": ["a", 3]}, "topics[1]", "not text"),
        ({"topics": ["$SYS/#"]}, "topics[0]", "begins with $"),
        ({"topics": ["a"] * 1001}, "topics", "at most 1000"),
        ({"retry_policy": {"backoff_multiplier": 0.5}}, "retry_policy.backoff_multiplier", "1.0 to"),
        ({"retry_policy": {"backoff_multiplier": float("nan")}}, "retry_policy.backoff_multiplier", "number"),
        ({"retry_policy": {"backoff_multiplier": "2"}}, "retry_policy.backoff_multiplier", "number"),
        ({"retry_policy": {"max_retries": -1}}, "retry_policy.max_retries", "0 to"),
        ({"retry_policy": {"initial_backoff": "6m"}}, "retry_policy.initial_backoff", "max_backoff"),
        ({"retry_policy": []}, "retry_policy", "max_retries"),
        ({"performance": {"delivery_timeout": 30}}, "performance.delivery_timeout", "with its unit"),
        ({"performance": {"delivery_timeout": "30 parsecs"}}, "performance.delivery_timeout", "not a duration"),
        ({"performance": {"delivery_timeout": "0.1ms"}}, "performance.delivery_timeout", "less than 1ms"),
        ({"retry_policy": {"max_retries": 10_001}}, "retry_policy.max_retries", '"none"'),
        ({"limits": {"max_ready": -1}}, "limits.max_ready", "0 to"),
        ({"limits": {"expiry": "never"}}, "limits.expiry", "at-head"),
        ({"dlq_config": {"exchange": "x\n"}}, "dlq_config.exchange", "control"),
        ({"dlq_config": {"exchange": "x", "topic": "$dlq/a"}}, "dlq_config.exchange", "beside the topic"),
        ({"dlq_config": {"exchange": "x", "routing_key": "k" * 256}}, "dlq_config.routing_key", "255 bytes"),
        ({"dlq_config": {"routing_key": "k"}}, "dlq_config.routing_key", "dlq_config.exchange"),
        ({"limits": {"message_ttl": "99999d"}}, "limits.message_ttl", '"none"'),
        ({"limits": {"message_ttl": False}}, "limits.message_ttl", "with its unit"),
        ({"limits": {"max_message_size": 16 << 20}}, "limits.max_message_size", f"1 to {MAX_MESSAGE_BYTES}"),
        ({"limits": {"max_message_size": "1 cup"}}, "limits.max_message_size", "not a size"),
        ({"limits": {"max_message_size": 1.5}}, "limits.max_message_size", "1MiB"),
        ({"limits": {"max_queue_depth": -1}}, "limits.max_queue_depth", '"none"'),
        ({"dlq_config": {"enabled": "yes"}}, "dlq_config.enabled", "true, false"),
        ({"dlq_config": {"topic": "failures"}}, "dlq_config.topic", "$queue/<name>"),
        ({"dlq_config": {"topic": "$dlq/a/#"}}, "dlq_config.topic", "in another way"),
        ({"dlq_config": {"topic": "$queue/orders"}}, "dlq_config.topic", "itself"),
        ({"dlq_config": {"alert_webhook": "example.com"}}, "dlq_config.alert_webhook", "https://"),
        ({"dlq_config": {"alert_webhook": "https://"}}, "dlq_config.alert_webhook", "https://"),
        ({"dlq_config": {"alert_webhook": "https://a b"}}, "dlq_config.alert_webhook", "https://"),
        ({"compaction": {"key": "a\nb"}}, "compaction.key", "property"),
        ({"max_deliveries": 0.5}, "max_deliveries", "whole number"),
        ({"namespace": "a/b"}, "namespace", "leave them out"),
        ({"name": "a\n"}, "name", "control"),
        ({"name": 7}, "name", "quotes"),
    ],
)
def test_a_value_that_will_not_do_is_named_with_what_would(written: dict[str, object], path: str, allowed: str) -> None:
    error = refused(**written)
    assert error.path == path
    assert allowed in str(error)


def test_an_error_never_repeats_all_of_a_huge_value() -> None:
    for written in (
        {"ordering": "x" * 100_000},
        {"x" * 100_000: 1},
        {"limits": ["x" * 100_000]},
        {"topics": "x" * 9999},
    ):
        assert len(str(refused(**written))) < 700


def test_a_queue_needs_a_name() -> None:
    with pytest.raises(InvalidSetting, match="name"):
        parse_queue({"partitions": 3})


@pytest.mark.parametrize("data", [b"", b"[]", b"{", b'{"name": "a"} x', b"\xff", b"[" * 100_000, b'{"name": "\xff"}'])
def test_bytes_that_are_no_json_object_are_refused(data: bytes) -> None:
    with pytest.raises(InvalidArgument):
        parse_queue(data)


def test_strict_order_means_one_partition() -> None:
    assert queue(ordering="strict").partitions == 1
    assert queue(ordering="strict", partitions=1).partitions == 1
    error = refused(ordering="strict", partitions=2)
    assert error.path == "partitions"
    assert "strict" in str(error)


def test_a_dead_letter_queue_keeps_everything_unless_told_otherwise() -> None:
    settings = parse_queue({"name": "$dlq/orders"})
    assert (settings.limits.max_queue_depth, settings.limits.message_ttl_ms) == (None, None)
    assert log_settings(settings).retention is None
    assert settings.dead_letter_queue is None
    told = parse_queue({"name": "$dlq/orders", "limits": {"max_queue_depth": 5}, "retention": {"time": "1d"}})
    assert (told.limits.max_queue_depth, told.limits.message_ttl_ms) == (5, None)
    assert told.retention.time_ms == 86_400_000


def test_dead_letters_of_dead_letters_need_a_place_of_their_own() -> None:
    with pytest.raises(InvalidSetting, match="write one"):
        parse_queue({"name": "$dlq/orders", "dlq_config": {"enabled": True}})
    with pytest.raises(InvalidSetting, match="itself"):
        parse_queue({"name": "$dlq/orders", "dlq_config": {"enabled": True, "topic": "$queue/orders.dlq"}})
    named = parse_queue({"name": "$dlq/orders", "dlq_config": {"enabled": True, "topic": "$dlq/hopeless"}})
    assert named.dead_letter_queue == "$dlq/hopeless"


def test_a_change_touches_only_what_it_names() -> None:
    before = queue(limits={"max_queue_depth": 5, "message_ttl": "1h"}, topics=["a"])
    after = change(before, {"limits": {"max_queue_depth": "none"}, "partitions": 20, "topics": ["a", "b", "a"]})
    assert (after.limits.max_queue_depth, after.limits.message_ttl_ms) == (None, 3_600_000)
    assert (after.partitions, after.topics) == (20, ("a", "b"))
    assert change(after, {"ordering": "none"}).ordering is Ordering.NONE
    assert change(before, {}) == before


def test_a_dead_letter_topic_taken_away_is_the_default_again() -> None:
    named = queue(dlq_config={"topic": "$queue/failures"})
    assert change(named, {"dlq_config": {"topic": None}}).dead_letter_queue == "$dlq/orders"


@pytest.mark.parametrize(
    ("start", "changes", "path", "why"),
    [
        ({}, {"name": "bills"}, "name", "ids of messages"),
        ({}, {"namespace": "eu"}, "namespace", "rights"),
        ({}, {"ordering": "strict"}, "partitions", "strict"),
        ({"partitions": 1}, {"ordering": "strict"}, "ordering", "move the messages"),
        ({"ordering": "strict"}, {"ordering": "partition"}, "ordering", "move the messages"),
        ({"ordering": "strict"}, {"partitions": 2}, "partitions", "strict"),
        ({}, {"partitions": 9}, "partitions", "from 10 to 9"),
        ({}, {"partition": 12}, "partition", "partitions"),
        ({}, {"retry_policy": {"max_backoff": "1s"}}, "retry_policy.initial_backoff", "max_backoff"),
    ],
)
def test_a_change_that_cannot_be_is_refused_with_why(
    start: dict[str, object], changes: dict[str, object], path: str, why: str
) -> None:
    with pytest.raises(InvalidSetting) as raised:
        change(queue(**start), changes)
    assert raised.value.path == path
    assert why in str(raised.value)


def test_the_log_of_a_partition_gets_what_concerns_it() -> None:
    assert log_settings(parse_queue(EVERYTHING)) == records.LogSettings(
        durability=Durability.INTERVAL,
        compression=Compression.ZSTD,
        retention=records.Retention(129_600.0, 1_000_000_000, 5),
        compaction=records.Compaction(property="user-id", lag_s=0.0, interval_s=3600.0),
    )
    assert log_settings(queue()) == records.LogSettings(retention=records.Retention(time_s=604_800.0))


def test_none_and_nothing_are_told_apart_where_both_mean_something() -> None:
    settings = queue(retry_policy={"max_retries": "none"}, limits={"max_ready": 0}, performance={"delivery_timeout": 0})
    assert (settings.retry_policy.max_retries, settings.limits.max_ready) == (None, 0)
    assert queue(retry_policy={"max_retries": 0}).retry_policy.max_retries == 0
    assert (settings.performance.delivery_timeout_ms, settings.performance.lease_ms) == (None, 30_000)
    assert parse_queue(queue_json(settings)) == settings


def test_dead_letters_go_to_an_exchange_instead_of_a_topic_and_back() -> None:
    settings = queue(dlq_config={"exchange": "", "routing_key": ""})
    assert (settings.dead_letter_exchange, settings.dead_letter_queue, settings.dlq_config.topic) == ("", None, None)
    assert settings.has_dead_letters
    assert parse_queue(queue_json(settings)) == settings
    back = change(settings, {"dlq_config": {"exchange": None, "routing_key": None}})
    assert (back.dead_letter_exchange, back.dead_letter_queue) == (None, "$dlq/orders")
    off = change(settings, {"dlq_config": {"enabled": False}})
    assert (off.dead_letter_exchange, off.has_dead_letters) == (None, False)
