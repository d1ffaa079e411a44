"""A worker of Celery as a process, and the application as a program that sends tasks."""

from __future__ import annotations

import importlib
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from kombu import pools
from tests.support.cli import ENVIRONMENT
from tests.support.faults import REPOSITORY

TASKS = "tests.e2e.amqp091.celery_tasks"
_START_S, _STOP_S = 60, 30


class Worker:
    """Prefork, with two children."""

    def __init__(self, place: Path, variables: Mapping[str, str], *, processes: int = 2) -> None:
        self.output = place / "worker.txt"
        command = [sys.executable, "-m", "celery", "-A", TASKS, "worker", "-c", str(processes), "-P", "prefork"]
        self._file = self.output.open("ab")
        self.process = subprocess.Popen(
            [*command, "-l", "info", "-n", f"{uuid.uuid4().hex}@%h", "--without-gossip"],
            cwd=REPOSITORY,
            env={**ENVIRONMENT, **variables, "C_FORCE_ROOT": "1"},
            stdin=subprocess.DEVNULL,
            stdout=self._file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def wait_ready(self) -> None:
        end = time.monotonic() + _START_S
        while " ready." not in self.output.read_text(errors="replace"):
            assert self.process.poll() is None and time.monotonic() < end, self.output.read_text()[-3000:]
            time.sleep(0.05)

    def kill(self) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self._file.close()

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.terminate()
        try:
            self.process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self._file.close()


@contextmanager
def worker(place: Path, variables: Mapping[str, str]) -> Iterator[Worker]:
    running = Worker(place, variables)
    try:
        running.wait_ready()
        yield running
    finally:
        running.stop()


@contextmanager
def application(variables: Mapping[str, str]) -> Iterator[ModuleType]:
    """The tasks, for whoever sends them."""
    before = dict(os.environ)
    os.environ.update(variables)
    sys.modules.pop(TASKS, None)
    try:
        tasks = importlib.import_module(TASKS)
        yield tasks
        tasks.app.close()
        pools.reset()
    finally:
        os.environ.clear()
        os.environ.update(before)
        sys.modules.pop(TASKS, None)
