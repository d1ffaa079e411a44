"""Eclipse Paho's client in C, as Debian packages it: bursts over TCP and WebSocket."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

import pytest
from tests.e2e.conftest import not_tested
from tests.support.live_server import LiveServer, live_server

from penstock.client.mqtt.async_client import AsyncMqttClient
from penstock.client.mqtt.options import MqttOptions

BURST, _PATIENCE_S = 10_000, 60.0
PAYLOADS = [b"%d:" % number + b"x" * (number % 300) for number in range(BURST)]
_numbers = count(1)
both_transports = pytest.mark.parametrize("listener", ["mqtt", "mqtt_ws"])


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    settings = ["mqtt.sys_interval=none", f"mqtt.max_queued_messages={BURST}"]
    with live_server(tmp_path_factory.mktemp("paho-c"), settings) as running:
        yield running


@contextmanager
def subscriber(server: LiveServer, listener: str, version: str, filter: str) -> Iterator[Iterator[bytes]]:
    """paho_c_sub under way, and the payloads that it prints, until it is late."""
    command = shutil.which("paho_c_sub")
    if command is None:
        not_tested("Paho in C", "paho_c_sub is not installed: make peers, or apt-get install paho.mqtt.c-examples")
    scheme, path = ("ws", "/mqtt") if listener == "mqtt_ws" else ("tcp", "")
    where = f"{scheme}://127.0.0.1:{server.ports[listener]}{path}"
    arguments = ["-c", where, "-t", filter, "-q", "1", "-V", version, "-i", f"paho-c-{next(_numbers)}"]
    process = subprocess.Popen(["stdbuf", "-oL", command, *arguments], stdout=subprocess.PIPE)
    late = threading.Timer(_PATIENCE_S, process.kill)
    late.start()
    assert process.stdout is not None
    try:
        yield (line.rstrip(b"\n") for line in process.stdout)
    finally:
        late.cancel()
        process.terminate()
        process.wait(_PATIENCE_S)
        process.stdout.close()


def publish(server: LiveServer, topic: str, payloads: list[bytes], *, retain: bool = False) -> None:
    async def main() -> None:
        async with AsyncMqttClient(MqttOptions(port=server.ports["mqtt"])) as client:
            sent = [await client.begin_publish(topic, each, qos=1, retain=retain) for each in payloads]
            await asyncio.gather(*sent)

    asyncio.run(main())


@both_transports
@pytest.mark.parametrize("version", ["311", "5"])
def test_a_burst_to_a_topic_comes_whole_and_in_order(server: LiveServer, listener: str, version: str) -> None:
    topic = f"burst/{next(_numbers)}"
    publish(server, topic, [b"subscribed"], retain=True)
    with subscriber(server, listener, version, topic) as came:
        assert next(came) == b"subscribed"
        publish(server, topic, PAYLOADS)
        assert [next(came, None) for _ in PAYLOADS] == PAYLOADS


@both_transports
def test_a_queue_that_is_full_of_messages_comes_whole(server: LiveServer, listener: str) -> None:
    """In MQTT 3.1.1, where PUBACK settles: the program has no words for anything else."""
    queue = f"$queue/burst-{next(_numbers)}"
    publish(server, queue, PAYLOADS)
    with subscriber(server, listener, "311", f"$share/g/{queue}") as came:
        assert sorted(next(came, b"") for _ in PAYLOADS) == sorted(PAYLOADS)
