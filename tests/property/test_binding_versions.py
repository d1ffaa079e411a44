"""Routes that are remembered as long as the version of the bindings stays are those that are found anew, whatever
queues come and go meanwhile; and queues that nobody asks for do not make anybody look again."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.queues.bindings import Bindings
from penstock.queues.exchanges import Exchanges

NAMES = ("a", "b", "a/b", "x.dlq", "$dlq/x", "x", "dlq/x", "ü b")
TOPICS = tuple(
    topic.encode()
    for topic in (
        *(f"$queue/{name}" for name in NAMES),
        *("$queue/a/b/c", "$queue/a/k", "$dlq/x", "$dlq/x/1", "$queue/%C3%BC%20b", "plain", "plain/deep"),
    )
)
FILTERS = ("#", "plain/+", "$queue/a/#")
Declared = dict[str, list[str]]
Step = tuple[str, str | int, list[str]]
STEPS: st.SearchStrategy[Step] = st.one_of(
    st.tuples(st.just("declare"), st.sampled_from(NAMES), st.lists(st.sampled_from(FILTERS), max_size=1)),
    st.tuples(st.just("drop"), st.sampled_from(NAMES), st.just([])),
    st.tuples(st.just("topic"), st.sampled_from(range(len(TOPICS))), st.just([])),
    st.tuples(st.just("default"), st.sampled_from(NAMES), st.just([])),
)


def spaces(declared: Declared) -> tuple[Bindings, Exchanges]:
    bindings = Bindings(1)
    for name, filters in declared.items():
        bindings.declare(name, filters)
    return bindings, Exchanges("default", bindings)


def found(bindings: Bindings, exchanges: Exchanges, asked: tuple[str, str | int]) -> tuple[set[str], object]:
    kind, what = asked
    if kind == "topic":
        route = bindings.route(TOPICS[int(what)])
        return set(route.queues), (route.prefix_queue, route.routing_key)
    return set(exchanges.route("", str(what).encode()).queues), None


@given(st.lists(STEPS, max_size=60))
def test_what_is_remembered_by_the_version_is_what_would_be_found(steps: list[Step]) -> None:
    declared: Declared = {}
    bindings, exchanges = spaces(declared)
    version, known = bindings.version, dict[tuple[str, str | int], tuple[set[str], object]]()
    for kind, what, filters in steps:
        if kind == "declare":
            bindings.declare(str(what), filters)
            declared.pop(str(what), None)
            declared[str(what)] = filters
        elif kind == "drop":
            assert bindings.drop(str(what)) == (declared.pop(str(what), None) is not None)
        else:
            known[kind, what] = found(bindings, exchanges, (kind, what))
        if bindings.version != version:
            version = bindings.version
            known = {asked: now for asked, now in known.items() if asked == (kind, what)}
        anew = spaces(declared)
        for asked, remembered in known.items():
            assert remembered == found(*anew, asked), asked


def test_queues_that_nobody_asks_for_come_and_go_unnoticed() -> None:
    bindings, exchanges = spaces({"orders": ["t/#"]})
    assert bindings.route(b"t/1").queues == ("orders",)
    assert exchanges.route("", b"orders").queues == ("orders",)
    version = bindings.version
    for number in range(10):
        bindings.declare(f"amq.gen-{number}")
        bindings.drop(f"amq.gen-{number}")
    assert bindings.version == version
    bindings.declare("reply")
    assert exchanges.route("", b"reply").queues == ("reply",)
    assert bindings.version == version
    bindings.drop("reply")
    assert bindings.version > version
    assert exchanges.route("", b"reply").queues == ()
    bindings.declare("reply")
    assert exchanges.route("", b"reply").queues == ("reply",)
