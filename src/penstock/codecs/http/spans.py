"""Durations in requests: `30s`, or a number of seconds."""

from __future__ import annotations

from typing import Annotated

from penstock.codecs.http.shapes import span

Span = str | float | int
"""as it is read; how it is described depends on the longest"""


LONGEST_WAIT_S, LONGEST_LEASE_S, LONGEST_KEY_S = 30.0, 12 * 3600.0, 10 * 365 * 24 * 3600.0
SHORTEST_KEY_S = 1
_WAIT, _LEASE, _KEY = span(LONGEST_WAIT_S), span(LONGEST_LEASE_S), span(LONGEST_KEY_S, SHORTEST_KEY_S)
Wait = Annotated[str, _WAIT[0]] | Annotated[float, _WAIT[1]] | Annotated[int, _WAIT[1]]


Lease = Annotated[str, _LEASE[0]] | Annotated[float, _LEASE[1]] | Annotated[int, _LEASE[1]]


KeyAge = Annotated[str, _KEY[0]] | Annotated[float, _KEY[1]] | Annotated[int, _KEY[1]]
