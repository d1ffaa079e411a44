"""What one client may do: asked for each topic, worked out once."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field, replace
from typing import TypeVar
from weakref import WeakSet

from penstock.broker.auth import addresses
from penstock.broker.auth.addresses import Wanted
from penstock.broker.auth.patterns import TopicSet, fill_allowing, fill_denying, has_placeholder, pattern_set
from penstock.broker.auth.roles import ADMIN_ROLE, IMPERSONATOR_ROLE, MONITOR_ROLE, READ_ONLY_ROLE
from penstock.broker.auth.rules import Action, Effect, Rule
from penstock.core.ports import Clock
from penstock.queues.names import DEFAULT_NAMESPACE

# A session that publishes to more topics than that works them out again now and then, at some microseconds each.
_CACHED_ANSWERS = 4096
_CACHED_KEY_LENGTH = 256
_ENTRY_BYTES = 120
# Over all sessions. Whoever fills it with invented topics makes everyone work out theirs again, no more.
_CACHED_BYTES = 64 << 20

Key = TypeVar("Key", bytes, str)

_NO_TOPICS: dict[bytes, bool] = {}
_NO_QUEUES: dict[str, bool] = {}
"""of those who were not asked yet; never written to"""


@dataclass(frozen=True, slots=True)
class Verdicts:
    """The rules about one client, its names filled in. A deny always wins; what nothing allows is denied."""

    is_admin: bool = False
    may_read: bool = False
    """look at what is shown of the broker, and browse queues that no rule denies"""
    allowed: dict[Action, tuple[TopicSet, ...]] = field(default_factory=dict)
    denied: dict[Action, tuple[TopicSet, ...]] = field(default_factory=dict)
    namespace: str = DEFAULT_NAMESPACE
    """of the login"""
    may_monitor: bool = False
    """see the numbers of all namespaces"""
    may_impersonate: bool = False
    """name another user as who has sent a message"""

    @classmethod
    def of(cls, rules: Iterable[Rule], client_id: str, user: str, *, may_read: bool = False) -> Verdicts:
        allowed: dict[Action, tuple[TopicSet, ...]] = {}
        denied: dict[Action, tuple[TopicSet, ...]] = {}
        for rule in rules:
            filled = filled_pattern(rule, client_id, user)
            if filled is not None:
                side = allowed if rule.effect is Effect.ALLOW else denied
                for action in Action:
                    if rule.is_about(action):
                        side[action] = (*side.get(action, ()), filled)
        return cls(False, may_read, allowed, denied)

    def may(self, wanted: Wanted) -> bool:
        if self.is_admin:
            return True
        if wanted.action is None:
            return False
        allowed = self.allowed.get(wanted.action, ())
        return all(topics.is_within(allowed) for topics in wanted.topics) and not self.denies(wanted)

    def administers(self, namespace: str) -> bool:
        """An admin of the namespace `default` administers the server, any other one its own namespace."""
        return self.is_admin and self.namespace in (DEFAULT_NAMESPACE, namespace)

    def may_browse(self, wanted: Wanted) -> bool:
        """`wanted` is what consuming would ask for."""
        return self.may(wanted) or (self.may_read and not self.denies(wanted))

    def denies(self, wanted: Wanted) -> bool:
        """A rule does, whatever others allow."""
        denied = () if wanted.action is None else self.denied.get(wanted.action, ())
        return any(topics.overlaps(refused) for topics in wanted.topics for refused in denied)


NO_VERDICTS = Verdicts()
ADMIN_VERDICTS = Verdicts(is_admin=True, may_read=True, may_monitor=True)


def verdicts_of(
    roles: Collection[str], rules: Iterable[Rule], client_id: str, user: str, namespace: str = DEFAULT_NAMESPACE
) -> Verdicts:
    """Of who has these roles in a namespace, by the rules about the user and the roles."""
    if ADMIN_ROLE in roles:
        return replace(ADMIN_VERDICTS, namespace=namespace, may_monitor=namespace == DEFAULT_NAMESPACE)
    may_monitor = MONITOR_ROLE in roles and namespace == DEFAULT_NAMESPACE
    found = Verdicts.of(rules, client_id, user, may_read=READ_ONLY_ROLE in roles)
    may_impersonate = IMPERSONATOR_ROLE in roles
    return replace(found, namespace=namespace, may_monitor=may_monitor, may_impersonate=may_impersonate)


def filled_pattern(rule: Rule, client_id: str, user: str) -> TopicSet | None:
    """The topics that a rule is about for one client; None if for this one it allows nothing."""
    if not has_placeholder(rule.pattern):
        return pattern_set(rule.pattern)
    fill = fill_allowing if rule.effect is Effect.ALLOW else fill_denying
    return fill(rule.pattern, client_id, user)


class Permissions:
    """Of one session; used from the loop. Answers are remembered until rules change."""

    __slots__ = ("__weakref__", "_caches", "_consume", "_find", "_named", "_publish", "_receive", "_verdicts")

    def __init__(self, caches: Caches, find: Callable[[], Verdicts]) -> None:
        """`find` works the rules out, as they are when it is called."""
        self._caches, self._find = caches, find
        self.forget()

    @property
    def are_lasting(self) -> bool:
        """Whether an answer stays right until rules change."""
        return True

    @property
    def is_admin(self) -> bool:
        """As of now, not as of the login."""
        return self._now().is_admin

    def administers(self, namespace: str) -> bool:
        """Change what is in a namespace: its admins, and those of the server, as of now."""
        return self._now().administers(namespace)

    @property
    def is_server_admin(self) -> bool:
        """May change what concerns the whole server, and see its configuration: admins of the namespace `default`."""
        return self.administers(DEFAULT_NAMESPACE)

    @property
    def may_read(self) -> bool:
        """Look at what is shown of the broker: roles admin and read-only, as of now."""
        return self._now().may_read

    @property
    def may_monitor(self) -> bool:
        """See the numbers of all namespaces: roles admin and monitor in the namespace `default`."""
        return self._now().may_monitor

    @property
    def is_of_server(self) -> bool:
        """Of the namespace `default`, which is the server's own: may be told of the server what names no queue."""
        return self._now().namespace == DEFAULT_NAMESPACE

    def may_publish(self, topic: bytes) -> bool:
        """Settlements (`$queue/orders/$ack`) are publishes that need the right to consume; where the path is longer
        than the queue's name, ask may_consume() too, with the queue it names."""
        known = self._publish.get(topic)
        if known is None:
            known = self._decide(self._now(), self._publish, topic, addresses.wanted_to_publish)
        return known

    def may_receive(self, topic: bytes) -> bool:
        """Of a retained or a live message that a subscription matched. Deliveries of queues need may_consume()."""
        known = self._receive.get(topic)
        if known is None:
            known = self._decide(self._now(), self._receive, topic, addresses.wanted_to_receive)
        return known

    def may_subscribe(self, topic_filter: str) -> bool:
        """Every topic that the filter matches is allowed and none is denied. For `$queue/…` and `$dlq/…`: the queue
        that the path spells may be consumed; where that is not the declared queue, ask may_consume() instead."""
        return self._now().may(addresses.wanted_to_subscribe(topic_filter))

    def may_consume(self, queue: str) -> bool:
        known = self._consume.get(queue)
        if known is None:
            known = self._now().may(addresses.wanted_to_consume(queue))
            self._caches.keep(self._consume, queue, known)
        return known

    def may_browse(self, queue: str) -> bool:
        """Read messages of a queue and leave them there: who may consume it, and the role read-only unless a rule
        denies it to consume."""
        return self._now().may_browse(addresses.wanted_to_consume(queue))

    def may_configure(self, topic: str) -> bool:
        """Declare, bind and delete `$exchange/<name>` or `$queue/<name>`."""
        return self._now().may(addresses.wanted_to_configure(topic))

    def may_with_queue(self, action: Action, queue: str) -> bool:
        """CONFIGURE, PUBLISH or CONSUME a queue by its very name, whether it is there or not."""
        known = self._named.get(key := f"queue {action.value} {queue}")
        if known is None:
            known = self._now().may(addresses.wanted_of_queue(action, queue))
            self._caches.keep(self._named, key, known)
        return known

    def may_with_exchange(self, action: Action, exchange: str, key: bytes = b"") -> bool:
        """CONFIGURE an exchange by its name, PUBLISH to it, or CONSUME what it has: bind to it. With a key, this key's
        messages only."""
        asked = f"exchange {action.value} {exchange}\0{key.decode('utf-8', 'surrogateescape')}"
        known = self._named.get(asked)
        if known is None:
            known = self._now().may(addresses.wanted_of_exchange(action, exchange, key))
            self._caches.keep(self._named, asked, known)
        return known

    @property
    def may_impersonate(self) -> bool:
        """Name another user as who has sent a message: the role impersonator, as of now. Admins do not by that."""
        return self._now().may_impersonate

    def forget(self) -> None:
        self._verdicts: Verdicts | None = None
        self._publish = self._receive = _NO_TOPICS
        self._consume = self._named = _NO_QUEUES

    def _now(self) -> Verdicts:
        if self._verdicts is None:
            # Most clients that are idle never ask.
            self._publish, self._receive, self._consume, self._named = {}, {}, {}, {}
            self._verdicts = self._find()
            self._caches.live.add(self)
        return self._verdicts

    def _decide(
        self, verdicts: Verdicts, cache: dict[bytes, bool], topic: bytes, wanted: Callable[[str], Wanted]
    ) -> bool:
        try:
            answer = verdicts.may(wanted(topic.decode()))
        except UnicodeDecodeError:
            return False
        self._caches.keep(cache, topic, answer)
        return answer


