"""Who somebody is, before and after the login."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from penstock.broker.auth.rules import Rule
from penstock.queues.names import DEFAULT_NAMESPACE

How = Literal["anonymous", "password", "certificate", "jwt", "scram", "api-key"]
ANONYMOUS = "anonymous"

Certificate = Mapping[str, object]
"""as `ssl.SSLSocket.getpeercert()` gives it"""


@dataclass(frozen=True, slots=True)
class Credentials:
    """What a client brought along. `peer` is its IP address."""

    username: str | None
    password: bytes | None = field(repr=False)
    client_id: str
    peer: str
    certificate: Certificate | None = None
    """that the listener has verified"""
    certificate_identity: bool = False
    """of the listener: the certificate is the login"""
    is_loopback: bool = False
    """of the listener"""


@dataclass(frozen=True, slots=True)
class Identity:
    """Who is logged in. Roles are those at the login; `Permissions` looks at those of now."""

    name: str
    namespace: str = DEFAULT_NAMESPACE
    is_admin: bool = False
    how: How = "password"
    expires_ms: int | None = None
    """wall time at which the login ends; the permissions end by themselves, the connection should be closed then"""
    rules: tuple[Rule, ...] = ()
    """that came with a token"""
    roles: tuple[str, ...] = ()
    """that came with a token, beside those that the user has"""
    own_namespace: str | None = None
    """where it is another one than that in which is worked"""

    @property
    def home(self) -> str:
        """The namespace of the user, where the roles hold."""
        return self.own_namespace or self.namespace

    @property
    def mark(self) -> str:
        """What records hold of whose something is. A namespace has no slash."""
        return f"{self.namespace}/{self.name}"
