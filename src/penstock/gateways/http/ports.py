"""What this gateway needs of layers that it must not import: they give it these."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

import msgspec

from penstock.broker.auth.access import Access
from penstock.broker.auth.limits import RateLimits
from penstock.broker.broker import Broker
from penstock.broker.clients import ChannelDescription, ClientDirectory
from penstock.broker.publish.publisher import Publisher
from penstock.broker.retained.retained import Retained
from penstock.broker.sessions.sessions import Sessions
from penstock.broker.topics.taps import Taps
from penstock.broker.webhooks.webhooks import Webhooks
from penstock.core.metrics import ReloadMetrics
from penstock.log.columns import Columns
from penstock.telemetry.sources import ProtocolCounters


class Change(msgspec.Struct, frozen=True):
    """One setting of the configuration, as people write it. Secrets are not shown, only that they changed."""

    path: str
    before: str
    after: str
    needs_restart: bool = False


class ReloadReport(msgspec.Struct, frozen=True):
    """Settings that were changed, and those that wait for a restart."""

    reloaded_ms: int
    applied: list[Change]
    waiting: list[Change]


class BackupReport(msgspec.Struct, frozen=True):
    target: str
    files: int
    bytes: int
    linked_bytes: int
    """of `bytes`, what takes no room of its own"""
    logs: int


class TopicSender(Protocol):
    """`broker.topics.Topics`, or what says why there is none. Used from the loop."""

    async def send(
        self,
        columns: Columns,
        *,
        qos: int,
        retain: bool,
        publisher: Publisher,
        namespace: str = "default",
        made: dict[bytes, str] | None = None,
        is_mandatory: bool = False,
    ) -> int: ...


class Operations(Protocol):
    """What operators ask of the server as a whole. Used from the loop."""

    @property
    def version(self) -> str: ...

    @property
    def started_ms(self) -> int: ...

    @property
    def reload_metrics(self) -> ReloadMetrics: ...

    def addresses(self) -> dict[str, tuple[str, int]]:
        """Host and port of each listener."""
        ...

    def problems(self) -> list[str]:
        """Why it is not ready, a sentence each; none if every listener accepts, every shard commits and every log is
        whole."""
        ...

    def broken_logs(self) -> list[str]:
        """Logs that opening could not bring back whole, a sentence each: a restart does not help."""
        ...

    def failure(self) -> str | None:
        """Why nothing is acknowledged until the server is started again; None while it is."""
        ...

    def warnings(self) -> list[str]:
        """What an operator should look at though it is ready."""
        ...

    def config(self) -> dict[str, object]:
        """Every value by its path, as people write it; `(secret)` in place of secrets."""
        ...

    async def check_reload(self) -> list[Change]:
        """What reload() would change, and what it would not. Raises as it does; nothing changes."""
        ...

    async def reload(self) -> ReloadReport:
        """Read the configuration again, and apply what can change while clients are connected. InvalidSetting, and
        everything stays as it was, if any of it will not do; Closed while the server starts or stops."""
        ...

    @property
    def log_level(self) -> str: ...

    @log_level.setter
    def log_level(self, level: str) -> None:
        """Until the configuration says another. InvalidArgument for what is no level."""
        ...

    async def backup(self, target: str) -> BackupReport:
        """Copy the data directory, live, to a directory of this machine that is empty or absent; one at a time.
        InvalidArgument for a place that will not do."""
        ...


@dataclass(frozen=True, slots=True)
class Ports:
    """Everything that a request may need."""

    broker: Broker
    access: Access
    limits: RateLimits
    retained: Retained
    sessions: Sessions | None
    """None where there is a directory and no server"""
    topics: TopicSender
    taps: Taps
    clients: ClientDirectory
    operations: Operations
    webhooks: Webhooks
    protocols: Mapping[str, ProtocolCounters]
    """what the gateways of other protocols counted"""
    connections: Callable[[], Mapping[str, int]]
    """of other protocols, by their names"""
    channels: Callable[[], Iterable[ChannelDescription]] = tuple
    """of those who have some"""
