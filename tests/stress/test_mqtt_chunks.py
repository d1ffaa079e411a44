"""However the network cuts the stream of a client, a live server gives the same answers."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.support.http_client import HttpClient
from tests.support.live_server import LiveServer, live_server
from tests.support.mqtt_client import MqttClient

from penstock.codecs.mqtt.decode import Decoder, Need
from penstock.codecs.mqtt.encode import encode
from penstock.codecs.mqtt.kinds import Version
from penstock.codecs.mqtt.packets import (
    Connect,
    Disconnect,
    Packet,
    PingReq,
    PubAck,
    PubComp,
    Publish,
    PubRec,
    PubRel,
    Subscribe,
    Subscription,
    Unsubscribe,
)
from penstock.codecs.mqtt.properties import Properties

QUEUE = "$queue/chunks"
# More than what is kept in the buffer that all connections share.
LARGE = bytes(range(256)) * 300
Cuts = Sequence[float]
"""where each phase is cut, as parts of its length"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    with live_server(tmp_path_factory.mktemp("chunks"), ["mqtt.sys_interval=none"]) as running:
        with closing(HttpClient(("127.0.0.1", running.ports["http"]))) as http:
            for version in Version:
                assert http.post("queues", {"name": f"chunks-{version}"}).status == 201  # who makes it is told so
        yield running


def greeting(version: Version) -> list[Packet]:
    """Everything that a client can say before it is answered."""
    named = Properties(user_properties=(("consumer-group", "g"), ("ack-mode", "puback")))
    said: list[Packet] = [
        Connect(version, f"cut-{version}", keep_alive_s=600),
        Subscribe(1, (Subscription(f"cut/{version}/#", 2), Subscription("other/+", 1))),
        Subscribe(2, (Subscription(f"$share/g/{QUEUE}-{version}", 1),), named if version == 5 else Properties()),
        Publish(f"cut/{version}/a"),
        Publish(f"cut/{version}/a", b"one" * 99, 1, packet_id=3),
        Publish(f"cut/{version}/b", b"two" * 42, 2, packet_id=4),
        PingReq(),
        Publish(f"cut/{version}/b", b"two" * 42, 2, dup=True, packet_id=4),
        *[Publish(f"{QUEUE}-{version}", b"job %d" % number, 1, packet_id=5 + number) for number in range(3)],
        Publish(f"cut/{version}/r", b"kept", 1, retain=True, packet_id=9),
        Publish(f"cut/{version}/l", LARGE, 1, packet_id=10),
        Unsubscribe(11, ("other/+", "never/was")),
        Publish("other/1", b"not wanted any more", 1, packet_id=12),
    ]
    if version == 5:
        aliased = Publish(f"cut/{version}/alias", b"3", 1, packet_id=13, properties=Properties(topic_alias=2))
        rich = Properties(
            content_type="text/plain", correlation_data=b"\0\1", user_properties=(("k", "v"),), response_topic="reply"
        )
        said += [
            aliased,
            replace(aliased, topic="", payload=b"4", packet_id=14),
            Publish(f"cut/{version}/rich", b"6", 2, packet_id=16, properties=rich),
        ]
    return [*said, PingReq()]


def answer_to(packets: Sequence[Packet], version: Version) -> list[Packet]:
    """What a client owes for what it got."""
    owed: list[Packet] = []
    for packet in packets:
        if isinstance(packet, Publish) and packet.qos:
            owed.append(PubAck(packet.packet_id) if packet.qos == 1 else PubRec(packet.packet_id))
        elif isinstance(packet, PubRec):
            owed += [] if PubRel(packet.packet_id) in owed else [PubRel(packet.packet_id)]
        elif isinstance(packet, PubRel):
            owed.append(PubComp(packet.packet_id))
    return owed


