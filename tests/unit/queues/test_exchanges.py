from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from penstock.core.errors import (
    DefaultExchange,
    ErrorCode,
    ExchangeDiffers,
    ExchangeInternal,
    ExchangeLimit,
    InvalidArgument,
    NoSuchExchange,
    PenstockError,
)
from penstock.queues import exchanges as rules
from penstock.queues.bindings import Bindings
from penstock.queues.exchange_headers import NO_HEADERS, Headers, Value, text_headers
from penstock.queues.exchange_types import Destination, words_match
from penstock.queues.exchanges import Exchange, Exchanges
from penstock.queues.properties import encode_user_properties


class Space:
    """Exchanges of a namespace with queues, in short words."""

    def __init__(self, *queues: str, **topics_of: list[str]) -> None:
        self.topics = Bindings()
        self.exchanges = Exchanges("default", self.topics)
        for queue in queues:
            self.topics.declare(queue)
        for queue, topics in topics_of.items():
            self.topics.declare(queue, topics)

    def declare(self, name: str, type: str = "topic", **more: object) -> bool:
        return self.exchanges.declare(Exchange(name, type, **more))  # type: ignore[arg-type]

    def bind(self, source: str, queue: str, key: str = "", arguments: Mapping[str, Value] | None = None) -> None:
        """To an exchange where the name begins with `x:`."""
        kind = "exchange" if queue.startswith("x:") else "queue"
        destination = Destination(kind, queue.removeprefix("x:"))  # type: ignore[arg-type]
        self.exchanges.bind(self.exchanges.new_binding(source, destination, key, arguments))

    def routed(self, exchange: str, key: str = "", headers: Headers = NO_HEADERS) -> set[str]:
        found = self.exchanges.route(exchange, key.encode(), headers)
        assert len(set(found.queues)) == len(found.queues)
        return set(found.queues)


def said(**headers: str) -> Headers:
    return text_headers(encode_user_properties(headers.items()))


def typed(**headers: Value) -> Headers:
    return Headers(repr(sorted(headers.items())).encode(), lambda _: headers, False)


def test_every_namespace_has_the_exchanges_that_are_always_there() -> None:
    space = Space()
    found = {exchange.name: exchange.type for exchange in space.exchanges}
    assert found == {
        "": "direct",
        "amq.direct": "direct",
        "amq.fanout": "fanout",
        "amq.topic": "topic",
        "amq.headers": "headers",
        "amq.match": "headers",
    }
    assert not space.declare("amq.fanout", "fanout")


def test_the_default_exchange_knows_queues_by_their_exact_names() -> None:
    space = Space("orders", "shop/eu")
    assert space.routed("", "orders") == {"orders"}
    assert space.routed("", "shop/eu") == {"shop/eu"}
    assert space.routed("", "orders/eu") == space.routed("", "other") == set()
    space.topics.declare("other")
    assert space.routed("", "other") == {"other"}


def test_a_direct_exchange_takes_equal_keys_and_a_fanout_any() -> None:
    space = Space("a", "b")
    for name in ("direct", "fanout"):
        space.declare(name, name)
        space.bind(name, "a", "x")
        space.bind(name, "b", "x")
        space.bind(name, "b", "y")
    assert space.routed("direct", "x") == {"a", "b"}
    assert space.routed("direct", "y") == {"b"}
    assert space.routed("direct", "z") == set()
    assert space.routed("fanout", "z") == {"a", "b"}


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        ("a.*.b", ["a.x.b", "a..b"], ["a.b", "a.x.y.b", ""]),
        ("a.#", ["a", "a.b", "a.b.c"], ["b", ""]),
        ("#", ["", "a", "$a.b"], []),
        ("*", ["a", "$a"], ["", "a.b"]),
        ("#.b", ["b", "a.b", "a.c.b"], ["b.a", ""]),
        ("a.#.b.#.c", ["a.b.c", "a.x.b.y.z.c", "a.b.b.c"], ["a.c", "a.b"]),
        ("#.#", ["", "a"], []),
        ("", [""], ["a"]),
        ("a/b.c+", ["a/b.c+"], ["a.b/c+"]),
        ("*.#.*", ["a.b", "a.b.c"], ["a", ""]),
    ],
)
def test_patterns_of_topic_exchanges(pattern: str, yes: list[str], no: list[str]) -> None:
    space = Space("q")
    space.declare("t", "topic")
    space.bind("t", "q", pattern)
    assert [key for key in [*yes, *no] if space.routed("t", key)] == yes


