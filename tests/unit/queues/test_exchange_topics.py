from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.errors import InvalidArgument, InvalidSetting
from penstock.kernels.topics import check_topic
from penstock.queues.exchange_topics import (
    ExchangeAddress,
    exchange_address,
    exchange_topic,
    filter_of_key,
    key_of_filter,
    topic_of_key,
)
from penstock.queues.settings import parse_queue


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=20), st.binary(max_size=20))
def test_every_exchange_and_key_has_one_topic_and_the_other_way_round(name: str, key: bytes) -> None:
    topic = exchange_topic(name, key)
    assert exchange_address(topic) == ExchangeAddress(name, key)
    check_topic(topic)


def test_words_of_a_key_are_levels_and_slashes_are_dots() -> None:
    assert exchange_topic("logs", b"eu.orders/1") == b"$exchange/logs/eu/orders.1"
    assert exchange_topic("a/b", b"") == b"$exchange/a%2Fb"
    assert exchange_topic("", b"orders") == b"$exchange//orders"
    assert exchange_topic("logs", b"50%") == b"$exchange/logs/50%"
    assert exchange_address(b"orders/eu") is None


@pytest.mark.parametrize(
    "topic", [b"$exchange/%6cogs/a", b"$exchange/a b/x", b"$exchange/logs/", b"$exchange/%FF/x", b"$exchange/%2f/x"]
)
def test_an_exchange_is_written_in_one_way_only(topic: bytes) -> None:
    with pytest.raises(InvalidArgument):
        exchange_address(topic)


@pytest.mark.parametrize(
    ("key", "topic_filter"),
    [
        ("a.*.b", "a/+/b"),
        ("#", "#"),
        ("*", "+"),
        ("a/b.c", "a.b/c"),
        ("a.#", "a/#"),
        ("a*b", "a*b"),
        (".a.", "/a/"),
    ],
)
def test_a_binding_of_the_topic_exchange_and_a_filter_are_the_same(key: str, topic_filter: str) -> None:
    assert filter_of_key(key) == topic_filter
    assert key_of_filter(topic_filter) == key


@pytest.mark.parametrize("key", ["", "a.#.b", "#.#", "a.b#", "x+y", "+", "$queue.orders", "a\0"])
def test_what_only_keys_can_have_is_no_filter(key: str) -> None:
    assert filter_of_key(key) is None


@pytest.mark.parametrize("topic_filter", ["$queue/orders/#", "a/*/b"])
def test_what_only_filters_can_have_is_no_key(topic_filter: str) -> None:
    assert key_of_filter(topic_filter) is None


def test_a_queue_has_no_topics_below_exchanges_which_it_is_bound_to() -> None:
    with pytest.raises(InvalidSetting, match="begins with"):
        parse_queue({"name": "q", "topics": ["a/#", "$exchange/logs/#"]})


def test_keys_that_no_topic_can_be_are_none() -> None:
    assert topic_of_key(b"a.b/c") == b"a/b.c"
    assert [topic_of_key(key) for key in (b"", b"$SYS.x", b"a.#", b"+", b"\xff", b"a\0")] == [None] * 6
