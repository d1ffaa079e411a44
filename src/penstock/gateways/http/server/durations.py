"""Durations in requests: `30s`, or a number of seconds."""

from __future__ import annotations

from penstock.codecs.http.spans import Span
from penstock.core.errors import InvalidArgument
from penstock.core.units import parse_duration
from penstock.gateways.http.server.problems import Refusal


def seconds_of(written: Span, field: str, limit_s: float) -> float:
    """invalid-argument names the field."""
    try:
        seconds = parse_duration(written) if isinstance(written, str) else float(written)
    except InvalidArgument as error:
        raise Refusal(400, "invalid-argument", f"{field}: {error}", field) from None
    if not 0 <= seconds <= limit_s:
        raise Refusal(400, "invalid-argument", f"{field} is 0 to {limit_s:g} seconds, not {seconds:g}", field)
    return seconds