def test_a_pattern_of_many_wildcards_does_not_take_for_ever() -> None:
    assert not words_match([b"#", b"a"] * 60 + [b"b"], [b"a"] * 250)


def test_headers_are_compared_as_text_where_all_are_text_and_by_type_where_not() -> None:
    space = Space("q")
    space.declare("h", "headers")
    space.bind("h", "q", "", {"n": 1, "flag": True})
    assert space.routed("h", "", said(n="1", flag="true")) == {"q"}
    assert space.routed("h", "", said(n="1")) == set()
    assert space.routed("h", "", typed(n=1, flag=True)) == {"q"}
    assert space.routed("h", "", typed(n="1", flag=True)) == set()
    assert space.routed("h", "", typed(n=True, flag=True)) == set()


def test_x_match_says_whether_all_or_any_count_and_whether_those_of_x_do() -> None:
    space = Space("all", "any", "all-with-x", "any-with-x")
    space.declare("h", "headers")
    for match in ("all", "any", "all-with-x", "any-with-x"):
        space.bind("h", match, "", {"x-match": match, "a": "1", "x-b": "2"})
    assert space.routed("h", "", said(a="1")) == {"all", "any", "any-with-x"}
    assert space.routed("h", "", said(a="0", **{"x-b": "2"})) == {"any-with-x"}
    assert space.routed("h", "", said(a="1", **{"x-b": "2"})) == {"all", "any", "all-with-x", "any-with-x"}
    assert space.routed("h") == set()


def test_a_header_without_a_value_only_has_to_be_there_and_nothing_wanted_is_had_by_all() -> None:
    space = Space("there", "all", "any")
    space.declare("h", "headers")
    space.bind("h", "there", "", {"a": None})
    space.bind("h", "all", "", {})
    space.bind("h", "any", "", {"x-match": "any"})
    assert space.routed("h", "", said(a="whatever")) == {"there", "all"}
    assert space.routed("h") == {"all"}


def test_a_consistent_hash_shares_keys_by_weight_and_moves_few_when_a_queue_comes() -> None:
    space = Space("a", "b", "c")
    space.declare("h", "x-consistent-hash")
    space.bind("h", "a", "10")
    space.bind("h", "b", "20")
    keys = [f"key-{number}" for number in range(6000)]
    before = {key: space.routed("h", key) for key in keys}
    assert all(len(found) == 1 for found in before.values())
    assert 1600 < sum(found == {"a"} for found in before.values()) < 2400
    space.bind("h", "c", "10")
    moved = [key for key in keys if space.routed("h", key) != before[key]]
    assert all(space.routed("h", key) == {"c"} for key in moved)
    assert 1000 < len(moved) < 2000


def test_a_consistent_hash_can_look_at_a_header() -> None:
    space = Space(*[f"q{number}" for number in range(8)])
    space.declare("h", "x-consistent-hash", arguments={"hash-header": "device"})
    for number in range(8):
        space.bind("h", f"q{number}", "1")
    assert len({frozenset(space.routed("h", f"k{number}", said(device="d"))) for number in range(50)}) == 1
    assert len({frozenset(space.routed("h", "k", said(device=f"d{number}"))) for number in range(50)}) > 3


@pytest.mark.parametrize("weight", ["", "0", "-1", "1001", "x", "1.5", "٣"])
def test_a_weight_is_a_small_number(weight: str) -> None:
    space = Space("q")
    space.declare("h", "x-consistent-hash")
    with pytest.raises(InvalidArgument):
        space.bind("h", "q", weight)


def test_a_delayed_exchange_routes_as_it_says_and_refuses_delays_by_name() -> None:
    space = Space("q")
    space.declare("d", "x-delayed-message", arguments={"x-delayed-type": "direct"})
    space.bind("d", "q", "k")
    assert space.routed("d", "k", said(a="1")) == {"q"}
    assert space.routed("d", "other") == set()
    with pytest.raises(InvalidArgument, match="x-delay is not in this version"):
        space.routed("d", "k", said(**{"x-delay": "1000"}))
    with pytest.raises(InvalidArgument, match="x-delayed-type"):
        space.declare("e", "x-delayed-message")


def test_bindings_between_exchanges_may_go_in_circles_and_each_queue_gets_it_once() -> None:
    space = Space("a", "b")
    for name in ("x", "y", "z"):
        space.declare(name, "fanout")
    space.bind("x", "x:y")
    space.bind("y", "x:z")
    space.bind("z", "x:x")
    space.bind("z", "a")
    space.bind("x", "a")
    space.bind("y", "b")
    assert space.routed("x") == space.routed("y") == space.routed("z") == {"a", "b"}


