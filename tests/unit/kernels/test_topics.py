from __future__ import annotations

import random
from array import array
from collections import Counter
from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.kernels import builds

from penstock.core.errors import InvalidArgument


def naive_matches(topic_filter: bytes, topic: bytes) -> bool:
    """MQTT 5, section 4.7, read aloud."""
    wanted, given_levels = topic_filter.split(b"/"), topic.split(b"/")
    if topic.startswith(b"$") and wanted[0] in (b"+", b"#"):
        return False
    if wanted[-1] == b"#":
        wanted = wanted[:-1]
        if len(given_levels) < len(wanted):
            return False
        given_levels = given_levels[: len(wanted)]
    return len(wanted) == len(given_levels) and all(
        want in (b"+", level) for want, level in zip(wanted, given_levels, strict=True)
    )


def spans(topics: list[bytes]) -> tuple[bytes, array[int], array[int]]:
    ends = array("i", [sum(map(len, topics[: i + 1])) for i in range(len(topics))])
    return b"".join(topics), array("i", [end - len(topic) for topic, end in zip(topics, ends, strict=True)]), ends


def matches(tree: object, topic: bytes) -> list[int]:
    out = array("q")
    assert tree.match(topic, 0, len(topic), out) == len(out)  # type: ignore[attr-defined]  # of either build
    return sorted(out)


def count_for(topics: ModuleType, compiled: int, pure: int) -> int:
    return pure if str(topics.__file__).endswith(".py") else compiled


LEVELS = st.sampled_from([b"", b"a", b"b", b"$", b"$a", b"ab", b"eight888", b"eight889", b"longer than eight"])
TOPICS = st.lists(LEVELS, min_size=1, max_size=4).map(b"/".join).filter(bool)
FILTERS = st.builds(
    lambda levels, rest: b"/".join([*levels, b"#"] if rest else levels),
    st.lists(LEVELS | st.just(b"+"), min_size=1, max_size=4),
    st.booleans(),
).filter(bool) | st.just(b"#")
CHANGES = st.lists(st.tuples(st.integers(0, 3).map(bool), FILTERS, st.integers(-2, 2)), max_size=60)


@pytest.mark.parametrize("topics", builds("topics"))
@given(changes=CHANGES, published=st.lists(TOPICS, max_size=12))
@settings(max_examples=200, deadline=None)
def test_a_topic_reaches_what_a_naive_matcher_finds(
    topics: ModuleType, changes: list[tuple[bool, bytes, int]], published: list[bytes]
) -> None:
    tree, kept = topics.SubscriptionTree(seed=3), set[tuple[bytes, int]]()
    for is_added, topic_filter, subscriber in changes:
        entry = (topic_filter, subscriber)
        if is_added:
            assert tree.add(topic_filter, subscriber) == (entry not in kept)
            kept.add(entry)
        else:
            assert tree.remove(topic_filter, subscriber) == (entry in kept)
            kept.discard(entry)
    assert len(tree) == len(kept)
    expected = [sorted(who for wanted, who in kept if naive_matches(wanted, topic)) for topic in published]
    assert [matches(tree, topic) for topic in published] == expected
    source, starts, ends = spans(published)
    counts, out = array("i", bytes(4 * len(published))), array("q", [77])
    assert tree.match_many(source, starts, ends, counts, out) == sum(map(len, expected))
    assert list(counts) == list(map(len, expected))
    assert Counter(out) == Counter([77, *(who for found in expected for who in found)])


@pytest.mark.parametrize("topics", builds("topics"))
@pytest.mark.parametrize(
    ("topic_filter", "topic", "is_match"),
    [
        (b"sport/tennis/player1/#", b"sport/tennis/player1", True),
        (b"sport/tennis/player1/#", b"sport/tennis/player1/score/wimbledon", True),
        (b"sport/#", b"sport", True),
        (b"sport/tennis/+", b"sport/tennis/player1/ranking", False),
        (b"sport/+", b"sport", False),
        (b"sport/+", b"sport/", True),
        (b"+/+", b"/finance", True),
        (b"/+", b"/finance", True),
        (b"+", b"/finance", False),
        (b"#", b"$SYS/uptime", False),
        (b"+/uptime", b"$SYS/uptime", False),
        (b"$SYS/#", b"$SYS/uptime", True),
        (b"$SYS/+", b"$SYS/uptime", True),
        (b"a/#", b"a/$b", True),
        (b"a/+", b"a/+", True),
        (b"a", b"A", False),
        (b"+/#", b"a", True),
        (b"/#", b"a", False),
    ],
)
def test_the_examples_of_the_mqtt_specification_hold(
    topics: ModuleType, topic_filter: bytes, topic: bytes, is_match: bool
) -> None:
    tree = topics.SubscriptionTree()
    tree.add(topic_filter, 5)
    assert matches(tree, topic) == ([5] if is_match else [])
    assert naive_matches(topic_filter, topic) == is_match


@pytest.mark.parametrize("topics", builds("topics"))
def test_a_subscriber_comes_once_for_each_of_his_filters(topics: ModuleType) -> None:
    tree = topics.SubscriptionTree()
    for topic_filter in (b"a/b", b"a/+", b"a/#", b"#", b"a/b"):
        tree.add(topic_filter, 2**63 - 1)
    assert matches(tree, b"a/b") == [2**63 - 1] * 4


@pytest.mark.parametrize("topics", builds("topics"))
def test_a_wildcard_in_a_topic_stands_for_nothing(topics: ModuleType) -> None:
    tree = topics.SubscriptionTree()
    tree.add(b"a/b", 1)
    tree.add(b"a/+", 2)
    assert matches(tree, b"a/+") == [2]
    assert matches(tree, b"+/b") == []
    assert matches(tree, b"#") == []


