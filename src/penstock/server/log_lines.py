"""Log lines of the whole process: Penstock's at the level that is set, those of libraries if they are warnings."""

from __future__ import annotations

import logging
from typing import Literal

from penstock.core.logs import configure_logs
from penstock.server.config import Log, LogFormat, LogLevel
from penstock.server.written import BadConfiguration

logger = logging.getLogger("penstock.server")


class LogLines:
    """apply(), set_level() and toggle_debug() take effect at once."""

    def __init__(self, log: Log) -> None:
        self._log, self._level, self._is_debug = log, log.level, False
        self._configure()

    @property
    def level(self) -> LogLevel:
        """Of now."""
        return LogLevel.DEBUG if self._is_debug else self._level

    def apply(self, log: Log) -> None:
        """Debug lines that were turned on by hand stay on, and so does a level that was set, unless the one of the
        configuration is another than before."""
        if log.level is not self._log.level:
            self._level = log.level
        self._log = log
        self._configure()

    def set_level(self, level: LogLevel) -> None:
        """Until the configuration says another; a debug that was turned on by hand ends."""
        logger.warning("log level changed before=%s after=%s", self.level.value, level.value)
        self._level, self._is_debug = level, False
        self._configure()

    def toggle_debug(self) -> None:
        """Said while it can be read, whatever level is set."""
        if self._is_debug:
            logger.warning("debug lines are turned off level=%s", self._level.value)
        self._is_debug = not self._is_debug
        self._configure()
        if self._is_debug:
            logger.warning("debug lines are turned on, the same signal turns them off")

    def _configure(self) -> None:
        format: Literal["json", "text"] = "json" if self._log.format is LogFormat.JSON else "text"
        try:
            configure_logs(self.level.value, format, self._log.file)
        except OSError as error:
            reason = f"{self._log.file} cannot be written: {error.strerror}; check the path and who may write there"
            raise BadConfiguration("log.file", reason) from None
        root = logging.getLogger()
        root.handlers[:] = logging.getLogger("penstock").handlers
        root.setLevel(logging.WARNING)