class PassingPermissions(Permissions):
    """Of a login that ends: afterwards nothing is allowed."""

    __slots__ = ("_clock", "_expires_ms")

    def __init__(self, caches: Caches, find: Callable[[], Verdicts], clock: Clock, expires_ms: int) -> None:
        super().__init__(caches, find)
        self._clock, self._expires_ms = clock, expires_ms

    @property
    def are_lasting(self) -> bool:
        return False

    @property
    def is_admin(self) -> bool:
        return self._clock.now_ms() < self._expires_ms and super().is_admin

    def administers(self, namespace: str) -> bool:
        return self._clock.now_ms() < self._expires_ms and super().administers(namespace)

    @property
    def may_read(self) -> bool:
        return self._clock.now_ms() < self._expires_ms and super().may_read

    @property
    def may_monitor(self) -> bool:
        return self._clock.now_ms() < self._expires_ms and super().may_monitor

    def may_browse(self, queue: str) -> bool:
        return self._clock.now_ms() < self._expires_ms and super().may_browse(queue)

    def may_publish(self, topic: bytes) -> bool:
        return self._clock.now_ms() < self._expires_ms and super().may_publish(topic)

    def may_receive(self, topic: bytes) -> bool:
        return self._clock.now_ms() < self._expires_ms and super().may_receive(topic)

    def may_subscribe(self, topic_filter: str) -> bool:
        return self._clock.now_ms() < self._expires_ms and super().may_subscribe(topic_filter)

    def may_consume(self, queue: str) -> bool:
        return self._clock.now_ms() < self._expires_ms and super().may_consume(queue)

    def may_configure(self, topic: str) -> bool:
        return self._clock.now_ms() < self._expires_ms and super().may_configure(topic)

    def may_with_queue(self, action: Action, queue: str) -> bool:
        return self._clock.now_ms() < self._expires_ms and super().may_with_queue(action, queue)

    def may_with_exchange(self, action: Action, exchange: str, key: bytes = b"") -> bool:
        return self._clock.now_ms() < self._expires_ms and super().may_with_exchange(action, exchange, key)

    @property
    def may_impersonate(self) -> bool:
        return self._clock.now_ms() < self._expires_ms and super().may_impersonate


