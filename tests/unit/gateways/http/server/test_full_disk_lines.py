"""While the disk stays full everybody is refused, again and again; the log says so in a few lines."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pytest
from tests.support.http_server import RunningServer, running_server
from tests.support.mqtt_gateway import LONG_S

from penstock.codecs.mqtt.packets import PubAck, Publish, PubRec, Will
from penstock.codecs.mqtt.reasons import ReasonCode

NO_DISK_HAS_IT = 1 << 60
ROUNDS, CLIENTS = 20, 5
# One a minute of each kind: publishes, retained messages, wills, sessions, queues, upkeep, the disk itself.
MOST_LINES = 6


class Lines(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


@contextmanager
def lines() -> Iterator[list[str]]:
    handler = Lines()
    logging.getLogger("penstock").addHandler(handler)
    try:
        yield handler.lines
    finally:
        logging.getLogger("penstock").removeHandler(handler)


@pytest.fixture
def server(place: Path) -> Iterator[RunningServer]:
    """With a queue, a topic that somebody far away wants, and a disk that is full from then on."""
    with running_server(place) as made:
        made.declare("q")
        client = made.mqtt("away", expiry_s=LONG_S)
        client.subscribe("stored/#", qos=1)
        client.disconnect()
        made.broker.shard._engine._reserve = NO_DISK_HAS_IT
        yield made


names = count()


def publishes(server: RunningServer) -> int:
    """Of clients that are new each time; how many were refused."""
    refused = 0
    for _ in range(CLIENTS):
        will = Will("stored/will", b"x", 1, True)
        client = server.mqtt(f"c{next(names)}", will=will)
        for topic in ("$queue/q", "$queue/new", "stored/x"):
            for retain in (False, True):
                client.send(Publish(topic, b"x", 0, retain))
                for qos in (1, 2):
                    client.send(Publish(topic, b"x", qos, retain, packet_id=client.next_id()))
                    answer = client.receive()
                    assert isinstance(answer, PubAck | PubRec)
                    refused += answer.reason is ReasonCode.QUOTA_EXCEEDED
        client.cut()
    return refused


def requests(server: RunningServer) -> int:
    http = server.http()
    answers = [
        http.post("queues/q/messages", {"text": "x"}),
        http.post("queues/q/messages", {"messages": [{"text": "x"}, {"text": "y"}]}),
        http.post("queues/another/messages", {"text": "x"}),
        http.post("topics/stored%2Fx/messages", {"text": "x", "retain": True}),
        http.post("queues", {"name": "made"}),
    ]
    return sum(answer.status == 507 for answer in answers)


def test_many_refused_publishes_are_a_few_lines(server: RunningServer) -> None:
    with lines() as said:
        refused = sum(publishes(server) + requests(server) for _ in range(2))
        server.wait(server.broker.keep_up(server.broker.now()))
        at_first = len(said)
        for _ in range(ROUNDS):
            refused += publishes(server) + requests(server)
            server.wait(server.broker.keep_up(server.broker.now()))
    assert refused > 20 * ROUNDS
    assert 1 <= at_first <= MOST_LINES, said
    assert len(said) == at_first, said[at_first:]
