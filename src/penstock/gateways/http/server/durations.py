"""Durations in requests: `30s`, or a number of seconds."""

from __future__ import annotations

from penstock.codecs.http.spans import Span
from penstock.core.errors import InvalidArgument
from penstock.core.units import duration_text, parse_duration
from penstock.gateways.http.server.problems import Refusal


def seconds_of(written: Span, field: str, limit_s: float, least_s: float = 0) -> float:
    """invalid-argument names the field."""
    try:
        seconds = parse_duration(written) if isinstance(written, str) else float(written)
    except InvalidArgument as error:
        raise Refusal(400, "invalid-argument", f"{field}: {error}", field) from None
    if not least_s <= seconds <= limit_s:
        least, most = duration_text(round(1000 * least_s)), duration_text(round(1000 * limit_s))
        given = written if isinstance(written, str) else f"{seconds:g}s"
        raise Refusal(400, "invalid-argument", f"{field} is {least} to {most}, not {given}", field)
    return seconds
