"""What is said in the log of clients that do wrong: little, of everyone, and nothing of what they sent."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from itertools import count
from unittest import mock

import pytest
from tests.support.clock import FakeClock
from tests.support.mqtt_gateway import RunningGateway, consumer, user

from penstock.codecs.mqtt.encode import encode
from penstock.codecs.mqtt.kinds import Version
from penstock.codecs.mqtt.packets import Connect, PubAck, Publish, Subscribe, Subscription
from penstock.codecs.mqtt.reasons import ReasonCode
from penstock.core.errors import Closed, DiskLow
from penstock.gateways.mqtt.admin.complaints import Complaints, Recently

BAD = ReasonCode.MALFORMED_PACKET
SECRET = "hunter2-in-a-payload"
NOT_UTF8 = b"\xff\xfe"


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


def said(caplog: pytest.LogCaptureFixture, what: str) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.getMessage().startswith(what)]


def test_a_peer_is_complained_of_once_a_minute_and_counted_each_time(clock: FakeClock) -> None:
    complaints = Complaints(clock.monotonic)
    due = []
    for _ in range(180):
        due.append(complaints.is_due("192.0.2.1", BAD))
        clock.advance(1)
    assert [second for second, is_due in enumerate(due) if is_due] == [0, 60, 120]
    assert complaints.counts == {BAD: 180}


def test_one_peer_does_not_silence_another(clock: FakeClock) -> None:
    complaints = Complaints(clock.monotonic)
    assert complaints.is_due("192.0.2.1", BAD)
    assert complaints.is_due("192.0.2.2", BAD)
    assert not complaints.is_due("192.0.2.1", ReasonCode.PACKET_TOO_LARGE)


def test_all_addresses_of_a_network_of_ipv6_are_one_peer(clock: FakeClock) -> None:
    complaints = Complaints(clock.monotonic)
    assert complaints.is_due("2001:db8::1", BAD)
    assert not complaints.is_due("2001:db8::2", BAD)
    assert complaints.is_due("2001:db8:0:1::1", BAD)


def test_what_is_remembered_of_names_is_bounded_and_so_are_the_lines_a_minute(clock: FakeClock) -> None:
    recently, names = Recently(clock.monotonic), count()
    lines = sum(recently.is_new("x" * 100_000 + str(next(names))) for _ in range(3))
    lines += sum(recently.is_new(f"name-{next(names)}") for _ in range(30_000))
    assert (lines, len(recently)) == (10_000, 10_000)
    assert max(map(len, recently._since)) == 64
    clock.advance(61)
    assert recently.is_new("somebody else")
    assert len(recently) == 1


def test_a_name_said_again_is_not_forgotten_before_its_minute_is_over(clock: FakeClock) -> None:
    recently = Recently(clock.monotonic)
    recently.is_new("a")
    clock.advance(59)
    assert not recently.is_new("a")
    recently.is_new("b")
    clock.advance(1)
    assert recently.is_new("a")
    assert not recently.is_new("b")


def broken_streams() -> Iterator[bytes]:
    """Each has the secret in it, and one thing that is wrong."""
    secret = SECRET.encode()
    connected = encode(Connect(Version.V5, "c", password=secret, username="u"), Version.V5)
    publish = encode(Publish("t", secret, 1, packet_id=1), Version.V5)
    yield connected + publish[:3] + b"\xff\xff" + publish[5:]
    yield connected + bytes([publish[0] | 6]) + publish[1:]
    yield connected + encode(Publish("zz", secret), Version.V5).replace(b"zz", NOT_UTF8)
    yield connected + encode(Connect(Version.V5, SECRET, password=secret, username="u"), Version.V5)
    yield connected + b"\xf0" + bytes([len(secret)]) + secret
    yield connected + b"\x00" + bytes([len(secret)]) + secret
    yield encode(Publish("t", secret), Version.V5)
    yield b"GET /" + secret + b" HTTP/1.1\r\n\r\n"


def test_many_bad_connections_of_a_peer_are_one_line_without_what_they_sent(
    mqtt: RunningGateway, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "penstock")
    streams = list(broken_streams())
    for data in streams * 3:
        client = mqtt.opened("bad")
        client.send_raw(data)
        client.expect_closed()
    assert sum(mqtt.call(lambda: mqtt.gateway.reports.failures).values()) == 3 * len(streams)
    assert len(said(caplog, "connection closed")) == 1
    assert SECRET not in caplog.text


@pytest.mark.parametrize("number", range(len(list(broken_streams()))))
def test_whatever_is_wrong_its_line_does_not_hold_what_was_sent(
    mqtt: RunningGateway, caplog: pytest.LogCaptureFixture, number: int
) -> None:
    caplog.set_level(logging.DEBUG, "penstock")
    client = mqtt.opened("bad")
    client.send_raw(list(broken_streams())[number])
    client.expect_closed()
    assert len(said(caplog, "connection closed")) == 1
    assert SECRET not in caplog.text


def test_refused_publishes_of_a_client_are_one_line_though_each_is_answered(
    mqtt: RunningGateway, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "penstock")
    mqtt.declare(limits={"max_queue_depth": 1})
    consumer(mqtt)
    client = mqtt.client("p")
    client.publish("$queue/q", b"fits", 1)
    for packet_id in range(1, 51):
        client.send(Publish("$queue/q", SECRET.encode(), 1, packet_id=packet_id, properties=user(partition=0)))
        assert client.expect(PubAck).reason is ReasonCode.QUOTA_EXCEEDED
    assert len(said(caplog, "publish refused")) == 1
    assert SECRET not in caplog.text


def test_what_storage_refuses_to_everybody_is_one_line_for_all_clients(
    mqtt: RunningGateway, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "penstock")
    mqtt.declare("q")
    clients = [mqtt.client(f"c{number}") for number in range(20)]
    low = mock.Mock(side_effect=DiskLow(1, 2))
    with mock.patch.object(mqtt.broker.shard._engine, "refuse_if_low", low):
        for client in clients:
            client.send(Publish("$queue/q", b"x", 1, packet_id=1))
            assert client.expect(PubAck).reason is ReasonCode.QUOTA_EXCEEDED
    assert len(said(caplog, "publish refused")) == 1


def bad_subscription(mqtt: RunningGateway) -> None:
    client = mqtt.client("c")
    for packet_id in range(1, 21):
        client.send(Subscribe(packet_id, (Subscription("$queue/+/x", 1),)))
    client.came()


def bad_admin_request(mqtt: RunningGateway) -> None:
    client = mqtt.client("c")
    for packet_id in range(1, 21):
        client.send(Publish("$admin/queue/create", SECRET.encode(), 1, packet_id=packet_id))
        assert client.expect(PubAck).reason is ReasonCode.PAYLOAD_FORMAT_INVALID


@pytest.mark.parametrize(
    ("ask", "what"),
    [(bad_subscription, "subscription refused"), (bad_admin_request, "admin request refused")],
    ids=["subscribe", "admin"],
)
def test_refused_requests_of_a_client_are_one_line(
    mqtt: RunningGateway, caplog: pytest.LogCaptureFixture, ask: Callable[[RunningGateway], None], what: str
) -> None:
    caplog.set_level(logging.INFO, "penstock")
    ask(mqtt)
    assert len(said(caplog, what)) == 1
    assert SECRET not in caplog.text


def test_what_storage_refuses_to_everybody_is_said_once_a_minute(
    mqtt: RunningGateway, caplog: pytest.LogCaptureFixture
) -> None:
    async def refused() -> None:
        raise Closed("the disk is full")

    for _ in range(100):
        mqtt.call(lambda: mqtt.gateway.background.spawn(refused()))
        mqtt.call(lambda: mqtt.gateway.reports.lost_will("c", "the disk is full"))
    mqtt.until(lambda: not mqtt.gateway.background.is_busy)
    assert len([record for record in caplog.records if record.levelno >= logging.WARNING]) == 2
