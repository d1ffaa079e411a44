"""What people read and what programs read."""

from __future__ import annotations

import json

import pytest

from penstock.cli.output import print_data, print_table, progress_bar, size_text, time_text


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (64 << 20, "64.0 MiB"), (3 << 50, "3072.0 TiB")]
)
def test_sizes(size: int, text: str) -> None:
    assert size_text(size) == text


def test_times_are_utc_with_milliseconds() -> None:
    assert time_text(1_794_729_600_123) == "2026-11-15T08:00:00.123Z"


def test_json_can_be_read_back(capsys: pytest.CaptureFixture[str]) -> None:
    print_data({"a": [1, 2], "b": None}, "json")
    assert json.loads(capsys.readouterr().out) == {"a": [1, 2], "b": None}


def test_a_table_shows_every_cell_and_takes_brackets_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(["name", "bytes"], [("[red]a", 1), ("x" * 150, 22)], numbers=["bytes"])
    said = capsys.readouterr().out
    assert "[red]a" in said
    assert "x" * 150 in said


def test_no_bar_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with progress_bar("checking") as advance:
        advance("a", 1, 2)
    assert capsys.readouterr() == ("", "")