def test_the_alternate_exchange_gets_what_no_binding_takes_and_nothing_else() -> None:
    space = Space("a", "rest")
    space.declare("rest", "fanout")
    space.declare("x", "direct", alternate="rest")
    space.declare("y", "direct", alternate="not there")
    space.bind("rest", "rest")
    space.bind("x", "a", "k")
    assert space.routed("x", "k") == {"a"}
    assert space.exchanges.route("x", b"other") == rules.Routed(("rest",), True, None)
    assert space.routed("y", "k") == set()


def test_nobody_publishes_to_an_internal_exchange_but_bindings_lead_there() -> None:
    space = Space("q")
    space.declare("inner", "fanout", internal=True)
    space.declare("x", "fanout")
    space.bind("x", "x:inner")
    space.bind("inner", "q")
    assert space.routed("x") == {"q"}
    with pytest.raises(ExchangeInternal):
        space.routed("inner")


def test_an_exchange_that_deletes_itself_goes_with_its_last_binding_and_takes_others_along() -> None:
    space = Space("q", "r")
    space.declare("outer", "fanout", auto_delete=True)
    space.declare("x", "fanout", auto_delete=True)
    space.bind("x", "q")
    space.bind("x", "r")
    space.bind("outer", "x:x")
    first = space.exchanges.without(queue="q")
    assert first.exchanges == []
    space.exchanges.remove(first)
    staying = space.exchanges.without(queue="r", staying=["x"])
    assert (len(staying.bindings), staying.exchanges) == (1, [])
    last = space.exchanges.without(queue="r")
    assert {exchange.name for exchange in last.exchanges} == {"outer", "x"}
    space.exchanges.remove(last)
    assert "x" not in space.exchanges
    assert "outer" not in space.exchanges
    assert space.exchanges.bindings == []


def test_an_exchange_that_goes_takes_the_bindings_from_it_and_to_it() -> None:
    space = Space("q")
    space.declare("x", "fanout")
    space.bind("x", "q")
    space.bind("amq.direct", "x:x", "k")
    space.exchanges.remove(space.exchanges.without(exchange="x"))
    assert space.exchanges.bindings == []
    assert space.routed("amq.direct", "k") == set()
    with pytest.raises(NoSuchExchange):
        space.routed("x")


def test_ordinary_topics_reach_queues_by_bindings_that_are_no_filters() -> None:
    space = Space("q", "far", filters=["a/+"])
    space.declare("x", "fanout")
    space.bind("amq.topic", "q", "#.b")
    space.bind("amq.topic", "x:x", "a.*")
    space.bind("x", "far")
    assert set(space.topics.route(b"a/b").queues) == {"filters", "q", "far"}
    assert set(space.topics.route(b"c/a/b").queues) == {"q"}
    assert space.routed("amq.topic", "a.b") == {"filters", "q", "far"}
    assert space.exchanges.route("amq.topic", b"a.b").topic == b"a/b"
    assert space.topics.route(b"$SYS/b").queues == ()
    space.exchanges.remove(space.exchanges.without(exchange="x"))
    assert set(space.topics.route(b"a/b").queues) == {"filters", "q"}


def test_what_comes_to_the_topic_exchange_by_another_one_is_of_that_topic() -> None:
    space = Space(q=["a/#"])
    space.declare("x", "fanout")
    space.bind("x", "x:amq.topic", "")
    assert space.exchanges.route("x", b"a.b") == rules.Routed(("q",), False, b"a/b")


def test_keys_that_are_no_topics_reach_queues_that_want_all() -> None:
    space = Space(all=["#"], one=["+"], some=["a/#"])
    assert space.routed("amq.topic", "") == {"all"}
    assert space.routed("amq.topic", "$SYS.x") == {"all"}
    assert space.routed("amq.topic", "a.b#") == {"all", "some"}


def test_headers_behind_the_topic_exchange_are_looked_at() -> None:
    space = Space("q")
    space.declare("h", "headers")
    assert not space.exchanges.reads_headers("amq.topic")
    space.bind("amq.topic", "x:h", "a.#")
    space.bind("h", "q", "", {"k": "v"})
    assert space.exchanges.reads_headers("amq.topic")
    assert space.routed("amq.topic", "a.b", said(k="v")) == {"q"}
    assert space.routed("amq.topic", "a.b", said(k="w")) == set()


