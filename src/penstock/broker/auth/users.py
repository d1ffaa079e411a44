"""Users, API keys and rules as the broker has them: of the directory, which change, and of the configuration."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import NamedTuple

import msgspec

from penstock.broker.auth.identity import ANONYMOUS
from penstock.broker.auth.keys import KEY_USER_PREFIX, NoSuchKey, key_user, new_key
from penstock.broker.auth.options import SCRAM_ITERATIONS, ConfiguredUser
from penstock.broker.auth.passwords import Passwords, random_password
from penstock.broker.auth.roles import ADMIN_ROLE, book_of
from penstock.broker.auth.rules import EVERYWHERE, Effect, Rule, check_name
from penstock.broker.auth.scram import ScramKeys, prepared, pretended_keys, scram_keys
from penstock.broker.auth.store import ApiKey, Record, Secret, Store, Stored, User, key_of
from penstock.core.clock import SystemClock
from penstock.core.errors import InvalidArgument, NoSuchUser, UserExists
from penstock.core.ports import Clock
from penstock.log.journal.late import Part
from penstock.log.shard import Shard
from penstock.queues.names import DEFAULT_NAMESPACE, check_namespace

logger = logging.getLogger("penstock.auth")

FIRST_USER = "admin"
Changes = dict[str, Record | None]
"""by key; None deletes"""


class Users:
    """Use Users.open(), from one event loop. What is changed counts when it is on disk."""

    are_kept = True

    def __init__(self, store: Store, stored: Stored, passwords: Passwords, clock: Clock, scram_iterations: int) -> None:
        assert stored.secret is not None
        self._store, self._stored, self._passwords, self._clock = store, stored, passwords, clock
        self._secret, self._scram_iterations = stored.secret.value, scram_iterations
        self._configured: dict[str, User] = {}
        self._configured_rules: tuple[Rule, ...] = ()
        self._book = book_of(())
        self._turn = asyncio.Lock()
        self.changed: Callable[[], None] = lambda: None
        """called after users or rules have changed"""
        self._rebuild()

    @classmethod
    async def open(
        cls, shard: Shard, passwords: Passwords, clock: Clock, scram_iterations: int = SCRAM_ITERATIONS
    ) -> Users:
        store = await Store.open(shard)
        stored = store.read()
        if stored.secret is None:
            stored.secret = Secret(secrets.token_bytes(32))
            await store.write([(key_of(stored.secret), stored.secret)])
        return cls(store, stored, passwords, clock, scram_iterations)

    def configure(self, users: Sequence[ConfiguredUser], rules: Iterable[Rule]) -> None:
        """Those of the configuration, instead of the ones given before. They go before stored ones of that name."""
        self._configured = {user.name: _user(user) for user in users}
        own = [msgspec.structs.replace(rule, user=user.name, role=None) for user in users for rule in user.acl]
        self._configured_rules = (*rules, *own)
        for name in self._configured.keys() & self._stored.users.keys():
            logger.warning("user is in the configuration and in the directory, the configuration counts user=%s", name)
        self._rebuild()

    def find(self, name: str) -> User | None:
        return self._configured.get(name) or self._stored.users.get(name)

    def all(self) -> list[User]:
        """Sorted by name."""
        found = {**self._stored.users, **self._configured}
        return [found[name] for name in sorted(found)]

    def find_key(self, key_id: str) -> ApiKey | None:
        """Expired ones are there until they are removed."""
        return self._stored.keys.get(key_id)

    def keys(self) -> list[ApiKey]:
        """The oldest first."""
        return sorted(self._stored.keys.values(), key=lambda key: (key.created_ms, key.id))

    @property
    def rules(self) -> list[Rule]:
        return [*self._stored.rules.values(), *self._configured_rules]

    def namespaces(self) -> set[str]:
        """Those that a user, a key or a rule is in."""
        found = {user.namespace for user in self.all()} | {key.namespace for key in self.keys()}
        return (found | {rule.namespace for rule in self.rules}) - {EVERYWHERE}

    def rules_about(self, user: str, roles: Iterable[str], namespace: str) -> list[Rule]:
        """With those that built-in roles stand for."""
        return self._book.about(user, roles, namespace)

    def scram_keys(self, name: str) -> ScramKeys:
        """Of somebody who is not there, or has none, such as look real."""
        user = self.find(name)
        if user is not None and user.scram is not None:
            return user.scram
        return pretended_keys(name, self._secret, self._scram_iterations)

    async def add(
        self,
        name: str,
        password: bytes | None,
        roles: Iterable[str] = (),
        namespace: str = DEFAULT_NAMESPACE,
        *,
        with_scram: bool = True,
    ) -> User:
        """Without a password the user logs in by certificate or token. UserExists."""
        check_user_name(name)
        check_namespace(namespace)
        password_hash, scram = None, None
        if password is not None:
            password_hash, scram = await self._hashed(name, password, with_scram)
        now_ms = self._clock.now_ms()
        user = User(name, password_hash, scram, _roles(roles), namespace, now_ms, now_ms)

        def decide() -> Changes:
            if self.find(name) is not None:
                raise UserExists(name)
            return {key_of(user): user}

        await self._change(decide)
        return user

    async def set_password(self, name: str, password: bytes, *, with_scram: bool = True) -> None:
        """Sessions that are there stay."""
        self._own(name)
        password_hash, scram = await self._hashed(name, password, with_scram)
        await self._replace(name, password_hash=password_hash, scram=scram)

    async def set_password_hash(self, name: str, password_hash: str) -> None:
        """One that rabbit_hash() gave. There is no login by SCRAM with it before the first one by password."""
        await self._replace(name, password_hash=password_hash, scram=None)

    async def rehash(self, name: str, password: bytes, before: str) -> None:
        """Of a password that was right: from now on it is kept as others are, with keys for SCRAM where it can be."""
        try:
            password_hash, scram = await self._hashed(name, password, with_scram=True)
        except InvalidArgument:
            password_hash, scram = await self._hashed(name, password, with_scram=False)

        def decide() -> Changes:
            user = self._stored.users.get(name)
            if user is None or user.password_hash != before:
                return {}
            made = msgspec.structs.replace(user, password_hash=password_hash, scram=scram)
            return {key_of(made): made}

        await self._change(decide)

    async def set_roles(self, name: str, roles: Iterable[str]) -> None:
        await self._replace(name, roles=_roles(roles))

    async def remove(self, name: str) -> list[Rule]:
        """The rules about the user go too, and are returned: who gets the name later does not inherit them."""
        gone: dict[str, Rule] = {}

        def decide() -> Changes:
            user = self._own(name)
            gone.update(self._rules_of(name))
            return {key_of(user): None, **dict.fromkeys(gone)}

        await self._change(decide)
        return list(gone.values())

    async def add_key(
        self,
        roles: Iterable[str] = (),
        namespace: str = DEFAULT_NAMESPACE,
        description: str = "",
        *,
        expires_ms: int | None = None,
    ) -> tuple[ApiKey, str]:
        """And its text, which is to be had this once: only a hash of its secret is kept. Without roles it may do what
        rules about `key:<id>` or about everyone allow. InvalidArgument."""
        check_namespace(namespace)
        key, text = new_key(_roles(roles), namespace, description, self._clock.now_ms(), expires_ms)
        await self._change(lambda: {key_of(key): key})
        return key, text

    async def remove_key(self, key_id: str) -> list[Rule]:
        """Whoever is logged in with it may do nothing from now on. The rules about it go too, and are returned.
        NoSuchKey."""
        gone: dict[str, Rule] = {}

        def decide() -> Changes:
            if (key := self.find_key(key_id)) is None:
                raise NoSuchKey(key_id)
            gone.update(self._rules_of(key_user(key_id)))
            return {key_of(key): None, **dict.fromkeys(gone)}

        await self._change(decide)
        return list(gone.values())

    async def add_rule(self, rule: Rule) -> bool:
        """False if it is there already."""
        key = key_of(rule)
        return await self._change(lambda: {} if key in self._stored.rules else {key: rule})

    async def remove_rule(self, rule: Rule) -> bool:
        """False if it is not there."""
        key = key_of(rule)
        return await self._change(lambda: {key: None} if key in self._stored.rules else {})

    async def replace_rules(self, user: str, namespace: str, rules: Sequence[Rule]) -> None:
        """Instead of those that allow the user something there by name."""
        await self._change(lambda: self._replaced(user, namespace, rules))

    def _replaced(self, user: str, namespace: str, rules: Sequence[Rule]) -> dict[str, Record | None]:
        before = {
            key: rule
            for key, rule in self._stored.rules.items()
            if rule.user == user and rule.namespace == namespace and rule.effect is Effect.ALLOW
        }
        return {**dict.fromkeys(before), **{key_of(rule): rule for rule in rules}}

    async def remove_rules_in(self, namespace: str) -> None:
        """A namespace is gone."""
        await self._change(
            lambda: {key: None for key, rule in self._stored.rules.items() if rule.namespace == namespace}
        )

    @asynccontextmanager
    async def importing(
        self, users: Iterable[User], rules: Mapping[tuple[str, str], Sequence[Rule]]
    ) -> AsyncIterator[Imported]:
        """Users as they come, and rules instead of those by user and namespace: what they are of somebody's commit, and
        what to call when that is done. Meanwhile nothing else changes."""
        async with self._turn:
            changes: dict[str, Record | None] = {key_of(user): user for user in users}
            for (user, namespace), mine in rules.items():
                changes |= self._replaced(user, namespace, mine)

            def apply() -> None:
                for key, record in changes.items():
                    self._stored.apply(key, record)
                self._rebuild()

            yield Imported(lambda: self._store.parts(changes.items()) if changes else [], apply)

    async def bootstrap(self) -> str | None:
        """Where there is no user at all, `admin` is made; its password, which is nowhere else to be had."""
        if self._stored.users or self._configured:
            return None
        password = random_password()
        await self.add(FIRST_USER, password.encode(), [ADMIN_ROLE])
        return password

    def _rules_of(self, user: str) -> dict[str, Rule]:
        return {key: rule for key, rule in self._stored.rules.items() if rule.user == user}

    def _own(self, name: str) -> User:
        """InvalidArgument for one of the configuration."""
        if name in self._configured:
            raise InvalidArgument(f"user {name!r} is in the configuration: change it there")
        if (found := self._stored.users.get(name)) is None:
            raise NoSuchUser(name)
        return found

    async def _hashed(self, name: str, password: bytes, with_scram: bool) -> tuple[str, ScramKeys | None]:
        keys = await self._keys(name, password) if with_scram else None
        return await self._passwords.hash(password), keys

    async def _keys(self, name: str, password: bytes) -> ScramKeys:
        """A name that SASLprep changes would not be found again."""
        if prepared(name) != name:
            raise InvalidArgument(f"the name {name!r} cannot be used with SCRAM: write it {prepared(name)!r}")
        return await self._passwords.run(lambda: scram_keys(password, self._scram_iterations))

    async def _replace(self, name: str, **fields: str | tuple[str, ...] | ScramKeys | None) -> None:
        def decide() -> Changes:
            user = msgspec.structs.replace(self._own(name), changed_ms=self._clock.now_ms(), **fields)
            return {key_of(user): user}

        await self._change(decide)

    async def _change(self, decide: Callable[[], Changes]) -> bool:
        """One after the other: what `decide` looks at does not change until its changes are on disk. False if there
        are none."""
        async with self._turn:
            changes = decide()
            if not changes:
                return False
            await self._store.write(changes.items())
            for key, record in changes.items():
                self._stored.apply(key, record)
            self._rebuild()
            return True

    def _rebuild(self) -> None:
        self._book = book_of(self.rules)
        self.changed()


class Imported(NamedTuple):
    parts: Callable[[], list[Part]]
    """called in the turn in which they are staged"""
    apply: Callable[[], None]


class NoUsers(Users):
    """Of development mode: there are none, and none are made."""

    are_kept = False

    def __init__(self) -> None:
        self._stored, self._configured, self._configured_rules = Stored(), {}, ()
        self._clock, self._book = SystemClock(), book_of(())
        self.changed = lambda: None

    async def bootstrap(self) -> None:
        """Nobody needs to log in."""

    @asynccontextmanager
    async def importing(
        self, users: Iterable[User], rules: Mapping[tuple[str, str], Sequence[Rule]]
    ) -> AsyncIterator[Imported]:
        """They are passed over."""
        yield Imported(list, lambda: None)

    async def _hashed(self, name: str, password: bytes, with_scram: bool) -> tuple[str, ScramKeys | None]:
        raise _nothing_is_kept()

    async def _change(self, decide: Callable[[], Changes]) -> bool:
        if decide():
            raise _nothing_is_kept()
        return False


def _nothing_is_kept() -> InvalidArgument:
    return InvalidArgument(
        "in development mode everyone may do everything, and no users, keys or rules are kept: "
        "turn auth.development_mode off and start the server again"
    )


def check_user_name(name: str) -> None:
    check_name(name)
    if name.startswith(KEY_USER_PREFIX):
        raise InvalidArgument(f"{name!r}: names that begin with {KEY_USER_PREFIX} are those of API keys")
    if name == ANONYMOUS:
        raise InvalidArgument(f"{ANONYMOUS!r} is who logs in without a name: take another name")


def _roles(roles: Iterable[str]) -> tuple[str, ...]:
    found = tuple(dict.fromkeys(roles))
    for role in found:
        check_name(role)
    return found


def _user(configured: ConfiguredUser) -> User:
    check_user_name(configured.name)
    return User(configured.name, configured.password_hash, None, configured.roles, configured.namespace)
