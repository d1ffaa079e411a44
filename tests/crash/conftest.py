"""What a machine cannot do is not tested there, and said in the last lines of the run, not only in a skip's reason."""

from __future__ import annotations

import pytest
from tests.support.faults import CannotDo, shim_library, why_no_mounts

_not_tested: dict[str, str] = {}


def _skip(what: str, reason: str) -> None:
    _not_tested[what] = reason
    pytest.skip(f"{what}: {reason}")


@pytest.fixture(scope="session")
def mounts() -> None:
    """Images can be mounted."""
    if reason := why_no_mounts():
        _skip("power cuts and full disks", reason)


@pytest.fixture(scope="session")
def shim() -> None:
    """Calls of other processes can be watched and made to fail."""
    try:
        shim_library()
    except CannotDo as error:
        _skip("acknowledgements against syncs, and failed syncs", str(error))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for what, reason in _not_tested.items():
        terminalreporter.write_line(f"NOT TESTED HERE: {what} ({reason})", red=True, bold=True)
