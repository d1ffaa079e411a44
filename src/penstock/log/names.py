"""Names of logs, and the directories they get. No byte of a name reaches the file system unencoded."""

from __future__ import annotations

from urllib.parse import quote, unquote

from penstock.core.errors import InvalidArgument
from penstock.core.types import LogName, LogNumber

CATALOGUE_NUMBER = LogNumber(0)
CATALOGUE_NAME = LogName("@catalogue")

# File systems take 255 bytes a component; the log's number keeps shortened names apart.
_LABEL_BYTES = 100


def log_name(*parts: str) -> LogName:
    """Join parts such as (namespace, queue, partition), whatever characters they hold, into one name."""
    if not parts or not all(parts):
        raise InvalidArgument("a log's name needs at least one part, and no part may be empty")
    return LogName("/".join(quote(part, safe="") for part in parts))


def parse_log_name(text: str) -> LogName:
    """A name as a person types it: `orders`, `default/orders/3`; characters beyond letters, digits and `-._~` get
    encoded."""
    return log_name(*(unquote(part) for part in text.split("/")))


def directory_of(name: LogName, number: LogNumber) -> str:
    """The log's directory, relative to the data directory; the number makes it unique for ever."""
    labels = [_label(part) for part in name.split("/")]
    return f"logs/{'/'.join(labels)}@{number}"


def _label(part: str) -> str:
    return part.replace(".", "%2E", 1)[:_LABEL_BYTES] if part.startswith(".") else part[:_LABEL_BYTES]
