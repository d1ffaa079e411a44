"""Celery with a prefork worker, unchanged."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest
from celery import chain, chord, group
from tests.e2e.amqp091.broker import AmqpBroker
from tests.e2e.amqp091.celery_worker import Worker, application, worker

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
WAIT_S = 30


@dataclass
class Celery:
    tasks: ModuleType
    worker: Worker
    done: Path

    def lines(self) -> list[str]:
        return self.done.read_text().split() if self.done.exists() else []


@pytest.fixture(scope="module", params=["rpc", "files"])
def celery(
    request: pytest.FixtureRequest, broker: AmqpBroker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Celery]:
    place = tmp_path_factory.mktemp("celery")
    (place / "results").mkdir()
    variables = {
        "AMQP_URL": broker.url.replace("/%2F", "//"),
        "RESULTS": "rpc://" if request.param == "rpc" else f"file://{place}/results",
        "TASK_QUEUE": f"celery.{request.param}",
        "TASK_DONE": str(place / "done.txt"),
    }
    with worker(place, variables) as running, application(variables) as tasks:
        yield Celery(tasks, running, place / "done.txt")


def test_results_come_back(celery: Celery) -> None:
    asked = [celery.tasks.add.delay(number, 1) for number in range(50)]
    assert [each.get(timeout=WAIT_S) for each in asked] == list(range(1, 51))


def test_a_group(celery: Celery) -> None:
    found = group(celery.tasks.add.s(number, number) for number in range(20))().get(timeout=WAIT_S)
    assert found == [2 * number for number in range(20)]


def test_a_chain(celery: Celery) -> None:
    assert chain(celery.tasks.add.s(1, 2), celery.tasks.add.s(4), celery.tasks.add.s(8))().get(timeout=WAIT_S) == 15


def test_a_chord(celery: Celery) -> None:
    if celery.tasks.app.backend.as_uri().startswith("rpc"):
        pytest.skip("the rpc backend has no chords")
    found = chord((celery.tasks.add.s(number, 1) for number in range(10)), celery.tasks.total.s())()
    assert found.get(timeout=WAIT_S) == sum(range(1, 11))


def test_failures_come_back(celery: Celery) -> None:
    with pytest.raises(ValueError, match="as it must"):
        celery.tasks.fail.delay().get(timeout=WAIT_S)


def test_a_task_for_later(celery: Celery) -> None:
    begun = time.time()
    assert celery.tasks.when.apply_async(countdown=1.5).get(timeout=WAIT_S) >= begun + 1.5


def test_a_revoked_task_is_not_run(celery: Celery) -> None:
    revoked = celery.tasks.note.apply_async(("revoked",), countdown=3)
    revoked.revoke()
    after = celery.tasks.note.apply_async(("after",), countdown=4)
    after.get(timeout=WAIT_S)
    assert "revoked" not in celery.lines()


@pytest.mark.xfail(reason="what a worker has taken before the urgent ones came is a matter of moments", strict=False)
def test_urgent_tasks_come_first(celery: Celery) -> None:
    for number in range(4):
        celery.tasks.note.apply_async((f"busy{number}", 1.0))
    sent = [
        celery.tasks.note.apply_async((f"priority{priority}.{number}",), priority=priority)
        for number in range(5)
        for priority in (0, 9)
    ]
    for each in sent:
        each.get(timeout=WAIT_S)
    order = [line for line in celery.lines() if line.startswith("priority")]
    # What a child has fetched ahead is not overtaken.
    assert all(line.startswith("priority9") for line in order[2:5]), order


def test_the_worker_answers_commands(celery: Celery) -> None:
    [answer] = celery.tasks.app.control.ping(timeout=5)
    assert list(answer.values()) == [{"ok": "pong"}]
    assert celery.tasks.app.control.inspect(timeout=5).active_queues()


def wait_for(file: Path) -> None:
    end = time.monotonic() + WAIT_S
    while not file.exists():
        assert time.monotonic() < end, f"no {file.name}"
        time.sleep(0.05)


def test_a_task_of_a_killed_worker_is_run_by_another(broker: AmqpBroker, tmp_path: Path) -> None:
    variables = {
        "AMQP_URL": broker.url.replace("/%2F", "//"),
        "TASK_QUEUE": "celery.killed",
        "TASK_DONE": str(tmp_path / "done.txt"),
    }
    first = Worker(tmp_path, variables)
    try:
        first.wait_ready()
        with application(variables) as tasks:
            tasks.late.apply_async(("task", 3.0), ignore_result=True)
            begun = (tmp_path / "done.txt").with_suffix(".begun")
            wait_for(begun)
            first.kill()
            (tmp_path / "second").mkdir()
            with worker(tmp_path / "second", variables):
                wait_for(tmp_path / "done.txt")
        assert begun.read_text().split() == ["task", "task"]
    finally:
        if first.process.poll() is None:
            first.kill()
