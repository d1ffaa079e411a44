"""Celery with acks_late, its broker killed with -9 every five seconds."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.e2e.amqp091.chaos import MORTALS, chaos
from tests.support.rabbitmq import rabbitmq_command

from penstock.server.config_listeners import LISTENER_NAMES

SECONDS, TASKS = 30, 500


@pytest.mark.faults
@pytest.mark.parametrize("name", MORTALS)
def test_every_confirmed_task_is_run(name: str, tmp_path: Path) -> None:
    if name == "rabbitmq" and rabbitmq_command() is None:
        pytest.skip("RabbitMQ is not installed")
    if name == "penstock" and "amqp" not in LISTENER_NAMES:
        pytest.skip("this version has no listener amqp")
    (tmp_path / "broker").mkdir()
    print(chaos(tmp_path, MORTALS[name](tmp_path / "broker"), SECONDS, TASKS))
