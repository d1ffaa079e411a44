from __future__ import annotations

import base64

import pytest
from tests.support.scram_client import ScramClient

from penstock.broker.auth.scram import ScramKeys, ScramServer, prepared, pretended_keys, scram_keys
from penstock.core.errors import BadCredentials, InvalidArgument

# RFC 7677, section 3.
NONCE = "rOprNGfwEbeRWgbNEkqO"
SERVER_NONCE = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
SERVER_FIRST = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
CLIENT_FINAL = (
    b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
)
SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
PENCIL = scram_keys(b"pencil", 4096, SALT)


def server(keys: ScramKeys = PENCIL) -> ScramServer:
    return ScramServer(lambda user: keys, SERVER_NONCE)


def test_the_exchange_of_rfc_7677() -> None:
    exchange = server()
    assert exchange.first(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO") == SERVER_FIRST
    assert exchange.user == "user"
    assert exchange.final(CLIENT_FINAL) == SERVER_FINAL


def test_the_client_of_these_tests_says_what_the_rfc_says() -> None:
    client = ScramClient("user", "pencil", NONCE)
    assert client.first() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    assert client.final(SERVER_FIRST) == CLIENT_FINAL
    assert client.is_server(SERVER_FINAL)


def test_a_wrong_password_is_no_proof() -> None:
    exchange, client = server(), ScramClient("user", "pen", NONCE)
    with pytest.raises(BadCredentials):
        exchange.final(client.final(exchange.first(client.first())))


def test_a_proof_is_good_for_its_own_exchange_only() -> None:
    other = ScramServer(lambda user: PENCIL)
    other.first(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO")
    with pytest.raises(BadCredentials):
        other.final(CLIENT_FINAL)
    done = server()
    done.first(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO")
    done.final(CLIENT_FINAL)
    with pytest.raises(BadCredentials):
        done.final(CLIENT_FINAL)


def test_a_client_that_could_bind_to_the_channel_is_let_in_too() -> None:
    exchange, client = server(), ScramClient("user", "pencil", NONCE, header="y,,")
    assert client.is_server(exchange.final(client.final(exchange.first(client.first()))))


def test_the_header_of_the_first_message_cannot_be_changed_afterwards() -> None:
    exchange, client = server(), ScramClient("user", "pencil", NONCE, header="y,,")
    first = exchange.first(b"n,," + client.first().removeprefix(b"y,,"))
    with pytest.raises(BadCredentials):
        exchange.final(client.final(first))


def test_names_are_unescaped_and_normalised() -> None:
    exchange = server()
    exchange.first("n,,n=a=2Cb=3Dc\u2168,r=x".encode())
    assert exchange.user == "a,b=cIX"


@pytest.mark.parametrize(
    "first",
    [
        b"",
        b"\xff",
        b"n,,",
        b"n,,n=user",
        b"n,,n=,r=x",
        b"n,,n=user,r=",
        b"n,,n=user,r=a b",
        b"p=tls-unique,,n=user,r=x",
        b"n,,m=ext,n=user,r=x",
        b"n,a=other,n=user,r=x",
        b"n,,n=us=er,r=x",
        b"n,,n=us\x00er,r=x",
        b"n,,n=user,r=" + b"x" * 5000,
    ],
)
def test_a_first_message_that_is_none_is_refused(first: bytes) -> None:
    with pytest.raises(BadCredentials):
        server().first(first)


@pytest.mark.parametrize(
    "final",
    [b"", b"c=biws", b"c=biws,r=x,p=", b"c=biws,r=x,p=!!", b"c=!,r=x,p=AAAA", CLIENT_FINAL.replace(b"=biws", b"=eSws")],
)
def test_a_last_message_that_is_none_is_refused(final: bytes) -> None:
    exchange = server()
    exchange.first(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO")
    with pytest.raises(BadCredentials):
        exchange.final(final)
    with pytest.raises(BadCredentials):
        server().final(CLIENT_FINAL)


def test_somebody_who_is_not_there_has_a_salt_that_stays() -> None:
    one, again = pretended_keys("eve", b"secret", 8192), pretended_keys("eve", b"secret", 8192)
    other = pretended_keys("mallory", b"secret", 8192)
    assert one.salt == again.salt != other.salt
    assert (len(one.salt), one.iterations) == (len(scram_keys(b"x", 4096).salt), 8192)


def test_keys_are_made_of_text_with_enough_work() -> None:
    with pytest.raises(InvalidArgument, match="4096"):
        scram_keys(b"pencil", 4095)
    with pytest.raises(InvalidArgument, match="UTF-8"):
        scram_keys(b"\xff", 4096)


@pytest.mark.parametrize(
    ("text", "same"), [("I\u00adX", "IX"), ("user", "user"), ("\u00aa", "a"), ("\u2168", "IX"), ("a\u00a0b", "a b")]
)
def test_text_is_prepared_as_rfc_4013_shows(text: str, same: str) -> None:
    assert prepared(text) == same


@pytest.mark.parametrize("text", ["\u0007", "\u0627\u0031", "a\u0627"])
def test_text_that_rfc_4013_prohibits_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument):
        prepared(text)
