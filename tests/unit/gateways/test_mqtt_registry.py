"""Sessions by client id: who goes on, who is put out, what becomes of wills, and what a session is sent again."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from time import monotonic

import pytest
from tests.support.mqtt_client import MqttClient
from tests.support.mqtt_gateway import LONG_S, V3, RunningGateway, Setup, running

from penstock.broker.auth.options import RateLimitOptions
from penstock.codecs.mqtt.encode import encode
from penstock.codecs.mqtt.kinds import Version
from penstock.codecs.mqtt.packets import (
    ConnAck,
    Connect,
    Disconnect,
    PubAck,
    PubComp,
    Publish,
    PubRec,
    PubRel,
    SubAck,
    Subscribe,
    Subscription,
    Will,
)
from penstock.codecs.mqtt.properties import Properties
from penstock.codecs.mqtt.reasons import ReasonCode
from penstock.gateways.mqtt.options import MqttOptions

LASTING = Properties(session_expiry_interval_s=LONG_S)


def publish(mqtt: RunningGateway, *payloads: bytes, qos: int = 1, topic: str = "t") -> MqttClient:
    publisher = mqtt.client("p")
    for payload in payloads:
        publisher.publish(topic, payload, qos)
    return publisher


# The first packet


@pytest.mark.parametrize("pieces", [1, 3, 40])
@pytest.mark.parametrize(
    "options", [MqttOptions(), MqttOptions(max_packet_bytes=4096, max_packet_bytes_before_login=2 << 20)]
)
def test_a_connect_may_be_as_long_as_the_limit_says_in_however_many_pieces_it_comes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, options: MqttOptions, pieces: int
) -> None:
    most = options.max_packet_bytes_before_login
    with running(tmp_path, Setup(options=options)) as mqtt:
        client, data = mqtt.opened("a"), connect_of(most)
        for first in range(0, most, most // pieces):
            client.send_raw(data[first : first + most // pieces])
            mqtt.look()
        assert client.expect(ConnAck).reason is ReasonCode.SUCCESS
        client.ping()
        longer = mqtt.opened("b")
        longer.send_raw(connect_of(most + 1)[:1000])
        longer.expect_closed()
        assert f"a packet of {most + 1} bytes before the login" in caplog.text


def connect_of(size: int) -> bytes:
    """A CONNECT of so many bytes, by its user properties."""
    value = "x" * 50_000
    count, last = (size - 200) // (len(value) + 6), ""
    for _ in range(2):
        properties = (("k", value),) * count + (("k", last),)
        data = encode(Connect(Version.V5, "a", properties=Properties(user_properties=properties)), Version.V5)
        last = "x" * (size - len(data))
    assert len(data) == size
    return data


# Who goes on


@pytest.mark.parametrize("is_lasting", [False, True])
def test_of_fifty_who_come_at_once_with_one_client_id_one_stays(mqtt: RunningGateway, is_lasting: bool) -> None:
    connect = Connect(Version.V5, "same", False, properties=LASTING if is_lasting else Properties())
    clients = [mqtt.opened("same") for _ in range(50)]
    for client in clients:
        client.send(connect)
    for client in clients:
        assert client.expect(ConnAck).reason is ReasonCode.SUCCESS
    mqtt.left_with(1)
    assert len(mqtt.gateway.registry) == 1
    endings = []
    for client in clients:
        client.wait_at_most(0.05)
        try:
            endings.append(client.receive())
        except AssertionError:
            client.wait_at_most(8)
            client.subscribe("t", qos=1)
            publish(mqtt, b"x")
            client.expect_payloads([b"x"])
    assert len(endings) == 49
    assert all(isinstance(word, Disconnect) and word.reason is ReasonCode.SESSION_TAKEN_OVER for word in endings)


def test_connections_of_one_client_id_that_come_and_go_leave_one_session_that_works(mqtt: RunningGateway) -> None:
    connect = encode(Connect(Version.V5, "same", False, properties=LASTING), Version.V5)

    def storm() -> None:
        for _ in range(20):
            client = MqttClient(mqtt.address, Version.V5, "same")
            client.send_raw(connect)
            client.cut()

    threads = [threading.Thread(target=storm) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    mqtt.left_with(0)
    client = mqtt.lasting("same")
    client.subscribe("t", qos=1)
    publish(mqtt, b"x")
    client.expect_payloads([b"x"])
    [stored] = list(mqtt.topics.sessions)
    assert stored.is_connected
    client.cut()
    mqtt.until(lambda: not stored.is_connected)


def test_whoever_is_taken_over_and_does_not_read_does_not_stop_the_session(mqtt: RunningGateway) -> None:
    """Its connection ends long after the session has another one."""
    old, publisher = mqtt.lasting("s"), mqtt.client("p")
    old.subscribe(Subscription("t", 1), Subscription("flood", 0))
    [connection] = [each for each in mqtt.gateway.connections if each.name == "s"]
    while not mqtt.call(lambda: connection.outbox.is_paused):
        publisher.publish("flood", bytes(100_000))
    new = mqtt.lasting("s")
    publisher.publish("t", b"1", 1)
    new.expect_payloads([b"1"])
    old.cut()
    mqtt.left_with(2)
    publisher.publish("t", b"2", 1)
    new.expect_payloads([b"2"])


def test_a_session_of_no_time_ends_with_its_connection(mqtt: RunningGateway) -> None:
    client = mqtt.lasting("s")
    client.subscribe("t", qos=1)
    client.disconnect(properties=Properties(session_expiry_interval_s=0))
    mqtt.until(lambda: len(mqtt.gateway.registry) == 0)
    assert not mqtt.lasting("s").connack.session_present


def test_a_session_ends_when_its_time_is_over_though_nobody_looked(mqtt: RunningGateway) -> None:
    client = mqtt.lasting("s")
    client.disconnect()
    mqtt.left_with(0)
    mqtt.clock.advance(LONG_S + 1)
    assert not mqtt.lasting("s").connack.session_present


def test_a_session_lasts_no_longer_than_the_server_lets_it(tmp_path: Path) -> None:
    with running(tmp_path, Setup(MqttOptions(sys_interval_s=0, max_session_expiry_s=10))) as mqtt:
        client = mqtt.lasting("s")
        assert client.connack.properties.session_expiry_interval_s == 10
        client.cut()
        mqtt.left_with(0)
        mqtt.advance(11)
        assert len(mqtt.gateway.registry) == 0


@pytest.mark.parametrize("version", [V3, Version.V5])
def test_a_lasting_session_goes_on_after_a_restart(mqtt: RunningGateway, version: Version) -> None:
    client = mqtt.lasting("s", version)
    client.subscribe("t", qos=1)
    client.cut()
    publish(mqtt, b"1")
    mqtt.restart()
    publish(mqtt, b"2")
    client = mqtt.lasting("s", version)
    assert client.connack.session_present
    client.expect_payloads([b"1", b"2"])


# Wills


def with_will(mqtt: RunningGateway, delay_s: int = 0, properties: Properties = LASTING, name: str = "w") -> MqttClient:
    will = Will("will", b"gone", 1, properties=Properties(will_delay_interval_s=delay_s))
    return mqtt.client(name, will=will, properties=properties)


@pytest.mark.parametrize("properties", [LASTING, Properties()])
def test_a_will_is_published_once_though_its_client_starts_clean_at_once(
    mqtt: RunningGateway, properties: Properties
) -> None:
    watcher = mqtt.client("watcher")
    watcher.subscribe("will", qos=1)
    for _ in range(10):
        with_will(mqtt, properties=properties).cut()
        mqtt.client("w").disconnect()
        watcher.expect_payloads([b"gone"])
    watcher.expect_nothing_from(mqtt.client("p"))


def test_a_will_that_waits_is_published_when_the_session_starts_clean(mqtt: RunningGateway) -> None:
    watcher = mqtt.client("watcher")
    watcher.subscribe("will", qos=1)
    with_will(mqtt, delay_s=100).cut()
    mqtt.left_with(1)
    mqtt.client("w", clean=True)
    watcher.expect_payloads([b"gone"])


def test_a_will_that_waits_is_taken_back_by_coming_back(mqtt: RunningGateway) -> None:
    watcher = mqtt.client("watcher")
    watcher.subscribe("will", qos=1)
    with_will(mqtt, delay_s=100).cut()
    mqtt.left_with(1)
    mqtt.advance(50)
    mqtt.lasting("w").disconnect()
    mqtt.advance(200)
    watcher.expect_nothing_from(mqtt.client("p"))


def test_a_will_that_waits_outlives_a_restart_and_comes_once(mqtt: RunningGateway) -> None:
    with_will(mqtt, delay_s=100).cut()
    mqtt.left_with(0)
    mqtt.settle()
    mqtt.restart()
    watcher = mqtt.client("watcher")
    watcher.subscribe("will", qos=1)
    mqtt.advance(200)
    watcher.expect_payloads([b"gone"])
    mqtt.advance(200)
    watcher.expect_nothing_from(mqtt.client("p"))


def test_a_will_is_published_when_another_takes_the_session_over(mqtt: RunningGateway) -> None:
    watcher = mqtt.client("watcher")
    watcher.subscribe("will", qos=1)
    first = with_will(mqtt)
    mqtt.lasting("w")
    watcher.expect_payloads([b"gone"])
    first.expect_closed()


def test_a_will_goes_into_a_queue(mqtt: RunningGateway) -> None:
    mqtt.declare("q")
    mqtt.client("w", will=Will("$queue/q", b"gone", 1)).cut()
    mqtt.until(lambda: mqtt.messages_in("q") == 1)


# What a session is sent again


def test_what_was_not_confirmed_comes_again_in_order_and_then_the_rest(mqtt: RunningGateway) -> None:
    client = mqtt.lasting("s", receive_maximum=3)
    client.subscribe("t", qos=1)
    publish(mqtt, *[b"%d" % i for i in range(6)])
    first = [client.expect(Publish) for _ in range(3)]
    client.send(PubAck(first[1].packet_id))
    assert client.expect(Publish).payload == b"3"
    client.cut()
    client = mqtt.lasting("s")
    found = [client.expect_message() for _ in range(5)]
    assert [message.payload for message in found] == [b"0", b"2", b"3", b"4", b"5"]
    assert [message.dup for message in found] == [True, True, True, False, False]
    assert [message.packet_id for message in found[:2]] == [first[0].packet_id, first[2].packet_id]


def test_qos_2_goes_on_where_it_was(mqtt: RunningGateway) -> None:
    client = mqtt.lasting("s")
    client.subscribe("t", qos=2)
    publish(mqtt, b"0", b"1", qos=2)
    received, unknown = client.expect(Publish), client.expect(Publish)
    client.send(PubRec(received.packet_id))
    client.expect(PubRel)
    client.cut()
    mqtt.restart()
    client = mqtt.lasting("s")
    assert client.expect(PubRel).packet_id == received.packet_id
    again = client.expect(Publish)
    assert (again.packet_id, again.payload, again.dup) == (unknown.packet_id, b"1", True)
    client.send(PubComp(received.packet_id))
    client.acknowledge(again)
    client.disconnect()
    client = mqtt.lasting("s")
    client.expect_nothing_from(mqtt.client("p2"))


def test_a_stored_message_that_the_client_refuses_is_done_with(mqtt: RunningGateway) -> None:
    client = mqtt.lasting("s")
    client.subscribe("t", qos=2)
    publish(mqtt, b"0", qos=2)
    refused = client.expect(Publish)
    client.send(PubRec(refused.packet_id, ReasonCode.UNSPECIFIED_ERROR))
    client.ping()
    client.disconnect()
    client = mqtt.lasting("s", receive_maximum=1)
    publish(mqtt, b"1", qos=2)
    client.expect_payloads([b"1"])


@pytest.mark.parametrize("qos", [1, 2])
def test_what_is_too_large_for_the_client_that_comes_back_takes_no_room(mqtt: RunningGateway, qos: int) -> None:
    client = mqtt.lasting("s")
    client.subscribe("t", qos=qos)
    publish(mqtt, bytes(500), b"small", qos=qos)
    client.expect(Publish)
    client.expect(Publish)
    client.cut()
    limits = Properties(session_expiry_interval_s=LONG_S, maximum_packet_bytes=100, receive_maximum=1)
    client = mqtt.client("s", clean=False, properties=limits)
    if qos == 2:
        released = client.expect(PubRel)
        client.send(PubComp(released.packet_id))
    client.expect_payloads([b"small"])
    publish(mqtt, b"next", qos=qos)
    client.expect_payloads([b"next"])


# Limits of time


def test_a_client_that_is_slowed_down_is_not_taken_for_silent(tmp_path: Path) -> None:
    rates = RateLimitOptions(max_messages_per_client=10, message_burst_size=10)
    with running(tmp_path, Setup(is_loopback=False, rates=rates)) as mqtt:
        client = mqtt.client("c", keep_alive_s=1)
        client.send(*[Publish("t", b"x") for _ in range(1000)])
        [connection] = mqtt.gateway.connections
        mqtt.until(lambda: mqtt.topics.received == 1000)
        silent_s = mqtt.call(lambda: monotonic() + 30 - mqtt.gateway.turns.heard_s(connection))
        assert silent_s < connection.keep_alive_s


def test_messages_over_the_rate_are_taken_and_the_client_waits(tmp_path: Path) -> None:
    rates = RateLimitOptions(max_messages_per_client=1000, message_burst_size=50)
    with running(tmp_path, Setup(is_loopback=False, rates=rates)) as mqtt:
        client = mqtt.client("c")
        client.send(*[Publish("t", b"x", 1, packet_id=i + 1) for i in range(100)])
        for _ in range(100):
            client.expect(PubAck)
        client.ping()
        assert mqtt.topics.received == 100


def test_subscriptions_over_the_limit_are_refused_and_known_ones_are_not(tmp_path: Path) -> None:
    with running(tmp_path, Setup(MqttOptions(sys_interval_s=0, max_subscriptions=2))) as mqtt:
        client = mqtt.client("c")
        granted = client.subscribe("a", "$queue/q", "b", "a", qos=1)
        assert granted == (
            ReasonCode.GRANTED_QOS_1,
            ReasonCode.GRANTED_QOS_1,
            ReasonCode.QUOTA_EXCEEDED,
            ReasonCode.GRANTED_QOS_1,
        )


# Draining


def test_a_packet_with_thousands_of_filters_leaves_turns_to_others(mqtt: RunningGateway) -> None:
    filters = tuple(Subscription(f"some/filter/{number}", 1) for number in range(5000))
    turns = []

    async def count() -> None:
        while True:
            turns.append(mqtt.gateway.counters.subscriptions)
            await asyncio.sleep(0)

    client, task = mqtt.client("c"), mqtt.call(lambda: asyncio.ensure_future(count()))
    client.send(Subscribe(1, filters))
    assert set(client.expect(SubAck).reasons) == {ReasonCode.GRANTED_QOS_1}
    mqtt.call(task.cancel)
    assert max(after - before for before, after in pairwise(turns)) <= 250


def test_draining_answers_what_was_taken_and_says_goodbye(mqtt: RunningGateway) -> None:
    mqtt.declare("q")
    new, old, publisher = mqtt.client("n"), mqtt.client("o", V3), mqtt.client("p")
    publisher.send(*[Publish("$queue/q", b"x", 1, packet_id=i + 1) for i in range(100)])
    mqtt.until(lambda: mqtt.topics.received == 100)
    mqtt.wait(mqtt.gateway.drain())
    for client in (new, publisher):
        *answers, word = client.ended()
        assert isinstance(word, Disconnect)
        assert word.reason is ReasonCode.SERVER_SHUTTING_DOWN
        assert len(answers) == (100 if client is publisher else 0)
    assert old.expect_closed() is None
    late = mqtt.opened("late")
    late.send(Connect(Version.V5, "late"))
    answer = late.expect(ConnAck)
    assert answer.reason is ReasonCode.SERVER_UNAVAILABLE
    assert mqtt.messages_in("q") == 100


def test_draining_ends_though_a_client_never_stops_publishing(mqtt: RunningGateway) -> None:
    mqtt.declare("q")
    publisher = mqtt.client("p")
    stop = threading.Event()

    def flood() -> None:
        data = b"".join(encode(Publish("$queue/q", bytes(50), 1, packet_id=i + 1), Version.V5) for i in range(500))
        with suppress(OSError):
            while not stop.is_set():
                publisher.send_raw(data)

    def read() -> None:
        with suppress(AssertionError, OSError):
            while True:
                publisher.receive()

    threads = [threading.Thread(target=flood), threading.Thread(target=read)]
    for thread in threads:
        thread.start()
    try:
        mqtt.until(lambda: mqtt.topics.received > 2000)
        mqtt.wait(asyncio.wait_for(mqtt.gateway.drain(), 5))
    finally:
        stop.set()
        mqtt.left_with(0)
        for thread in threads:
            thread.join()


# Two clocks


def set_clock(mqtt: RunningGateway, jump_s: int) -> None:
    mqtt.clock.wall_ms += 1000 * jump_s
    mqtt.advance(1)


@pytest.mark.parametrize("jump_s", [-7200, 7200])
@pytest.mark.parametrize("restarts", [False, True])
def test_a_session_lives_as_long_as_it_asked_for_whoever_sets_the_clock(
    mqtt: RunningGateway, jump_s: int, restarts: bool
) -> None:
    client = mqtt.lasting("s")
    client.subscribe("t", qos=1)
    client.disconnect()
    mqtt.left_with(0)
    set_clock(mqtt, jump_s)
    if restarts:
        mqtt.wait(mqtt.topics.keep_up(mqtt.broker.now()))
        mqtt.restart()
    mqtt.advance(LONG_S - 60)
    assert len(mqtt.gateway.registry) == 1
    mqtt.advance(120)
    assert len(mqtt.gateway.registry) == 0


@pytest.mark.parametrize("jump_s", [-7200, 7200])
def test_a_will_is_delayed_as_long_as_it_was_asked_for_whoever_sets_the_clock(
    mqtt: RunningGateway, jump_s: int
) -> None:
    watcher = mqtt.client("w")
    watcher.subscribe("gone", qos=0)
    will = Will("gone", b"x", properties=Properties(will_delay_interval_s=60))
    mqtt.client("s", clean=False, will=will, properties=LASTING).cut()
    mqtt.left_with(1)
    set_clock(mqtt, jump_s)
    mqtt.advance(55)
    watcher.ping()
    mqtt.advance(10)
    assert watcher.expect(Publish).payload == b"x"