@dataclass
class Wire:
    """A connection that sends in pieces, each read by the server before the next comes: it answers another client's
    ping only after it has read what came before."""

    socket: socket.socket
    decoder: Decoder
    other: MqttClient

    def send(self, data: bytes, cuts: Cuts) -> None:
        places = sorted({round(cut * len(data)) for cut in cuts} - {0, len(data)})
        for start, end in zip([0, *places], [*places, len(data)], strict=True):
            self.socket.sendall(data[start:end])
            if end != len(data):
                self.other.ping()

    def receive(self, count: int | None) -> list[Packet]:
        """So many; or all until nothing comes any more."""
        found: list[Packet] = []
        while count is None or len(found) < count:
            packet = self.decoder.next_packet()
            if packet is not Need.DATA:
                found.append(packet)
                continue
            try:
                data = self.socket.recv(1 << 16)
            except TimeoutError:
                assert count is None, f"{count} answers were due, and these came: {found}"
                return found
            assert data, f"the server closed after {found}"
            self.decoder.receive(data)
        return found

    def ends(self) -> bool:
        """Without another packet."""
        return self.decoder.next_packet() is Need.DATA and self.socket.recv(1) == b""


def plain(packets: Sequence[Packet]) -> dict[str, list[Packet]]:
    """In order where MQTT has one. Which identifier a delivery gets, and what its queue says of it, are left out."""
    found: dict[str, list[Packet]] = {}
    for packet in packets:
        kind = packet.type.name
        if isinstance(packet, Publish):
            kind = f"{packet.topic} {packet.qos}"
            properties = Properties() if "queue/" in packet.topic else packet.properties
            packet = replace(packet, packet_id=1 if packet.qos else 0, properties=properties)
        elif isinstance(packet, PubRel | PubComp):
            kind, packet = packet.type.name, replace(packet, packet_id=1)
        found.setdefault(kind, []).append(packet)
    return found


def run(server: LiveServer, version: Version, cuts: Sequence[Cuts], counts: Sequence[int] | None) -> list[list[Packet]]:
    """The answers of each phase. Without `counts`, whatever comes."""
    came: list[list[Packet]] = []
    with socket.create_connection(server.address, timeout=0.6 if counts is None else 10.0) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        other = MqttClient(server.address, version)
        other.connect()
        wire, said = Wire(connection, Decoder(version), other), greeting(version)
        for phase in range(4):
            wire.send(b"".join(encode(packet, version) for packet in said), cuts[phase])
            came.append(wire.receive(None if counts is None else counts[phase]))
            said = answer_to(came[-1], version)
            if phase == 0:
                said.append(Publish(f"cut/{version}/r", b"", 0, retain=True))
        wire.send(encode(Disconnect(), version), cuts[0])
        assert wire.ends()
        other.close()
    return came


_expected: dict[Version, list[list[Packet]]] = {}


def expected(server: LiveServer, version: Version) -> list[list[Packet]]:
    if version not in _expected:
        _expected[version] = run(server, version, [[]] * 4, None)
    return _expected[version]


def check(server: LiveServer, version: Version, cuts: Sequence[Cuts]) -> None:
    wanted = expected(server, version)
    came = run(server, version, cuts, [len(phase) for phase in wanted])
    assert [plain(phase) for phase in came] == [plain(phase) for phase in wanted]


@pytest.mark.parametrize("version", Version)
@given(cuts=st.lists(st.lists(st.floats(0, 1), max_size=8), min_size=4, max_size=4))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=20)
@example(cuts=[[0.0001, 0.0002, 0.0003], [0.5], [0.5], [0.5]])
def test_any_cut_of_a_session_gives_the_same_answers(server: LiveServer, version: Version, cuts: list[Cuts]) -> None:
    check(server, version, cuts)


@pytest.mark.parametrize("version", Version)
def test_a_session_byte_by_byte_gives_the_same_answers(server: LiveServer, version: Version) -> None:
    """All but the payload of the large message."""
    size = sum(len(encode(packet, version)) for packet in greeting(version))
    before = size - len(LARGE)
    cuts = [place / size for place in range(1, before)]
    check(server, version, [cuts, *[[place / 100 for place in range(100)]] * 3])
