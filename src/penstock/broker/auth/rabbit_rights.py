"""RabbitMQ's permissions and tags as rules and roles, and the other way round.

A permission is a regular expression over names of queues and exchanges. Rules are about levels of topics, so of these
expressions those become rules that say all names, none, or some names one by one."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from penstock.broker.auth.roles import ADMIN_ROLE, IMPERSONATOR_ROLE, MONITOR_ROLE, READ_ONLY_ROLE
from penstock.broker.auth.rules import Action, Effect, Rule, rule
from penstock.core.errors import InvalidArgument
from penstock.core.queue_paths import QUEUE_PREFIX, is_dead_letter_queue, queue_of_path, queue_topic
from penstock.queues.exchange_topics import EXCHANGE_PREFIX, exchange_address, exchange_topic

ACTIONS = {"configure": Action.CONFIGURE, "write": Action.PUBLISH, "read": Action.CONSUME}
_NONE = ("", "^$")
_ALL = (".*", "^.*", "^.*$", ".*$", ".+", "^.+$")
_EVERYTHING = ("$queue/#", "$dlq/#", "$exchange/#")
_ANCHORED = re.compile(r"\^\(?((?:[^\\()|\[\]{}*+?^$]|\\.)+(?:\|(?:[^\\()|\[\]{}*+?^$]|\\.)+)*)\)?\$", re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_TAGS = {
    "administrator": (ADMIN_ROLE,),
    "monitoring": (MONITOR_ROLE, READ_ONLY_ROLE),
    "impersonator": (IMPERSONATOR_ROLE,),
}
_WITHOUT_ROLE = frozenset(("management", "policymaker"))


class Permission(NamedTuple):
    """Regular expressions, as RabbitMQ has them."""

    configure: str = ""
    write: str = ""
    read: str = ""


def names_in(expression: str) -> list[str] | None:
    """The names it matches; None for all. InvalidArgument for what no rule can say."""
    if expression in _NONE:
        return []
    if expression in _ALL:
        return None
    found = _ANCHORED.fullmatch(expression)
    if found is None or ("(" in expression) != (")" in expression):
        raise InvalidArgument(
            f"the permission {expression[:120]!r} matches parts of names, which rules cannot: write .*, nothing, "
            f"or names like ^(orders|bills)$, or rules about levels of names (penstock acl)"
        )
    return [_ESCAPED.sub(r"\1", name) for name in re.split(r"(?<!\\)\|", found[1])]


def rules_of(user: str, namespace: str, permission: Permission) -> list[Rule]:
    """InvalidArgument, as names_in()."""
    found: list[Rule] = []
    for (_, action), expression in zip(ACTIONS.items(), permission, strict=True):
        names = names_in(expression)
        patterns = list(_EVERYTHING) if names is None else [each for name in names for each in _patterns(name)]
        actions = [(action, pattern) for pattern in patterns]
        if names is None or "amq.topic" in names:  # which is the space of ordinary topics
            if action is Action.PUBLISH:
                actions.append((Action.PUBLISH, "#"))
            elif action is Action.CONSUME:
                actions.append((Action.SUBSCRIBE, "#"))
        found += [
            rule(Effect.ALLOW, each, _written(pattern), user=user, namespace=namespace) for each, pattern in actions
        ]
    return found


def permission_of(rules: Iterable[Rule]) -> Permission | None:
    """Of what is allowed to a user in a namespace; None if nothing is."""
    said: dict[Action, list[str]] = {action: [] for action in ACTIONS.values()}
    for each in rules:
        if each.effect is Effect.ALLOW:
            for action, names in said.items():
                if each.is_about(action) and (name := _expression(each.pattern)) is not None:
                    names.append(name)
    found = [_joined(list(dict.fromkeys(names))) for names in said.values()]
    return Permission(*found) if any(found) else None


def roles_of(tags: Iterable[str]) -> tuple[str, ...]:
    """Tags of one's own are roles of one's own."""
    found = [role for tag in tags for role in _TAGS.get(tag, () if tag in _WITHOUT_ROLE else (tag,))]
    return tuple(dict.fromkeys(found))


def tags_of(roles: Iterable[str]) -> list[str]:
    mine = set(roles)
    found = [tag for tag, means in _TAGS.items() if mine.issuperset(means)]
    known = {role for means in _TAGS.values() for role in means}
    return found + sorted(mine - known)


def _patterns(name: str) -> list[str]:
    exchange = exchange_topic("" if name == "amq.default" else name, b"").decode()
    return [queue_topic(name), f"{exchange}/#"]


def _written(pattern: str) -> str:
    """In a rule, % stands before c, u or another one."""
    return pattern.replace("%", "%%")


def _expression(pattern: str) -> str | None:
    """None for what is no queue's and no exchange's."""
    topic = pattern.replace("%%", "%")
    if topic in _EVERYTHING:
        return ".*" if topic != "$dlq/#" else None
    is_open = topic.endswith("/#")
    topic = topic.removesuffix("/#")
    try:
        if topic.startswith(EXCHANGE_PREFIX.decode()):
            address = exchange_address(topic.encode())
            return None if address is None else re.escape(address.exchange or "amq.default")
        if is_dead_letter_queue(topic) or topic.startswith(QUEUE_PREFIX):
            name = re.escape(queue_of_path(topic.removeprefix(QUEUE_PREFIX)))
            return f"{name}(/.*)?" if is_open else name
    except InvalidArgument:
        return None
    return None


def _joined(names: list[str]) -> str:
    if ".*" in names:
        return ".*"
    return "" if not names else f"^{names[0]}$" if len(names) == 1 else f"^({'|'.join(names)})$"
