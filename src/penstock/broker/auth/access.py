"""The door: who may come in, and what they may do then."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from penstock.broker.auth.addresses import wanted_to_publish
from penstock.broker.auth.administration import UserAdministration
from penstock.broker.auth.attempts import Attempt, Attempts, LoginMetrics
from penstock.broker.auth.certificates import name_in
from penstock.broker.auth.identity import ANONYMOUS, Certificate, Credentials, How, Identity
from penstock.broker.auth.keys import KEY_USER_PREFIX, PresentedKey, key_user, matches, parse_key
from penstock.broker.auth.options import AuthOptions
from penstock.broker.auth.passwords import Passwords, Verified, is_foreign
from penstock.broker.auth.permissions import (
    ADMIN_VERDICTS,
    AllPermissions,
    Caches,
    PassingPermissions,
    Permissions,
    Verdicts,
)
from penstock.broker.auth.roles import ADMIN_ROLE
from penstock.broker.auth.scram import ScramServer
from penstock.broker.auth.store import User
from penstock.broker.auth.users import NoUsers, Users
from penstock.broker.auth.verdicts import AskedAction, Question, Verdict, find_subject
from penstock.broker.auth.working import Working
from penstock.core.clock import SystemClock
from penstock.core.errors import BadCredentials, InvalidSetting, NoSuchNamespace, NotAuthorised, PenstockError
from penstock.core.ports import Clock
from penstock.log.shard import Shard
from penstock.queues.names import DEFAULT_NAMESPACE

if TYPE_CHECKING:
    from penstock.broker.auth.tokens import Tokens

_NEEDS_A_USER = frozenset({"password", "scram"})


class Access:
    """Use Access.open(), from one event loop; close() it."""

    def __init__(self, users: Users, passwords: Passwords, options: AuthOptions, clock: Clock) -> None:
        self.users, self._passwords, self._clock = users, passwords, clock
        self._caches = Caches()
        self._attempts = Attempts(options, clock)
        self._verified = Verified(clock, options.verified_password_s)
        self._options, self._tokens = options, tokens_of(options)
        self.working = Working(users)
        users.configure(options.users, options.acl)
        users.changed = self._caches.rules_changed

    @classmethod
    async def open(cls, shard: Shard, options: AuthOptions | None = None, clock: Clock | None = None) -> Access:
        """On the shard of an open broker. InvalidSetting for a key of tokens that cannot be used."""
        options, clock, passwords = options or AuthOptions(), clock or SystemClock(), Passwords()
        try:
            users = await Users.open(shard, passwords, clock, options.scram_iterations)
            return cls(users, passwords, options, clock)
        except BaseException:
            passwords.close()
            raise

    @classmethod
    def open_to_all(cls) -> Access:
        """Development mode: everyone is an admin without login."""
        return _OpenAccess()

    @classmethod
    async def open_to_operator(cls, shard: Shard, clock: Clock | None = None) -> Access:
        """For who has opened the directory, and may do everything with it: users and rules are there, and nobody logs
        in."""
        return await _OperatorAccess.open(shard, None, clock)

    def users_for(self, admin: str) -> UserAdministration:
        """To change those of its namespace, for a user who has the role `admin` now. NotAuthorised for others."""
        user = self.users.find(admin)
        if user is None or ADMIN_ROLE not in user.roles:
            raise NotAuthorised(f"{admin} does not have the role {ADMIN_ROLE}, which changing users and rules needs")
        return UserAdministration(
            self.users, user.namespace, replace(ADMIN_VERDICTS, namespace=user.namespace).administers
        )

    @property
    def metrics(self) -> LoginMetrics:
        return self._attempts.metrics

    @property
    def has_users(self) -> bool:
        """Whether somebody can log in with a name."""
        return True

    @property
    def version(self) -> int:
        """Changes when an answer of any permissions may have changed, for caches elsewhere."""
        return self._caches.version

    def watch(self, called: Callable[[], None]) -> None:
        """To be called whenever users or rules have changed, on the loop: sessions may have lost what their
        subscriptions were granted with."""
        self._caches.watchers.append(called)

    def reload(self, options: AuthOptions) -> None:
        """What of them counts at once: users and rules of the configuration, keys of tokens, anonymous logins, the name
        in certificates. InvalidSetting, and nothing is changed, if a key cannot be used."""
        tokens = tokens_of(options)
        self.users.configure(options.users, options.acl)
        self._options, self._tokens = options, tokens

    def close(self) -> None:
        self._passwords.close()

    async def login(self, credentials: Credentials, namespace: str | None = None) -> Identity:
        """BadCredentials, NotAuthorised, TooManyAttempts; as enter(), where a namespace is named. Takes some 20 ms
        beside the loop where a password is hashed."""
        attempt = Attempt(credentials.peer, credentials.username or "", credentials.is_loopback)
        try:
            identity = await self._login(credentials, attempt)
            if namespace is not None:
                identity = self.enter(identity, namespace)
        except PenstockError as error:
            self._attempts.failed(attempt, error)
            raise
        self._attempts.succeeded()
        return identity

    def enter(self, identity: Identity, namespace: str) -> Identity:
        """Who is logged in, to work in a namespace: the own one, or where a rule lets the user in. NoSuchNamespace,
        NamespaceRefused, InvalidArgument."""
        return self.working.enter(identity, self._roles_of(identity) or (), namespace)

    def namespaces(self, identity: Identity, among: Sequence[str]) -> list[str]:
        """Those of them that enter() lets in."""
        return self.working.namespaces(identity, self._roles_of(identity) or (), among)

    def without_login(self) -> Identity | None:
        """Who says nothing, where that is allowed. No attempt: a probe is not somebody who fails to log in."""
        return Identity(ANONYMOUS, how="anonymous") if self._options.allow_anonymous else None

    def login_key(self, text: str, peer: str, is_loopback: bool = False) -> Identity:
        """With an API key alone. BadCredentials, TooManyAttempts; needs no waiting."""
        presented = parse_key(text)
        attempt = Attempt(peer, KEY_USER_PREFIX if presented is None else key_user(presented.id), is_loopback)
        try:
            identity = self._by_key(presented, attempt)
        except PenstockError as error:
            self._attempts.failed(attempt, error)
            raise
        self._attempts.succeeded()
        return identity

    def scram(self, peer: str = "", *, is_loopback: bool = False) -> ScramLogin:
        """One exchange with a client at an IP address."""
        return ScramLogin(self.users, self._attempts, peer, is_loopback)

    def permissions(self, identity: Identity, client_id: str) -> Permissions:
        """One for each session. They follow the rules as these change; a user that was removed may do nothing."""
        find = partial(self._verdicts, identity, client_id)
        if identity.expires_ms is None:
            return Permissions(self._caches, find)
        return PassingPermissions(self._caches, find, self._clock, identity.expires_ms)

    def may_publish_still(self, name: str, namespace: str, client_id: str, topic: bytes) -> bool:
        """Of a login that is over, of which only the name is known, and which was allowed to at the time: by the rules
        of now. What roles came with a token is not known: then only what a rule denies is refused."""
        how: How = "api-key" if name.startswith(KEY_USER_PREFIX) else "jwt"
        identity = Identity(name, namespace, how=how)
        roles = self._roles_of(identity)
        if roles is None:
            return False
        verdicts, wanted = self._verdicts(identity, client_id), wanted_to_publish(topic.decode())
        return verdicts.may(wanted) if roles or self.users.find(name) is not None else not verdicts.denies(wanted)

    def may(self, user: str, action: AskedAction, topic: str, client_id: str = "") -> Verdict:
        """Of a user by name, an API key as `key:<id>`, or `anonymous`: may it do this now, and what decides that?
        NoSuchUser, NoSuchKey."""
        subject = find_subject(user, self.users.find, self.users.find_key)
        if user == ANONYMOUS and not self._options.allow_anonymous:
            return Verdict(False, "nobody comes in without a name: auth.allow_anonymous is off")
        rules = self.users.rules_about(subject.name, subject.roles, subject.namespace)
        return Question(subject, action, topic, client_id).answer(rules, self._clock.now_ms())

    async def _login(self, credentials: Credentials, attempt: Attempt) -> Identity:
        if credentials.certificate_identity and credentials.certificate:
            return self._by_certificate(credentials.certificate)
        if credentials.username is None and credentials.password is None:
            return self._without_name()
        password = credentials.password or b""
        if (presented := _presented_key(credentials.username, password)) is not None:
            return self._by_key(presented, attempt)
        if self._tokens is not None and self._tokens.is_one(password):
            return self._by_token(self._tokens, password, credentials.username)
        return await self._by_password(attempt, password)

    def _without_name(self) -> Identity:
        if not self._options.allow_anonymous:
            raise NotAuthorised("a login needs a user name and a password here")
        return Identity(ANONYMOUS, how="anonymous")

    def _by_certificate(self, certificate: Certificate) -> Identity:
        """The authority vouches for the name; there need not be such a user."""
        name = name_in(certificate, self._options.certificate_name)
        _refuse_name_of_key(name)
        return replace(_identity_of(self.users.find(name) or User(name)), how="certificate")

    def _by_token(self, tokens: Tokens, token: bytes, username: str | None) -> Identity:
        """Whoever signed it vouches for the name. Attempts are not counted: a signature cannot be guessed."""
        claimed = tokens.login(token, username)
        _refuse_name_of_key(claimed.name)
        user = self.users.find(claimed.name) or User(claimed.name)
        return replace(
            _identity_of(user),
            is_admin=ADMIN_ROLE in (*user.roles, *claimed.roles),
            how="jwt",
            namespace=claimed.namespace or user.namespace,
            expires_ms=claimed.expires_ms,
            rules=claimed.rules,
            roles=claimed.roles,
        )

    def _by_key(self, presented: PresentedKey | None, attempt: Attempt) -> Identity:
        """A right one comes in whatever was guessed before: 256 bits are not found by trying, and whoever has read
        the id of a key in a log cannot lock its owner out."""
        key = None if presented is None else self.users.find_key(presented.id)
        if presented is None or not matches(key, presented) or key is None:
            self._attempts.check(attempt)
            self._attempts.guessed_wrong(attempt)
            raise BadCredentials("the API key is wrong, or was revoked")
        if key.expires_ms is not None and key.expires_ms <= self._clock.now_ms():
            raise BadCredentials("the API key has expired")
        return Identity(key_user(key.id), key.namespace, ADMIN_ROLE in key.roles, "api-key", key.expires_ms)

    async def _by_password(self, attempt: Attempt, password: bytes) -> Identity:
        name = attempt.user
        user = self.users.find(name)
        password_hash = None if user is None else user.password_hash
        if user is not None and password_hash is not None and self._verified.knows(name, password, password_hash):
            return _identity_of(user)
        self._attempts.check(attempt)
        is_right = await self._passwords.run(partial(self._look, attempt, password, password_hash))
        # Removed or changed while the password was looked at: the old one does not count any more.
        if not is_right or user is None or password_hash is None or self.users.find(name) != user:
            raise BadCredentials
        if is_foreign(password_hash):
            await self.users.rehash(name, password, password_hash)
        else:
            self._verified.remember(name, password, password_hash)
        return _identity_of(user)

    def _look(self, attempt: Attempt, password: bytes, password_hash: str | None) -> bool:
        """In a thread. A thousand guesses sent at once are not more than one after the other: each is counted before
        the next is looked at."""
        self._attempts.check(attempt)
        is_right = self._passwords.matches(password, password_hash)
        if not is_right:
            self._attempts.guessed_wrong(attempt)
        return is_right

    def _verdicts(self, identity: Identity, client_id: str) -> Verdicts:
        return self.working.verdicts(identity, self._roles_of(identity), client_id)

    def _roles_of(self, identity: Identity) -> tuple[str, ...] | None:
        """Those of now; None if the user or the key of the login is gone."""
        if identity.how == "api-key":
            key = self.users.find_key(identity.name.removeprefix(KEY_USER_PREFIX))
            return None if key is None else key.roles
        user = self.users.find(identity.name)
        if user is None and identity.how in _NEEDS_A_USER:
            return None
        return identity.roles if user is None else (*user.roles, *identity.roles)


class ScramLogin:
    """SCRAM-SHA-256 for one client: first(), then final(). BadCredentials or TooManyAttempts ends it."""

    def __init__(self, users: Users, attempts: Attempts, peer: str, is_loopback: bool) -> None:
        self._users, self._attempts = users, attempts
        self._exchange = ScramServer(users.scram_keys)
        self._attempt = Attempt(peer, "", is_loopback)

    def first(self, data: bytes) -> bytes:
        """The answer to the client's first message."""
        try:
            answer = self._exchange.first(data)
            self._attempt = replace(self._attempt, user=self._exchange.user)
            self._attempts.check(self._attempt)
        except PenstockError as error:
            self._attempts.failed(self._attempt, error)
            raise
        return answer

    def final(self, data: bytes) -> tuple[bytes, Identity]:
        """The answer to the client's last message, and who it is."""
        try:
            answer, user = self._prove(data)
        except PenstockError as error:
            self._attempts.failed(self._attempt, error)
            raise
        self._attempts.succeeded()
        return answer, replace(_identity_of(user), how="scram")

    def _prove(self, data: bytes) -> tuple[bytes, User]:
        self._attempts.check(self._attempt)
        try:
            answer = self._exchange.final(data)
            if (user := self._users.find(self._attempt.user)) is None:
                raise BadCredentials
        except BadCredentials:
            self._attempts.guessed_wrong(self._attempt)
            raise
        return answer, user


