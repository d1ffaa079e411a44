"""Celery with acks_late while its broker is killed again and again: what was confirmed is run."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Protocol

from amqp.exceptions import AMQPError
from kombu.exceptions import OperationalError
from tests.e2e.amqp091.celery_worker import Worker, application
from tests.support.live_server import live_server
from tests.support.rabbitmq import kill_session, rabbitmq

EVERY_S = 5.0
_SETTLE_S = 120.0
_ONCE = {"max_retries": 1, "interval_start": 0.1}
"""more than none, for which kombu does not mend a connection"""


class Mortal(Protocol):
    """A broker on one port, with one directory."""

    port: int

    def start(self) -> None: ...

    def kill(self) -> None:
        """With kill -9."""

    def close(self) -> None: ...


class MortalPenstock:
    def __init__(self, place: Path) -> None:
        self._place, self.port = place, _free_port()
        self._stack = ExitStack()

    def start(self) -> None:
        (self._place / "ready.json").unlink(missing_ok=True)
        settings = [f"listeners.amqp.port={self.port}", "storage.disk_reserve=0"]
        self._server = self._stack.enter_context(live_server(self._place, settings))

    def kill(self) -> None:
        os.kill(self._server.process.pid, signal.SIGKILL)
        self._server.process.wait()
        self._stack.close()

    def close(self) -> None:
        self._stack.close()


class MortalRabbit:
    def __init__(self, place: Path) -> None:
        self._place, self.port = place, _free_port()
        self._stack = ExitStack()

    def start(self) -> None:
        self._server = self._stack.enter_context(rabbitmq(self._place, port=self.port))

    def kill(self) -> None:
        kill_session(self._server.process)
        self._stack.close()

    def close(self) -> None:
        self._stack.close()


MORTALS: dict[str, Callable[[Path], Mortal]] = {"rabbitmq": MortalRabbit, "penstock": MortalPenstock}


@contextmanager
def _killed_again_and_again(broker: Mortal, seconds: float) -> Iterator[Callable[[], int]]:
    """It is up when this is over; how often it was killed."""
    kills, over = 0, threading.Event()

    def kill() -> None:
        nonlocal kills
        end = time.monotonic() + seconds
        while time.monotonic() < end and not over.wait(EVERY_S):
            broker.kill()
            kills += 1
            broker.start()

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        yield lambda: kills
        thread.join()
    finally:
        over.set()
        thread.join()


def chaos(place: Path, broker: Mortal, seconds: float, tasks: int) -> str:
    """What happened; AssertionError if a task that was confirmed was not run."""
    done = place / "done.txt"
    variables = {
        "AMQP_URL": f"amqp://guest:guest@127.0.0.1:{broker.port}//",
        "TASK_QUEUE": "celery.chaos",
        "TASK_DONE": str(done),
    }
    worker: Worker | None = None
    broker.start()
    try:
        worker = Worker(place, variables)
        worker.wait_ready()
        with application(variables) as app, _killed_again_and_again(broker, seconds) as kills:
            confirmed, refused = _send(app.late, tasks, seconds)
        _wait_until_run(done, confirmed, worker)
        ran = done.read_text().split()
        again = len(ran) - len(set(ran))
        return f"{kills()} kills, {len(confirmed)} tasks confirmed ({refused} sends failed), all run, {again} again"
    finally:
        if worker is not None:
            worker.stop()
        broker.close()


def _send(task: object, tasks: int, seconds: float) -> tuple[set[str], int]:
    """Evenly over the time; a task whose sending fails is sent again, with a name of its own."""
    confirmed: set[str] = set()
    refused, begun = 0, time.monotonic()
    for number in range(tasks):
        due = begun + number * seconds / tasks
        if (wait_s := due - time.monotonic()) > 0:
            time.sleep(wait_s)
        for attempt in range(1000):
            name = f"{number}.{attempt}"
            try:
                task.apply_async((name,), retry=True, retry_policy=_ONCE)  # type: ignore[attr-defined]  # Celery's
            except (AMQPError, OperationalError, OSError):
                refused += 1
                time.sleep(0.1)
            else:
                confirmed.add(name)
                break
    return confirmed, refused


def _wait_until_run(done: Path, confirmed: set[str], worker: Worker) -> None:
    end = time.monotonic() + _SETTLE_S
    while missing := confirmed - set(done.read_text().split() if done.exists() else ()):
        some = sorted(missing)[:10]
        said = worker.output.read_text(errors="replace")[-2000:]
        assert time.monotonic() < end, f"{len(missing)} confirmed tasks were not run, as {some}; the worker: {said}"
        time.sleep(0.2)


def _free_port() -> int:
    """Not one that connections get by themselves: the broker comes back to it."""
    while True:
        port = 20_000 + int.from_bytes(os.urandom(2), "big") % 12_000
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port


if __name__ == "__main__":
    _place = Path(sys.argv[1])
    (_place / "broker").mkdir()
    print(chaos(_place, MortalPenstock(_place / "broker"), float(sys.argv[2]), int(sys.argv[3])))
