"""Brokers side by side: queues are there before the first round, and what is acknowledged must be held."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from bench.mqtt.link import PeerFailed
from bench.mqtt.many import Many, Said
from bench.mqtt.peers import Broker
from bench.mqtt.servers import Server
from bench.sparse.latency import Taken, _compared
from bench.sparse.loads import Loads
from bench.sparse.stores import RedisStore, queue_name, queues_text, store_of
from tests.support.tiny_redis import Streams, tiny_redis

needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler here")


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Many:
    return Many(tmp_path_factory.mktemp("many"))


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    server = Server("sleep", ["sleep", "60"], tmp_path)
    yield server
    server.stop()


@needs_compiler
@pytest.mark.parametrize("is_consumed", [False, True])
def test_each_queue_is_there_before_the_first_round(many: Many, server: Server, is_consumed: bool) -> None:
    streams = Streams()
    with tiny_redis(streams) as address:
        broker = Broker("Redis", address, server)
        loads = Loads(many, [broker], 7, is_consumed, is_tls=False)
        assert sorted(streams.entries) == [queue_name(number) for number in range(7)]
        shape = {"publishers": 2, "consumers": 2 * is_consumed, "window": 3, "messages": 30}
        assert loads.outcome(shape, broker).messages == 30
        assert streams.acknowledged == (37 if is_consumed else 0)
        loads.close()


@needs_compiler
def test_a_broker_that_does_not_hold_what_it_acknowledged_fails(
    many: Many, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tiny_redis(Streams()) as address:
        broker = Broker("Redis", address, server)
        loads = Loads(many, [broker], 1, is_consumed=False, is_tls=False)
        monkeypatch.setattr(RedisStore, "held", lambda _: 5)
        with pytest.raises(PeerFailed, match="Redis acknowledged 10 messages and holds 0 more"):
            loads.run({"publishers": 1, "window": 1, "messages": 10}, broker)
        loads.close()


def test_a_store_is_emptied_and_ready_again(server: Server) -> None:
    streams = Streams()
    with tiny_redis(streams) as address:
        store = RedisStore(address)
        store.prepare(2, is_consumed=False)
        streams.answer([b"XADD", queue_name(1).encode(), b"*", b"d", b"x"])
        assert store.held() == 1
        store.empty()
        assert store.held() == 0
        store.close()


def test_brokers_of_another_speech_have_no_store(server: Server) -> None:
    assert store_of(Broker("RabbitMQ", ("127.0.0.1", 1), server)) is None
    found = store_of(Broker("mosquitto", ("127.0.0.1", 1), server))
    assert found is not None
    assert not found.keeps


def test_queues_are_counted_in_words() -> None:
    assert (queues_text(1), queues_text(5000)) == ("1 queue", "5,000 queues")


def _taken(acknowledged_us: int, delivered_us: int) -> Taken:
    return Taken([Said(1, 1, 1, [acknowledged_us * 1000] * 4, [delivered_us * 1000] * 4)])


def test_latencies_are_held_against_redis_and_deliveries_against_the_acknowledgement() -> None:
    found = _compared("load", _taken(1500, 1900), _taken(1000, 5000))
    verdicts = {(each.subject.name, each.baseline.name if each.baseline else ""): each.is_met for each in found}
    assert verdicts == {
        ("load, p50 to acknowledged", "Redis"): True,
        ("load, p99 to acknowledged", "Redis"): True,
        ("load, p50 to delivered", "p50 to acknowledged and 0.3 ms"): False,
        ("load, p50 to delivered", "Redis"): None,
        ("load, p99 to delivered", "p99 to acknowledged and 0.3 ms"): False,
        ("load, p99 to delivered", "Redis"): None,
    }


def test_without_redis_only_what_is_asked_of_deliveries_is_left() -> None:
    found = _compared("load", _taken(1500, 1600), None)
    assert [each.is_met for each in found] == [None, None, True, True]
