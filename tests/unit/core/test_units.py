from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.errors import InvalidArgument
from penstock.core.units import parse_duration, parse_size


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [
        ("64", 64),
        ("64B", 64),
        ("0", 0),
        ("512KiB", 512 << 10),
        ("64MiB", 64 << 20),
        ("64MB", 64_000_000),
        ("1.5gib", 3 << 29),
        (" 2 TiB ", 2 << 40),
        ("1TB", 10**12),
        ("0.1", 0),
    ],
)
def test_a_size_is_bytes(text: str, size_bytes: int) -> None:
    assert parse_size(text) == size_bytes


@given(st.integers(0, 10**18 - 1))
def test_a_size_is_exact_beyond_what_a_float_holds(size_bytes: int) -> None:
    assert parse_size(str(size_bytes)) == size_bytes


@pytest.mark.parametrize("text", ["", " ", "MiB", "-1", "+1", "1e3", "1,5GB", "64 miles", "1GB 5MB", "٣", "9" * 400])
def test_what_is_no_size_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(InvalidArgument, match="write it like 512KiB"):
        parse_size(text)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("200ms", 0.2),
        ("30s", 30.0),
        ("1.5s", 1.5),
        ("5m", 300.0),
        ("24h", 86_400.0),
        ("7d", 604_800.0),
        ("2w", 1_209_600.0),
        ("1h30m", 5400.0),
        (" 1 H 30 M ", 5400.0),
        ("0s", 0.0),
    ],
)
def test_a_duration_is_seconds(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@given(st.integers(0, 10**12))
def test_milliseconds_become_the_nearest_float(milliseconds: int) -> None:
    assert parse_duration(f"{milliseconds}ms") == milliseconds / 1000


@pytest.mark.parametrize("text", ["", "  ", "30", "1h30", "s", "-5s", "5 minutes", "1h,30m", "9" * 400 + "d"])
def test_what_is_no_duration_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(InvalidArgument, match="write it like 200ms"):
        parse_duration(text)


@given(st.text(max_size=12))
def test_any_text_is_a_number_or_refused(text: str) -> None:
    for parse in (parse_size, parse_duration):
        try:
            assert parse(text) >= 0
        except InvalidArgument as refused:
            assert "write it like" in str(refused)
