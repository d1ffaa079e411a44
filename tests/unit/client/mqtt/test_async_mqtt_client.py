"""What a client does when all is well, and when the server or the network is not."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest
from tests.support.loop import run
from tests.support.scripted_server import Peer, scripted

from penstock.client.errors import ConnectionLost
from penstock.client.mqtt.async_client import AsyncMqttClient
from penstock.client.mqtt.errors import MqttRefused
from penstock.client.mqtt.message import Message
from penstock.client.mqtt.options import MqttOptions, Reconnect
from penstock.codecs.mqtt.errors import PacketError
from penstock.codecs.mqtt.kinds import Version
from penstock.codecs.mqtt.packets import (
    ConnAck,
    Connect,
    Disconnect,
    PingReq,
    PingResp,
    PubAck,
    PubComp,
    Publish,
    PubRec,
    PubRel,
    SubAck,
    Subscribe,
    Subscription,
    UnsubAck,
    Unsubscribe,
    Will,
)
from penstock.codecs.mqtt.properties import Properties
from penstock.codecs.mqtt.reasons import ReasonCode
from penstock.core.errors import Closed, InvalidArgument, TooLarge

SOON = Reconnect(first_delay_s=0.001, longest_delay_s=0.01)
ONCE = MqttOptions(reconnect=None, keep_alive_s=0)
AGAIN = MqttOptions(reconnect=SOON, keep_alive_s=0)
both_versions = pytest.mark.parametrize("version", list(Version), ids=str)


def against(
    work: Callable[[AsyncMqttClient], Awaitable[None]],
    *scripts: Callable[[Peer], Awaitable[None]],
    options: MqttOptions = ONCE,
) -> None:
    """Connect to a server that plays the scripts, and do the work."""

    async def main() -> None:
        async with (
            scripted(*scripts) as port,
            asyncio.timeout(10),
            AsyncMqttClient(replace(options, port=port)) as client,
        ):
            await work(client)

    run(main())


async def nothing(_client: AsyncMqttClient) -> None:
    return


@both_versions
def test_connect_says_who_the_client_is_and_close_says_goodbye(version: Version) -> None:
    options = replace(
        ONCE,
        version=version,
        client_id="me",
        username="user",
        password=b"secret",
        keep_alive_s=30,
        will=Will("gone", b"me", 1, True),
    )

    async def script(peer: Peer) -> None:
        connect = await peer.accept()
        assert (connect.version, connect.client_id, connect.username, connect.password) == (
            version,
            "me",
            "user",
            b"secret",
        )
        assert (connect.keep_alive_s, connect.will, connect.clean_start) == (30, options.will, True)
        assert (await peer.expect(Disconnect)).reason is ReasonCode.SUCCESS
        await peer.ended()

    against(nothing, script, options=options)
    assert "secret" not in repr(options)


@both_versions
def test_publishing_ends_with_the_answer_of_its_qos(version: Version) -> None:
    async def script(peer: Peer) -> None:
        await peer.accept()
        assert (await peer.expect(Publish)).qos == 0
        packet = await peer.expect(Publish)
        assert (packet.topic, packet.payload, packet.qos, packet.retain) == ("t", b"one", 1, True)
        peer.send(PubAck(packet.packet_id))
        packet = await peer.expect(Publish)
        peer.send(PubRec(packet.packet_id))
        assert (await peer.expect(PubRel)).packet_id == packet.packet_id
        peer.send(PubComp(packet.packet_id))
        await peer.expect(Disconnect)

    async def work(client: AsyncMqttClient) -> None:
        assert await client.publish("t", b"zero") is ReasonCode.SUCCESS
        assert await client.publish("t", "one", qos=1, retain=True) is ReasonCode.SUCCESS
        assert await client.publish("t", b"two", qos=2) is ReasonCode.SUCCESS
        assert client.unanswered == 0

    against(work, script, options=replace(ONCE, version=version))


@pytest.mark.parametrize("qos", [1, 2])
def test_a_publish_that_is_refused_raises_the_reason(qos: int) -> None:
    async def script(peer: Peer) -> None:
        await peer.accept()
        packet = await peer.expect(Publish)
        refusal = (PubAck if qos == 1 else PubRec)(
            packet.packet_id, ReasonCode.QUOTA_EXCEEDED, Properties(reason_string="queue full")
        )
        peer.send(refusal)
        await peer.expect(Disconnect)

    async def work(client: AsyncMqttClient) -> None:
        with pytest.raises(MqttRefused, match="queue full") as refused:
            await client.publish("t", qos=qos)
        assert refused.value.reason is ReasonCode.QUOTA_EXCEEDED
        assert "'t'" in str(refused.value)

    against(work, script)


def test_what_the_server_says_of_requests_that_it_did_is_passed_on() -> None:
    told: list[str] = []
    options = replace(ONCE, user_properties=(("create-queues", "true"),), on_reason_string=told.append)

    async def script(peer: Peer) -> None:
        assert (await peer.accept()).properties.user_properties == options.user_properties
        peer.send(PubAck((await peer.expect(Publish)).packet_id, properties=Properties(reason_string="one")))
        packet_id = (await peer.expect(Publish)).packet_id
        peer.send(PubRec(packet_id, properties=Properties(reason_string="two")))
        await peer.expect(PubRel)
        peer.send(PubComp(packet_id))
        for reason in (ReasonCode.GRANTED_QOS_1, ReasonCode.NOT_AUTHORIZED):
            packet_id = (await peer.expect(Subscribe)).packet_id
            peer.send(SubAck(packet_id, (reason,), Properties(reason_string=reason.name)))
        await peer.expect(Disconnect)

    async def work(client: AsyncMqttClient) -> None:
        await client.publish("t", qos=1)
        await client.publish("t", qos=2)
        await client.subscribe("t", qos=1)
        with pytest.raises(MqttRefused, match="NOT_AUTHORIZED"):
            await client.subscribe("t", qos=1)

    against(work, script, options=options)
    assert told == ["one", "two", "GRANTED_QOS_1"]


def test_no_more_messages_are_under_way_than_the_server_takes() -> None:
    async def script(peer: Peer) -> None:
        await peer.accept(Properties(receive_maximum=2))
        first, second = await peer.expect(Publish), await peer.expect(Publish)
        peer.send(PubAck(second.packet_id))
        third = await peer.expect(Publish)
        peer.send(PubAck(first.packet_id), PubAck(third.packet_id))
        assert [first.payload, second.payload, third.payload] == [b"1", b"2", b"3"]
        await peer.expect(Disconnect)

    async def work(client: AsyncMqttClient) -> None:
        await asyncio.gather(*[client.publish("t", payload, qos=1) for payload in (b"1", b"2", b"3")])

    against(work, script)


def test_a_client_of_3_1_1_sends_no_more_at_a_time_than_any_server_takes() -> None:
    async def script(peer: Peer) -> None:
        await peer.accept()
        packets = [await peer.expect(Publish) for _ in range(20)]
        peer.send(Publish("t", b"20 are there"))
        assert (await peer.expect(Publish)).qos == 0
        peer.send(*[PubAck(packet.packet_id) for packet in packets])
        peer.send(PubAck((await peer.expect(Publish)).packet_id))
        await peer.expect(Disconnect)

    async def work(client: AsyncMqttClient) -> None:
        answers = [await client.begin_publish("t", qos=1) for _ in range(20)]
        await client.receive()
        await client.publish("t")
        await client.publish("t", qos=1)
        await asyncio.gather(*answers)

    against(work, script, options=replace(ONCE, version=Version.V3_1_1))


def test_what_the_server_said_it_does_not_take_is_refused_here() -> None:
    offer = Properties(maximum_qos=1, retain_available=False, maximum_packet_bytes=20)

    async def script(peer: Peer) -> None:
        await peer.accept(offer)
        assert (await peer.expect(Publish)).payload == b"fits"
        await peer.expect(Disconnect)

    async def work(client: AsyncMqttClient) -> None:
        with pytest.raises(InvalidArgument, match="QoS up to 1"):
            await client.publish("t", qos=2)
        with pytest.raises(InvalidArgument, match="retain"):
            await client.publish("t", retain=True)
        for qos in (0, 1):
            with pytest.raises(TooLarge):
                await client.publish("t", bytes(100), qos=qos)
        with pytest.raises(TooLarge):
            await client.subscribe("f" * 100)
        with pytest.raises(InvalidArgument):
            await client.publish("a/#", qos=1)
        await client.publish("t", b"fits")

    against(work, script)


@both_versions
def test_subscriptions_are_granted_and_given_up(version: Version) -> None:
    async def script(peer: Peer) -> None:
        await peer.accept()
        asked = await peer.expect(Subscribe)
        assert asked.subscriptions == (Subscription("a/#", 1), Subscription("b", 2))
        peer.send(SubAck(asked.packet_id, (ReasonCode.GRANTED_QOS_1, ReasonCode.SUCCESS)))
        dropped = await peer.expect(Unsubscribe)
        peer.send(UnsubAck(dropped.packet_id, (ReasonCode.SUCCESS,) if version is Version.V5 else ()))
        await peer.expect(Disconnect)

    async def work(client: AsyncMqttClient) -> None:
        granted = await client.subscribe("a/#", Subscription("b", 2), qos=1)
        assert granted == (ReasonCode.GRANTED_QOS_1, ReasonCode.SUCCESS)
        await client.unsubscribe("b")

    against(work, script, options=replace(ONCE, version=version))


def test_a_refused_filter_is_named() -> None:
    async def script(peer: Peer) -> None:
        await peer.accept()
        asked = await peer.expect(Subscribe)
        peer.send(SubAck(asked.packet_id, (ReasonCode.SUCCESS, ReasonCode.NOT_AUTHORIZED)))
        await peer.expect(Disconnect)

    async def work(client: AsyncMqttClient) -> None:
        with pytest.raises(MqttRefused, match="'secret/#'"):
            await client.subscribe("a", "secret/#")

    against(work, script)


@both_versions
def test_messages_come_in_order_and_are_acknowledged_when_they_are_taken(version: Version) -> None:
    async def work(client: AsyncMqttClient) -> None:
        assert [(await client.receive()).payload for _ in range(3)] == [b"0", b"1", b"2"]
        await client.publish("done")

    async def script(peer: Peer) -> None:
        await peer.accept()
        peer.send(Publish("t", b"0"), Publish("t", b"1", 1, packet_id=1), Publish("t", b"2", 2, packet_id=1))
        assert (await peer.expect(PubAck)).packet_id == 1
        assert (await peer.expect(PubRec)).packet_id == 1
        assert (await peer.expect(Publish)).topic == "done"

    against(work, script, options=replace(ONCE, version=version))


def test_qos_2_is_completed_after_its_release() -> None:
    async def script(peer: Peer) -> None:
        await peer.accept()
        peer.send(Publish("t", b"2", 2, packet_id=7))
        await peer.expect(PubRec)
        peer.send(PubRel(7), PubRel(8))
        assert (await peer.expect(PubComp)).reason is ReasonCode.SUCCESS
        assert (await peer.expect(PubComp)).reason is ReasonCode.PACKET_IDENTIFIER_NOT_FOUND
        peer.send(Publish("t", b"end"))
        await peer.expect(Disconnect)

    async def work(client: AsyncMqttClient) -> None:
        assert [(await client.receive()).payload for _ in range(2)] == [b"2", b"end"]

    against(work, script)


def test_with_manual_ack_nothing_is_said_before() -> None:
    async def script(peer: Peer) -> None:
        await peer.accept()
        peer.send(Publish("t", b"1", 1, packet_id=1), Publish("t", b"2", 1, packet_id=2))
        assert (await peer.expect(Publish)).topic == "first"
        assert (await peer.expect(PubAck)).packet_id == 2
        assert (await peer.expect(PubAck)).packet_id == 1
        await peer.expect(Disconnect)

    async def work(client: AsyncMqttClient) -> None:
        messages = [await client.receive() for _ in range(2)]
        await client.publish("first")
        for message in reversed(messages):
            client.ack(message)

    against(work, script, options=replace(ONCE, manual_ack=True))


def test_a_full_buffer_stops_reading_and_no_message_is_lost() -> None:
    count = 5000

    async def script(peer: Peer) -> None:
        await peer.accept()
        for number in range(count):
            peer.send(Publish("t", b"%d" % number))
        await peer.expect(Disconnect)

    async def work(client: AsyncMqttClient) -> None:
        inbox = client._session.inbox
        received: list[int] = []
        while len(received) < count:
            received.append(int((await client.receive()).payload))
            # What one read brings is taken in whole.
            assert len(inbox) < 20_000
        assert received == list(range(count))

    against(work, script, options=replace(ONCE, max_buffered_messages=10))


def test_the_iterator_ends_with_the_client() -> None:
    async def script(peer: Peer) -> None:
        await peer.accept()
        peer.send(Publish("t", b"x"))
        await peer.expect(Disconnect)

    async def work(client: AsyncMqttClient) -> None:
        received: list[Message] = []
        async for message in client.messages():
            received.append(message)
            await client.close()
        assert [message.payload for message in received] == [b"x"]
        with pytest.raises(Closed):
            await client.publish("t")

    against(work, script)


@both_versions
def test_a_refused_login_says_what_to_do(version: Version) -> None:
    async def script(peer: Peer) -> None:
        await peer.expect(Connect)
        peer.send(ConnAck(reason=ReasonCode.BAD_USER_NAME_OR_PASSWORD))
        await peer.ended()

    with pytest.raises(MqttRefused, match="check user name and password"):
        against(nothing, script, options=replace(AGAIN, version=version))


def test_nobody_there_is_told_with_the_address() -> None:
    async def main() -> None:
        async with await asyncio.start_server(lambda _reader, writer: writer.close(), "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
        with pytest.raises(ConnectionLost, match=f"127.0.0.1:{port}.*penstock serve"):
            await AsyncMqttClient(MqttOptions(port=port)).connect()

    run(main())


def test_a_server_that_says_nothing_is_given_up() -> None:
    async def script(peer: Peer) -> None:
        await peer.ended()

    with pytest.raises(ConnectionLost, match="no answer"):
        against(nothing, script, options=replace(ONCE, connect_timeout_s=0.05))


def test_a_server_that_speaks_no_mqtt_is_told_from_one_that_is_not_there() -> None:
    async def script(peer: Peer) -> None:
        peer.send_bytes(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await peer.ended()

    with pytest.raises(PacketError):
        against(nothing, script)


def test_without_reconnect_a_lost_connection_fails_everything_that_waits() -> None:
    async def script(peer: Peer) -> None:
        await peer.accept()
        peer.send(Publish("t", b"before"))
        await peer.expect(Publish)

    async def work(client: AsyncMqttClient) -> None:
        with pytest.raises(ConnectionLost):
            await client.publish("t", qos=1)
        assert (await client.receive()).payload == b"before"
        with pytest.raises(ConnectionLost):
            await client.receive()
        with pytest.raises(ConnectionLost):
            await client.publish("t")

    against(work, script)


def test_a_session_that_is_still_there_is_gone_on_with() -> None:
    async def first(peer: Peer) -> None:
        connect = await peer.accept(Properties(assigned_client_identifier="given"))
        assert (connect.client_id, connect.clean_start) == ("", True)
        asked = await peer.expect(Subscribe)
        peer.send(SubAck(asked.packet_id, (ReasonCode.SUCCESS,)))
        one, two, three = [await peer.expect(Publish) for _ in range(3)]
        assert [one.qos, two.qos, three.qos] == [1, 2, 2]
        peer.send(PubRec(two.packet_id))
        await peer.expect(PubRel)

    async def second(peer: Peer) -> None:
        connect = await peer.accept(session_present=True)
        assert (connect.client_id, connect.clean_start) == ("given", False)
        assert (await peer.expect(PubRel)).packet_id == 3
        one, three = await peer.expect(Publish), await peer.expect(Publish)
        assert (one.payload, one.dup, one.packet_id) == (b"one", True, 2)
        assert (three.payload, three.dup, three.packet_id) == (b"three", True, 4)
        peer.send(PubComp(3), PubAck(2), PubRec(4))
        assert (await peer.expect(PubRel)).packet_id == 4
        peer.send(PubComp(4))
        await peer.expect(Disconnect)

    async def work(client: AsyncMqttClient) -> None:
        await client.subscribe("t")
        await asyncio.gather(
            client.publish("t", b"one", qos=1), client.publish("t", b"two", qos=2), client.publish("t", b"three", qos=2)
        )

    against(work, first, second, options=replace(AGAIN, session_expiry_s=60))


def test_a_session_that_is_gone_is_made_anew_and_qos_2_is_not_sent_twice() -> None:
    async def first(peer: Peer) -> None:
        await peer.accept()
        for _ in range(2):
            asked = await peer.expect(Subscribe)
            peer.send(SubAck(asked.packet_id, (ReasonCode.GRANTED_QOS_1,) * len(asked.subscriptions)))
        await peer.expect(Publish)
        await peer.expect(Publish)

    async def second(peer: Peer) -> None:
        await peer.accept()
        plain, grouped = await peer.expect(Subscribe), await peer.expect(Subscribe)
        assert plain.subscriptions == (Subscription("a", 1), Subscription("b", 1))
        assert grouped.properties.user_values("consumer-group") == ["g"]
        one = await peer.expect(Publish)
        assert (one.payload, one.dup, one.qos) == (b"one", False, 1)
        peer.send(PubAck(one.packet_id))
        peer.send(SubAck(plain.packet_id, (ReasonCode.SUCCESS, ReasonCode.SUCCESS)))
        peer.send(SubAck(grouped.packet_id, (ReasonCode.SUCCESS,)))
        await peer.expect(Disconnect)

    async def work(client: AsyncMqttClient) -> None:
        await client.subscribe("a", "b", qos=1)
        await client.subscribe("$queue/q", qos=1, properties=Properties(user_properties=(("consumer-group", "g"),)))
        one, two = await client.begin_publish("t", b"one", qos=1), await client.begin_publish("t", b"two", qos=2)
        with pytest.raises(ConnectionLost, match="taken or not"):
            await two
        await one

    against(work, first, second, options=AGAIN)


def test_a_filter_that_is_not_granted_again_ends_the_client() -> None:
    async def first(peer: Peer) -> None:
        await peer.accept()
        asked = await peer.expect(Subscribe)
        peer.send(SubAck(asked.packet_id, (ReasonCode.SUCCESS,)))

    async def second(peer: Peer) -> None:
        await peer.accept()
        asked = await peer.expect(Subscribe)
        peer.send(SubAck(asked.packet_id, (ReasonCode.NOT_AUTHORIZED,)))
        await peer.ended()

    async def work(client: AsyncMqttClient) -> None:
        await client.subscribe("a")
        with pytest.raises(MqttRefused, match="'a'"):
            await client.receive()

    against(work, first, second, options=AGAIN)


def test_a_message_of_qos_2_that_comes_again_is_taken_once() -> None:
    async def first(peer: Peer) -> None:
        await peer.accept()
        peer.send(Publish("t", b"once", 2, packet_id=5), Publish("t", b"once too", 2, packet_id=6))
        assert (await peer.expect(PubRec)).packet_id == 5

    async def second(peer: Peer) -> None:
        await peer.accept(session_present=True)
        peer.send(Publish("t", b"once", 2, dup=True, packet_id=5))
        assert (await peer.expect(PubRec)).packet_id == 5
        peer.send(Publish("t", b"once too", 2, dup=True, packet_id=6), Publish("t", b"end"))
        assert (await peer.expect(PubRec)).packet_id == 6
        await peer.expect(Disconnect)

    async def work(client: AsyncMqttClient) -> None:
        received: list[Message] = []
        for _ in range(3):
            received.append(await client.receive())
            if received[-1].payload != b"once too":
                client.ack(received[-1])
        assert [message.payload for message in received] == [b"once", b"once too", b"end"]
        client.ack(received[1])

    against(work, first, second, options=replace(AGAIN, manual_ack=True, session_expiry_s=60))


def test_an_acknowledgement_of_qos_1_does_not_cross_to_the_next_connection() -> None:
    async def first(peer: Peer) -> None:
        await peer.accept()
        peer.send(Publish("t", b"1", 1, packet_id=1))

    async def second(peer: Peer) -> None:
        await peer.accept(session_present=True)
        peer.send(Publish("t", b"other", 1, packet_id=1))
        assert (await peer.expect(Publish)).topic == "both taken"
        assert (await peer.expect(PubAck)).packet_id == 1
        await peer.expect(Disconnect)

    async def work(client: AsyncMqttClient) -> None:
        old, new = await client.receive(), await client.receive()
        client.ack(old)
        await client.publish("both taken")
        client.ack(new)

    against(work, first, second, options=replace(AGAIN, manual_ack=True, session_expiry_s=60))


def test_a_server_that_shuts_down_is_waited_for_and_one_that_gave_the_session_away_is_not() -> None:
    async def first(peer: Peer) -> None:
        await peer.accept()
        peer.send(Disconnect(ReasonCode.SERVER_SHUTTING_DOWN))
        await peer.ended()

    async def second(peer: Peer) -> None:
        await peer.accept()
        peer.send(Disconnect(ReasonCode.SESSION_TAKEN_OVER))
        await peer.ended()

    async def work(client: AsyncMqttClient) -> None:
        with pytest.raises(MqttRefused, match="id of its own"):
            await client.receive()

    against(work, first, second, options=AGAIN)


def test_attempts_are_counted() -> None:
    async def script(peer: Peer) -> None:
        await peer.accept()

    async def work(client: AsyncMqttClient) -> None:
        with pytest.raises(ConnectionLost):
            await client.receive()

    against(work, script, options=replace(AGAIN, reconnect=replace(SOON, max_attempts=2)))


def test_a_server_that_accepts_and_hangs_up_is_not_asked_for_ever() -> None:
    async def script(peer: Peer) -> None:
        await peer.accept()

    async def work(client: AsyncMqttClient) -> None:
        with pytest.raises(ConnectionLost):
            await client.receive()

    policy = Reconnect(first_delay_s=0.001, longest_delay_s=10.0, max_attempts=3)
    against(work, script, script, script, script, options=replace(AGAIN, reconnect=policy))


def test_a_server_that_sends_what_it_must_not_is_told_so() -> None:
    async def script(peer: Peer) -> None:
        await peer.accept()
        peer.send(PubAck(1), PubComp(9), SubAck(3, (ReasonCode.SUCCESS,)))
        assert (await peer.expect(Disconnect)).reason is ReasonCode.PROTOCOL_ERROR
        await peer.ended()

    async def work(client: AsyncMqttClient) -> None:
        with pytest.raises(PacketError):
            await client.receive()

    against(work, script, options=AGAIN)


def test_pings_keep_a_silent_connection_alive_and_a_dead_one_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.client.mqtt.connection._PING_AFTER", 0.02)

    async def script(peer: Peer) -> None:
        connect = await peer.accept(Properties(server_keep_alive_s=1))
        assert connect.keep_alive_s == 1000
        for _ in range(3):
            await peer.expect(PingReq)
            peer.send(PingResp())
        await peer.ended()

    async def work(client: AsyncMqttClient) -> None:
        with pytest.raises(ConnectionLost, match="has not answered"):
            await client.receive()

    against(work, script, options=replace(ONCE, keep_alive_s=1000))


def test_a_publish_that_is_given_up_frees_the_way_for_others() -> None:
    async def script(peer: Peer) -> None:
        await peer.accept(Properties(receive_maximum=1))
        first = await peer.expect(Publish)
        assert first.payload == b"given up"
        assert (await peer.expect(Publish)).topic == "zero"
        peer.send(PubAck(first.packet_id))
        peer.send(PubAck((await peer.expect(Publish)).packet_id))
        await peer.expect(Disconnect)

    async def work(client: AsyncMqttClient) -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await client.publish("t", b"given up", qos=1)
        waiting = asyncio.create_task(client.publish("t", b"waits", qos=1))
        await asyncio.sleep(0)
        waiting.cancel()
        await client.publish("zero")
        await client.publish("t", b"last", qos=1)

    against(work, script)
