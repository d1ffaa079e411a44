from __future__ import annotations

import base64
import json
import time
from collections.abc import Mapping
from pathlib import Path

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from penstock.broker.auth.options import JwtOptions
from penstock.broker.auth.rules import Action, Effect, Rule
from penstock.broker.auth.tokens import Tokens
from penstock.core.errors import BadCredentials, InvalidSetting

SECRET = "0123456789abcdef0123456789abcdef"
NOW = int(time.time())


def signed(claims: Mapping[str, object] | None = None, secret: str = SECRET, algorithm: str = "HS256") -> bytes:
    whole = {"sub": "alice", "exp": NOW + 3600, **(claims or {})}
    kept = {key: value for key, value in whole.items() if value is not None}
    return jwt.encode(kept, secret, algorithm).encode()


def tokens(issuer: str | None = None, audience: str | None = None) -> Tokens:
    return Tokens(JwtOptions("HS256", SECRET, issuer=issuer, audience=audience))


def public_pem(path: Path, key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey) -> str:
    encoding, kind = serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    path.write_bytes(key.public_key().public_bytes(encoding, kind))
    return str(path)


def test_a_token_names_its_user_and_its_end() -> None:
    claimed = tokens().login(signed(), None)
    assert (claimed.name, claimed.namespace, claimed.rules) == ("alice", None, ())
    assert claimed.expires_ms == (NOW + 3600 + 10) * 1000


def test_a_token_brings_a_namespace_and_rules() -> None:
    rule = {"effect": "allow", "action": "publish", "pattern": "devices/%c/#"}
    claimed = tokens().login(signed({"namespace": "tenant", "acl": [rule]}), "alice")
    assert claimed.namespace == "tenant"
    assert claimed.rules == (Rule(Effect.ALLOW, Action.PUBLISH, "devices/%c/#"),)


@pytest.mark.parametrize(
    "claims",
    [
        {"exp": NOW - 60},
        {"exp": None},
        {"exp": "soon"},
        {"nbf": NOW + 86_400},
        {"sub": None},
        {"sub": 7},
        {"sub": ""},
        {"sub": "a\nb"},
        {"aud": "somebody else"},
        {"namespace": "a/b"},
        {"namespace": 5},
        {"acl": "all"},
        {"acl": [{"effect": "allow", "action": "publish", "pattern": "a", "user": "bob"}]},
        {"acl": [{"effect": "allow", "action": "publish", "pattern": "a/#/b"}]},
        {"acl": [{"effect": "allow", "action": "publish", "pattern": "a"}] * 101},
    ],
)
def test_a_token_that_says_the_wrong_thing_is_refused(claims: dict[str, object]) -> None:
    with pytest.raises(BadCredentials):
        tokens().login(signed(claims), None)


def test_issuer_and_audience_must_be_the_configured_ones() -> None:
    strict = tokens(issuer="https://id.example.org", audience="penstock")
    strict.login(signed({"iss": "https://id.example.org", "aud": ["other", "penstock"]}), None)
    wrong: list[dict[str, object]]
    wrong = [{}, {"iss": "https://id.example.org"}, {"aud": "penstock"}, {"iss": "x", "aud": "penstock"}]
    for claims in wrong:
        with pytest.raises(BadCredentials):
            strict.login(signed(claims), None)


def test_a_token_is_not_taken_for_another_user() -> None:
    with pytest.raises(BadCredentials, match="another user"):
        tokens().login(signed(), "bob")


def test_what_is_not_signed_with_the_key_is_refused() -> None:
    with pytest.raises(BadCredentials):
        tokens().login(signed(secret=SECRET[::-1]), None)
    with pytest.raises(BadCredentials):
        tokens().login(signed()[:-4] + b"AAAA", None)


def test_the_algorithm_is_the_configured_one_whatever_the_token_says(tmp_path: Path) -> None:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = public_pem(tmp_path / "key.pem", key)
    strict = Tokens(JwtOptions("RS256", public_key_file=pem))
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()
    assert strict.login(signed(None, private, "RS256"), None).name == "alice"
    header, payload = (_part({"alg": "none"}), _part({"sub": "alice", "exp": NOW + 3600}))
    for forged in (signed(), header + b"." + payload + b"."):
        assert tokens().is_one(forged)
        with pytest.raises(BadCredentials):
            strict.login(forged, None)
    with pytest.raises(BadCredentials):
        tokens().login(header + b"." + payload + b".", None)


def test_es256_is_verified_with_a_public_key(tmp_path: Path) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    strict = Tokens(JwtOptions("ES256", public_key_file=public_pem(tmp_path / "key.pem", key)))
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()
    assert strict.login(signed(None, private, "ES256"), None).name == "alice"


def test_a_hostile_header_is_an_ordinary_refusal() -> None:
    deep = base64.urlsafe_b64encode(b'{"a":' * 3000).rstrip(b"=") + b".e30.AAAA"
    for token in (deep, b"ey" + b"A" * 20_000 + b".e30.", b"eyJ.e30.AAAA"):
        with pytest.raises(BadCredentials):
            tokens().login(token, None)


def test_a_secret_may_be_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text(SECRET + "\n")
    assert Tokens(JwtOptions("HS256", secret_file=str(tmp_path / "secret"))).login(signed(), None).name == "alice"


def test_keys_that_cannot_be_used_stop_the_start(tmp_path: Path) -> None:
    curve = public_pem(tmp_path / "ec.pem", ec.generate_private_key(ec.SECP256R1()))
    other = public_pem(tmp_path / "p384.pem", ec.generate_private_key(ec.SECP384R1()))
    (tmp_path / "text.pem").write_text("hello")
    for options in (
        JwtOptions("HS256"),
        JwtOptions("HS256", "short"),
        JwtOptions("HS256", SECRET, secret_file="x"),
        JwtOptions("RS256", SECRET),
        JwtOptions("RS256", public_key_file=curve),
        JwtOptions("ES256", public_key_file=other),
        JwtOptions("RS256", public_key_file=str(tmp_path / "text.pem")),
        JwtOptions("RS256", public_key_file=str(tmp_path / "absent")),
    ):
        with pytest.raises(InvalidSetting) as caught:
            Tokens(options)
        assert caught.value.path.startswith("auth.jwt")
        assert SECRET not in str(caught.value)


def test_passwords_do_not_look_like_tokens() -> None:
    assert tokens().is_one(signed())
    for password in (b"", b"ey", b"hunter2", b"a.b.c", b"ey a.b.c", b"eyJ.b.c\n"):
        assert not tokens().is_one(password)


def _part(value: object) -> bytes:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=")
