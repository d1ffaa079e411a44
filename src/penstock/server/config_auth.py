"""What can be set of security: logins, rules, limits."""

from __future__ import annotations

from typing import Annotated, get_args

import msgspec

from penstock.broker.auth.options import (
    Algorithm,
    AuthOptions,
    CertificateName,
    ConfiguredUser,
    JwtOptions,
    RateLimitOptions,
)
from penstock.broker.auth.passwords import check_password_hash
from penstock.broker.auth.rules import Rule, check_name, rule_of
from penstock.core.errors import InvalidArgument
from penstock.core.settings.numbers import Count, Duration
from penstock.core.settings.objects import Objects
from penstock.core.settings.texts import ListOf, Secret, Text
from penstock.core.settings.words import Flag, OneOf
from penstock.queues.names import DEFAULT_NAMESPACE, check_namespace

_MANY = 1 << 40
_LOGINS, _LIMITS = AuthOptions(), RateLimitOptions()


def _check_text(text: str) -> None:
    if not text or not text.isprintable():
        raise InvalidArgument("is empty, or has an invisible character in it")


def _check_rule(written: dict[str, object]) -> None:
    rule_of(written)


class _Section(msgspec.Struct, frozen=True, kw_only=True):
    """What every section is."""


class User(_Section, frozen=True, kw_only=True):
    name: Annotated[str, Text(check_name)]
    """what the client sends as its user name"""
    password_hash: Annotated[str | None, Secret(check_password_hash)] = None
    """as `penstock user hash` prints it; without one there is no login by password"""
    roles: Annotated[tuple[str, ...], ListOf(Text(check_name))] = ()
    """`admin` may do everything; others are named in rules"""
    namespace: Annotated[str, Text(check_namespace)] = DEFAULT_NAMESPACE
    """whose topics and queues the user sees"""
    acl: Annotated[tuple[dict[str, object], ...], Objects(_check_rule)] = ()
    """rules for this user alone: `{effect: allow, action: publish, pattern: devices/%c/#}`"""

    def configured(self) -> ConfiguredUser:
        return ConfiguredUser(self.name, self.password_hash, self.roles, self.namespace, _rules(self.acl))


class Jwt(_Section, frozen=True, kw_only=True):
    algorithm: Annotated[Algorithm, OneOf(get_args(Algorithm))] = "RS256"
    """the only one that is accepted"""
    secret: Annotated[str | None, Secret(_check_text)] = None
    """for HS256; better in secret_file or in a variable of the environment"""
    secret_file: Annotated[str | None, Text(_check_text, or_none=True)] = None
    """file with the secret"""
    public_key_file: Annotated[str | None, Text(_check_text, or_none=True)] = None
    """for RS256 and ES256, PEM"""
    issuer: Annotated[str | None, Text(_check_text, or_none=True)] = None
    """`iss` of a token must be this"""
    audience: Annotated[str | None, Text(_check_text, or_none=True)] = None
    """`aud` of a token must be or contain this; without it a token with an audience is refused"""
    leeway_ms: Annotated[int, Duration(0)] = 10_000
    """how far the clocks of issuer and server may differ"""
    roles_claim: Annotated[str | None, Text(_check_text, or_none=True)] = None
    """the claim with a list of roles; without it a token has none, whatever its issuer calls `admin` for others"""

    def options(self) -> JwtOptions:
        return JwtOptions(
            self.algorithm,
            self.secret,
            self.secret_file,
            self.public_key_file,
            self.issuer,
            self.audience,
            self.leeway_ms / 1000,
            self.roles_claim,
        )


class Auth(_Section, frozen=True, kw_only=True):
    development_mode: Annotated[bool, Flag()] = False
    """everyone is an admin without login; refused unless every listener is loopback"""
    allow_anonymous: Annotated[bool, Flag()] = False
    """a client without user name and password is `anonymous`, who may do what rules for everyone allow"""
    users: tuple[User, ...] = ()
    """beside those of `penstock user add`; commands do not change them"""
    acl: Annotated[tuple[dict[str, object], ...], Objects(_check_rule)] = ()
    """rules: `{effect: allow, action: subscribe, pattern: news/#, role: readers}`; a deny wins, the rest is denied"""
    jwt: Jwt | None = None
    """logins by token, in the password field"""
    certificate_name: Annotated[CertificateName, OneOf(get_args(CertificateName))] = _LOGINS.certificate_name
    """which part of a verified client certificate is the user's name"""
    scram_iterations: Annotated[int, Count(4096, 10_000_000)] = _LOGINS.scram_iterations
    """iterations for passwords set from now on; more make guessing, and each login, more expensive"""
    max_failed_logins_per_ip: Annotated[int, Count(1, _MANY)] = _LOGINS.max_failed_logins_per_ip
    """failed logins of one address per failed_login_window; further ones are refused without checking"""
    max_failed_logins_per_user: Annotated[int, Count(1, _MANY)] = _LOGINS.max_failed_logins_per_user
    """failed logins of one user name per failed_login_window, from all addresses"""
    failed_login_window_ms: Annotated[int, Duration()] = round(_LOGINS.failed_login_window_s * 1000)
    """window in which failed logins are counted"""
    verified_password_ms: Annotated[int | None, Duration(or_none=True)] = round(_LOGINS.verified_password_s * 1000)
    """how long a verified password is remembered, to save hashing it again"""

    def options(self) -> AuthOptions:
        return AuthOptions(
            development_mode=self.development_mode,
            allow_anonymous=self.allow_anonymous,
            users=tuple(user.configured() for user in self.users),
            acl=_rules(self.acl),
            jwt=None if self.jwt is None else self.jwt.options(),
            certificate_name=self.certificate_name,
            scram_iterations=self.scram_iterations,
            max_failed_logins_per_ip=self.max_failed_logins_per_ip,
            max_failed_logins_per_user=self.max_failed_logins_per_user,
            failed_login_window_s=self.failed_login_window_ms / 1000,
            verified_password_s=(self.verified_password_ms or 0) / 1000,
        )


class RateLimit(_Section, frozen=True, kw_only=True):
    max_connections_per_ip: Annotated[int, Count(0, _MANY)] = _LIMITS.max_connections_per_ip
    """new connections of one address per connection_window, behind a proxy of the announced address; 0 here and below
    is no limit"""
    connection_burst_size: Annotated[int, Count(1, _MANY)] = _LIMITS.connection_burst_size
    """burst size: how many may come at once"""
    connection_window_ms: Annotated[int, Duration()] = round(_LIMITS.connection_window_s * 1000)
    """window in which connections of an address are counted"""
    max_messages_per_client: Annotated[int, Count(0, _MANY)] = _LIMITS.max_messages_per_client
    """messages per second that one client may publish"""
    message_burst_size: Annotated[int, Count(1, _MANY)] = _LIMITS.message_burst_size
    """burst size: how many may come at once"""
    max_subscriptions_per_client: Annotated[int, Count(0, _MANY)] = _LIMITS.max_subscriptions_per_client
    """subscriptions per second that one client may make"""
    subscribe_burst_size: Annotated[int, Count(1, _MANY)] = _LIMITS.subscribe_burst_size
    """burst size: how many may come at once"""

    def options(self) -> RateLimitOptions:
        return RateLimitOptions(
            self.max_connections_per_ip,
            self.connection_burst_size,
            self.connection_window_ms / 1000,
            self.max_messages_per_client,
            self.message_burst_size,
            self.max_subscriptions_per_client,
            self.subscribe_burst_size,
        )


def _rules(written: tuple[dict[str, object], ...]) -> tuple[Rule, ...]:
    return tuple(rule_of(rule) for rule in written)
