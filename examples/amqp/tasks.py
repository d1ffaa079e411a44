"""Celery: tasks, and a program that sends them."""

from __future__ import annotations

import os
import time

from celery import Celery, chain, group

app = Celery(
    "examples.amqp.tasks",
    broker=os.environ.get("AMQP_URL", "amqp://guest:guest@127.0.0.1:5672//"),
    backend="rpc://",
)
app.conf.update(
    task_default_queue="celery.examples", task_queue_max_priority=9, broker_connection_retry_on_startup=True
)
_PATIENCE_S = 60


@app.task
def add(one: int, two: int) -> int:
    return one + two


@app.task(acks_late=True, reject_on_worker_lost=True)
def slow(seconds: float) -> str:
    """Its message is acknowledged when it is done: a worker that dies leaves it to another one."""
    time.sleep(seconds)
    return "done"


def send() -> None:
    print("a task:", add.delay(1, 2).get(timeout=_PATIENCE_S))
    print("a chain:", chain(add.s(1, 2), add.s(3), add.s(4))().get(timeout=_PATIENCE_S))
    several = group(add.s(number, number) for number in range(5))().get(timeout=_PATIENCE_S)
    print("a group:", several, "and its sum:", sum(several))
    print("in half a second:", add.apply_async((3, 4), countdown=0.5).get(timeout=_PATIENCE_S))
    print("before others:", add.apply_async((5, 6), priority=9).get(timeout=_PATIENCE_S))
    print("acknowledged late:", slow.delay(0.1).get(timeout=_PATIENCE_S))
    revoked = add.apply_async((7, 8), countdown=30)
    revoked.revoke()
    print("revoked:", revoked.id)


if __name__ == "__main__":
    send()
