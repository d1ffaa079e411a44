"""The examples for AMQP, as their page says to run them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.e2e.amqp091.broker import AmqpBroker
from tests.support.cli import ENVIRONMENT
from tests.support.faults import REPOSITORY

_TIMEOUT_S = 120


def _run(command: list[str], broker: AmqpBroker, **variables: str) -> list[str]:
    ran = subprocess.run(
        command,
        cwd=REPOSITORY,
        env={**ENVIRONMENT, "AMQP_URL": broker.url, **variables},
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    return ran.stdout.splitlines()


@contextmanager
def _worker(broker: AmqpBroker) -> Iterator[None]:
    running = subprocess.Popen(
        [sys.executable, "-m", "celery", "-A", "examples.amqp.tasks", "worker", "-c", "2", "-l", "warning"],
        cwd=REPOSITORY,
        env={**ENVIRONMENT, "AMQP_URL": broker.url, "C_FORCE_ROOT": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield
    finally:
        running.terminate()
        running.wait(_TIMEOUT_S)


def test_celery(broker: AmqpBroker) -> None:
    with _worker(broker):
        said = _run([sys.executable, "-m", "examples.amqp.tasks"], broker)
    assert said[:-1] == [
        "a task: 3",
        "a chain: 10",
        "a group: [0, 2, 4, 6, 8] and its sum: 20",
        "in half a second: 7",
        "before others: 11",
        "acknowledged late: done",
    ]
    assert said[-1].startswith("revoked: ")


def test_aio_pika(broker: AmqpBroker) -> None:
    said = _run([sys.executable, "-m", "examples.amqp.rpc"], broker)
    assert said == ["'a lamp' has 6 letters", "'a longer lamp' has 13 letters"]


def test_node(broker: AmqpBroker, node_modules: Path, tmp_path: Path) -> None:
    # Modules are looked for beside the program.
    (tmp_path / "node_modules").symlink_to(node_modules)
    program = tmp_path / "work_queue.mjs"
    program.write_bytes((REPOSITORY / "examples/amqp/work_queue.mjs").read_bytes())
    said = _run(["node", str(program)], broker, PATH=os.environ["PATH"])
    assert said == ["5 tasks are on disk", *[f"task {number} ({number})" for number in range(1, 6)]]
