"""The broker that clients are tried against: RabbitMQ, which proves the test, and Penstock, which must pass it."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from tests.e2e.amqp091.broker import AmqpBroker, start_penstock, start_rabbitmq
from tests.support.servers import NotInstalled

_STARTS = {"rabbitmq": start_rabbitmq, "penstock": start_penstock}
_numbers = count(1)
# What Penstock does not do yet, and RabbitMQ does: whoever mends one takes it out.
_PENDING = frozenset(
    {
        "test_messages_of_higher_priority_come_first",
        "test_priorities",
        "test_urgent_tasks_come_first",
    }
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        name, _, parameters = item.name.partition("[")
        if "penstock" in parameters and name in _PENDING:
            item.add_marker(pytest.mark.xfail(reason="pending"))


@pytest.fixture(scope="session", params=_STARTS)
def broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AmqpBroker]:
    try:
        with _STARTS[request.param](tmp_path_factory.mktemp(request.param)) as running:
            yield running
    except NotInstalled as absence:
        pytest.skip(str(absence))


@pytest.fixture(autouse=True)
def sockets_of_clients() -> Iterator[None]:
    """Celery leaves connections to the garbage collector, which is told to look here: nobody else pays for them."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """Of a queue or an exchange that no other test uses."""
    return f"{Path(request.node.path).stem}.{next(_numbers)}"
