"""The server as a whole, for operators: is it ready, how is it configured, read that again, copy the data."""

from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import Callable
from pathlib import Path

from penstock.core.clock import SystemClock
from penstock.core.errors import Closed, InvalidArgument, LogDamaged, LogStopped, PenstockError
from penstock.core.metrics import ReloadMetrics
from penstock.core.ports import Clock
from penstock.core.settings.values import values_of
from penstock.gateways.http.ports import BackupReport, Change, ReloadReport
from penstock.log.offline.backup import create_backup
from penstock.server.config import Config, LogLevel
from penstock.server.log_lines import LogLines
from penstock.server.reload import all_changes
from penstock.server.server import Server
from penstock.version import VERSION

logger = logging.getLogger("penstock.server")

_FAULTS_SAID = 10
_LEVELS = ", ".join(level.value for level in LogLevel)


class ServerOperations:
    """`gateways.http.ports.Operations`. It is there before the server is: until begin(), and after end(), it says that
    the server is not ready. `load` reads the configuration."""

    def __init__(self, load: Callable[[], Config], lines: LogLines, clock: Clock | None = None) -> None:
        self._load, self._lines, self._clock = load, lines, clock or SystemClock()
        self._server: Server | None = None
        self._one_reload, self._one_backup = asyncio.Lock(), asyncio.Lock()
        self._why_not = "the server is starting"
        self.version = VERSION
        self.started_ms: int = self._clock.now_ms()
        self.reload_metrics = ReloadMetrics()

    def begin(self, server: Server) -> None:
        self._server = server

    def end(self) -> None:
        """The server is about to be stopped."""
        self._server, self._why_not = None, "the server is stopping"

    # What it is like

    def addresses(self) -> dict[str, tuple[str, int]]:
        return {} if self._server is None else self._server.addresses

    def problems(self) -> list[str]:
        if self._server is None:
            return [self._why_not]
        found = [f"listener {name} does not accept connections" for name in self._server.not_accepting]
        shard = self._server.works.broker.shard
        if shard.failure is not None:
            found.append(str(shard.failure))
        elif shard.is_closed:
            found.append("the data directory is closed")
        else:
            found += self.broken_logs()
        return found

    def broken_logs(self) -> list[str]:
        if self._server is None:
            return []
        faults = [log.fault for log in self._server.works.broker.shard.faulty_logs]
        return _said([fault for fault in faults if isinstance(fault, LogStopped | LogDamaged)])

    def failure(self) -> str | None:
        failed = None if self._server is None else self._server.works.broker.shard.failure
        return None if failed is None else str(failed)

    def warnings(self) -> list[str]:
        if self._server is None:
            return []
        shard = self._server.works.broker.shard
        low = [] if shard.disk_low is None else [str(shard.disk_low)]
        passed_over = [f"found at the start: {damage}" for damage in shard.damages]
        return low + passed_over + _said([log.fault for log in shard.faulty_logs])

    def config(self) -> dict[str, object]:
        return values_of(self._running().config)

    def _running(self) -> Server:
        if self._server is None:
            raise Closed(f"{self._why_not}: try again in a moment")
        return self._server

    # Reload

    async def check_reload(self) -> list[Change]:
        server, wanted = self._running(), await self._read()
        await server.check(wanted)
        return all_changes(server.config, wanted)

    async def reload(self) -> ReloadReport:
        async with self._one_reload:
            try:
                report = await self._reload()
            except Exception as error:
                self.reload_metrics.failures += 1
                self.reload_metrics.last_failure_ms = self._clock.now_ms()
                logger.error("not reloaded, everything stays as it was error=%s", error)
                raise
            self.reload_metrics.reloads += 1
            self.reload_metrics.last_success_ms = report.reloaded_ms
            return report

    async def _reload(self) -> ReloadReport:
        server, wanted = self._running(), await self._read()
        changes = await server.reload(wanted)
        self._lines.apply(wanted.log)
        applied = [change for change in changes if not change.needs_restart]
        return ReloadReport(self._clock.now_ms(), applied, [change for change in changes if change.needs_restart])

    async def _read(self) -> Config:
        return await asyncio.get_running_loop().run_in_executor(None, self._load)

    # Log lines

    @property
    def log_level(self) -> str:
        return self._lines.level.value

    @log_level.setter
    def log_level(self, level: str) -> None:
        try:
            self._lines.set_level(LogLevel(level))
        except ValueError:
            raise InvalidArgument(f"{level[:80]!r} is not a log level: give one of {_LEVELS}") from None

    # Backup

    async def backup(self, target: str) -> BackupReport:
        directory = Path(self._running().config.data_dir)
        if not target or "\0" in target or not Path(target).is_absolute():
            raise InvalidArgument("a backup needs the absolute path of a directory of the server's machine")
        if self._one_backup.locked():
            raise InvalidArgument("a backup is being made: wait until it is done")
        async with self._one_backup:
            return await asyncio.get_running_loop().run_in_executor(None, _back_up, directory, Path(target))


def _said(faults: list[PenstockError | None]) -> list[str]:
    lines = [str(fault) for fault in faults[:_FAULTS_SAID]]
    more = len(faults) - len(lines)
    return [*lines, f"and {more} more logs"] if more else lines


def _back_up(directory: Path, target: Path) -> BackupReport:
    try:
        report = create_backup(directory, target, lambda path, done, total: None)
    except OSError as error:
        what = error.strerror or errno.errorcode.get(error.errno or 0, "failed")
        raise InvalidArgument(f"no backup was made in {target}: {what}") from error
    logger.info("backup made target=%s files=%d bytes=%d", report.target, report.files, report.bytes)
    return BackupReport(str(report.target), report.files, report.bytes, report.linked_bytes, len(report.logs))
