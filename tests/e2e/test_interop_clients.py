"""Client libraries that people use, over TCP and WebSocket: what they know how to do, works."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count

import pytest
from tests.e2e.interop.async_peers import AiomqttPeer, GmqttPeer
from tests.e2e.interop.node_peer import NodePeer
from tests.e2e.interop.peers import Came, PahoPeer, Peer, Place, Will
from tests.support.live_server import LiveServer, live_server

from penstock.client.mqtt.async_client import AsyncMqttClient
from penstock.client.mqtt.options import MqttOptions
from penstock.codecs.mqtt.properties import Properties

BURST = 10_000

_numbers = count(1)


@dataclass(frozen=True)
class Library:
    name: str
    make: Callable[[Place], Peer]
    version: int
    is_websocket: bool
    tells_presence: bool = True

    def __str__(self) -> str:
        return f"{self.name}-v{self.version}-{'ws' if self.is_websocket else 'tcp'}"


def _libraries() -> list[Library]:
    both = [(version, is_websocket) for version in (4, 5) for is_websocket in (False, True)]
    return [
        *[Library("paho", PahoPeer, *each) for each in both],
        *[Library("aiomqtt", AiomqttPeer, *each, tells_presence=False) for each in both],
        *[Library("gmqtt", GmqttPeer, version, False) for version in (4, 5)],
        *[Library("mqttjs", NodePeer, *each) for each in both],
    ]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    with live_server(tmp_path_factory.mktemp("interop"), ["mqtt.sys_interval=none"]) as running:
        yield running


@dataclass
class Scene:
    server: LiveServer
    library: Library
    number: int

    def __post_init__(self) -> None:
        self._peers: list[Peer] = []

    def peer(self) -> Peer:
        port = self.server.ports["mqtt_ws" if self.library.is_websocket else "mqtt"]
        self._peers.append(self.library.make(Place(port, self.library.version, self.library.is_websocket)))
        return self._peers[-1]

    def connected(self, name: str, *, clean: bool = True, will: Will | None = None) -> Peer:
        peer = self.peer()
        peer.connect(self.name(name), clean=clean, will=will)
        return peer

    def name(self, name: str) -> str:
        """One that no other test uses."""
        return f"{name}-{self.number}"

    def end(self) -> None:
        for peer in self._peers:
            peer.close()


@pytest.fixture(params=_libraries(), ids=str)
def scene(request: pytest.FixtureRequest, server: LiveServer) -> Iterator[Scene]:
    library: Library = request.param
    if library.name == "mqttjs":
        request.getfixturevalue("node_modules")
    made = Scene(server, library, next(_numbers))
    yield made
    made.end()


def test_messages_of_every_qos_come_as_they_were_sent(scene: Scene) -> None:
    here, there, topic = scene.connected("here"), scene.connected("there"), scene.name("plain")
    here.subscribe(f"{topic}/#", 2)
    for qos in (0, 1, 2):
        payload = bytes(range(256)) * (1 + 100 * qos)
        there.publish(f"{topic}/größe/{qos}", payload, qos)
        assert here.next() == Came(f"{topic}/größe/{qos}", payload, qos, False)


def test_what_is_retained_comes_to_a_new_subscriber(scene: Scene) -> None:
    here, there, topic = scene.connected("here"), scene.connected("there"), scene.name("state")
    there.publish(topic, b"on", 1, retain=True)
    here.subscribe(topic, 1)
    assert here.next() == Came(topic, b"on", 1, True)
    there.publish(topic, b"", 1, retain=True)


def test_the_will_of_a_client_that_is_gone_is_published(scene: Scene) -> None:
    here, topic = scene.connected("here"), scene.name("will")
    here.subscribe(topic, 1)
    scene.connected("gone", will=Will(topic, b"gone")).drop()
    assert here.next() == Came(topic, b"gone", 1, False)


@pytest.mark.parametrize("qos", [1, 2])
def test_a_session_collects_while_its_client_is_away(scene: Scene, qos: int) -> None:
    topic, there = scene.name(f"session{qos}"), scene.connected("there")
    here = scene.connected(f"session{qos}", clean=False)
    here.subscribe(topic, qos)
    here.disconnect()
    for number in range(5):
        there.publish(topic, b"%d" % number, qos)
    back = scene.peer()
    is_present = back.connect(scene.name(f"session{qos}"), clean=False)
    assert is_present or not scene.library.tells_presence
    if not scene.library.tells_presence:
        back.subscribe(topic, qos)
    assert [back.next() for _ in range(5)] == [Came(topic, b"%d" % number, qos, False) for number in range(5)]


def test_a_queue_is_consumed_by_groups_and_what_was_not_settled_comes_again(scene: Scene) -> None:
    queue, there = f"$queue/{scene.name('jobs')}", scene.connected("there")
    for number in range(4):
        there.publish(queue, b"%d" % number, 1)
    for group in ("a", "b"):
        worker = scene.connected(f"worker-{group}")
        worker.subscribe(f"$share/{group}/{queue}", 1, {"ack-mode": "puback"})
        assert [worker.next().payload for _ in range(4)] == [b"0", b"1", b"2", b"3"]
        worker.disconnect()
    there.publish(queue, b"4", 1)
    again = scene.connected("again")
    again.subscribe(f"$share/a/{queue}", 1, {"ack-mode": "puback"})
    assert again.next().payload == b"4"


def test_members_of_a_shared_subscription_get_each_message_once(scene: Scene) -> None:
    topic, there = scene.name("shared"), scene.connected("there")
    members = [scene.connected(f"member-{number}") for number in range(2)]
    for member in members:
        member.subscribe(f"$share/g/{topic}", 1)
    for number in range(6):
        there.publish(topic, b"%d" % number, 1)
    came = [member.next().payload for member in members for _ in range(3)]
    assert sorted(came) == [b"%d" % number for number in range(6)]


# The peers of the others take messages one by one.
@pytest.mark.parametrize(
    "scene", [each for each in _libraries() if each.name in ("paho", "mqttjs")], ids=str, indirect=True
)
@pytest.mark.parametrize("is_live", [False, True], ids=["stored", "live"])
def test_a_burst_comes_whole_and_in_order(scene: Scene, is_live: bool) -> None:
    """As fast as the server sends, so that packets lie across frames of a WebSocket and many in one."""
    here, queue = scene.connected("here"), f"$queue/{scene.name('burst')}"
    payloads = [b"%d:" % number + b"x" * (number % 300) for number in range(BURST)]
    if is_live:
        here.subscribe(f"$share/g/{queue}", 1, {"ack-mode": "puback"})
    send_all(scene.server.ports["mqtt"], queue, payloads)
    if not is_live:
        here.subscribe(f"$share/g/{queue}", 1, {"ack-mode": "puback"})
    assert [here.next().payload for _ in payloads] == payloads


def send_all(port: int, queue: str, payloads: list[bytes]) -> None:
    """With one key, so that one partition has them all in their order."""

    async def main() -> None:
        keyed = Properties(user_properties=(("partition-key", "k"),))
        async with AsyncMqttClient(MqttOptions(port=port)) as client:
            await asyncio.gather(
                *[await client.begin_publish(queue, each, qos=1, properties=keyed) for each in payloads]
            )

    asyncio.run(main())
