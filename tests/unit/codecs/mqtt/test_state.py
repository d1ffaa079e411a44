from __future__ import annotations

import pytest

from penstock.codecs.mqtt.errors import ProtocolError
from penstock.codecs.mqtt.kinds import PacketType, Sender, Version
from penstock.codecs.mqtt.packets import (
    Auth,
    ConnAck,
    Connect,
    Disconnect,
    Packet,
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
)
from penstock.codecs.mqtt.properties import Properties
from penstock.codecs.mqtt.reasons import ReasonCode
from penstock.codecs.mqtt.state import ORDER, SENT_BY, Connection, Event, Handling, State, event_of

CLIENT, SERVER = Sender.CLIENT, Sender.SERVER
V4, V5 = Version.V3_1_1, Version.V5
METHOD = Properties(authentication_method="SCRAM-SHA-256")
CONTINUE = Auth(ReasonCode.CONTINUE_AUTHENTICATION, METHOD)
AGAIN = Auth(ReasonCode.RE_AUTHENTICATE, METHOD)
DONE = Auth(ReasonCode.SUCCESS, METHOD)
CLIENT_WORK: list[Packet] = [Publish("t"), PubAck(1), PubRec(1), PubRel(1), PubComp(1), PingReq()]
CLIENT_WORK += [Subscribe(1, (Subscription("t"),)), Unsubscribe(1, ("t",))]
SERVER_WORK: list[Packet] = [Publish("t"), PubAck(1), PubRec(1), PubRel(1), PubComp(1), PingResp()]
SERVER_WORK += [SubAck(1, (ReasonCode.SUCCESS,)), UnsubAck(1, (ReasonCode.SUCCESS,))]
PACKETS: list[Packet] = [*CLIENT_WORK, *SERVER_WORK, Connect(V5, "c"), ConnAck(), Disconnect(), CONTINUE, AGAIN, DONE]


def opened(connect: Connect | None = None) -> Connection:
    connection = Connection()
    connect = connect or Connect(V5, "c")
    connection.take(CLIENT, connect)
    method = Properties(authentication_method=connect.properties.authentication_method)
    connection.take(SERVER, ConnAck(properties=method))
    return connection


def violates(connection: Connection, sender: Sender, packet: Packet) -> None:
    before = connection.state
    with pytest.raises(ProtocolError) as caught:
        connection.take(sender, packet)
    assert caught.value.reason is ReasonCode.PROTOCOL_ERROR
    assert caught.value.version is connection.version
    assert connection.state is before


def named(packet: Packet) -> str:
    return packet.type.name


@pytest.mark.parametrize("packet", [packet for packet in PACKETS if not isinstance(packet, Connect)], ids=named)
def test_mqtt_3_1_0_1_the_first_packet_is_connect(packet: Packet) -> None:
    violates(Connection(), CLIENT, packet)


def test_mqtt_3_1_0_2_a_second_connect_is_a_violation() -> None:
    connection = Connection()
    assert connection.take(CLIENT, Connect(V5, "c")) is Handling.TAKE
    violates(connection, CLIENT, Connect(V5, "c"))
    violates(opened(), CLIENT, Connect(V5, "c"))


@pytest.mark.parametrize("packet", [*CLIENT_WORK, Disconnect()], ids=named)
def test_mqtt_3_1_4_6_what_comes_before_connack_waits(packet: Packet) -> None:
    connection = Connection()
    connection.take(CLIENT, Connect(V5, "c"))
    assert connection.take(CLIENT, packet) is Handling.WAIT
    connection.take(SERVER, ConnAck())
    assert connection.take(CLIENT, packet) is Handling.TAKE


@pytest.mark.parametrize("packet", SERVER_WORK, ids=named)
def test_mqtt_3_2_0_1_a_server_sends_connack_first(packet: Packet) -> None:
    connection = Connection()
    connection.take(CLIENT, Connect(V5, "c"))
    violates(connection, SERVER, packet)


def test_mqtt_3_2_0_2_a_server_sends_connack_once() -> None:
    violates(opened(), SERVER, ConnAck())


def test_mqtt_3_14_0_1_a_server_sends_no_disconnect_before_it_accepted() -> None:
    connection = Connection()
    connection.take(CLIENT, Connect(V5, "c"))
    violates(connection, SERVER, Disconnect(ReasonCode.SERVER_BUSY))


def test_after_a_refusal_everything_is_ignored() -> None:
    connection = Connection()
    connection.take(CLIENT, Connect(V5, "c"))
    connection.take(SERVER, ConnAck(reason=ReasonCode.NOT_AUTHORIZED))
    assert connection.state is State.CLOSING and not connection.is_open
    assert connection.take(CLIENT, Publish("t")) is Handling.IGNORE


@pytest.mark.parametrize("sender", Sender)
def test_after_a_disconnect_everything_is_ignored(sender: Sender) -> None:
    connection = opened()
    connection.take(sender, Disconnect())
    assert connection.take(CLIENT, PingReq()) is Handling.IGNORE
    assert connection.state is State.CLOSING


def test_after_the_close_everything_is_ignored() -> None:
    connection = opened()
    connection.close()
    assert connection.take(CLIENT, Connect(V5, "c")) is Handling.IGNORE
    assert connection.state is State.CLOSED


@pytest.mark.parametrize("packet", CLIENT_WORK, ids=named)
def test_a_client_works_while_open(packet: Packet) -> None:
    assert opened().take(CLIENT, packet) is Handling.TAKE


