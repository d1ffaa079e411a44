"""mosquitto_pub and mosquitto_sub, as people try a broker."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from itertools import count

import pytest
from tests.e2e.conftest import not_tested
from tests.support.live_server import LiveServer, live_server
from tests.support.servers import INSTALL_HINT, mosquitto_command

_PATIENCE_S = 30
VERSIONS = ["mqttv311", "mqttv5"]
_numbers = count(1)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    with live_server(tmp_path_factory.mktemp("mosquitto"), ["mqtt.sys_interval=none"]) as running:
        yield running


def command(server: LiveServer, name: str, *arguments: str) -> list[str]:
    found = mosquitto_command(name)
    if found is None:
        not_tested(name, f"it is not installed: {INSTALL_HINT}")
    return [found, "-h", "127.0.0.1", "-p", str(server.address[1]), *arguments]


def ran(server: LiveServer, name: str, *arguments: str, given: bytes = b"") -> bytes:
    """What it said, in its own time."""
    done = subprocess.run(command(server, name, *arguments), input=given, capture_output=True, timeout=_PATIENCE_S)
    assert done.returncode == 0, done.stderr
    return done.stdout


class Subscriber:
    """mosquitto_sub under way: subscribed when it is made, and it ends after `wanted` messages."""

    def __init__(self, server: LiveServer, wanted: int, *arguments: str) -> None:
        said = ["-C", str(wanted), "-W", str(_PATIENCE_S), "-d", "-F", "MESSAGE %t %q %r %p", *arguments]
        line = ["stdbuf", "-oL", *command(server, "mosquitto_sub", *said)]
        self._process = subprocess.Popen(line, stdout=subprocess.PIPE)
        assert self._process.stdout is not None
        self._said = self._process.stdout
        for told in self._said:
            if told.startswith(b"Subscribed"):
                break

    def came(self) -> list[str]:
        """It ends by itself, with fewer messages too."""
        found = [told.decode().strip().partition(" ")[2] for told in self._said if told.startswith(b"MESSAGE ")]
        self._said.close()
        assert self._process.wait(_PATIENCE_S) == 0, found
        return found

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        self._said.close()


def subscribed(server: LiveServer, version: str, wanted: int, *arguments: str) -> Subscriber:
    return Subscriber(server, wanted, "-V", version, *arguments)


@pytest.mark.parametrize("version", VERSIONS)
def test_what_mosquitto_pub_sends_comes_to_mosquitto_sub(server: LiveServer, version: str) -> None:
    topic = f"m{next(_numbers)}"
    subscriber = subscribed(server, version, 4, "-t", f"{topic}/#", "-q", "2")
    for qos in ("0", "1", "2"):
        ran(server, "mosquitto_pub", "-V", version, "-t", f"{topic}/{qos}", "-q", qos, "-m", f"value {qos}")
    ran(server, "mosquitto_pub", "-V", version, "-t", f"{topic}/in", "-q", "1", "-l", given=b"a line\n")
    assert subscriber.came() == [*(f"{topic}/{qos} {qos} 0 value {qos}" for qos in range(3)), f"{topic}/in 1 0 a line"]


@pytest.mark.parametrize("version", VERSIONS)
def test_retained_messages_and_wills_reach_mosquitto_sub(server: LiveServer, version: str) -> None:
    topic = f"m{next(_numbers)}"
    ran(server, "mosquitto_pub", "-V", version, "-t", f"{topic}/state", "-q", "1", "-r", "-m", "on")
    subscriber = subscribed(server, version, 2, "-t", f"{topic}/#", "-q", "1")
    will = ["--will-topic", f"{topic}/will", "--will-payload", "gone", "--will-qos", "1"]
    subscribed(server, version, 1, "-t", "nothing", *will).kill()
    assert subscriber.came() == [f"{topic}/state 1 1 on", f"{topic}/will 1 0 gone"]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_session_of_mosquitto_sub_collects_while_it_is_away(server: LiveServer, version: str) -> None:
    topic = f"m{next(_numbers)}"
    stays: Sequence[str] = ["-i", topic, "-c", "-t", topic, "-q", "1"]
    stays = [*stays, "-x", "3600"] if version == "mqttv5" else stays
    ran(server, "mosquitto_sub", "-V", version, *stays, "-E")
    for number in range(3):
        ran(server, "mosquitto_pub", "-V", version, "-t", topic, "-q", "1", "-m", f"{number}")
    found = ran(server, "mosquitto_sub", "-V", version, *stays, "-C", "3", "-W", str(_PATIENCE_S))
    assert found.split() == [b"0", b"1", b"2"]


@pytest.mark.parametrize("version", VERSIONS)
def test_mosquitto_sub_consumes_a_queue(server: LiveServer, version: str) -> None:
    queue = f"$queue/m{next(_numbers)}"
    for number in range(3):
        ran(server, "mosquitto_pub", "-V", version, "-t", queue, "-q", "1", "-m", f"{number}")
    terms = ["-D", "subscribe", "user-property", "ack-mode", "puback"] if version == "mqttv5" else []
    taken = ["-V", version, "-q", "1", "-t", f"$share/g/{queue}", "-W", str(_PATIENCE_S), *terms]
    # Of three publishers, so in any order.
    assert sorted(ran(server, "mosquitto_sub", *taken, "-C", "3").split()) == [b"0", b"1", b"2"]
