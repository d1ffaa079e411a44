from __future__ import annotations

import pytest

from penstock.broker.auth.rules import EVERYWHERE, Action, Effect, Rule, RuleBook, rule, rule_of
from penstock.core.errors import InvalidArgument, InvalidSetting


def test_a_rule_is_read_as_people_write_it() -> None:
    read = rule_of({"effect": "deny", "action": "publish", "pattern": "a/#", "role": "guests", "namespace": "*"})
    assert read == Rule(Effect.DENY, Action.PUBLISH, "a/#", None, "guests", EVERYWHERE)
    assert str(read) == "deny publish a/# --role guests --namespace *"


def test_the_name_of_a_queue_is_enough_to_consume() -> None:
    def pattern(text: str) -> str:
        return rule(Effect.ALLOW, Action.CONSUME, text).pattern

    assert pattern("orders") == pattern("$queue/orders") == "$queue/orders"
    assert pattern("shop/#") == "$queue/shop/#"
    assert pattern("orders.dlq") == pattern("dlq/orders") == pattern("$dlq/orders") == "$dlq/orders"
    assert pattern("#") == "$queue/#"


@pytest.mark.parametrize(
    ("written", "path", "nearest"),
    [
        ({"efect": "allow", "action": "all", "pattern": "#"}, "efect", "effect"),
        ({"effect": "alow", "action": "all", "pattern": "#"}, "effect", "allow"),
        ({"effect": "allow", "action": "write", "pattern": "#"}, "action", None),
        ({"effect": "allow", "action": "all"}, "pattern", None),
        ({"action": "all", "pattern": "#"}, "effect", None),
        ({"effect": "allow", "action": "all", "pattern": 5}, "pattern", None),
    ],
)
def test_what_is_wrong_with_a_rule_is_named(written: dict[str, object], path: str, nearest: str | None) -> None:
    with pytest.raises(InvalidSetting) as caught:
        rule_of(written)
    assert (caught.value.path, caught.value.nearest) == (path, nearest)


def test_a_rule_is_for_a_user_or_for_a_role() -> None:
    with pytest.raises(InvalidArgument, match="two rules"):
        rule(Effect.ALLOW, Action.ALL, "#", user="a", role="b")


@pytest.mark.parametrize("name", ["", " a", "a\n", "x" * 256])
def test_a_name_that_cannot_be_seen_is_refused(name: str) -> None:
    with pytest.raises(InvalidArgument):
        rule(Effect.ALLOW, Action.ALL, "#", user=name)


def test_one_finds_the_rules_about_oneself() -> None:
    mine = rule(Effect.ALLOW, Action.ALL, "mine", user="alice")
    roles = rule(Effect.ALLOW, Action.ALL, "role", role="staff")
    everyones = rule(Effect.ALLOW, Action.ALL, "all")
    elsewhere = rule(Effect.ALLOW, Action.ALL, "else", namespace="other")
    anywhere = rule(Effect.ALLOW, Action.ALL, "any", namespace=EVERYWHERE)
    bobs = rule(Effect.ALLOW, Action.ALL, "bob", user="bob")
    book = RuleBook.of([mine, roles, everyones, elsewhere, anywhere, bobs])
    assert book.about("alice", ["staff"], "default") == [mine, everyones, anywhere, roles]
    assert book.about("carol", [], "other") == [elsewhere, anywhere]
