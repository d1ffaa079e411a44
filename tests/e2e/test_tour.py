"""The tour runs to its end, keeps what it promised and leaves nothing behind."""

from __future__ import annotations

from pathlib import Path

from tests.support.cli import example, penstock


def test_the_tour_keeps_everything_acknowledged_and_cleans_up(tmp_path: Path) -> None:
    place = tmp_path / "tour"
    said = example("tour", "--messages", "20000", "--directory", place).stdout.decode()
    assert "nothing acknowledged was lost" in said
    assert "no damage" in said
    assert "rows" in said
    assert not place.exists()


def test_what_is_kept_can_be_read_again(tmp_path: Path) -> None:
    place = tmp_path / "tour"
    example("tour", "--messages", "2000", "--directory", place, "--keep")
    first = penstock("log", "cat", place / "log", "--log", "tour/orders", "-n", "1").stdout
    assert first.startswith(b"order 0 ")


def test_a_directory_with_something_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("precious")
    refused = example("tour", "--directory", tmp_path, expected=1)
    assert b"not empty" in refused.stderr
    assert (tmp_path / "mine").read_text() == "precious"
