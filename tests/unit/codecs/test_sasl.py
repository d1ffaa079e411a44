from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.scram_client import ScramClient

from penstock.broker.auth.scram import ScramServer, scram_keys
from penstock.codecs.amqp091.wire import table_bytes, table_of
from penstock.codecs.sasl import (
    MECHANISMS,
    AnonymousLogin,
    CertificateLogin,
    Challenge,
    Exchange,
    PasswordLogin,
    ProvenLogin,
)
from penstock.core.errors import BadCredentials

KEYS = scram_keys(b"secret", 4096)
names = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=12)
passwords = st.binary(max_size=12).filter(lambda data: b"\0" not in data)


def begun(mechanism: str, outcome_has_data: bool = True) -> Exchange:
    return Exchange(mechanism, ScramServer(lambda user: KEYS), outcome_has_data)


@given(user=names, password=passwords, is_named=st.booleans())
def test_plain_says_user_and_password(user: str, password: bytes, is_named: bool) -> None:
    name = user.encode()
    response = (name if is_named else b"") + b"\0" + name + b"\0" + password
    assert begun("PLAIN").respond(response) == PasswordLogin(user, password)


@given(user=names, password=st.text(max_size=12))
def test_amqplain_says_user_and_password_in_a_table(user: str, password: str) -> None:
    response = table_bytes(table_of({"LOGIN": user, "PASSWORD": password, "more": 1}), "")[4:]
    assert begun("AMQPLAIN").respond(response) == PasswordLogin(user, password.encode())


def test_a_client_that_sends_nothing_with_the_mechanism_is_asked() -> None:
    exchange = begun("PLAIN")
    assert exchange.respond(None) == Challenge(b"")
    assert exchange.respond(b"\0u\0p") == PasswordLogin("u", b"p")


def test_external_and_anonymous_say_whom_they_mean() -> None:
    assert begun("EXTERNAL").respond(b"") == CertificateLogin("")
    assert begun("EXTERNAL").respond("größe".encode()) == CertificateLogin("größe")
    assert begun("ANONYMOUS").respond(b"trace") == AnonymousLogin("trace")


def test_scram_proves_the_password_and_the_server_with_the_outcome() -> None:
    exchange, client = begun("SCRAM-SHA-256"), ScramClient("u", "secret")
    asked = exchange.respond(client.first())
    assert isinstance(asked, Challenge)
    login = exchange.respond(client.final(asked.data))
    assert isinstance(login, ProvenLogin)
    assert (login.user, client.is_server(login.data)) == ("u", True)


def test_scram_proves_the_server_by_one_more_challenge_where_the_outcome_has_no_data() -> None:
    exchange, client = begun("SCRAM-SHA-256", outcome_has_data=False), ScramClient("u", "secret")
    asked = exchange.respond(client.first())
    assert isinstance(asked, Challenge)
    proof = exchange.respond(client.final(asked.data))
    assert isinstance(proof, Challenge)
    assert client.is_server(proof.data)
    assert exchange.respond(b"") == ProvenLogin("u")


def test_a_wrong_proof_ends_the_login() -> None:
    exchange, client = begun("SCRAM-SHA-256", outcome_has_data=False), ScramClient("u", "wrong")
    asked = exchange.respond(client.first())
    assert isinstance(asked, Challenge)
    for _ in range(2):
        with pytest.raises(BadCredentials):
            exchange.respond(client.final(asked.data))


@pytest.mark.parametrize(
    ("mechanism", "response"),
    [
        ("PLAIN", b""),
        ("PLAIN", b"\0u"),
        ("PLAIN", b"\0u\0p\0"),
        ("PLAIN", b"\0\0p"),
        ("PLAIN", b"root\0u\0p"),
        ("PLAIN", b"\0\xff\0p"),
        ("PLAIN", bytes(20_000)),
        ("AMQPLAIN", b""),
        ("AMQPLAIN", b"\5LOGIN"),
        ("AMQPLAIN", table_bytes(table_of({"LOGIN": "u"}), "")[4:]),
        ("AMQPLAIN", table_bytes(table_of({"LOGIN": 1, "PASSWORD": "p"}), "")[4:]),
        ("AMQPLAIN", table_bytes(table_of({"LOGIN": "", "PASSWORD": "p"}), "")[4:]),
        ("EXTERNAL", b"\xff"),
        ("ANONYMOUS", b"\xff"),
        ("SCRAM-SHA-256", b"no SCRAM"),
    ],
)
def test_responses_that_are_none_end_the_login(mechanism: str, response: bytes) -> None:
    exchange = begun(mechanism)
    for _ in range(2):
        with pytest.raises(BadCredentials):
            exchange.respond(response)


def test_a_login_is_one_login() -> None:
    exchange = begun("PLAIN")
    exchange.respond(b"\0u\0p")
    with pytest.raises(BadCredentials):
        exchange.respond(b"\0root\0p")


def test_mechanisms_that_are_not_offered_are_refused() -> None:
    for mechanism in ("GSSAPI", "", "plain"):
        with pytest.raises(BadCredentials):
            Exchange(mechanism)
    with pytest.raises(BadCredentials):
        Exchange("SCRAM-SHA-256")
    assert {Exchange(mechanism).mechanism for mechanism in MECHANISMS[:4]} == set(MECHANISMS[:4])
