"""Tests on a machine that does other things: where a server of the user's own has the default ports and the user's
commands know it, and where processors are busy.

python -m tests.stress.beside tests/unit/cli tests/e2e"""

from __future__ import annotations

import argparse
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.support.cli import ENVIRONMENT
from tests.support.faults import REPOSITORY
from tests.support.live_server import live_server

from penstock.server.config_listeners import FlightListener, Listeners

LOAD = 10
"""processes that do nothing but compute"""
# The parts that look at a home, at ports, at processes or at the time: what a busy machine has broken before.
SENSITIVE = (
    "tests/unit/cli/test_target.py",
    "tests/unit/server/test_process.py",
    "tests/unit/gateways/wire/test_secure.py",
    "tests/unit/gateways/test_mqtt_hung_members.py",
    "tests/e2e/test_http_reload.py",
)
EVERYTHING = ("tests/unit", "tests/e2e")
_COMPUTE = """
import os, sys, threading
threading.Thread(target=lambda: sys.stdin.read() or os._exit(0)).start()
while True:
    pass
"""
_SAID = 6000


@contextmanager
def busy(processes: int) -> Iterator[None]:
    """They end with this process at the latest: what they read from is closed then."""
    with ExitStack() as started:
        for _ in range(processes):
            process = subprocess.Popen([sys.executable, "-c", _COMPUTE], stdin=subprocess.PIPE)
            assert process.stdin is not None
            started.callback(process.stdin.close)
            started.callback(process.wait, 60)
            started.callback(process.kill)
        yield


@contextmanager
def used_machine(place: Path) -> Iterator[Path]:
    """The home of a user whose server is running on the default ports, those that somebody else has left out."""
    home = place / "home"
    (home / ".config").mkdir(parents=True)
    defaults = {name: listener.port for name, listener in Listeners(flight=FlightListener()).all_switched_on().items()}
    settings = [f"listeners.{name}.port={port}" for name, port in defaults.items() if _is_free(port)]
    variables = {"HOME": str(home), "XDG_CONFIG_HOME": str(home / ".config")}
    with live_server(place / "server", settings, is_dev=False, variables=variables) as server:
        assert all(_is_taken(port) for port in defaults.values())
        yield home
        assert server.is_up, server.said()[-_SAID:]


def _is_free(port: int) -> bool:
    try:
        with socket.create_server(("127.0.0.1", port)):
            return True
    except OSError:
        return False


def _is_taken(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def beside(place: Path, tests: Sequence[str], timeout_s: float, load: int = LOAD) -> str:
    """AssertionError, with what failed, if a test does."""
    with used_machine(place) as home, busy(load):
        homes = {"HOME": str(home), "XDG_CONFIG_HOME": str(home / ".config"), "TMPDIR": str(place)}
        kept = {name: value for name, value in ENVIRONMENT.items() if not name.startswith("PYTEST_")}
        ran = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not faults", "--tb=short", *tests],
            cwd=REPOSITORY, env=kept | homes, capture_output=True, text=True, timeout=timeout_s,
        )  # fmt: skip
    assert ran.returncode == 0, ran.stdout[-_SAID:] + ran.stderr[-_SAID:]
    return f"{len(tests)} of the parts of the suite beside a server and {load} busy processes"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tests", nargs="*", default=SENSITIVE)
    parser.add_argument("--load", type=int, default=LOAD)
    options = parser.parse_args()
    os.environ.setdefault("NO_COLOR", "1")
    with tempfile.TemporaryDirectory(prefix="penstock-beside-") as place:
        print(beside(Path(place), options.tests, 24 * 3600.0, options.load))
    return 0


if __name__ == "__main__":
    sys.exit(main())
