"""Every test here runs for each version it names and for each server, one server of a kind for the whole session."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.conformance.deviations import deviation_of
from tests.conformance.scene import V3, V5, VERSION_IDS, Scene
from tests.support.mqtt_client import DEADLINE_S
from tests.support.servers import (
    INSTALL_HINT,
    PASSWORD,
    SERVERS,
    USERNAME,
    Kind,
    NotInstalled,
    RunningServer,
    mosquitto_command,
)

from penstock.codecs.mqtt.kinds import Version

_HERE = Path(__file__).parent
_SERVER_FIXTURES = ("server", "limited_server", "server_name")
_DEVIANT_DEADLINE_S = 0.5
_ABSENT = "conformance: mosquitto is not installed, so NO TEST RAN AGAINST IT and a wrong test would not show"


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "versions(*versions): the MQTT versions a conformance test runs for")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "version" in metafunc.fixturenames:
        marker = metafunc.definition.get_closest_marker("versions")
        versions = marker.args if marker is not None else (V3, V5)
        metafunc.parametrize("version", versions, ids=[VERSION_IDS[version] for version in versions])
    for name in _SERVER_FIXTURES:
        if name in metafunc.fixturenames:
            metafunc.parametrize(name, list(SERVERS), indirect=True, scope="session")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if isinstance(item, pytest.Function) and _HERE in item.path.parents:
            found = deviation_of(item)
            if found is not None:
                # Of Penstock no deviation goes unnoticed when it ends; another release of mosquitto may have fewer.
                item.add_marker(pytest.mark.xfail(reason=found.reason, strict=found.server == "penstock"))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if mosquitto_command() is None:
        terminalreporter.section("servers that are missing")
        terminalreporter.line(f"{_ABSENT}: {INSTALL_HINT}")


Started = Callable[[str, Kind], RunningServer]


@pytest.fixture(scope="session")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Started]:
    """Each server once, however often pytest turns from one to another: a file is run with all of them."""
    made: dict[tuple[str, Kind], RunningServer] = {}
    with ExitStack() as stack:

        def start(name: str, kind: Kind) -> RunningServer:
            if (name, kind) not in made:
                directory = tmp_path_factory.mktemp(f"{name}-{kind.name.lower()}")
                made[name, kind] = stack.enter_context(SERVERS[name](directory, kind))
            return made[name, kind]

        yield start


def _or_skipped(started: Started, name: str, kind: Kind) -> RunningServer:
    try:
        return started(name, kind)
    except NotInstalled as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="session")
def server_name(request: pytest.FixtureRequest) -> str:
    """For tests that start and stop a server themselves."""
    name: str = request.param
    if name == "mosquitto" and mosquitto_command() is None:
        pytest.skip(f"mosquitto is not installed: {INSTALL_HINT}")
    return name


@pytest.fixture(scope="session")
def server(request: pytest.FixtureRequest, started: Started) -> RunningServer:
    return _or_skipped(started, request.param, Kind.OPEN)


@pytest.fixture(scope="session")
def limited_server(request: pytest.FixtureRequest, started: Started) -> RunningServer:
    return _or_skipped(started, request.param, Kind.LIMITED)


@pytest.fixture
def deadline_s(request: pytest.FixtureRequest) -> float:
    """Who is expected to fail is not waited for as long."""
    return DEADLINE_S if request.node.get_closest_marker("xfail") is None else _DEVIANT_DEADLINE_S


@pytest.fixture
def scene(server: RunningServer, version: Version, deadline_s: float) -> Iterator[Scene]:
    made = Scene(server, version, deadline_s=deadline_s)
    yield made
    made.close()


@pytest.fixture
def limited(limited_server: RunningServer, version: Version, deadline_s: float) -> Iterator[Scene]:
    """On the server that asks for a password and limits what it can."""
    made = Scene(limited_server, version, USERNAME, PASSWORD, deadline_s)
    yield made
    made.close()
