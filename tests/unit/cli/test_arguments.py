"""Arguments as people write them."""

from __future__ import annotations

import pytest

from penstock.cli.arguments import parse_time
from penstock.core.errors import InvalidArgument

NOW_MS = 1_794_729_600_000


@pytest.mark.parametrize(
    ("text", "expected_ms"),
    [
        ("1794729600123", 1_794_729_600_123),
        ("1970-01-01T00:00:01Z", 1000),
        ("1970-01-01T01:00:00+01:00", 0),
        ("1970-01-01T00:00:00.250+00:00", 250),
        ("2h", NOW_MS - 7_200_000),
        ("1h30m", NOW_MS - 5_400_000),
    ],
)
def test_a_time_is_iso_or_milliseconds_or_a_duration_back(text: str, expected_ms: int) -> None:
    assert parse_time(text, NOW_MS) == expected_ms


@pytest.mark.parametrize("text", ["", "yesterday", "12:00", "2026-13-01", "5x", "-1"])
def test_anything_else_is_refused_with_what_to_write(text: str) -> None:
    with pytest.raises(InvalidArgument, match="write"):
        parse_time(text, NOW_MS)
