"""Log lines as events with fields (`segment sealed log=… base=…`), as text or as one JSON object a line."""

from __future__ import annotations

import json
import logging
import re
import sys
from datetime import UTC, datetime
from math import isfinite
from typing import Literal

from penstock.core.errors import InvalidArgument

# Of a line as the code has it: a field `name=%d` or `name=word`, or a value inside the text.
_PART = re.compile(
    r"(?:(?<!\S)(?P<name>\w+)=(?:(?P<word>[^%\s]+)(?!\S))?)?(?P<spec>%(?:%|[-#0 +]*\d*(?:\.\d+)?[a-zA-Z]))?"
)
# What joins a field to the text behind it.
_JOINTS = " ,:;"
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
    """`event k=%s n=%d` becomes {"time", "level", "logger", "event", "k": "v", "n": 7, …}: a number stays one, and the
    event is the text without its fields, the same for every line of its kind. A field named like one of ours gets an
    underscore behind its name."""

    def format(self, record: logging.LogRecord) -> str:
        event, fields = _parts(record)
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": event,
        }
        line.update((f"{key}_" if key in _OWN_KEYS else key, value) for key, value in fields.items())
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line)


def _parts(record: logging.LogRecord) -> tuple[str, dict[str, object]]:
    """The event and its fields."""
    if not isinstance(record.msg, str) or not isinstance(record.args, tuple):
        return record.getMessage(), {}
    values, texts, fields, end = iter(record.args), list[str](), dict[str, object](), 0
    for part in _PART.finditer(record.msg):
        if part.end() == part.start():
            continue
        name, word, spec = part["name"], part["word"], part["spec"]
        texts.append(record.msg[end : part.start()])
        end = part.end()
        value = next(values, "") if spec and spec != "%%" else None
        if name is None:
            texts.append("%" if spec == "%%" else str(spec % value) if record.args else str(spec))
        elif spec is None:
            fields[name] = word or ""
        else:
            fields[name] = _plain(value, spec)
    texts.append(record.msg[end:])
    return " ".join("".join(texts).split()).strip(_JOINTS), fields


def _plain(value: object, spec: str) -> object:
    """As JSON has it: numbers stay numbers, with as many digits as the line has."""
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        shown = str(spec % value)
        return (float(shown) if "e" in spec or "f" in spec or "g" in spec else value) if isfinite(value) else shown
    return str(spec % (value,))


def _at_end_of(file: str) -> logging.Handler:
    from logging.handlers import WatchedFileHandler  # brings sockets along, which commands need not wait for

    return WatchedFileHandler(file, encoding="utf-8")


def configure_logs(level: str, format: Literal["text", "json"], file: str | None = None) -> None:
    """Send Penstock's log lines to standard error, or to the end of a file that is opened anew when it was moved away,
    as logrotate does; calling it again changes level, format and file of a running process."""
    if (level_number := logging.getLevelNamesMapping().get(level.upper())) is None:
        raise InvalidArgument(f"{level!r} is not a log level: write debug, info, warning, error or critical")
    handler: logging.Handler = logging.StreamHandler(sys.stderr) if file is None else _at_end_of(file)
    handler.setFormatter(JsonFormatter() if format == "json" else TextFormatter())
    root = logging.getLogger("penstock")
    before, root.handlers[:] = root.handlers[:], [handler]
    for other in before:
        other.close()
    root.propagate = False
    root.setLevel(level_number)
