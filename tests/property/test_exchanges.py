"""Exchanges against a reference that knows no trees, no caches and no rings: any graph of exchanges, any order of
changes."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from penstock.core.errors import ExchangeInternal
from penstock.queues.bindings import Bindings
from penstock.queues.exchange_headers import NO_HEADERS, Headers, Value, text_headers
from penstock.queues.exchange_types import Binding, Destination
from penstock.queues.exchanges import Exchange, Exchanges
from penstock.queues.properties import encode_user_properties

QUEUES = ["q0", "q1", "q2", "q3"]
NAMES = ["amq.direct", "amq.topic", "amq.headers", "x0", "x1", "x2", "x3"]
WORDS = st.sampled_from(["a", "b", "c", "*", "#", "a/b", "$d", ""])
KEYS = st.lists(WORDS, max_size=4).map(".".join)
SAID = st.dictionaries(st.sampled_from(["h", "i", "x-j"]), st.sampled_from(["1", "true", "v"]), max_size=3)
VALUES = st.sampled_from([None, 1, True, "1", "v"])
WANTED = st.builds(
    lambda wanted, match: wanted | ({} if match is None else {"x-match": match}),
    st.dictionaries(st.sampled_from(["h", "i", "x-j"]), VALUES, max_size=2),
    st.sampled_from([None, "all", "any", "all-with-x", "any-with-x"]),
)
TARGETS = st.one_of(
    st.sampled_from(QUEUES).map(lambda name: Destination("queue", name)),
    st.sampled_from(NAMES).map(lambda name: Destination("exchange", name)),
)
EXCHANGES = st.builds(
    Exchange,
    st.sampled_from(NAMES[3:]),
    st.sampled_from(["direct", "fanout", "topic", "headers"]),
    auto_delete=st.booleans(),
    internal=st.booleans(),
    alternate=st.sampled_from([None, *NAMES, "nowhere"]),
)
BINDINGS = st.tuples(st.just("bind"), st.sampled_from(NAMES), TARGETS, KEYS, WANTED)
STEPS = st.one_of(
    st.tuples(st.just("declare"), EXCHANGES),
    BINDINGS,
    BINDINGS,
    st.tuples(st.just("unbind"), st.integers(0, 30)),
    st.tuples(st.just("delete"), st.sampled_from(NAMES[3:])),
    st.tuples(st.just("drop"), st.sampled_from(QUEUES)),
)


@dataclass
class Reference:
    exchanges: dict[str, Exchange] = field(default_factory=dict)
    bindings: list[Binding] = field(default_factory=list)

    def route(self, first: str, key: str, said: dict[str, str]) -> set[str]:
        queues, seen, waiting = set[str](), set[str](), [first]
        while waiting:
            name = waiting.pop()
            if name in seen or name not in self.exchanges:
                continue
            seen.add(name)
            taken = [each for each in self.bindings if each.source == name and self.takes(each, key, said)]
            for binding in taken:
                if binding.destination.kind == "queue":
                    queues.add(binding.destination.name)
                else:
                    waiting.append(binding.destination.name)
            if not taken and self.exchanges[name].alternate:
                waiting.append(self.exchanges[name].alternate or "")
        return queues

    def takes(self, binding: Binding, key: str, said: dict[str, str]) -> bool:
        match self.exchanges[binding.source].type:
            case "fanout":
                return True
            case "direct":
                return binding.key == key
            case "topic":
                return pattern_of(binding.key).fullmatch(worded(key)) is not None
        match = str(binding.arguments.get("x-match", "all"))
        checks = []
        for name, value in binding.arguments.items():
            if name != "x-match" and (not name.startswith("x-") or match.endswith("-with-x")):
                text = "true" if value is True else str(value)
                checks.append(name in said and (value is None or said[name] == text))
        return all(checks) if match.startswith("all") else any(checks)

    def remove(self, bindings: list[Binding]) -> None:
        for binding in bindings:
            if binding in self.bindings:
                self.bindings.remove(binding)
                source = self.exchanges[binding.source]
                if source.auto_delete and not any(each.source == source.name for each in self.bindings):
                    self.delete(source.name)

    def delete(self, name: str) -> None:
        around = [each for each in self.bindings if name in (each.source, _exchange(each))]
        self.bindings = [each for each in self.bindings if each.source != name]
        self.remove([each for each in around if each.source != name])
        self.exchanges.pop(name, None)


def _exchange(binding: Binding) -> str | None:
    return binding.destination.name if binding.destination.kind == "exchange" else None


def worded(key: str) -> str:
    """Each word with a mark behind it; no words for the empty key."""
    return "".join([word + "\0" for word in key.split(".")]) if key else ""


def pattern_of(key: str) -> re.Pattern[str]:
    parts = {"*": "[^\0]*\0", "#": "(?:[^\0]*\0)*"}
    return re.compile("".join([parts.get(word, re.escape(word) + "\0") for word in key.split(".")]) if key else "")


class Walk:
    def __init__(self) -> None:
        self.topics = Bindings()
        for queue in QUEUES:
            self.topics.declare(queue)
        self.exchanges = Exchanges("default", self.topics)
        self.reference = Reference({each.name: each for each in self.exchanges})

    def declare(self, exchange: Exchange) -> None:
        if exchange.name not in self.exchanges:
            assert self.exchanges.declare(exchange)
            self.reference.exchanges[exchange.name] = exchange

    def bind(self, source: str, destination: Destination, key: str, arguments: dict[str, Value]) -> None:
        is_there = source in self.exchanges and (destination.kind == "queue" or destination.name in self.exchanges)
        if is_there and self.exchanges.bound(source, destination, key, arguments) is None:
            binding = self.exchanges.new_binding(source, destination, key, arguments)
            self.exchanges.bind(binding)
            self.reference.bindings.append(binding)

    def unbind(self, number: int) -> None:
        if number < len(self.reference.bindings):
            binding = self.reference.bindings[number]
            self.exchanges.remove(self.exchanges.without(bindings=[binding]))
            self.reference.remove([binding])

    def delete(self, name: str) -> None:
        if name in self.exchanges:
            self.exchanges.remove(self.exchanges.without(exchange=name))
            self.reference.delete(name)

    def drop(self, queue: str) -> None:
        self.exchanges.remove(self.exchanges.without(queue=queue))
        self.reference.remove([each for each in self.reference.bindings if each.destination == ("queue", queue)])

    def compare(self, key: str, said: dict[str, str], headers: Headers) -> None:
        assert {each.name for each in self.exchanges} == set(self.reference.exchanges)
        assert {each.number for each in self.exchanges.bindings} == {each.number for each in self.reference.bindings}
        for name in [name for name in self.reference.exchanges if name]:
            try:
                found = self.exchanges.route(name, key.encode(), headers).queues
            except ExchangeInternal:
                assert self.reference.exchanges[name].internal
                continue
            assert set(found) == self.reference.route(name, key, said), (name, key)
            assert len(found) == len(set(found))


@given(st.lists(STEPS, max_size=25), st.lists(st.tuples(KEYS, SAID), min_size=1, max_size=4))
def test_every_message_goes_where_the_reference_says(
    steps: list[tuple[str, object]], messages: list[tuple[str, dict[str, str]]]
) -> None:
    walk = Walk()
    for number, (step, *arguments) in enumerate(steps):
        getattr(walk, step)(*arguments)
        key, said = messages[number % len(messages)]
        walk.compare(key, said, text_headers(encode_user_properties(said.items())))
    for key, said in messages:
        walk.compare(key, said, text_headers(encode_user_properties(said.items())))
        walk.compare(key, {}, NO_HEADERS)


@given(st.lists(KEYS, max_size=6), KEYS)
def test_a_topic_of_mqtt_and_a_key_reach_the_same_queues(patterns: list[str], key: str) -> None:
    """Whether a binding is kept as a filter of topics or as a binding."""
    from penstock.queues.exchange_topics import filter_of_key, topic_of_key

    walk, reference = Walk(), Reference()
    for number, pattern in enumerate(patterns):
        queue = QUEUES[number % len(QUEUES)]
        if (topic_filter := filter_of_key(pattern)) is not None:
            walk.topics.declare(queue, [*walk.topics.filters(queue), topic_filter])
        else:
            walk.bind("amq.topic", Destination("queue", queue), pattern, {})
        reference.bindings.append(Binding(number, "amq.topic", Destination("queue", queue), pattern))
    reference.exchanges = walk.reference.exchanges
    topic = topic_of_key(key.encode())
    if topic is not None:
        wanted = reference.route("amq.topic", key, {})
        assert set(walk.exchanges.route("amq.topic", key.encode()).queues) == wanted
        assert set(walk.topics.route(topic).queues) == wanted
