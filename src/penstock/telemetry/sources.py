"""Where numbers come from."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from penstock import kernels
from penstock.broker.auth.access import Access
from penstock.broker.auth.limits import RateLimits
from penstock.broker.broker import Broker
from penstock.broker.retained.retained import Retained
from penstock.broker.sessions.sessions import Sessions
from penstock.core.metrics import ReloadMetrics
from penstock.telemetry.memory import Memory
from penstock.version import VERSION


class ProtocolCounters(Protocol):
    """What the gateway of one protocol counted since it was started. Asked on the loop."""

    @property
    def accepted(self) -> int:
        """Connections."""
        ...

    @property
    def received(self) -> int:
        """Messages that were taken."""
        ...

    @property
    def sent(self) -> int: ...

    @property
    def dropped(self) -> int:
        """Messages that their receivers had no room for."""
        ...

    @property
    def received_bytes(self) -> int: ...

    @property
    def sent_bytes(self) -> int: ...

    @property
    def refused(self) -> Mapping[str, int]:
        """Messages that were not taken, by the reason that their publishers were told."""
        ...

    @property
    def throttled(self) -> Mapping[str, int]:
        """Times that a client had to wait for a limit of that name, or was refused for it."""
        ...

    @property
    def errors(self) -> Mapping[str, int]:
        """Connections that ended because the client broke the protocol, by reason."""
        ...

    @property
    def subscriptions(self) -> int:
        """There are now."""
        ...


@dataclass(frozen=True, slots=True)
class Build:
    version: str
    kernels: str
    """compiled or pure"""
    python: str


def this_build() -> Build:
    version = ".".join(map(str, sys.version_info[:3]))
    return Build(VERSION, "compiled" if kernels.compiled() else "pure", version)


@dataclass(frozen=True, slots=True)
class MetricOptions:
    max_queues: int = 1000
    """with numbers of their own; all others are summed up"""
    max_groups: int = 2000
    partitions: bool = False
    """offsets and lags of each partition too"""
    max_partitions: int = 10_000
    """of all queues and groups together, with numbers of their own"""
    namespace: str | None = None
    """only queues of that one; None: of all"""
    server: bool = True
    """numbers of the whole server too"""


@dataclass(slots=True)
class MetricSources:
    broker: Broker
    access: Access
    limits: RateLimits
    sessions: Sessions | None
    retained: Retained
    connections: Callable[[], Mapping[str, int]]
    """that are open, by protocol"""
    protocols: Mapping[str, ProtocolCounters]
    reloads: ReloadMetrics
    started_ms: int
    build: Build = field(default_factory=this_build)
    memory: Memory = field(default_factory=Memory)
    """what one collection leaves to the next"""
