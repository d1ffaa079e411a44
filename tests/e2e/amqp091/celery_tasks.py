"""An application of Celery: what the worker of the tests runs. Where the broker is and where results go is said by the
environment."""

from __future__ import annotations

import os
import time
from pathlib import Path

from celery import Celery

app = Celery("celery_tasks", broker=os.environ["AMQP_URL"], backend=os.environ.get("RESULTS", "rpc://"))
app.conf.update(
    task_default_queue=os.environ.get("TASK_QUEUE", "celery.tests"),
    task_queue_max_priority=9,
    worker_prefetch_multiplier=1,
    broker_connection_retry_on_startup=True,
    broker_connection_timeout=5,
    worker_hijack_root_logger=False,
    broker_transport_options={"confirm_publish": True},
    worker_cancel_long_running_tasks_on_connection_loss=False,
    result_expires=600,
)
if os.environ.get("TASK_DONE"):
    _DONE = Path(os.environ["TASK_DONE"])


@app.task(shared=False)
def add(one: int, two: int) -> int:
    return one + two


@app.task(shared=False)
def total(numbers: list[int]) -> int:
    return sum(numbers)


@app.task(shared=False)
def when() -> float:
    return time.time()


@app.task(shared=False)
def fail() -> None:
    raise ValueError("as it must")


@app.task(shared=False)
def note(text: str, seconds: float = 0.0) -> str:
    """A line in a file, written at once."""
    time.sleep(seconds)
    with _DONE.open("a") as file:
        file.write(text + "\n")
    return text


@app.task(shared=False, acks_late=True, reject_on_worker_lost=True)
def late(text: str, seconds: float = 0.0) -> str:
    with _DONE.with_suffix(".begun").open("a") as file:
        file.write(text + "\n")
    time.sleep(seconds)
    with _DONE.open("a") as file:
        file.write(text + "\n")
    return text