class _OperatorAccess(Access):
    def without_login(self) -> Identity | None:
        return _EVERYBODY

    async def login(self, credentials: Credentials, namespace: str | None = None) -> Identity:
        return _everybody(credentials, namespace)

    def enter(self, identity: Identity, namespace: str) -> Identity:
        return replace(identity, namespace=namespace)

    def namespaces(self, identity: Identity, among: Sequence[str]) -> list[str]:
        return list(among)

    def permissions(self, identity: Identity, client_id: str) -> Permissions:
        return AllPermissions(self._caches, _all_verdicts)


class _OpenAccess(Access):
    """Nothing is looked up: there are no users."""

    def __init__(self) -> None:
        clock = SystemClock()
        self.users = NoUsers()
        self.working = Working(self.users)
        self._clock, self._caches, self._attempts = clock, Caches(), Attempts(AuthOptions(), clock)

    @property
    def has_users(self) -> bool:
        return False

    def without_login(self) -> Identity | None:
        return _EVERYBODY

    async def login(self, credentials: Credentials, namespace: str | None = None) -> Identity:
        self._attempts.succeeded()
        identity = _everybody(credentials, None)
        return identity if namespace is None else self.enter(identity, namespace)

    def enter(self, identity: Identity, namespace: str) -> Identity:
        if not self.working.knows(namespace):
            raise NoSuchNamespace(namespace)
        return replace(identity, namespace=namespace)

    def namespaces(self, identity: Identity, among: Sequence[str]) -> list[str]:
        return list(among)

    def login_key(self, text: str, peer: str, is_loopback: bool = False) -> Identity:
        self._attempts.succeeded()
        return Identity(ANONYMOUS, is_admin=True, how="anonymous")

    def may_publish_still(self, name: str, namespace: str, client_id: str, topic: bytes) -> bool:
        return True

    def may(self, user: str, action: AskedAction, topic: str, client_id: str = "") -> Verdict:
        return Verdict(True, "in development mode everyone may do everything")

    def scram(self, peer: str = "", *, is_loopback: bool = False) -> ScramLogin:
        raise NotAuthorised("in development mode there are no users: connect without an authentication method")

    def users_for(self, admin: str) -> UserAdministration:
        raise NotAuthorised("in development mode there are no users: everyone is an admin")

    def permissions(self, identity: Identity, client_id: str) -> Permissions:
        return AllPermissions(self._caches, _all_verdicts)

    def reload(self, options: AuthOptions) -> None:
        """Nothing of it counts here."""

    def close(self) -> None:
        """Nothing was opened."""


