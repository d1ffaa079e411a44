"""A server as the HTTP gateway asks for it, that says what a test wants it to say."""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.core.metrics import ReloadMetrics
from penstock.gateways.http.ports import BackupReport, Change, ReloadReport


@dataclass(slots=True)
class FakeOperations:
    version: str = "0.0.0-test"
    started_ms: int = 0
    reload_metrics: ReloadMetrics = field(default_factory=ReloadMetrics)
    log_level: str = "info"
    why_not_ready: list[str] = field(default_factory=list)
    why_failed: str | None = None
    broken: list[str] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)

    def addresses(self) -> dict[str, tuple[str, int]]:
        return {"http": ("127.0.0.1", 0)}

    def problems(self) -> list[str]:
        return self.why_not_ready

    def broken_logs(self) -> list[str]:
        return self.broken

    def failure(self) -> str | None:
        return self.why_failed

    def warnings(self) -> list[str]:
        return []

    def config(self) -> dict[str, object]:
        return {"data_dir": "data"}

    async def check_reload(self) -> list[Change]:
        return self.changes

    async def reload(self) -> ReloadReport:
        self.reload_metrics.reloads += 1
        return ReloadReport(0, self.changes, [])

    async def backup(self, target: str) -> BackupReport:
        return BackupReport(target, 0, 0, 0, 0)
