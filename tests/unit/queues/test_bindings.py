from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.errors import InvalidArgument
from penstock.queues.bindings import Bindings, KeyFilter, Route, filter_mask, routing_key


def declared(**topics_of: list[str]) -> Bindings:
    """Two underscores stand for a slash."""
    bindings = Bindings()
    for name, topics in topics_of.items():
        bindings.declare(name.replace("__", "/"), topics)
    return bindings


def test_the_longest_declared_prefix_gets_a_queue_topic_and_what_follows_is_the_key() -> None:
    bindings = declared(a=[], a__b=[])
    assert bindings.route(b"$queue/a/b/c/d") == Route(("a/b",), "a/b", b"c/d")
    assert bindings.route(b"$queue/a/b") == Route(("a/b",), "a/b", b"")
    assert bindings.route(b"$queue/a/bc") == Route(("a",), "a", b"bc")
    assert bindings.route(b"$queue/a/") == Route(("a",), "a", b"")
    assert bindings.route(b"$queue/ab") == Route((), None, b"$queue/ab")


def test_without_a_declared_prefix_only_bound_queues_take_a_queue_topic() -> None:
    bindings = declared(audit=["$queue/orders/#"])
    assert bindings.route(b"$queue/orders/eu") == Route(("audit",), None, b"$queue/orders/eu")
    assert bindings.route(b"$queue/") == Route((), None, b"$queue/")


def test_a_queue_topic_goes_to_its_queue_and_to_every_queue_bound_to_the_whole_topic() -> None:
    bindings = declared(audit=["$queue/orders/#", "$queue/+/eu"], orders=["orders/#"], all=["#"])
    assert bindings.route(b"$queue/orders/eu") == Route(("orders", "audit"), "orders", b"eu")


def test_a_queue_that_is_addressed_and_bound_takes_a_topic_once() -> None:
    bindings = declared(orders=["$queue/orders/#", "$queue/orders/+"])
    assert bindings.route(b"$queue/orders/eu").queues == ("orders",)


def test_an_ordinary_topic_goes_to_bound_queues_only() -> None:
    bindings = declared(orders=["shop/+/orders"], audit=["shop/#"], shop__x__orders=[])
    assert bindings.route(b"shop/x/orders") == Route(("orders", "audit"), None, b"shop/x/orders")
    assert bindings.route(b"orders") == Route((), None, b"orders")
    assert bindings.route(b"$SYS/orders").queues == ()


def test_a_dead_letter_queue_is_addressed_by_its_own_name() -> None:
    bindings = Bindings()
    bindings.declare("orders")
    bindings.declare("$dlq/orders")
    assert bindings.route(b"$dlq/orders") == Route(("$dlq/orders",), "$dlq/orders", b"")
    assert bindings.route(b"$dlq/orders/eu/1") == Route(("$dlq/orders",), "$dlq/orders", b"eu/1")
    assert bindings.route(b"$dlq/other").prefix_queue is None
    assert bindings.route(b"$queue/orders/eu").queues == ("orders",)


@pytest.mark.parametrize("alias", [b"$queue/dlq/orders", b"$queue/orders.dlq", b"$queue/$dlq/orders"])
def test_other_ways_to_write_a_dead_letter_queue_reach_it(alias: bytes) -> None:
    bindings = Bindings()
    bindings.declare("orders")
    bindings.declare("$dlq/orders")
    assert bindings.route(alias + b"/eu") == Route(("$dlq/orders",), "$dlq/orders", b"eu")
    bindings.drop("$dlq/orders")
    assert bindings.route(alias + b"/eu").prefix_queue is None


def test_declaring_again_replaces_the_filters_and_reaches_remembered_topics() -> None:
    bindings = declared(orders=["a/#"])
    assert bindings.route(b"a/1").queues == ("orders",)
    bindings.declare("orders", ["b/#", "b/#"])
    assert bindings.route(b"a/1").queues == ()
    assert bindings.route(b"b/1").queues == ("orders",)


def test_a_dropped_queue_takes_nothing() -> None:
    bindings = declared(orders=["a/#"], orders__eu=[])
    assert bindings.route(b"$queue/orders/eu").queues == ("orders/eu",)
    assert bindings.drop("orders/eu")
    assert bindings.route(b"$queue/orders/eu") == Route(("orders",), "orders", b"eu")
    assert bindings.drop("orders")
    assert not bindings.drop("orders")
    assert bindings.route(b"a/1").queues == ()
    assert "orders" not in bindings


def test_the_version_moves_with_every_change_and_with_nothing_else() -> None:
    bindings = Bindings()
    bindings.declare("orders")
    first = bindings.version
    bindings.route(b"$queue/orders")
    bindings.drop("missing")
    assert bindings.version == first
    bindings.drop("orders")
    assert bindings.version > first