def test_declaring_the_same_again_is_fine_and_anything_else_is_not() -> None:
    space = Space()
    assert space.declare("x", "topic", alternate="rest", arguments={"a": 1})
    assert not space.declare("x", "topic", alternate="rest", arguments={"a": 1})
    for other in (
        Exchange("x", "direct", alternate="rest", arguments={"a": 1}),
        Exchange("x", "topic", arguments={"a": 1}),
        Exchange("x", "topic", alternate="rest"),
        Exchange("x", "topic", alternate="rest", arguments={"a": 1}, internal=True),
        Exchange("amq.direct", "fanout"),
    ):
        with pytest.raises(ExchangeDiffers):
            space.exchanges.declare(other)


@pytest.mark.parametrize(
    ("exchange", "code"),
    [
        (Exchange("amq.mine", "direct"), ErrorCode.EXCHANGE_RESERVED),
        (Exchange("x", "strange"), ErrorCode.INVALID_ARGUMENT),
        (Exchange("x" * 256, "direct"), ErrorCode.INVALID_ARGUMENT),
        (Exchange("x\n", "direct"), ErrorCode.INVALID_ARGUMENT),
        (Exchange("x", "direct", alternate=""), ErrorCode.INVALID_ARGUMENT),
        (Exchange("x", "x-consistent-hash", arguments={"hash-header": 7}), ErrorCode.INVALID_ARGUMENT),
        (
            Exchange("x", "x-delayed-message", arguments={"x-delayed-type": "x-delayed-message"}),
            ErrorCode.INVALID_ARGUMENT,
        ),
    ],
)
def test_what_no_exchange_can_be_is_refused(exchange: Exchange, code: ErrorCode) -> None:
    space = Space()
    version = space.exchanges.version
    with pytest.raises(PenstockError) as caught:
        space.exchanges.declare(exchange)
    assert caught.value.code is code
    assert space.exchanges.version == version


@pytest.mark.parametrize(
    ("bind", "error"),
    [
        (lambda space: space.bind("", "q", "k"), DefaultExchange),
        (lambda space: space.bind("amq.direct", "x:", "k"), DefaultExchange),
        (lambda space: space.bind("nowhere", "q"), NoSuchExchange),
        (lambda space: space.bind("amq.direct", "x:nowhere"), NoSuchExchange),
        (lambda space: space.bind("amq.direct", "q", "k" * 256), InvalidArgument),
        (lambda space: space.bind("amq.direct", "q", "\ud800"), InvalidArgument),
        (lambda space: space.bind("amq.headers", "q", "", {"x-match": "most"}), InvalidArgument),
    ],
)
def test_what_no_binding_can_be_is_refused_with_nothing_changed(
    bind: Callable[[Space], None], error: type[PenstockError]
) -> None:
    space = Space("q")
    with pytest.raises(error):
        bind(space)
    assert space.exchanges.bindings == []


def test_a_binding_is_the_same_by_its_ends_its_key_and_its_arguments_with_their_types() -> None:
    space = Space("q")
    space.bind("amq.headers", "q", "k", {"n": 1, "deep": {"l": [1]}})
    to = Destination("queue", "q")
    assert space.exchanges.bound("amq.headers", to, "k", {"deep": {"l": [1]}, "n": 1}) is not None
    for key, arguments in (
        ("k", {"n": 1}),
        ("l", {"n": 1, "deep": {"l": [1]}}),
        ("k", {"n": True, "deep": {"l": [1]}}),
    ):
        assert space.exchanges.bound("amq.headers", to, key, arguments) is None  # type: ignore[arg-type]


def test_there_is_an_end_to_exchanges_and_bindings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "MAX_EXCHANGES", 2)
    monkeypatch.setattr(rules, "MAX_BINDINGS", 2)
    space = Space("q")
    for name in ("a", "b"):
        space.declare(name, "fanout")
        space.bind(name, "q")
    with pytest.raises(ExchangeLimit):
        space.declare("c", "fanout")
    with pytest.raises(ExchangeLimit):
        space.bind("a", "q", "more")


def test_routes_are_found_anew_when_bindings_queues_or_exchanges_change() -> None:
    space = Space("q")
    assert space.routed("amq.direct", "k") == set()
    version = space.exchanges.version
    space.bind("amq.direct", "q", "k")
    assert space.exchanges.version != version
    assert space.routed("amq.direct", "k") == {"q"}
    space.exchanges.remove(space.exchanges.without(queue="q"))
    assert space.routed("amq.direct", "k") == set()
