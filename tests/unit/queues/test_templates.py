"""Templates: whom they match, in which order they count, and that bad ones are refused when they are declared."""

from __future__ import annotations

import pytest

from penstock.core.errors import InvalidArgument, InvalidSetting
from penstock.queues.settings import Ordering, Overflow, parse_queue
from penstock.queues.templates import Template, resolve


@pytest.mark.parametrize(
    ("pattern", "name", "matches"),
    [
        ("*", "orders", True),
        ("*", "shop/orders", True),
        ("shop/*", "shop/eu/orders", True),
        ("shop/*", "shop", False),
        ("orders-?", "orders-7", True),
        ("orders-?", "orders-77", False),
        ("Orders", "orders", False),
        ("a[b]", "a[b]", True),
        ("a[b]", "ab", False),
        ("*", "$dlq/orders", False),
        ("$dlq/*", "$dlq/orders", True),
    ],
)
def test_a_pattern_matches_whole_names(pattern: str, name: str, matches: bool) -> None:
    assert Template(pattern, {}).matches(name) is matches


def test_later_templates_and_the_queue_itself_win_setting_by_setting() -> None:
    templates = [
        Template("*", {"partitions": 4, "limits": {"max_queue_depth": 10, "message_ttl": "1h"}}),
        Template("orders-*", {"limits": {"max_queue_depth": 20}, "overflow": "drop-oldest"}),
        Template("other", {"partitions": 99}),
    ]
    settings = resolve("orders-eu", templates, {"overflow": "reject", "retention": {"time": "none"}})
    assert settings.name == "orders-eu"
    assert settings.partitions == 4
    assert (settings.limits.max_queue_depth, settings.limits.message_ttl_ms) == (20, 3_600_000)
    assert settings.limits.max_message_size_bytes == 1 << 20
    assert settings.overflow is Overflow.REJECT
    assert settings.retention.time_ms is None


def test_without_templates_a_queue_is_what_it_declares() -> None:
    assert resolve("orders", [], {"partitions": 3}) == parse_queue({"name": "orders", "partitions": 3})


def test_the_name_may_be_repeated_but_not_changed() -> None:
    assert resolve("orders", [], {"name": "orders"}).name == "orders"
    with pytest.raises(InvalidSetting, match="declared under the name 'orders'"):
        resolve("orders", [], {"name": "bills"})


def test_a_count_meant_for_others_does_not_stop_a_strict_queue() -> None:
    settings = resolve("orders", [Template("*", {"partitions": 20})], {"ordering": "strict"})
    assert (settings.ordering, settings.partitions) == (Ordering.STRICT, 1)


def test_a_queue_that_leaves_strict_gets_the_default_count() -> None:
    assert resolve("orders", [Template("*", {"ordering": "strict"})], {"ordering": "none"}).partitions == 10


def test_a_count_for_a_queue_that_a_template_makes_strict_is_refused() -> None:
    with pytest.raises(InvalidSetting, match="strict"):
        resolve("orders", [Template("*", {"ordering": "strict"})], {"partitions": 2})


def test_the_queue_for_the_dead_letters_of_all_has_none_itself() -> None:
    shared = [Template("*", {"dlq_config": {"topic": "$queue/failures"}})]
    assert resolve("orders", shared, {}).dead_letter_queue == "failures"
    assert resolve("failures", shared, {}).dead_letter_queue is None


@pytest.mark.parametrize(
    ("settings", "path"),
    [
        ({"limit": {}}, "limit"),
        ({"limits": {"max_depth": 3}}, "limits.max_depth"),
        ({"partitions": 0}, "partitions"),
        ({"name": "orders"}, "name"),
        ({"namespace": "shop"}, "namespace"),
        ({"priority_levels": 3}, "priority_levels"),
    ],
)
def test_bad_settings_are_refused_with_the_template_named(settings: dict[str, object], path: str) -> None:
    with pytest.raises(InvalidSetting) as raised:
        Template("orders-*", settings)
    assert raised.value.path == f"templates[orders-*].{path}"


def test_an_empty_pattern_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="empty"):
        Template("", {})
