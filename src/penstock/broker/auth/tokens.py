"""JSON Web Tokens in the place of a password: signature, issuer, audience and times checked, algorithm pinned."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import jwt
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from penstock.broker.auth.options import JwtOptions
from penstock.broker.auth.rules import Rule, check_name, rule_of
from penstock.core.errors import BadCredentials, InvalidArgument, InvalidSetting
from penstock.queues.names import check_namespace

_TOKEN = re.compile(rb"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*")
# The first part is a JSON object, which begins like this in base64.
_BEGINNING = b"ey"
_MAX_TOKEN_BYTES = 16 << 10
_MAX_RULES = 100
_MAX_ROLES = 100
_MIN_SECRET_BYTES = 32
_MIN_RSA_BITS = 2048

Key = bytes | RSAPublicKey | EllipticCurvePublicKey


class Claimed(NamedTuple):
    """What a token says that was found good."""

    name: str
    namespace: str | None
    expires_ms: int
    rules: tuple[Rule, ...]
    roles: tuple[str, ...]


class Tokens:
    """Reads the key once; InvalidSetting if it cannot, or if it is none for the algorithm."""

    def __init__(self, options: JwtOptions) -> None:
        self._options, self._key = options, _key(options)

    def is_one(self, password: bytes) -> bool:
        """By its looks, before anything is verified."""
        return password.startswith(_BEGINNING) and _TOKEN.fullmatch(password) is not None

    def login(self, token: bytes, username: str | None) -> Claimed:
        """`sub` is the user, and what the client calls itself beside must not be another. BadCredentials unless all of
        it holds."""
        if len(token) > _MAX_TOKEN_BYTES:
            raise BadCredentials(f"a token of {len(token)} bytes is too long, the limit is {_MAX_TOKEN_BYTES}")
        claims = self._claims(token)
        try:
            return self._claimed(claims, username)
        except InvalidArgument as error:
            raise BadCredentials(f"the token: {error}") from None

    def _claims(self, token: bytes) -> Mapping[str, object]:
        options = self._options
        required = ["exp", "sub"]
        required += ["iss"] if options.issuer else []
        required += ["aud"] if options.audience else []
        try:
            claims: dict[str, object] = jwt.decode(
                token,
                self._key,
                algorithms=[options.algorithm],
                audience=options.audience,
                issuer=options.issuer,
                leeway=options.leeway_s,
                options={"require": required},
            )
        except (jwt.PyJWTError, RecursionError) as error:
            raise BadCredentials(f"the token is not accepted ({type(error).__name__})") from None
        return claims

    def _claimed(self, claims: Mapping[str, object], username: str | None) -> Claimed:
        user, expiry = claims["sub"], claims["exp"]
        if not isinstance(user, str) or not isinstance(expiry, int | float):
            raise BadCredentials("the token has a sub or exp of the wrong type")
        check_name(user)
        if username and username != user:
            raise BadCredentials("the token is for another user than the one that was given")
        namespace = _namespace(claims.get("namespace"))
        expires_ms = int((expiry + self._options.leeway_s) * 1000)
        rules = tuple(map(_rule, _written_rules(claims.get("acl"))))
        return Claimed(user, namespace, expires_ms, rules, self._roles(claims))

    def _roles(self, claims: Mapping[str, object]) -> tuple[str, ...]:
        name = self._options.roles_claim
        written = None if name is None else claims.get(name)
        if written is None:
            return ()
        if not isinstance(written, list) or len(written) > _MAX_ROLES:
            raise InvalidArgument(f"its {name} is not a list of at most {_MAX_ROLES} roles")
        return tuple(map(_role, written))


def _namespace(claim: object) -> str | None:
    if claim is None:
        return None
    if not isinstance(claim, str):
        raise InvalidArgument("its namespace is not text")
    check_namespace(claim)
    return claim


def _role(written: object) -> str:
    if not isinstance(written, str):
        raise InvalidArgument("a role in it is not text")
    check_name(written)
    return written


def _written_rules(claim: object) -> list[object]:
    if claim is None:
        return []
    if not isinstance(claim, list) or len(claim) > _MAX_RULES:
        raise InvalidArgument(f"its acl is not a list of at most {_MAX_RULES} rules")
    return claim


def _rule(written: object) -> Rule:
    """It is about the user of the token, wherever the token leads."""
    if not isinstance(written, dict) or written.keys() - {"effect", "action", "pattern"}:
        raise InvalidArgument("a rule in it is not an object with effect, action and pattern")
    return rule_of(written)


def _key(options: JwtOptions) -> Key:
    given = [name for name in ("secret", "secret_file", "public_key_file") if getattr(options, name)]
    wanted = "secret or secret_file" if options.algorithm == "HS256" else "public_key_file"
    if len(given) != 1 or (given[0] == "public_key_file") != (options.algorithm != "HS256"):
        raise InvalidSetting("auth.jwt", f"{options.algorithm} needs {wanted}, and no other key")
    if options.secret is not None:
        return _secret("auth.jwt.secret", options.secret.encode())
    if options.secret_file is not None:
        return _secret("auth.jwt.secret_file", _read("auth.jwt.secret_file", options.secret_file).strip())
    assert options.public_key_file is not None
    return _public_key(options.algorithm, options.public_key_file)


def _secret(path: str, secret: bytes) -> bytes:
    if len(secret) < _MIN_SECRET_BYTES:
        raise InvalidSetting(path, f"a secret of {len(secret)} bytes can be guessed: give at least {_MIN_SECRET_BYTES}")
    return secret


def _public_key(algorithm: str, file: str) -> Key:
    path = "auth.jwt.public_key_file"
    try:
        key = load_pem_public_key(_read(path, file))
    except (ValueError, UnsupportedAlgorithm):
        raise InvalidSetting(
            path, f"{file} is not a public key in PEM: it begins with -----BEGIN PUBLIC KEY-----"
        ) from None
    if algorithm == "RS256" and isinstance(key, RSAPublicKey) and key.key_size >= _MIN_RSA_BITS:
        return key
    if algorithm == "ES256" and isinstance(key, EllipticCurvePublicKey) and isinstance(key.curve, SECP256R1):
        return key
    wanted = f"RSA of at least {_MIN_RSA_BITS} bits" if algorithm == "RS256" else "the curve P-256"
    raise InvalidSetting(path, f"{file} is not a key for {algorithm}, which needs {wanted}")


def _read(path: str, file: str) -> bytes:
    try:
        return Path(file).read_bytes()
    except OSError as error:
        raise InvalidSetting(path, f"{file} cannot be read: {error.strerror}") from None
