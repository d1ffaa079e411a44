"""What of security can be set. An attribute carries its unit, the name of the setting does not."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from penstock.broker.auth.rules import Rule
from penstock.queues.names import DEFAULT_NAMESPACE

Algorithm = Literal["HS256", "RS256", "ES256"]
CertificateName = Literal["common-name", "dns", "email", "uri"]

# Stolen SCRAM keys are tried out at this cost for a guess, argon2 hashes at a far higher one: more is better, but a
# small device works for seconds on each login. RFC 7677 asks for 4096 at least.
SCRAM_ITERATIONS = 8192


@dataclass(frozen=True, slots=True)
class JwtOptions:
    """Tokens in the password field. Exactly one of the keys is given: `secret` or `secret_file` for HS256,
    `public_key_file` (PEM) for RS256 and ES256."""

    algorithm: Algorithm = "RS256"
    secret: str | None = field(default=None, repr=False)
    secret_file: str | None = None
    public_key_file: str | None = None
    issuer: str | None = None
    """`iss` must be this"""
    audience: str | None = None
    """`aud` must be or contain this; without it a token with an audience is refused"""
    leeway_s: float = 10.0
    """how far the clocks of issuer and broker may differ"""
    roles_claim: str | None = None
    """the claim with a list of roles; without it a token has none, whatever its issuer calls `admin` for others"""


@dataclass(frozen=True, slots=True)
class ConfiguredUser:
    """A user of the configuration; commands do not change it. `acl` are rules for this user alone."""

    name: str
    password_hash: str | None = field(default=None, repr=False)
    """as `penstock user hash` prints it; without one there is no login by password"""
    roles: tuple[str, ...] = ()
    namespace: str = DEFAULT_NAMESPACE
    acl: tuple[Rule, ...] = ()


@dataclass(frozen=True, slots=True)
class AuthOptions:
    development_mode: bool = False
    """everyone is an admin without login; the server refuses it on listeners that are not loopback"""
    allow_anonymous: bool = False
    """a client without user name and password is `anonymous`, who may do what rules for everyone allow"""
    users: tuple[ConfiguredUser, ...] = ()
    acl: tuple[Rule, ...] = ()
    jwt: JwtOptions | None = None
    certificate_name: CertificateName = "common-name"
    """which part of a verified client certificate is the user's name"""
    scram_iterations: int = SCRAM_ITERATIONS
    max_failed_logins_per_ip: int = 10
    max_failed_logins_per_user: int = 100
    failed_login_window_s: float = 60.0
    verified_password_s: float = 60.0
    """so long after a login the same password is not hashed again; 0 hashes each time"""


@dataclass(frozen=True, slots=True)
class RateLimitOptions:
    """On listeners that are not loopback. 0 as a maximum means no limit."""

    max_connections_per_ip: int = 100
    """in each connection_window"""
    connection_burst_size: int = 20
    connection_window_s: float = 60.0
    max_messages_per_client: int = 1000
    """a second"""
    message_burst_size: int = 100
    max_subscriptions_per_client: int = 100
    """a second"""
    subscribe_burst_size: int = 10
