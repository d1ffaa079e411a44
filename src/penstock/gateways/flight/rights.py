"""Whether a caller may write: asked for every queue, on the server's loop."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.broker.auth.access import Access
from penstock.broker.auth.identity import Identity
from penstock.broker.auth.permissions import Permissions
from penstock.broker.staging.owners import Owner
from penstock.core.errors import NotAuthorised
from penstock.core.queue_paths import queue_topic
from penstock.gateways.beside.frames import Caller
from penstock.gateways.beside.login import login, namespace_of


@dataclass(frozen=True, slots=True)
class Writer:
    """Somebody who has logged in."""

    identity: Identity
    permissions: Permissions
    namespace: str

    @classmethod
    async def of(cls, access: Access, caller: Caller, is_loopback: bool) -> Writer:
        """BadCredentials, NotAuthorised, TooManyAttempts."""
        identity = await login(access, caller, is_loopback)
        permissions = access.permissions(identity, identity.name)
        return cls(identity, permissions, namespace_of(identity, permissions, caller.namespace))

    @property
    def owner(self) -> Owner:
        """As whom it stages and commits."""
        return Owner(self.identity.name, self.identity.namespace, self.permissions.administers)

    def require_publish(self, queue: str, namespace: str) -> None:
        """NotAuthorised, as rules are now."""
        namespace_of(self.identity, self.permissions, namespace)
        address = queue_topic(queue)
        if not self.permissions.may_publish(address.encode()):
            raise NotAuthorised(f"{self.identity.name} may not publish to {address!r}")
