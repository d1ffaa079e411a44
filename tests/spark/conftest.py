"""One Spark session for all of these tests: it takes longer to start than most of them to run. What cannot be tested
here is said in the last lines of the run, not only in a skip's reason."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest
from pyspark.sql import SparkSession
from tests.spark.sessions import small_session

_not_tested: dict[str, str] = {}


def not_tested(what: str, reason: str) -> NoReturn:
    _not_tested[what] = reason
    pytest.skip(f"{what}: {reason}")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for what, reason in _not_tested.items():
        terminalreporter.write_line(f"NOT TESTED HERE: {what} ({reason})", red=True, bold=True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.spark)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    with small_session(tmp_path_factory.mktemp("spark")) as session:
        yield session
