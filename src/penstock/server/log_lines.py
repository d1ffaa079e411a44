"""Log lines of the whole process: Penstock's at the level that is set, those of libraries if they are warnings."""

from __future__ import annotations

import logging

from penstock.core.logs import configure_logs
from penstock.server.config import Log, LogFormat, LogLevel

logger = logging.getLogger("penstock.server")


class LogLines:
    """apply() and toggle_debug() take effect at once."""

    def __init__(self, log: Log) -> None:
        self._log, self._is_debug = log, False
        self._configure()

    def apply(self, log: Log) -> None:
        """Debug lines that were turned on by hand stay on."""
        self._log = log
        self._configure()

    def toggle_debug(self) -> None:
        """Said while it can be read, whatever level is set."""
        if self._is_debug:
            logger.warning("debug lines are turned off level=%s", self._log.level.value)
        self._is_debug = not self._is_debug
        self._configure()
        if self._is_debug:
            logger.warning("debug lines are turned on, the same signal turns them off")

    def _configure(self) -> None:
        level = LogLevel.DEBUG if self._is_debug else self._log.level
        configure_logs(level.value, "json" if self._log.format is LogFormat.JSON else "text")
        root = logging.getLogger()
        root.handlers[:] = logging.getLogger("penstock").handlers
        root.setLevel(logging.WARNING)
