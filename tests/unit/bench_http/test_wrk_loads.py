"""Loads by wrk: what came back is held against what the server says of itself."""

from __future__ import annotations

from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import msgspec
import pytest
from bench.http import api, bare, publish, receive
from bench.http.peers import start_bare
from bench.http.publish import Answered, check_answers, check_held
from bench.http.receive import Acked, check_group
from bench.measure import Run
from bench.mqtt.link import PeerFailed
from bench.mqtt.peers import Broker
from bench.mqtt.servers import Server

from penstock.gateways.http.admin.queues import GroupStats


@pytest.fixture
def broker(tmp_path: Path) -> Broker:
    server = Server("true", ["true"], tmp_path)
    server.stop()
    return Broker("Penstock", ("127.0.0.1", 0), server)


def _group(delivered: int, acked: int, redelivered: int = 0, lag: int = 0) -> GroupStats:
    return GroupStats(lag, 0.0, 0, 0, 0, delivered, redelivered, acked, 0, 0)


def test_a_refusal_and_a_broken_connection_fail_a_round() -> None:
    check_answers(Answered(requests=10, duration_us=1, refused=0, broken=0))
    for refused, broken, requests in ((1, 0, 10), (0, 1, 10), (0, 0, 0)):
        with pytest.raises(PeerFailed):
            check_answers(Answered(requests, 1, refused, broken))


def test_what_was_accepted_is_there_and_no_more_than_was_under_way(broker: Broker) -> None:
    check_held(1000, 1000, 100, broker)
    check_held(1000 + 32 * 100, 1000, 100, broker)
    for held in (999, 1001 + 32 * 100):
        with pytest.raises(PeerFailed):
            check_held(held, 1000, 100, broker)


@pytest.mark.parametrize(
    "after", [_group(200, 199), _group(201, 200, redelivered=1), _group(200, 200, lag=1), _group(199, 200)]
)
def test_a_message_that_was_not_acknowledged_once_fails_a_round(after: GroupStats) -> None:
    said = Acked(acked=100, refused=0, empty=0, duration_us=1)
    check_group(_group(100, 100), _group(200, 200), 100, said)
    with pytest.raises(PeerFailed):
        check_group(_group(100, 100), after, 100, said)


@pytest.mark.parametrize("run", [publish.run, receive.run])
def test_without_wrk_the_benchmark_is_left_out(
    run: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert callable(run)
    assert run(Run(tmp_path)) == []
    assert "LEFT OUT: wrk is not installed" in capsys.readouterr().out


def test_the_bare_handler_takes_what_is_published_and_gives_what_is_acknowledged(tmp_path: Path) -> None:
    bare_broker = start_bare(tmp_path)
    try:
        asked = api.Api(bare_broker.address)
        asked.publish("bench", 1)
        asked.publish("bench", 100)
        received = _post(bare_broker, "/api/v1/queues/bench/receive", {"max": 100})["messages"]
        acked = _post(bare_broker, "/api/v1/messages/ack", {"receipts": [each["receipt"] for each in received]})
        assert acked["settled"] == len(received) == bare.MESSAGES
        with pytest.raises(PeerFailed, match="404"):
            asked.stats("bench")
        asked.close()
    finally:
        bare_broker.stop()


def _post(broker: Broker, path: str, body: object) -> Any:
    connection = HTTPConnection(*broker.address)
    connection.request("POST", path, msgspec.json.encode(body))
    answer = msgspec.json.decode(connection.getresponse().read())
    connection.close()
    return answer
