"""The process of a server: what signals do to it, and how it ends."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.support.cli import ENVIRONMENT
from tests.support.serving import STUCK

from penstock.server.context import read_contexts

ROOT = Path(__file__).parents[3]


class Served:
    """One process, its log lines in a file."""

    def __init__(self, place: Path) -> None:
        self.place, self.ready_file, self.lines_file = place, place / "ready.json", place / "lines"
        self.process: subprocess.Popen[bytes] | None = None

    def configure(self, **settings: object) -> None:
        listeners = {"mqtt": {"port": 0}, "mqtt_ws": None, "http": None}
        written = {"data_dir": str(self.place / "data"), "listeners": listeners, **settings}
        (self.place / "penstock.yaml").write_text(json.dumps(written))

    def start(self) -> subprocess.Popen[bytes]:
        arguments = [str(self.place / "penstock.yaml"), str(self.ready_file)]
        with self.lines_file.open("wb") as lines, (self.place / "said").open("wb") as said:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.support.serving", *arguments],
                env={**ENVIRONMENT, "XDG_CONFIG_HOME": str(self.place / "config")},
                cwd=ROOT,
                stdout=said,
                stderr=lines,
            )
        _wait_for(lambda: self.ready_file.exists() or self.process is None or self.process.poll() is not None)
        return self.process

    @property
    def said(self) -> str:
        return (self.place / "said").read_text()

    @property
    def lines(self) -> str:
        return self.lines_file.read_text()

    def wait_for_line(self, text: str) -> None:
        _wait_for(lambda: text in self.lines)


def _wait_for(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.005)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    served = Served(tmp_path)
    yield served
    if served.process is not None:
        served.process.kill()
        served.process.wait()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_drains_and_ends_with_0(served: Served, number: signal.Signals) -> None:
    served.configure()
    process = served.start()
    ready = json.loads(served.ready_file.read_text())
    assert ready["pid"] == process.pid
    with socket.create_connection((ready["listeners"]["mqtt"]["host"], ready["listeners"]["mqtt"]["port"])) as client:
        assert client.recv(100).startswith(b"mqtt 127.0.0.1")
        process.send_signal(number)
        assert process.wait(30) == 0
    assert not served.ready_file.exists()
    assert b'"clean":true' in (served.place / "data" / "checkpoint").read_bytes()


def test_a_second_signal_ends_at_once(served: Served) -> None:
    served.configure(mqtt={"max_subscriptions": STUCK})
    process = served.start()
    process.send_signal(signal.SIGTERM)
    served.wait_for_line("stopping connections=0")
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 1
    assert "second signal=SIGTERM: ends at once" in served.lines


def test_a_stop_that_takes_too_long_ends_with_1_and_says_so(served: Served) -> None:
    served.configure(mqtt={"max_subscriptions": STUCK}, shutdown_timeout="50ms")
    process = served.start()
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 1
    assert "not stopped within shutdown_timeout=0.05s" in served.lines


def test_sighup_reloads_and_a_mistake_changes_nothing(served: Served) -> None:
    served.configure()
    process = served.start()
    served.configure(log={"format": "json"}, storage={"max_open_files": 99})
    process.send_signal(signal.SIGHUP)
    served.wait_for_line("configuration reloaded")
    assert "not reloaded, it needs a restart setting=storage.max_open_files before=4096 after=99" in served.lines
    served.configure(logg={})
    process.send_signal(signal.SIGHUP)
    served.wait_for_line("did you mean log?")
    last = json.loads(served.lines.splitlines()[-1])
    assert (last["level"], last["event"]) == ("error", "not reloaded, everything stays as it was")
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 0


def test_sigusr1_turns_debug_lines_on_and_off(served: Served) -> None:
    served.configure(log={"level": "error"})
    process = served.start()
    process.send_signal(signal.SIGUSR1)
    served.wait_for_line("debug lines are turned on")
    process.send_signal(signal.SIGUSR1)
    served.wait_for_line("debug lines are turned off level=error")
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 0
    assert "draining" not in served.lines


def test_the_first_password_is_said_and_given_to_commands_but_in_no_log_line(served: Served) -> None:
    served.configure()
    process = served.start()
    context = read_contexts(served.place / "config" / "penstock" / "config.yaml").contexts["local"]
    address = json.loads(served.ready_file.read_text())["listeners"]["mqtt"]
    assert context.mqtt == f"mqtt://{address['host']}:{address['port']}"
    assert (context.username, context.password, context.local) == ("admin", "first-password", True)
    process.terminate()
    assert process.wait(30) == 0
    assert "first-password" in served.said
    assert "first-password" not in served.lines


def test_without_a_place_for_the_context_the_server_starts_all_the_same(served: Served) -> None:
    (served.place / "config").write_text("a file, no directory")
    served.configure()
    process = served.start()
    assert process.poll() is None
    assert "the local context cannot be written" in served.lines


def test_uvloop_serves_as_well(served: Served) -> None:
    pytest.importorskip("uvloop")
    served.configure(loop="uvloop")
    process = served.start()
    address = json.loads(served.ready_file.read_text())["listeners"]["mqtt"]
    with socket.create_connection((address["host"], address["port"])) as client:
        assert client.recv(100).startswith(b"mqtt 127.0.0.1")
    process.terminate()
    assert process.wait(30) == 0
    assert (served.place / "data" / "checkpoint").exists()
