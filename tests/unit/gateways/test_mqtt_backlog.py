"""What waits for a client that takes no more: its limits, its order, its end; and what goes out when it takes more."""

from __future__ import annotations

from array import array
from pathlib import Path

import pytest
from tests.support.broker import LARGE
from tests.support.mqtt_client import MqttClient
from tests.support.mqtt_gateway import RunningGateway, Setup, running

from penstock.codecs.mqtt.encode import encode
from penstock.codecs.mqtt.kinds import Version
from penstock.codecs.mqtt.packets import Disconnect, PubAck, Publish
from penstock.codecs.mqtt.properties import Properties
from penstock.codecs.mqtt.reasons import ReasonCode
from penstock.gateways.mqtt.options import MqttOptions, QueuedPolicy
from penstock.gateways.mqtt.outbound.backlog import Backlog
from penstock.gateways.mqtt.outbound.packets import Packets
from penstock.gateways.wire.budget import Budget

ONE_AT_A_TIME = Properties(receive_maximum=1)


def packets(*payloads: bytes, qos: int = 1) -> Packets:
    """Encoded with the identifier 0, as the fan-out does."""
    made = [
        bytearray(encode(Publish("t", payload, qos, packet_id=1 if qos else 0), Version.V5)) for payload in payloads
    ]
    ends, positions, at = array("i"), array("i"), 0
    for packet in made:
        if qos:
            packet[5:7] = b"\0\0"
            positions.append(at + 5)
        at += len(packet)
        ends.append(at)
    return Packets(b"".join(made), ends, bytes([0x30 | qos << 1]) * len(made), positions)


def drained(backlog: Backlog) -> list[bytes]:
    found = []
    while (some := backlog.take(1)) is not None:
        found.append(bytes(some.data)[8:])
    return found


def test_drop_newest_keeps_what_came_first_and_says_that_not_all_fitted() -> None:
    backlog = Backlog(3, 1000, QueuedPolicy.DROP_NEWEST, Budget(1 << 30, lambda: None))
    assert backlog.put(packets(b"a", b"b"))
    assert not backlog.put(packets(b"c", b"d"))
    assert (len(backlog), backlog.dropped, drained(backlog)) == (3, 1, [b"a", b"b", b"c"])


def test_drop_oldest_keeps_what_came_last_in_order() -> None:
    backlog = Backlog(3, 1000, QueuedPolicy.DROP_OLDEST, Budget(1 << 30, lambda: None))
    assert backlog.put(packets(b"a", b"b"))
    assert backlog.put(packets(b"c", b"d", b"e"))
    assert (len(backlog), backlog.dropped, drained(backlog)) == (3, 2, [b"c", b"d", b"e"])


def test_drop_oldest_gives_up_a_message_that_is_larger_than_all_that_may_wait() -> None:
    backlog = Backlog(3, 30, QueuedPolicy.DROP_OLDEST, Budget(1 << 30, lambda: None))
    assert backlog.put(packets(b"a", bytes(50), b"b"))
    assert drained(backlog) == [b"b"]
    assert backlog.put(packets(bytes(50)))
    assert len(backlog) == 0


def test_drop_oldest_of_many_in_one_piece_keeps_the_newest() -> None:
    backlog = Backlog(1000, 1 << 20, QueuedPolicy.DROP_OLDEST, Budget(1 << 30, lambda: None))
    payloads = [b"%04d" % i for i in range(8000)]
    backlog.put(packets(*payloads))
    assert backlog.dropped == 7000
    assert drained(backlog) == payloads[7000:]


@pytest.mark.parametrize("policy", [QueuedPolicy.DROP_NEWEST, QueuedPolicy.DISCONNECT])
def test_bytes_are_a_limit_too(policy: QueuedPolicy) -> None:
    backlog = Backlog(100, 2 * 13, policy, Budget(1 << 30, lambda: None))
    assert not backlog.put(packets(b"aaaaa", b"bbbbb", b"ccccc"))
    assert drained(backlog) == [b"aaaaa", b"bbbbb"]
    assert backlog.put(packets(b"ddddd"))


def overfull(mqtt: RunningGateway, version: Version = Version.V5) -> tuple[MqttClient, MqttClient]:
    client = mqtt.client("slow", version, properties=ONE_AT_A_TIME)
    client.subscribe("t", qos=1)
    publisher = mqtt.client("p")
    for i in range(6):
        publisher.publish("t", str(i).encode(), 1)
    return client, publisher


def limited(policy: QueuedPolicy) -> Setup:
    return Setup(MqttOptions(sys_interval_s=0, max_queued_messages=3, queued_policy=policy))


@pytest.mark.parametrize(
    ("policy", "kept"), [(QueuedPolicy.DROP_NEWEST, [0, 1, 2, 3]), (QueuedPolicy.DROP_OLDEST, [0, 3, 4, 5])]
)
def test_a_client_that_confirms_nothing_costs_no_more_than_the_limit(
    tmp_path: Path, policy: QueuedPolicy, kept: list[int]
) -> None:
    with running(tmp_path, limited(policy)) as mqtt:
        client, publisher = overfull(mqtt)
        client.expect_payloads([str(i).encode() for i in kept])
        client.expect_nothing_from(publisher)


def test_a_client_over_its_limit_is_told_to_go_if_that_is_the_policy(tmp_path: Path) -> None:
    with running(tmp_path, limited(QueuedPolicy.DISCONNECT)) as mqtt:
        client, publisher = overfull(mqtt)
        word = client.expect_closed()
        assert isinstance(word, Disconnect)
        assert word.reason is ReasonCode.QUOTA_EXCEEDED
        publisher.ping()


