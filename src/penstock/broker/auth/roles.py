"""The roles that mean something without a rule of anybody's, and the rules they stand for.

Rules may be about these roles too, as about any other: a deny takes from producer, consumer and read-only."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from penstock.broker.auth.rules import EVERYWHERE, Action, Effect, Rule, RuleBook, rule

ADMIN_ROLE = "admin"
"""who has it may do everything, whatever rules say"""
READ_ONLY_ROLE = "read-only"
IMPERSONATOR_ROLE = "impersonator"
"""who has it may put another user's name into a message that says whose it is"""
MONITOR_ROLE = "monitor"
"""counts in the namespace `default`, which is the server's own"""


class BuiltInRole(NamedTuple):
    name: str
    summary: str
    rules: tuple[Rule, ...]


def _role(name: str, summary: str, *allowed: tuple[Action, str]) -> BuiltInRole:
    """They hold in the namespace of whoever has the role."""
    rules = [rule(Effect.ALLOW, action, pattern, role=name, namespace=EVERYWHERE) for action, pattern in allowed]
    return BuiltInRole(name, summary, tuple(rules))


# `#` reaches no topic that begins with `$`: neither $SYS nor $admin. Dead letters are put in by the broker alone.
BUILT_IN_ROLES = (
    _role(ADMIN_ROLE, "do everything in its namespace, in `default` on the whole server; no rule takes from it"),
    _role(
        "producer",
        "publish to every topic, queue and exchange",
        (Action.PUBLISH, "#"),
        (Action.PUBLISH, "$queue/#"),
        (Action.PUBLISH, "$exchange/#"),
    ),
    _role(
        "consumer",
        "subscribe to every topic, consume every queue and its dead letters",
        (Action.SUBSCRIBE, "#"),
        (Action.CONSUME, "$queue/#"),
        (Action.CONSUME, "$dlq/#"),
    ),
    _role(READ_ONLY_ROLE, "look at everything that is shown of its namespace, browse queues without consuming"),
    _role(MONITOR_ROLE, "see the numbers of all namespaces, in `default` only: metrics and the overview"),
    _role(IMPERSONATOR_ROLE, "publish over AMQP 0.9.1 with another user's name as `user-id`"),
)
_IMPLIED = tuple(implied for role in BUILT_IN_ROLES for implied in role.rules)


def book_of(rules: Iterable[Rule]) -> RuleBook:
    """With those that the built-in roles stand for."""
    return RuleBook.of([*rules, *_IMPLIED])


def is_implied(one: Rule) -> bool:
    return one in _IMPLIED
