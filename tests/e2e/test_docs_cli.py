"""Every command of README, docs/cli.md and pages of docs/howto runs, in the order of the page, in one directory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.docs import Reader, commands

ROOT = Path(__file__).parents[2]


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    reader = Reader(tmp_path)
    yield reader
    reader.stop()


def run_page(page: Path, reader: Reader) -> int:
    """How many commands there were."""
    count = 0
    for line, command in commands(page):
        if reader.can_run(command):
            ran = reader.type(command)
            assert ran.returncode == 0, (line, command, ran.stdout[-2000:], ran.stderr[-2000:])
            count += 1
    return count


def test_every_command_of_the_page_ends_well(reader: Reader) -> None:
    assert run_page(ROOT / "docs" / "cli.md", reader) > 10


def test_the_commands_of_the_readme_end_well(reader: Reader) -> None:
    assert run_page(ROOT / "README.md", reader) >= 1


def test_questions_in_sql_are_answered_as_the_page_says(reader: Reader) -> None:
    assert run_page(ROOT / "docs" / "howto" / "sql.md", reader) >= 8


def test_curl_does_what_the_page_says(reader: Reader) -> None:
    if not reader.can_run("curl"):
        pytest.skip("curl is not installed")
    assert run_page(ROOT / "docs" / "howto" / "http.md", reader) >= 18


def test_the_commands_of_the_page_about_jobs_end_well(reader: Reader) -> None:
    assert run_page(ROOT / "docs" / "howto" / "pipelines.md", reader) >= 9


def test_mosquitto_s_clients_do_what_the_page_says(reader: Reader) -> None:
    if not reader.can_run("mosquitto_pub mosquitto_sub"):
        pytest.skip("mosquitto_pub and mosquitto_sub are not installed")
    reader.type("penstock serve --dev")
    assert run_page(ROOT / "docs" / "howto" / "mqtt.md", reader) >= 4
