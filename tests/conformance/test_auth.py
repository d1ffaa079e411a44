"""Enhanced authentication, chapters 3.15 and 4.12."""

from __future__ import annotations

import base64
import hashlib
import hmac

import pytest
from tests.conformance.scene import Scene, v3_only, v5_only
from tests.support.mqtt_client import MqttClient
from tests.support.mqtt_wire import packet, string
from tests.support.servers import PASSWORD, USERNAME

from penstock.codecs.mqtt.packets import Auth, ConnAck, Connect, Disconnect, PingReq, Publish
from penstock.codecs.mqtt.properties import Properties
from penstock.codecs.mqtt.reasons import ReasonCode

MALFORMED, PROTOCOL_ERROR = ReasonCode.MALFORMED_PACKET, ReasonCode.PROTOCOL_ERROR
CONTINUE, AGAIN = ReasonCode.CONTINUE_AUTHENTICATION, ReasonCode.RE_AUTHENTICATE
SCRAM = "SCRAM-SHA-256"
REFUSALS = (ReasonCode.NOT_AUTHORIZED, ReasonCode.BAD_USER_NAME_OR_PASSWORD, ReasonCode.BAD_AUTHENTICATION_METHOD)


class ScramLogin:
    """The client's side of RFC 5802 and 7677, without channel binding."""

    def __init__(self, username: str, password: bytes, nonce: str) -> None:
        self._password, self._nonce = password, nonce
        self._first_bare = f"n={username},r={nonce}"
        self._signed = ""
        self._salted = b""

    def first(self) -> bytes:
        return f"n,,{self._first_bare}".encode()

    def final(self, challenge: bytes) -> bytes:
        said = dict(part.split("=", 1) for part in challenge.decode().split(","))
        assert said["r"].startswith(self._nonce)
        self._salted = hashlib.pbkdf2_hmac("sha256", self._password, base64.b64decode(said["s"]), int(said["i"]))
        without_proof = f"c=biws,r={said['r']}"
        self._signed = f"{self._first_bare},{challenge.decode()},{without_proof}"
        key = self._mac(self._salted, b"Client Key")
        signature = self._mac(hashlib.sha256(key).digest(), self._signed.encode())
        proof = bytes(a ^ b for a, b in zip(key, signature, strict=True))
        return f"{without_proof},p={base64.b64encode(proof).decode()}".encode()

    def check(self, answer: bytes) -> None:
        expected = self._mac(self._mac(self._salted, b"Server Key"), self._signed.encode())
        assert answer == b"v=" + base64.b64encode(expected)

    @staticmethod
    def _mac(key: bytes, data: bytes) -> bytes:
        return hmac.new(key, data, hashlib.sha256).digest()


def scram_properties(data: bytes | None) -> Properties:
    return Properties(authentication_method=SCRAM, authentication_data=data)


def begin(scene: Scene, login: ScramLogin) -> MqttClient:
    """CONNECT with the method is sent."""
    if not scene.server.has_scram:
        pytest.skip(f"{scene.server.name} has no enhanced authentication of its own")
    client = scene.opened()
    client.send(Connect(scene.version, client.client_id, properties=scram_properties(login.first())))
    return client


def logged_in(scene: Scene) -> tuple[MqttClient, ConnAck]:
    login = ScramLogin(USERNAME, PASSWORD, "clientnonce")
    client = begin(scene, login)
    challenge = client.expect(Auth)
    assert challenge.properties.authentication_data is not None
    client.send(Auth(CONTINUE, scram_properties(login.final(challenge.properties.authentication_data))))
    connack = client.expect(ConnAck)
    assert connack.properties.authentication_data is not None
    login.check(connack.properties.authentication_data)
    return client, connack


@v5_only
def test_mqtt_4_12_0_1_an_unknown_method_is_refused(scene: Scene) -> None:
    """[MQTT-4.12.0-1]: with 0x8C or 0x87, or without a word, and the connection closes."""
    client = scene.opened()
    client.send(Connect(scene.version, client.client_id, properties=Properties(authentication_method="NO-SUCH")))
    scene.expect_rejected(client, ReasonCode.BAD_AUTHENTICATION_METHOD, ReasonCode.NOT_AUTHORIZED)


@v5_only
def test_mqtt_4_12_0_6_without_a_method_there_is_no_exchange(scene: Scene) -> None:
    """[MQTT-4.12.0-6]: neither AUTH nor a method in CONNACK."""
    client = scene.client()
    assert client.connack.properties.authentication_method is None
    assert client.came() == []


@v5_only
@pytest.mark.parametrize("reason", [CONTINUE, AGAIN])
def test_mqtt_4_12_0_7_auth_without_a_method_in_connect_closes(scene: Scene, reason: ReasonCode) -> None:
    """[MQTT-4.12.0-7]."""
    client = scene.client()
    client.send(Auth(reason, scram_properties(None)))
    scene.expect_refused(client, PROTOCOL_ERROR, ReasonCode.BAD_AUTHENTICATION_METHOD)


@v5_only
def test_mqtt_3_1_0_1_auth_before_connect_closes(scene: Scene) -> None:
    """[MQTT-3.1.0-1]."""
    client = scene.opened()
    client.send(Auth(CONTINUE, scram_properties(b"x")))
    assert client.ended() == []


@v3_only
def test_mqtt311_2_2_1_there_is_no_packet_of_type_15(scene: Scene) -> None:
    """[MQTT-4.8.0-1] in 3.1.1: table 2.1 reserves the type, so the connection closes."""
    client = scene.client()
    client.send_raw(b"\xf0\x00")
    scene.expect_refused(client)


