"""Rules: who may do what, where. A deny always wins; what no rule allows is denied."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

import msgspec

from penstock.broker.auth.patterns import check_pattern, queue_pattern
from penstock.core.errors import InvalidArgument, InvalidSetting
from penstock.core.queue_paths import QUEUE_PREFIX
from penstock.core.settings.kind import nearest_of, shown
from penstock.core.settings.words import OneOf
from penstock.queues.names import DEFAULT_NAMESPACE, check_namespace

EVERYWHERE = "*"
"""as the namespace of a rule: all of them"""

_MAX_NAME_BYTES = 255
Chosen = TypeVar("Chosen", bound=enum.Enum)


class Effect(enum.Enum):
    ALLOW = "allow"
    DENY = "deny"


class Action(enum.Enum):
    PUBLISH = "publish"
    SUBSCRIBE = "subscribe"
    CONSUME = "consume"
    """take messages of a queue and settle them; the pattern is `$queue/<name>` or `$dlq/<name>`"""
    CONFIGURE = "configure"
    """declare, bind and delete; the pattern is `$exchange/<name>` or `$queue/<name>`, a binding needs both its ends"""
    ADMIN = "admin"
    """publish and subscribe below `$admin/`"""
    ALL = "all"


class Rule(msgspec.Struct, frozen=True):
    """For one user, for users with a role, or for everyone."""

    # Made by rule(), which checks it.

    effect: Effect
    action: Action
    pattern: str
    user: str | None = None
    role: str | None = None
    namespace: str = DEFAULT_NAMESPACE

    def __str__(self) -> str:
        """As the arguments of `penstock acl`."""
        who = f" --user {self.user}" if self.user else f" --role {self.role}" if self.role else ""
        where = "" if self.namespace == DEFAULT_NAMESPACE else f" --namespace {self.namespace}"
        return f"{self.effect.value} {self.action.value} {self.pattern}{who}{where}"

    def is_about(self, action: Action) -> bool:
        return self.action is action or self.action is Action.ALL


def rule(
    effect: Effect,
    action: Action,
    pattern: str,
    *,
    user: str | None = None,
    role: str | None = None,
    namespace: str = DEFAULT_NAMESPACE,
) -> Rule:
    """InvalidArgument unless it can be one. The bare name of a queue is enough where the action is `consume`."""
    if user is not None and role is not None:
        raise InvalidArgument("a rule is for a user or for a role: write two rules")
    for name in (user, role):
        if name is not None:
            check_name(name)
    if namespace != EVERYWHERE:
        check_namespace(namespace)
    check_pattern(pattern)
    if action is Action.CONSUME and not pattern.startswith("$"):
        pattern = QUEUE_PREFIX + pattern
    if pattern.startswith(QUEUE_PREFIX):
        pattern = queue_pattern(pattern.removeprefix(QUEUE_PREFIX))
    return Rule(effect, action, pattern, user, role, namespace)


def rule_of(written: Mapping[str, object]) -> Rule:
    """Of an object as configurations and tokens have it: effect, action, pattern, and user, role, namespace where it
    is not for everyone. InvalidSetting names the key."""
    known = Rule.__struct_fields__
    for key in written:
        if key not in known:
            reason = f"no such key, a rule has {', '.join(known)}"
            raise InvalidSetting(str(key)[:80], reason, nearest_of(key, known, 0.6))
    texts = {key: _text(key, value) for key, value in written.items() if value is not None}
    for key in ("effect", "action", "pattern"):
        if key not in texts:
            raise InvalidSetting(key, "is missing: a rule is like {effect: allow, action: publish, pattern: a/#}")
    effect = _choice(Effect, "effect", texts.pop("effect"))
    action = _choice(Action, "action", texts.pop("action"))
    return rule(effect, action, texts.pop("pattern"), **texts)


def check_name(name: str) -> None:
    """InvalidArgument unless a user or a role can have it."""
    if not name or not name.isprintable() or name != name.strip():
        raise InvalidArgument(
            f"the name {name[:80]!r} is empty, begins or ends with a space, or has an invisible character in it"
        )
    if (size := len(name.encode())) > _MAX_NAME_BYTES:
        raise InvalidArgument(f"a name of {size} bytes is too long, the limit is {_MAX_NAME_BYTES}: {name[:40]!r}…")


@dataclass(slots=True)
class RuleBook:
    """Rules found by whom they are about: with ten thousand users, one looks at those of its own only."""

    _by_user: dict[str, list[Rule]] = field(default_factory=dict)
    _by_role: dict[str, list[Rule]] = field(default_factory=dict)
    _of_everyone: list[Rule] = field(default_factory=list)

    @classmethod
    def of(cls, rules: Iterable[Rule]) -> RuleBook:
        book = cls()
        for found in rules:
            book.add(found)
        return book

    def add(self, added: Rule) -> None:
        if added.user is not None:
            self._by_user.setdefault(added.user, []).append(added)
        elif added.role is not None:
            self._by_role.setdefault(added.role, []).append(added)
        else:
            self._of_everyone.append(added)

    def about(self, user: str, roles: Iterable[str], namespace: str) -> list[Rule]:
        found = [*self._by_user.get(user, ()), *self._of_everyone]
        for role in roles:
            found += self._by_role.get(role, ())
        return [rule for rule in found if rule.namespace in (namespace, EVERYWHERE)]


def _text(key: str, value: object) -> str:
    if not isinstance(value, str):
        raise InvalidSetting(key, f"{shown(value)} is not text: write it in quotes")
    return value


def _choice(kind: type[Chosen], key: str, text: str) -> Chosen:
    allowed = {member.value: member for member in kind}
    return allowed[OneOf(tuple(allowed)).read(key, text)]