@pytest.mark.parametrize("packet", SERVER_WORK, ids=named)
def test_a_server_works_while_open(packet: Packet) -> None:
    assert opened().take(SERVER, packet) is Handling.TAKE


@pytest.mark.parametrize("sender", Sender)
def test_each_side_sends_its_own_packets(sender: Sender) -> None:
    for packet in PACKETS:
        if packet.type not in SENT_BY[sender]:
            violates(opened(), sender, packet)


def test_mqtt_3_1_2_30_while_authenticating_a_client_sends_auth_or_disconnect() -> None:
    connection = Connection()
    connection.take(CLIENT, Connect(V5, "c", properties=METHOD))
    violates(connection, CLIENT, PingReq())
    violates(connection, CLIENT, CONTINUE)
    connection.take(SERVER, CONTINUE)
    violates(connection, CLIENT, Publish("t"))
    violates(connection, SERVER, ConnAck(properties=METHOD))
    connection.take(CLIENT, CONTINUE)
    connection.take(SERVER, CONTINUE)
    connection.take(CLIENT, CONTINUE)
    connection.take(SERVER, ConnAck(properties=METHOD))
    assert connection.state is State.OPEN


def test_a_client_may_leave_while_it_is_authenticated() -> None:
    connection = Connection()
    connection.take(CLIENT, Connect(V5, "c", properties=METHOD))
    connection.take(SERVER, CONTINUE)
    connection.take(CLIENT, Disconnect())
    assert connection.state is State.CLOSING


def test_mqtt_4_12_0_6_without_a_method_in_connect_there_is_no_auth() -> None:
    violates(opened(), CLIENT, AGAIN)
    connection = Connection()
    connection.take(CLIENT, Connect(V5, "c"))
    violates(connection, SERVER, CONTINUE)


def test_mqtt_4_12_0_5_a_successful_connack_keeps_the_method_of_connect() -> None:
    connection = Connection()
    connection.take(CLIENT, Connect(V5, "c", properties=METHOD))
    violates(connection, SERVER, ConnAck())
    assert connection.take(SERVER, ConnAck(reason=ReasonCode.BAD_AUTHENTICATION_METHOD)) is Handling.TAKE
    unasked = Connection()
    unasked.take(CLIENT, Connect(V5, "c"))
    violates(unasked, SERVER, ConnAck(properties=METHOD))


def test_mqtt_4_12_0_5_auth_keeps_the_method_of_connect() -> None:
    connection = opened(Connect(V5, "c", properties=METHOD))
    violates(connection, CLIENT, Auth(ReasonCode.RE_AUTHENTICATE, Properties(authentication_method="other")))


def test_mqtt_4_12_1_a_client_authenticates_again_and_works_meanwhile() -> None:
    connection = opened(Connect(V5, "c", properties=METHOD))
    violates(connection, CLIENT, CONTINUE)
    connection.take(CLIENT, AGAIN)
    assert connection.is_open and connection.take(CLIENT, Publish("t")) is Handling.TAKE
    violates(connection, CLIENT, AGAIN)
    connection.take(SERVER, CONTINUE)
    violates(connection, SERVER, DONE)
    connection.take(CLIENT, CONTINUE)
    connection.take(SERVER, DONE)
    assert connection.state is State.OPEN


def test_mqtt_3_3_4_6_a_clients_publish_has_no_subscription_identifier() -> None:
    packet = Publish("t", properties=Properties(subscription_identifiers=(1,)))
    violates(opened(), CLIENT, packet)
    assert opened().take(SERVER, packet) is Handling.TAKE


def test_mqtt_3_14_2_2_a_servers_disconnect_has_no_session_expiry() -> None:
    violates(opened(), SERVER, Disconnect(properties=Properties(session_expiry_interval_s=1)))


def test_a_disconnect_does_not_prolong_a_session_of_expiry_0() -> None:
    longer = Disconnect(properties=Properties(session_expiry_interval_s=9))
    violates(opened(), CLIENT, longer)
    kept = Connect(V5, "c", properties=Properties(session_expiry_interval_s=1))
    assert opened(kept).take(CLIENT, longer) is Handling.TAKE
    zero = Disconnect(properties=Properties(session_expiry_interval_s=0))
    assert opened().take(CLIENT, zero) is Handling.TAKE


def test_each_side_has_its_own_reasons_to_disconnect() -> None:
    violates(opened(), CLIENT, Disconnect(ReasonCode.SERVER_SHUTTING_DOWN))
    violates(opened(), SERVER, Disconnect(ReasonCode.DISCONNECT_WITH_WILL))
    violates(opened(), CLIENT, Disconnect(properties=Properties(server_reference="other")))


def test_a_server_of_3_1_1_sends_no_disconnect() -> None:
    violates(opened(Connect(V4, "c")), SERVER, Disconnect())
    assert opened(Connect(V4, "c")).take(CLIENT, Disconnect()) is Handling.TAKE


def test_every_state_can_be_reached_and_left() -> None:
    targets = {target for target in ORDER.values() if isinstance(target, State)}
    assert targets | {State.NEW, State.CLOSED} == set(State)
    assert {state for state, _, _ in ORDER} == set(State) - {State.CLOSING, State.CLOSED}


def test_every_packet_is_an_event() -> None:
    assert {packet.type for packet in PACKETS} == set(PacketType)
    with_method = event_of(Connect(V5, "c", properties=METHOD))
    refused = event_of(ConnAck(reason=ReasonCode.BANNED))
    assert {event_of(packet) for packet in PACKETS} | {with_method, refused} == set(Event)