@v5_only
@pytest.mark.parametrize("head", [0xF1, 0xF2, 0xF8])
def test_mqtt_3_15_1_1_flags_in_the_first_byte_close(scene: Scene, head: int) -> None:
    """[MQTT-3.15.1-1]."""
    client = scene.client()
    client.send_raw(packet(head, b"\x18\x06\x15" + string(b"abc")))
    scene.expect_refused(client, MALFORMED, PROTOCOL_ERROR)


@v5_only
@pytest.mark.parametrize(
    "body",
    [b"\x01\x06\x15" + string(b"abc"), b"\x18\x00", b"\x18\x04\x16" + string(b"x"), b"\x18\x02\x01\x00"],
    ids=["reason", "no_method", "data_alone", "of_another_packet"],
)
def test_mqtt_3_15_2_1_a_malformed_auth_closes(scene: Scene, body: bytes) -> None:
    """[MQTT-3.15.2-1] and chapter 3.15.2.2: the reason is one of three, and there is a method."""
    client = scene.client()
    client.send_raw(packet(0xF0, body))
    scene.expect_refused(client, PROTOCOL_ERROR, MALFORMED)


@v5_only
def test_mqtt_4_12_0_5_an_exchange_ends_in_connack_with_the_method(limited: Scene) -> None:
    """[MQTT-4.12.0-5] [MQTT-4.12.0-2] [MQTT-4.12.0-3]: every packet of the exchange names it."""
    login = ScramLogin(USERNAME, PASSWORD, "clientnonce")
    client = begin(limited, login)
    challenge = client.expect(Auth)
    assert challenge.reason is CONTINUE
    assert challenge.properties.authentication_method == SCRAM
    assert challenge.properties.authentication_data is not None
    client.send(Auth(CONTINUE, scram_properties(login.final(challenge.properties.authentication_data))))
    connack = client.expect(ConnAck)
    assert connack.reason is ReasonCode.SUCCESS
    assert connack.properties.authentication_method == SCRAM
    client.ping()


@v5_only
@pytest.mark.parametrize(("username", "password"), [(USERNAME, b"wrong"), ("nobody", PASSWORD)])
def test_mqtt_4_12_0_4_a_failed_exchange_is_refused(limited: Scene, username: str, password: bytes) -> None:
    """[MQTT-4.12.0-4]: at whatever step the server knows."""
    login = ScramLogin(username, password, "clientnonce")
    client = begin(limited, login)
    answer = client.receive()
    if isinstance(answer, Auth):
        client.send(Auth(CONTINUE, scram_properties(login.final(answer.properties.authentication_data or b""))))
        answer = client.expect(ConnAck)
    assert isinstance(answer, ConnAck) and answer.reason in REFUSALS
    assert client.ended() == []


@v5_only
def test_mqtt_3_1_2_30_other_packets_during_the_exchange_close(limited: Scene) -> None:
    """[MQTT-3.1.2-30]: nothing but AUTH and DISCONNECT before CONNACK."""
    client = begin(limited, ScramLogin(USERNAME, PASSWORD, "clientnonce"))
    client.expect(Auth)
    client.send(PingReq())
    limited.expect_rejected(client, PROTOCOL_ERROR)


@v5_only
def test_mqtt_3_1_4_6_nothing_is_published_during_the_exchange(limited: Scene) -> None:
    """[MQTT-3.1.4-6] [MQTT-3.1.2-30]."""
    topic = limited.topic("a")
    watcher, publisher = limited.subscriber(topic), limited.client("pub")
    client = begin(limited, ScramLogin(USERNAME, PASSWORD, "clientnonce"))
    client.expect(Auth)
    client.send(Publish(topic, b"too early"))
    client.expect_closed()
    watcher.expect_nothing_from(publisher)


@v5_only
def test_mqtt_4_12_0_5_another_method_in_auth_closes(limited: Scene) -> None:
    """[MQTT-4.12.0-5]."""
    client = begin(limited, ScramLogin(USERNAME, PASSWORD, "clientnonce"))
    client.expect(Auth)
    client.send(Auth(CONTINUE, Properties(authentication_method="OTHER", authentication_data=b"x")))
    limited.expect_rejected(client, PROTOCOL_ERROR, *REFUSALS)


@v5_only
def test_mqtt_4_12_1_1_a_client_may_authenticate_again(limited: Scene) -> None:
    """[MQTT-4.12.1-1]: and other packets flow meanwhile."""
    client, _ = logged_in(limited)
    login = ScramLogin(USERNAME, PASSWORD, "another")
    client.send(Auth(AGAIN, scram_properties(login.first())))
    challenge = client.expect(Auth)
    client.ping()
    client.send(Auth(CONTINUE, scram_properties(login.final(challenge.properties.authentication_data or b""))))
    assert client.expect(Auth).reason is ReasonCode.SUCCESS
    client.ping()


@v5_only
def test_mqtt_4_12_1_2_failing_to_authenticate_again_closes(limited: Scene) -> None:
    """[MQTT-4.12.1-2]."""
    client, _ = logged_in(limited)
    login = ScramLogin(USERNAME, b"wrong", "another")
    client.send(Auth(AGAIN, scram_properties(login.first())))
    challenge = client.expect(Auth)
    client.send(Auth(CONTINUE, scram_properties(login.final(challenge.properties.authentication_data or b""))))
    word = client.expect_closed()
    assert isinstance(word, Disconnect) and word.reason in REFUSALS
