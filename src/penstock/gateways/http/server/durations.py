"""Durations in requests: `30s`, or a number of seconds."""

from __future__ import annotations

from penstock.codecs.http.spans import Span
from penstock.core.errors import InvalidArgument
from penstock.core.units import parse_duration
from penstock.gateways.http.server.problems import Refusal


def seconds_of(written: Span, field: str, limit_s: float, least_s: float = 0) -> float:
    """invalid-argument names the field."""
    try:
        seconds = parse_duration(written) if isinstance(written, str) else float(written)
    except InvalidArgument as error:
        raise Refusal(400, "invalid-argument", f"{field}: {error}", field) from None
    if not least_s <= seconds <= limit_s:
        said = f"{field} is {least_s:g} to {limit_s:g} seconds, not {seconds:g}"
        raise Refusal(400, "invalid-argument", said, field)
    return seconds
