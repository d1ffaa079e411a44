"""The server with logins that several files use. What a machine lacks is not tested there, and said in the last lines
of the run, not only in a skip's reason."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest
from tests.e2e.interop.node_peer import CannotInstall, modules
from tests.support.secure_server import SecureServer, secure_server

_not_tested: dict[str, str] = {}


def note_not_tested(what: str, reason: str) -> None:
    _not_tested[what] = reason


def not_tested(what: str, reason: str) -> NoReturn:
    note_not_tested(what, reason)
    pytest.skip(f"{what}: {reason}")


@pytest.fixture(scope="session")
def node_modules() -> Path:
    try:
        return modules()
    except CannotInstall as error:
        not_tested("MQTT.js", str(error))


@pytest.fixture(scope="session")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureServer]:
    """Tests leave nothing behind in it."""
    with secure_server(tmp_path_factory.mktemp("secured")) as running:
        yield running


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for what, reason in _not_tested.items():
        terminalreporter.write_line(f"NOT TESTED HERE: {what} ({reason})", red=True, bold=True)
