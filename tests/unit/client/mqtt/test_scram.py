"""The exchange of RFC 7677, and servers that only pretend to know the password."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.support.loop import run
from tests.support.scripted_server import Peer, scripted

from penstock.client.mqtt.async_client import AsyncMqttClient
from penstock.client.mqtt.errors import MqttRefused
from penstock.client.mqtt.options import MqttOptions
from penstock.client.mqtt.scram import ScramSha256
from penstock.codecs.mqtt.packets import Auth, ConnAck, Connect
from penstock.codecs.mqtt.properties import Properties
from penstock.codecs.mqtt.reasons import ReasonCode

NONCE = b"rOprNGfwEbeRWgbNEkqO"
SERVER_NONCE = NONCE + b"%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
CHALLENGE = b"r=" + SERVER_NONCE + b",s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
LAST = b"c=biws,r=" + SERVER_NONCE + b",p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
PROOF = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


@pytest.fixture
def exchange(monkeypatch: pytest.MonkeyPatch) -> ScramSha256:
    monkeypatch.setattr(ScramSha256, "_make_nonce", lambda _self: NONCE)
    return ScramSha256("user", "pencil")


def test_the_exchange_of_rfc_7677(exchange: ScramSha256) -> None:
    assert exchange.first() == b"n,,n=user,r=" + NONCE
    assert exchange.answer(CHALLENGE) == LAST
    exchange.finish(PROOF)


def test_one_password_typed_in_two_ways_is_one_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ScramSha256, "_make_nonce", lambda _self: NONCE)
    answers = set[bytes]()
    for password in ("pass\u00e9 \u2168", "pas\u00adse\u0301\u00a0IX"):
        exchange = ScramSha256("user", password)
        exchange.first()
        answers.add(exchange.answer(CHALLENGE))
    assert len(answers) == 1


def test_a_server_without_the_password_is_not_believed(exchange: ScramSha256) -> None:
    exchange.first()
    with pytest.raises(MqttRefused, match="has not proved"):
        exchange.finish(PROOF)
    exchange.answer(CHALLENGE)
    with pytest.raises(MqttRefused, match="has not proved"):
        exchange.finish(PROOF[:-2] + b"A=")


@pytest.mark.parametrize(
    "challenge",
    [
        b"",
        CHALLENGE.replace(b"r=r", b"r=x"),
        b"r=" + NONCE + b",s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
        CHALLENGE.replace(b"s=W", b"s=!"),
        CHALLENGE.replace(b"i=4096", b"i=1"),
        CHALLENGE.replace(b"i=4096", b"i=99999999999"),
        CHALLENGE.replace(b"i=4096", b"i=x"),
    ],
)
def test_a_challenge_that_is_none_is_refused(exchange: ScramSha256, challenge: bytes) -> None:
    exchange.first()
    with pytest.raises(MqttRefused):
        exchange.answer(challenge)


@pytest.mark.parametrize("proof", [PROOF, b"v=AAAA"])
def test_it_goes_by_auth_packets_and_ends_with_connack(exchange: ScramSha256, proof: bytes) -> None:
    def said(data: bytes) -> Properties:
        return Properties(authentication_method="SCRAM-SHA-256", authentication_data=data)

    async def script(peer: Peer) -> None:
        connect = await peer.expect(Connect)
        assert connect.properties.authentication_data == b"n,,n=user,r=" + NONCE
        peer.send(Auth(ReasonCode.CONTINUE_AUTHENTICATION, said(CHALLENGE)))
        assert (await peer.expect(Auth)).properties == said(LAST)
        peer.send(ConnAck(properties=said(proof)))
        await peer.ended()

    async def main() -> None:
        options = MqttOptions(authentication=exchange)
        async with scripted(script) as port, AsyncMqttClient(replace(options, port=port)) as client:
            assert client.is_connected

    if proof == PROOF:
        run(main())
    else:
        with pytest.raises(MqttRefused, match="has not proved"):
            run(main())
