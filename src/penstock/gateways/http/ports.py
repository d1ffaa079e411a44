"""What the gateway needs of the rest of a server."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from penstock.broker.auth.access import Access
from penstock.broker.auth.limits import RateLimits
from penstock.broker.broker import Broker


class Operations(Protocol):
    """The server as its operators see it."""

    @property
    def version(self) -> str: ...

    def problems(self) -> list[str]:
        """Why it is not ready; empty when every listener accepts and every shard commits."""
        ...


@dataclass(frozen=True, slots=True)
class Ports:
    broker: Broker
    access: Access
    limits: RateLimits
    operations: Operations
