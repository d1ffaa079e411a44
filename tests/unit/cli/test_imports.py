"""A command starts with what it needs: modules are counted, as milliseconds depend on the machine."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from tests.support.cli import ENVIRONMENT

_SCRIPT = """
import json, sys
from penstock.cli.main import run
sys.stdout, standard = sys.stderr, sys.stdout
code = run(sys.argv[1:])
json.dump([code, sorted(sys.modules)], standard)
"""


def modules_of(*arguments: str) -> tuple[int, set[str]]:
    """The exit code of a command, and all that was imported for it."""
    ran = subprocess.run(
        [sys.executable, "-c", _SCRIPT, *arguments], capture_output=True, timeout=120, env=ENVIRONMENT, check=True
    )
    code, modules = json.loads(ran.stdout)
    return code, set(modules)


@pytest.mark.parametrize("command", [["version"], ["--help"], ["queue", "--help"]])
def test_help_and_version_need_no_loop_no_client_and_no_broker(command: list[str]) -> None:
    _, modules = modules_of(*command)
    assert not modules & {"asyncio", "ssl", "rich", "yaml", "httptools", "uvicorn", "msgspec"}
    assert not [name for name in modules if name.startswith(("penstock.log", "penstock.broker", "penstock.client"))]
    # 120 with CPython 3.11, most of them click's and the interpreter's own.
    assert len(modules) < 160


def test_a_command_that_asks_a_server_brings_no_server_along() -> None:
    code, modules = modules_of("queue", "list", "--url", "http://127.0.0.1:9")
    assert code == 4
    assert not modules & {"rich", "yaml", "uvicorn", "websockets", "argon2"}
    below = ("penstock.log", "penstock.broker", "penstock.queues", "penstock.gateways", "penstock.kernels")
    assert not [name for name in modules if name.startswith(below)]
    assert not modules & {
        f"penstock.client.http.{name}" for name in ("producers", "consumers", "events", "accumulator")
    }
    # 238 with CPython 3.11, most of them those of asyncio, ssl and msgspec.
    assert len(modules) < 300
