"""What Flight raises, as errors of Penstock."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
from pyarrow import flight

from penstock.client.errors import ConnectionLost, Refused
from penstock.core.errors import ErrorCode

# Those for which waiting helps, and nothing else has to be done.
_PASSING = frozenset({ErrorCode.QUEUE_FULL, ErrorCode.DISK_LOW, ErrorCode.CLOSED, ErrorCode.TOO_MANY_ATTEMPTS})
_CODES = {code.value: code for code in ErrorCode}
# Around the server's text Arrow writes its own name for the kind of error, and gRPC where in its source it arose.
_BEFORE = re.compile(r"^Flight returned [a-z ]+ error, with message: ")
_BEHIND = re.compile(r"\. (?:Detail: Python exception|gRPC client debug context|Client context): .*$", re.S)
_LOST = (flight.FlightUnavailableError, flight.FlightTimedOutError, flight.FlightCancelledError)


class FlightRefused(Refused):
    """The server's no. `code` is the server's own; REFUSED where it gave none."""

    def __init__(self, code: ErrorCode, reason: str) -> None:
        super().__init__(f"{code.value}: {reason}")
        self.code, self.reason = code, reason

    @property
    def is_passing(self) -> bool:
        return self.code in _PASSING


def code_of(name: str) -> ErrorCode:
    """REFUSED for one that only a newer server has."""
    return _CODES.get(name, ErrorCode.REFUSED)


@contextmanager
def translated() -> Iterator[None]:
    """FlightRefused for what the server said, ConnectionLost if it could not be reached or is gone."""
    try:
        yield
    except (pa.ArrowException, pa.ArrowKeyError, OSError) as error:
        raise problem_of(error) from error


def problem_of(error: Exception) -> FlightRefused | ConnectionLost:
    text = _BEHIND.sub("", _BEFORE.sub("", str(error.args[0] if error.args else error)))
    name, _, reason = text.partition(": ")
    if (code := _CODES.get(name)) is not None:
        return FlightRefused(code, reason)
    if isinstance(error, _LOST):
        return ConnectionLost(f"the Flight listener cannot be reached or has ended: {text}")
    return FlightRefused(ErrorCode.REFUSED, text)
