"""Patterns of rules, held against topics one by one over a small alphabet."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import pytest

from penstock.broker.auth.patterns import (
    MAX_PATTERN_BYTES,
    TopicSet,
    check_pattern,
    fill_allowing,
    fill_denying,
    topic_set,
)
from penstock.core.errors import InvalidArgument

# `z` is in no filter: it stands for all the words that nobody spelled out.
WORDS = ("a", "b", "$s", "", "z")
TOPICS = ["/".join(levels) for count in (1, 2, 3, 4) for levels in product(WORDS, repeat=count)]
TOPICS.remove("")


def filters() -> Iterator[str]:
    levels = ("a", "$s", "+")
    for count in (1, 2, 3):
        for chosen in product(levels, repeat=count):
            yield "/".join(chosen)
            if count < 3:
                yield "/".join((*chosen, "#"))
    yield "#"


FILTERS = list(filters())


def matches(topic_filter: str, topic: str) -> bool:
    """MQTT's rule, said another way than in the code."""
    if topic.startswith("$") and topic_filter[0] in "+#":
        return False
    wanted, found = topic_filter.split("/"), topic.split("/")
    if wanted[-1] == "#":
        wanted.pop()
        found = found[: len(wanted)] if len(found) >= len(wanted) else ["too short"]
    return len(wanted) == len(found) and all(want in ("+", have) for want, have in zip(wanted, found, strict=True))


MATCHED = {text: frozenset(topic for topic in TOPICS if matches(text, topic)) for text in FILTERS}


def test_a_pattern_matches_the_topics_that_mqtt_says() -> None:
    for text in FILTERS:
        pattern = topic_set(text)
        assert {topic for topic in TOPICS if pattern.holds(topic.split("/"))} == MATCHED[text], text


def test_two_filters_overlap_if_there_is_a_topic_that_both_match() -> None:
    for one, other in product(FILTERS, repeat=2):
        assert topic_set(one).overlaps(topic_set(other)) == bool(MATCHED[one] & MATCHED[other]), (one, other)


def test_a_filter_is_within_one_pattern_if_the_pattern_matches_all_its_topics() -> None:
    for one, other in product(FILTERS, repeat=2):
        assert topic_set(one).is_within([topic_set(other)]) == (MATCHED[one] <= MATCHED[other]), (one, other)


def test_a_filter_is_within_several_patterns_if_together_they_match_all_its_topics() -> None:
    some = [text for text in FILTERS if not text.startswith("$s/$s")]
    for one, two in product(some, repeat=2):
        together = MATCHED[one] | MATCHED[two]
        patterns = [topic_set(one), topic_set(two)]
        for text in ("#", "a/#", "+/#", "+", "a/+", "a/+/#", "+/+/#", "$s/#", "$s/+", "a/a"):
            assert topic_set(text).is_within(patterns) == (MATCHED[text] <= together), (text, one, two)


def test_three_patterns_cover_what_none_covers_alone() -> None:
    assert topic_set("a/#").is_within([topic_set("a"), topic_set("a/+"), topic_set("a/+/+/#")])
    assert not topic_set("a/#").is_within([topic_set("a"), topic_set("a/+"), topic_set("a/+/+/+/#")])
    assert not topic_set("a/#").is_within([])


def test_names_are_filled_in_as_one_level() -> None:
    assert fill_allowing("devices/%c/#", "pump-7", "alice") == topic_set("devices/pump-7/#")
    assert fill_allowing("%u/dev-%c/100%%", "x", "alice") == topic_set("alice/dev-x/100%")
    assert fill_allowing("a/%c", "%u", "alice") == topic_set("a/%u")


@pytest.mark.parametrize("client_id", ["+", "#", "a/b", "a/#", "", "a+", "x\0y"])
def test_a_client_id_never_widens_what_is_allowed(client_id: str) -> None:
    assert fill_allowing("devices/%c/#", client_id, "alice") is None
    assert fill_allowing("%c", client_id, "alice") is None


def test_a_client_id_never_opens_topics_below_dollar() -> None:
    assert fill_allowing("%c/#", "$SYS", "alice") is None
    assert fill_allowing("%c/orders", "$queue", "alice") is None
    assert fill_allowing("$SYS/clients/%c", "x", "alice") == topic_set("$SYS/clients/x")
    assert fill_allowing("a/%c", "$x", "alice") == topic_set("a/$x")


@pytest.mark.parametrize("client_id", ["+", "#", "a/b", ""])
def test_a_client_id_never_narrows_what_is_denied(client_id: str) -> None:
    assert fill_denying("secret/%c/x", client_id, "alice") == topic_set("secret/#")
    assert fill_denying("%c", client_id, "alice") == TopicSet((), True)


def test_a_deny_of_a_plain_name_is_about_that_name_alone() -> None:
    assert fill_denying("secret/%c/x", "pump", "alice") == topic_set("secret/pump/x")
    assert fill_denying("%c/#", "$SYS", "alice") == topic_set("$SYS/#")


@pytest.mark.parametrize("pattern", ["", "a/%x", "a/%", "a#", "a/#/b", "a+/b", "x" * (MAX_PATTERN_BYTES + 1), "a\0"])
def test_a_pattern_that_is_none_is_refused(pattern: str) -> None:
    with pytest.raises(InvalidArgument):
        check_pattern(pattern)
