"""Errors as Flight has them: its own code, which clients know; ours in front of the text."""

from __future__ import annotations

import pyarrow as pa
from pyarrow import flight

from penstock.core.errors import ErrorCode, PenstockError
from penstock.gateways.beside.server_line import Refused

_KINDS: dict[ErrorCode, type[Exception]] = {
    ErrorCode.INVALID_ARGUMENT: pa.ArrowInvalid,
    ErrorCode.OFFSET_OUT_OF_RANGE: pa.ArrowInvalid,
    ErrorCode.TRIMMED: pa.ArrowInvalid,
    ErrorCode.TOO_LARGE: pa.ArrowInvalid,
    ErrorCode.STAGE_GONE: pa.ArrowInvalid,
    ErrorCode.EPOCH_FORGOTTEN: pa.ArrowInvalid,
    ErrorCode.PIPELINE_KNOWN: pa.ArrowInvalid,
    ErrorCode.NO_SUCH_QUEUE: pa.ArrowKeyError,
    ErrorCode.QUEUE_REPLACED: pa.ArrowKeyError,
    ErrorCode.BAD_CREDENTIALS: flight.FlightUnauthenticatedError,
    ErrorCode.NOT_AUTHORISED: flight.FlightUnauthorizedError,
    ErrorCode.TOO_MANY_ATTEMPTS: flight.FlightUnavailableError,
    ErrorCode.CLOSED: flight.FlightUnavailableError,
    ErrorCode.QUEUE_FULL: flight.FlightUnavailableError,
    ErrorCode.DISK_LOW: flight.FlightUnavailableError,
}


def problem_of(error: PenstockError | Refused) -> Exception:
    """What is not a caller's doing is INTERNAL."""
    kind: type[Exception] = _KINDS.get(error.code, flight.FlightInternalError)
    return kind(f"{error.code.value}: {error}")