def test_queues_below_a_name_are_those_on_its_path() -> None:
    bindings = declared(a__b=[], a__b__c=[], ab=[], a=[], c=[])
    assert bindings.queues_below("a") == ["a/b", "a/b/c"]
    assert bindings.queues_below("a/b/c") == []


@pytest.mark.parametrize(
    ("queue", "topics"),
    [("", []), ("a\n", []), ("ok", ["a", "b#"]), ("ok", ["\ud800"]), ("ok", ["/" * 256])],
)
def test_a_refused_declaration_changes_nothing(queue: str, topics: list[str]) -> None:
    bindings = declared(ok=["kept"])
    before = bindings.version
    with pytest.raises(InvalidArgument):
        bindings.declare(queue, topics)
    assert bindings.version == before
    assert bindings.route(b"kept").queues == ("ok",)


def test_routes_are_right_beyond_what_is_remembered() -> None:
    bindings = declared(q=["t/+"])
    for number in range(10_001):
        assert bindings.route(b"t/%d" % number).queues == ("q",)
    assert bindings.route(b"t/" + b"x" * 1000).queues == ("q",)
    assert bindings.route(b"$queue/q" + b"/" * 60_000).prefix_queue == "q"
    assert bindings.route(b"$queue/q/" + b"x" * 60_000).routing_key == b"x" * 60_000


NAMES = st.lists(st.sampled_from(["a", "b", "ab"]), min_size=1, max_size=3).map("/".join)
FILTERS = st.sampled_from(["a", "a/#", "+/b", "#", "$queue/a/#", "$queue/+/b", "$queue/a/b"])
TOPICS = st.builds(lambda root, name: (root + name).encode(), st.sampled_from(["", "$queue/"]), NAMES)


@given(queues=st.dictionaries(NAMES, st.lists(FILTERS, max_size=3), max_size=6), topic=TOPICS)
@settings(max_examples=200, deadline=None)
def test_a_route_is_the_longest_prefix_and_the_bound_queues(queues: dict[str, list[str]], topic: bytes) -> None:
    bindings = Bindings()
    for queue, topics in queues.items():
        bindings.declare(queue, topics)
    path = topic.decode().removeprefix("$queue/").split("/")
    prefixes = ["/".join(path[:depth]) for depth in range(len(path), 0, -1)] if topic.startswith(b"$queue/") else []
    prefix = next((name for name in prefixes if name in queues), None)
    bound = {
        queue
        for queue, topics in queues.items()
        for wanted in topics
        if not (wanted[0] in "+#" and topic.startswith(b"$")) and filter_mask(wanted, [topic])[0]
    }
    route = bindings.route(topic)
    assert route.prefix_queue == prefix
    assert set(route.queues) == bound | ({prefix} if prefix else set())
    assert len(set(route.queues)) == len(route.queues)
    assert route.routing_key == (routing_key(prefix, topic) if prefix else topic)
    assert bindings.route(topic) is route


def test_the_routing_key_follows_the_queue_that_is_asked_about() -> None:
    assert routing_key("orders", b"$queue/orders/eu/1") == b"eu/1"
    assert routing_key("orders", b"$queue/orders") == b""
    assert routing_key("orders", b"$queue/orders2") == b"$queue/orders2"
    assert routing_key("audit", b"$queue/orders/eu") == b"$queue/orders/eu"
    assert routing_key("$dlq/orders", b"$dlq/orders/eu") == b"eu"
    assert routing_key("$dlq/orders", b"$queue/orders.dlq/eu") == b"eu"


@pytest.mark.parametrize(
    ("text", "key", "is_match"),
    [
        ("eu/#", b"eu/1", True),
        ("eu/#", b"eu", True),
        ("eu/+", b"eu", False),
        ("eu", b"eu", True),
        ("#", b"", True),
        ("+", b"", False),
        ("eu/#", b"", False),
        ("+/1", b"$internal/1", True),
        ("#", b"$internal", True),
        ("+", b"a/b", False),
    ],
)
def test_a_filter_on_the_routing_key(text: str, key: bytes, is_match: bool) -> None:
    assert filter_mask(text, [key, b"never/ever/this"])[0] == is_match


def test_a_mask_has_a_byte_for_each_key() -> None:
    assert filter_mask("eu/+", [b"eu/1", b"us/1", b"", b"eu/2"]) == bytearray([1, 0, 0, 1])
    assert filter_mask("eu/+", []) == bytearray()


def test_what_is_no_filter_is_refused() -> None:
    with pytest.raises(InvalidArgument):
        KeyFilter("a#")