class AllPermissions(Permissions):
    """Of development mode."""

    __slots__ = ()

    @property
    def is_admin(self) -> bool:
        return True

    def administers(self, namespace: str) -> bool:
        return True

    @property
    def may_read(self) -> bool:
        return True

    @property
    def may_monitor(self) -> bool:
        return True

    def may_browse(self, queue: str) -> bool:
        return True

    def may_publish(self, topic: bytes) -> bool:
        return True

    def may_receive(self, topic: bytes) -> bool:
        return True

    def may_subscribe(self, topic_filter: str) -> bool:
        return True

    def may_consume(self, queue: str) -> bool:
        return True

    def may_configure(self, topic: str) -> bool:
        return True

    def may_with_queue(self, action: Action, queue: str) -> bool:
        return True

    def may_with_exchange(self, action: Action, exchange: str, key: bytes = b"") -> bool:
        return True

    @property
    def may_impersonate(self) -> bool:
        return True


class Caches:
    """The answers that all sessions remember, bounded together."""

    def __init__(self, limit_bytes: int = _CACHED_BYTES) -> None:
        self.version = 0
        """changes when an answer may have changed, for caches elsewhere"""
        self.live: WeakSet[Permissions] = WeakSet()
        self.watchers: list[Callable[[], None]] = []
        self._limit_bytes, self._bytes = limit_bytes, 0

    def keep(self, cache: dict[Key, bool], key: Key, answer: bool) -> None:
        """One more answer in the cache of a session. A full one is emptied, a full budget empties all."""
        if len(key) > _CACHED_KEY_LENGTH:
            return
        if self._bytes + len(key) + _ENTRY_BYTES > self._limit_bytes:
            self._empty()
        if len(cache) >= _CACHED_ANSWERS:
            cache.clear()
        self._bytes += len(key) + _ENTRY_BYTES
        cache[key] = answer

    def rules_changed(self) -> None:
        self.version += 1
        self._empty()
        for called in self.watchers:
            called()

    def _empty(self) -> None:
        self._bytes = 0
        for permissions in list(self.live):
            permissions.forget()
