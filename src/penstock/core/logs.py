"""Log lines as events with fields (`segment sealed log=… base=…`), as text or as one JSON object a line."""

from __future__ import annotations

import json
import logging
import re
import sys
from datetime import UTC, datetime
from typing import Literal

from penstock.core.errors import InvalidArgument

# A value reaches to the next field, so that `reason=No space left on device` is kept whole.
_FIELD = re.compile(r"(?:^|(?<=\s))(\w+)=(.*?)(?=\s+\w+=|\s*\Z)", re.DOTALL)
# What ends a line or speaks to a terminal.
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_OWN_KEYS = frozenset({"time", "level", "logger", "event", "exception"})


class TextFormatter(logging.Formatter):
    """An event is one line, whatever clients call themselves; a traceback follows on lines of its own."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(name)s %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:
        return _UNPRINTABLE.sub(_escaped, super().formatMessage(record))


def _escaped(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode()


class JsonFormatter(logging.Formatter):
    """`event k=v k=v` becomes {"time", "level", "logger", "event", "k": "v", …}; a field named like one of ours gets
    an underscore behind its name."""

    def format(self, record: logging.LogRecord) -> str:
        text = record.getMessage()
        first = _FIELD.search(text)
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": (text[: first.start()] if first else text).strip(),
        }
        line.update((f"{key}_" if key in _OWN_KEYS else key, value) for key, value in _FIELD.findall(text))
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line)


def configure_logs(level: str, format: Literal["text", "json"]) -> None:
    """Send Penstock's log lines to standard error; calling it again changes level and format of a running process."""
    if (level_number := logging.getLevelNamesMapping().get(level.upper())) is None:
        raise InvalidArgument(f"{level!r} is not a log level: write debug, info, warning, error or critical")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if format == "json" else TextFormatter())
    root = logging.getLogger("penstock")
    root.handlers[:] = [handler]
    root.propagate = False
    root.setLevel(level_number)