def _all_verdicts() -> Verdicts:
    return ADMIN_VERDICTS


_EVERYBODY = Identity(ANONYMOUS, is_admin=True, how="anonymous")


def _everybody(credentials: Credentials, namespace: str | None) -> Identity:
    return Identity(credentials.username or ANONYMOUS, namespace or DEFAULT_NAMESPACE, is_admin=True, how="anonymous")


def _identity_of(user: User) -> Identity:
    return Identity(user.name, user.namespace, ADMIN_ROLE in user.roles)


def _presented_key(username: str | None, password: bytes) -> PresentedKey | None:
    """A key in the password field: without a name, or with that of the key, which no user has."""
    presented = parse_key(password.decode("ascii", "replace"))
    return presented if presented is not None and username in (None, "", key_user(presented.id)) else None


def _refuse_name_of_key(name: str) -> None:
    """Whoever vouches for names is not who makes keys: rules about a key are for its holder."""
    if name.startswith(KEY_USER_PREFIX):
        raise BadCredentials(f"names that begin with {KEY_USER_PREFIX} are those of API keys")


def tokens_of(options: AuthOptions) -> Tokens | None:
    """What they are verified with is installed only where tokens are wanted."""
    if options.jwt is None:
        return None
    try:
        from penstock.broker.auth.tokens import Tokens
    except ModuleNotFoundError as error:
        raise InvalidSetting("auth.jwt", f"needs {error.name}: pip install 'penstock[jwt]'") from error
    return Tokens(options.jwt)