def test_what_expires_while_it_waits_is_not_sent_and_the_rest_says_how_much_time_is_left(mqtt: RunningGateway) -> None:
    client, publisher = mqtt.client("slow", properties=ONE_AT_A_TIME), mqtt.client("p")
    client.subscribe("t", qos=1)
    publisher.publish("t", b"first", 1)
    for payload, expiry_s in ((b"gone", 10), (b"late", 100), (b"ever", None)):
        publisher.publish("t", payload, 1, properties=Properties(message_expiry_interval_s=expiry_s))
    first = client.expect(Publish)
    mqtt.advance(30)
    client.acknowledge(first)
    late, ever = client.expect_payloads([b"late", b"ever"])
    assert late.properties.message_expiry_interval_s == 70
    assert ever.properties.message_expiry_interval_s is None


def test_messages_of_qos_0_do_not_wait_for_acknowledgements(mqtt: RunningGateway) -> None:
    client, publisher = mqtt.client("slow", properties=ONE_AT_A_TIME), mqtt.client("p")
    client.subscribe("t", qos=1)
    publisher.publish("t", b"1", 1)
    publisher.publish("t", b"2", 1)
    publisher.publish("t", b"3", 0)
    assert [client.expect(Publish).payload for _ in range(2)] == [b"1", b"3"]


def test_a_reader_that_stops_loses_qos_0_over_its_limit_and_nobody_else_does(tmp_path: Path) -> None:
    options = MqttOptions(sys_interval_s=0, max_outbound_bytes=100_000)
    with running(tmp_path, Setup(options)) as mqtt:
        stuck, quick, publisher = mqtt.client("stuck"), mqtt.client("quick"), mqtt.client("p")
        for client in (stuck, quick):
            client.subscribe("t")
        payload = bytes(50_000)
        for _ in range(400):
            publisher.publish("t", payload)
            quick.expect(Publish)
        [connection] = [each for each in mqtt.gateway.connections if each.name == "stuck"]
        assert mqtt.call(lambda: connection.outbox.waiting_bytes) < 300_000
        assert connection.sender.dropped > 0
        publisher.publish("t", b"end")
        quick.expect_payloads([b"end"])


def test_a_reader_that_stops_gets_all_of_qos_1_when_it_reads_on(tmp_path: Path) -> None:
    options = MqttOptions(sys_interval_s=0, max_outbound_bytes=100_000, max_queued_bytes=64 << 20)
    with running(tmp_path, Setup(options)) as mqtt:
        stuck, publisher = mqtt.client("stuck"), mqtt.client("p")
        stuck.subscribe("t", qos=1)
        sent = [b"%05d" % i + bytes(50_000) for i in range(200)]
        for payload in sent:
            publisher.publish("t", payload, 1)
        [connection] = [each for each in mqtt.gateway.connections if each.name == "stuck"]
        assert len(connection.sender.backlog) > 0
        stuck.expect_payloads(sent)


def retain(mqtt: RunningGateway, count: int, size_bytes: int = 10) -> list[bytes]:
    """Many in one receive, so that they are stored together."""
    publisher = mqtt.client("p")
    payloads = [b"%05d" % i + bytes(size_bytes) for i in range(count)]
    publisher.send(*[Publish(f"r/{i}", payload, 1, True, packet_id=i + 1) for i, payload in enumerate(payloads)])
    for _ in payloads:
        publisher.expect(PubAck)
    return payloads


@pytest.mark.parametrize("limit", [MqttOptions(max_queued_messages=5), MqttOptions(max_queued_bytes=2_000)])
def test_retained_messages_come_whole_however_little_may_wait(tmp_path: Path, limit: MqttOptions) -> None:
    with running(tmp_path, Setup(limit)) as mqtt:
        payloads = retain(mqtt, 60, 200)
        client = mqtt.client("slow", properties=ONE_AT_A_TIME)
        client.subscribe("r/#", qos=1)
        found = sorted(client.expect_message().payload for _ in payloads)
        assert found == payloads


def test_many_retained_messages_reach_a_reader_that_stops_in_between(tmp_path: Path) -> None:
    options = MqttOptions(sys_interval_s=0, max_outbound_bytes=50_000)
    with running(tmp_path, Setup(options, shard=LARGE)) as mqtt:
        payloads = retain(mqtt, 300, 20_000)
        client = mqtt.client("slow")
        client.subscribe("r/#", qos=0)
        [connection] = [each for each in mqtt.gateway.connections if each.name == "slow"]
        mqtt.until(lambda: connection.sender.is_behind)
        mqtt.client("other").ping()
        found = sorted(client.expect_message().payload for _ in payloads)
        assert found == payloads


def test_what_is_sent_again_goes_before_what_waits(mqtt: RunningGateway) -> None:
    retain(mqtt, 3)
    client, publisher = mqtt.lasting("s"), mqtt.client("p2")
    client.subscribe("t", qos=1)
    for payload in (b"a", b"b", b"c"):
        publisher.publish("t", payload, 1)
    for _ in range(3):
        client.expect(Publish)
    client.cut()
    client = mqtt.lasting("s", receive_maximum=1)
    first = client.expect(Publish)
    client.subscribe("r/#", qos=1)
    client.send(PubAck(first.packet_id))
    found = [first.payload] + [client.expect_message().payload for _ in range(5)]
    assert found[:3] == [b"a", b"b", b"c"]
    assert sorted(found[3:]) == [b"%05d" % i + bytes(10) for i in range(3)]
