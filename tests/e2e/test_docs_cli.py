"""Every command of README and docs runs, in the order of its page and in one directory."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme
from tests.e2e.conftest import note_not_tested
from tests.support.docs import Reader, commands, missing_program

ROOT = Path(__file__).parents[2]
PAGES = [page for page in (ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md"))) if any(commands(page))]
_SERVER_IS_UP = ("mqtt", "mqtt_clients")
"""pages whose reader has started one before"""


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    reader = Reader(tmp_path)
    yield reader
    reader.stop()


def test_the_pages_with_commands_are_found() -> None:
    assert {page.stem for page in PAGES} >= {
        "README",
        "cli",
        "http",
        "mqtt",
        "security",
        "server",
        "metrics",
        "webhooks",
    }


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_command_of_a_page_does_what_the_page_shows(page: Path, reader: Reader) -> None:
    if page.stem in _SERVER_IS_UP:
        reader.type("penstock serve --dev")
    if page.stem == "server":
        configure(reader.place, page)
    if page.stem == "pipelines_declared":
        (reader.place / "devices.yaml").write_text(re.findall(r"^```yaml\n(.*?)^```", page.read_text(), re.S | re.M)[0])
    if page.stem == "README":
        (reader.place / "examples").symlink_to(ROOT / "examples")
    incomplete: dict[int, str] = {}
    for command in commands(page):
        # What follows in a block may wait for what was left out.
        reason = command.not_run or missing_program(command) or incomplete.get(command.line)
        if reason is not None:
            incomplete[command.line] = reason
            note_not_tested(f"{page.stem}:{command.line} {command.text}", reason)
        else:
            reader.read(command)


def configure(place: Path, page: Path) -> None:
    """penstock.yaml, and the certificate that it names, as the page has them."""
    [block] = re.findall(r"^## A server for others\n\n```yaml\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)
    (place / "penstock.yaml").write_text(block)
    certificate = trustme.CA().issue_cert("localhost")
    certificate.cert_chain_pems[0].write_to_path(str(place / "server.pem"))
    certificate.private_key_pem.write_to_path(str(place / "server.key"))
