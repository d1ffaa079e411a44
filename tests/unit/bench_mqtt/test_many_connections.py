"""The generator in C against small servers: all is counted; what is lost, twice, refused or out of order is found."""

from __future__ import annotations

import shutil
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from bench.mqtt.link import PeerFailed
from bench.mqtt.many import Many
from bench.mqtt.peers import Broker
from bench.mqtt.servers import Absent, Server
from tests.support.tiny_mqtt import tiny_broker
from tests.support.tiny_redis import Streams, tiny_redis

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler here")

_SHORT_MS = 50
# The small broker for MQTT gives each message to every consumer.
_PAIRED: dict[str, str | int] = {"publishers": 3, "consumers": 1, "window": 10, "patience_s": 1, "topic": "$queue/"}


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Many:
    return Many(tmp_path_factory.mktemp("many"))


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """A process to look at; the small broker itself is a thread of the test."""
    server = Server("sleep", ["sleep", "60"], tmp_path)
    yield server
    server.stop()


def test_every_publish_of_every_connection_is_acknowledged(many: Many, server: Server) -> None:
    with tiny_broker() as address:
        said, outcome = many.run(Broker("tiny", address, server), publishers=150, window=2, ms=_SHORT_MS)
    assert said.count == outcome.messages >= 300
    assert outcome.seconds >= _SHORT_MS / 1000
    assert outcome.generator_cpu_s > 0
    assert said.to_acknowledged_ns == []


def test_so_many_messages_as_are_asked_for(many: Many, server: Server) -> None:
    with tiny_broker() as address:
        said, _ = many.run(Broker("tiny", address, server), publishers=3, window=2, topics=7, messages=70)
    assert said.count == 70


def test_deliveries_are_settled_and_counted(many: Many, server: Server) -> None:
    with tiny_broker() as address:
        said, _ = many.run(Broker("tiny", address, server), **_PAIRED, ms=_SHORT_MS)
    assert said.count > 0


def test_a_rate_is_offered_and_every_message_is_timed(many: Many, server: Server) -> None:
    with tiny_broker() as address:
        broker = Broker("tiny", address, server)
        said, outcome = many.run(broker, **_PAIRED, rate=1000, ms=100)
    assert said.count == 100
    assert outcome.seconds > 0.098
    for times in (said.to_acknowledged_ns, said.to_delivered_ns):
        assert len(times) == 4
        assert 0 < times[0] <= times[1] <= times[2] <= times[3]


@pytest.mark.parametrize(
    ("fault", "found"),
    [
        ({"forgets": 3}, "nothing came for 1 s"),
        ({"repeats": 3}, "was delivered twice"),
        ({"leaps": 3}, "PUBACK of packet"),
    ],
)
def test_what_goes_wrong_fails_the_run(many: Many, server: Server, fault: dict[str, int], found: str) -> None:
    with tiny_broker(**fault) as address, pytest.raises(PeerFailed, match=found):
        many.run(Broker("tiny", address, server), **_PAIRED, messages=30)


def test_a_message_of_another_run_fails_the_run(many: Many, server: Server) -> None:
    with tiny_redis(Streams()) as address:
        broker = Broker("tiny", address, server)
        many.run(broker, speech="redis", topic="$queue/", publishers=1, messages=5)
        with pytest.raises(PeerFailed, match="another run"):
            many.run(broker, **_PAIRED, speech="redis", messages=5)


def test_a_server_that_closes_a_connection_fails_the_run(many: Many, server: Server) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=lambda: listener.accept()[0].close())
        thread.start()
        with pytest.raises(PeerFailed, match=r"closed a connection|send"):
            many.run(Broker("tiny", listener.getsockname(), server), publishers=1, ms=_SHORT_MS)
        thread.join()


@pytest.mark.parametrize("topics", [1, 5])
@pytest.mark.parametrize("is_slow", [False, True])
def test_streams_are_read_and_acknowledged_however_the_answers_are_split(
    many: Many, server: Server, topics: int, is_slow: bool
) -> None:
    streams = Streams(is_slow)
    with tiny_redis(streams) as address:
        said, _ = many.run(
            Broker("tiny", address, server), **_PAIRED | {"consumers": 2}, speech="redis", topics=topics, messages=60
        )
    assert said.count == streams.added == streams.acknowledged == 60
    assert len(streams.entries) == topics


def test_connections_write_to_all_topics(many: Many, server: Server) -> None:
    streams = Streams()
    with tiny_redis(streams) as address:
        many.run(Broker("tiny", address, server), speech="redis", topic="t-", topics=12, publishers=1, messages=24)
    assert {name: len(entries) for name, entries in streams.entries.items()} == {f"t-{n:05}": 2 for n in range(12)}


def test_a_refused_message_fails_the_run(many: Many, server: Server) -> None:
    with tiny_redis(Streams(refuses=3)) as address, pytest.raises(PeerFailed, match="Redis said -ERR no more"):
        many.run(Broker("tiny", address, server), speech="redis", publishers=1, messages=5)


@pytest.mark.parametrize("goodbye", [0, 1])
def test_connections_are_opened_answered_and_closed(many: Many, server: Server, goodbye: int) -> None:
    with tiny_broker() as address:
        assert many.run(Broker("tiny", address, server), connects=250, goodbye=goodbye)[1].messages == 250


def test_an_unknown_setting_is_refused(many: Many, server: Server) -> None:
    with pytest.raises(PeerFailed, match="no setting publisher=3"):
        many.run(Broker("tiny", ("127.0.0.1", 1), server), publisher=3)


def test_without_a_compiler_the_generator_is_absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Absent, match="cc is not installed"):
        Many(tmp_path)