@pytest.mark.parametrize("topics", builds("topics"))
def test_churn_does_not_add_up(topics: ModuleType) -> None:
    rounds = count_for(topics, 100_000, pure=3_000)
    rng, tree, kept = random.Random(4), topics.SubscriptionTree(), list[tuple[bytes, int]]()
    tree.add(b"kept/+/x/#", -1)
    early_bytes = 0
    for number in range(rounds):
        entry = (b"clients/%d/%s/#" % (number, rng.choice([b"+", b"in", b"out"])), number)
        assert tree.add(*entry)
        kept.append(entry)
        if len(kept) > 100:
            assert tree.remove(*kept.pop(rng.randrange(100)))
        if number == rounds // 10:
            early_bytes = tree.memory_bytes()
    assert tree.memory_bytes() < 1.1 * early_bytes
    for entry in kept:
        assert matches(tree, entry[0].replace(b"+", b"any")[:-2]) == [entry[1]]
        assert tree.remove(*entry)
    assert (len(tree), tree.node_count()) == (1, 3)
    assert matches(tree, b"kept/1/x/y") == [-1]


@pytest.mark.parametrize("topics", builds("topics"))
def test_many_subscribers_of_one_filter_come_and_go(topics: ModuleType) -> None:
    count = count_for(topics, 50_000, pure=2_000)
    tree = topics.SubscriptionTree()
    for subscriber in range(count):
        tree.add(b"alerts/#", subscriber)
    assert matches(tree, b"alerts") == list(range(count))
    for subscriber in range(0, count, 2):
        assert tree.remove(b"alerts/#", subscriber)
    assert matches(tree, b"alerts/fire") == list(range(1, count, 2))


@pytest.mark.parametrize("topics", builds("topics"))
def test_a_subscription_costs_less_than_150_bytes(topics: ModuleType) -> None:
    count = count_for(topics, 100_000, pure=5_000)
    tree = topics.SubscriptionTree()
    for number in range(count):
        tree.add(b"devices/%06d/temp" % number, number)
    assert tree.memory_bytes() < count * (150 + len("000000temp"))


@pytest.mark.parametrize("topics", builds("topics"))
def test_long_and_deep_topics_are_matched(topics: ModuleType) -> None:
    tree = topics.SubscriptionTree()
    tree.add(b"x" * 65_535, 1)
    tree.add(b"/" * 255, 2)
    tree.add(b"+/" * 254 + b"#", 3)
    assert matches(tree, b"x" * 65_535) == [1]
    assert matches(tree, b"x" * 65_534) == []
    assert matches(tree, b"/" * 255) == [2, 3]
    assert matches(tree, b"/" * 65_535) == [3]


@pytest.mark.parametrize("topics", builds("topics"))
@pytest.mark.parametrize(("start", "stop"), [(-1, 2), (0, 5), (3, 2)])
def test_a_topic_outside_the_source_is_refused(topics: ModuleType, start: int, stop: int) -> None:
    tree, out = topics.SubscriptionTree(), array("q")
    tree.add(b"#", 1)
    with pytest.raises(InvalidArgument):
        tree.match(b"abcd", start, stop, out)
    with pytest.raises(InvalidArgument):
        tree.match_many(b"abcd", array("i", [0, start]), array("i", [1, stop]), array("i", [0, 0]), out)
    assert list(out) == []
    assert tree.match(b"abcd", 1, 2, out) == 1


@pytest.mark.parametrize("topics", builds("topics"))
def test_fewer_counts_than_topics_are_refused(topics: ModuleType) -> None:
    with pytest.raises(InvalidArgument):
        topics.SubscriptionTree().match_many(b"ab", array("i", [0, 1]), array("i", [1, 2]), array("i", [0]), array("q"))


BAD_NAMES = {
    b"": "not empty",
    b"a\0": "no NUL",
    b"\xff": "UTF-8",
    b"\xed\xa0\x80": "UTF-8",
    b"a" * 65_536: "65535 bytes",
}
BAD_FILTERS = {b"a#": "'#'", b"#/a": "'#'", b"a/#b": "'#'", b"##": "'#'", b"a+": "'+'", b"a/+b/c": "'+'", b"++": "'+'"}


@pytest.mark.parametrize("topics", builds("topics"))
@pytest.mark.parametrize(
    ("name", "reason"), [*BAD_NAMES.items(), *BAD_FILTERS.items(), (b"/" * 256, "256 levels"), (b"#/#", "'#'")]
)
def test_what_is_no_filter_is_refused_with_the_reason(topics: ModuleType, name: bytes, reason: str) -> None:
    tree = topics.SubscriptionTree()
    for call in (topics.check_filter, lambda bad: tree.add(bad, 1), lambda bad: tree.remove(bad, 1)):
        with pytest.raises(InvalidArgument) as refused:
            call(name)
        assert reason in str(refused.value)
    assert (len(tree), tree.node_count()) == (0, 0)


@pytest.mark.parametrize("topics", builds("topics"))
@pytest.mark.parametrize(("name", "reason"), [*BAD_NAMES.items(), (b"a/+", "no wildcards"), (b"#", "no wildcards")])
def test_what_is_no_topic_is_refused_with_the_reason(topics: ModuleType, name: bytes, reason: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        topics.check_topic(name)
    assert reason in str(refused.value)
    topics.check_topic("größe/$x//y".encode())
