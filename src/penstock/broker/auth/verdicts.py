"""Whether somebody may do something, and which rule or role it is that decides."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec

from penstock.broker.auth import addresses
from penstock.broker.auth.addresses import Wanted
from penstock.broker.auth.identity import ANONYMOUS
from penstock.broker.auth.keys import KEY_USER_PREFIX, NoSuchKey
from penstock.broker.auth.patterns import TopicSet
from penstock.broker.auth.permissions import filled_pattern, verdicts_of
from penstock.broker.auth.roles import ADMIN_ROLE, is_implied
from penstock.broker.auth.rules import Effect, Rule
from penstock.broker.auth.store import ApiKey, User
from penstock.core.errors import NoSuchUser
from penstock.core.queue_paths import canonical_queue
from penstock.queues.names import DEFAULT_NAMESPACE

AskedAction = Literal["publish", "subscribe", "receive", "consume", "browse", "configure"]
"""publish to a topic, subscribe to a filter, receive a message of a topic, consume or browse a queue, configure an
exchange or a queue by its topic"""

# A filter can be put together from many rules; the first few show where to look.
_MOST_NAMED = 5


class Verdict(msgspec.Struct, frozen=True):
    """`because` names the rule or role that decides."""

    allowed: bool
    because: str


@dataclass(frozen=True, slots=True)
class Subject:
    """Whom a question is about: a user, an API key, or who logs in without a name."""

    name: str
    roles: tuple[str, ...] = ()
    namespace: str = DEFAULT_NAMESPACE
    expires_ms: int | None = None


def find_subject(
    name: str, find_user: Callable[[str], User | None], find_key: Callable[[str], ApiKey | None]
) -> Subject:
    """NoSuchUser, NoSuchKey."""
    if (user := find_user(name)) is not None:
        return Subject(name, user.roles, user.namespace)
    if name == ANONYMOUS:
        return Subject(name)
    if not name.startswith(KEY_USER_PREFIX):
        raise NoSuchUser(name)
    key_id = name.removeprefix(KEY_USER_PREFIX)
    if (key := find_key(key_id)) is None:
        raise NoSuchKey(key_id)
    return Subject(name, key.roles, key.namespace, key.expires_ms)


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked: may the subject do this, as the client that calls itself so?"""

    subject: Subject
    action: AskedAction
    topic: str
    client_id: str = ""

    def answer(self, rules: Sequence[Rule], now_ms: int) -> Verdict:
        """By the rules about the subject, as Permissions would decide."""
        subject, wanted = self.subject, self._wanted()
        if subject.expires_ms is not None and subject.expires_ms <= now_ms:
            return Verdict(False, f"{subject.name} has expired")
        if ADMIN_ROLE in subject.roles:
            return Verdict(True, f"the role {ADMIN_ROLE} may do everything")
        verdicts = verdicts_of(subject.roles, rules, self.client_id, subject.name)
        allowed = verdicts.may_browse(wanted) if self.action == "browse" else verdicts.may(wanted)
        about = self._about(rules, wanted)
        return Verdict(allowed, self._why_allowed(about, wanted) if allowed else self._why_denied(about, wanted))

    def _wanted(self) -> Wanted:
        match self.action:
            case "publish":
                return addresses.wanted_to_publish(self.topic)
            case "subscribe":
                return addresses.wanted_to_subscribe(self.topic)
            case "receive":
                return addresses.wanted_to_receive(self.topic)
            case "configure":
                return addresses.wanted_to_configure(self.topic)
            case "consume" | "browse":
                return addresses.wanted_to_consume(canonical_queue(self.topic))

    def _about(self, rules: Iterable[Rule], wanted: Wanted) -> list[tuple[Rule, TopicSet]]:
        """Those that have to do with something of what is wanted."""
        if wanted.action is None:
            return []
        mine = [rule for rule in rules if rule.is_about(wanted.action)]
        filled = [(rule, filled_pattern(rule, self.client_id, self.subject.name)) for rule in mine]
        return [
            (rule, topics)
            for rule, topics in filled
            if topics is not None and any(topics.overlaps(asked) for asked in wanted.topics)
        ]

    def _why_allowed(self, about: Sequence[tuple[Rule, TopicSet]], wanted: Wanted) -> str:
        for rule, topics in about:
            if all(asked.is_within([topics]) for asked in wanted.topics):
                return f"{_named(rule)} allows it"
        if about:
            return f"{_listed(rule for rule, _ in about)} allow it together"
        return "the role read-only may browse every queue"

    def _why_denied(self, about: Sequence[tuple[Rule, TopicSet]], wanted: Wanted) -> str:
        if wanted.action is None:
            return f"{self.topic!r} is nothing that a rule could allow"
        for rule, _ in about:
            if rule.effect is Effect.DENY:
                return f"{_named(rule)} denies it"
        if about:
            return f"only a part of it is allowed, by {_listed(rule for rule, _ in about)}"
        roles = " ".join(self.subject.roles) or "none"
        return f"no rule about {self.subject.name}, its roles ({roles}) or everyone allows it"


def _named(rule: Rule) -> str:
    return f"the role {rule.role}" if is_implied(rule) else f"the rule `{rule}`"


def _listed(rules: Iterable[Rule]) -> str:
    names = list(dict.fromkeys(map(_named, rules)))
    more = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
