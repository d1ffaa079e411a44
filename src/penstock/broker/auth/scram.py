"""SCRAM-SHA-256 (RFC 5802, RFC 7677), the side of the server: the password is never sent and need not be kept."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import secrets
import stringprep
import unicodedata
from collections.abc import Callable

import msgspec

from penstock.core.errors import BadCredentials, InvalidArgument

MIN_ITERATIONS = 4096
_MAX_MESSAGE_BYTES = 4096
_SALT_BYTES = 16
_NONCE_BYTES = 18
_CLIENT_KEY, _SERVER_KEY = b"Client Key", b"Server Key"

# gs2-header, then n=user,r=nonce; an extension that must be understood (m=) comes first and does not match.
_CLIENT_FIRST = re.compile(r"((?:n|y),(?:a=([^,]+))?,)(n=([^,]+),r=([\x21-\x2b\x2d-\x7e]+)(?:,.*)?)", re.DOTALL)
_CLIENT_FINAL = re.compile(r"(c=([^,]+),r=([\x21-\x2b\x2d-\x7e]+)(?:,.*)?),p=([^,]+)", re.DOTALL)
_BAD_ESCAPE = re.compile(r"=(?!2C|3D)")
_PROHIBITED = (
    stringprep.in_table_c12,
    stringprep.in_table_c21_c22,
    stringprep.in_table_c3,
    stringprep.in_table_c4,
    stringprep.in_table_c5,
    stringprep.in_table_c6,
    stringprep.in_table_c7,
    stringprep.in_table_c8,
    stringprep.in_table_c9,
)


class ScramKeys(msgspec.Struct, frozen=True):
    """What the server keeps of a password. Who has it can be taken for the server, not for the user."""

    salt: bytes
    iterations: int
    stored_key: bytes
    server_key: bytes


def scram_keys(password: bytes, iterations: int, salt: bytes | None = None) -> ScramKeys:
    """Takes a few ms. InvalidArgument below 4096 iterations, or for a password that is no text."""
    if iterations < MIN_ITERATIONS:
        raise InvalidArgument(f"{iterations} iterations are too few: give at least {MIN_ITERATIONS}")
    try:
        text = prepared(password.decode())
    except UnicodeDecodeError:
        raise InvalidArgument("a password for SCRAM is text in UTF-8") from None
    salt = secrets.token_bytes(_SALT_BYTES) if salt is None else salt
    salted = hashlib.pbkdf2_hmac("sha256", text.encode(), salt, iterations)
    stored_key = hashlib.sha256(_hmac(salted, _CLIENT_KEY)).digest()
    return ScramKeys(salt, iterations, stored_key, _hmac(salted, _SERVER_KEY))


def pretended_keys(user: str, secret: bytes, iterations: int) -> ScramKeys:
    """Of a user that is not there: the same salt each time, so that nobody can tell; no proof fits."""
    salt = _hmac(secret, user.encode())[:_SALT_BYTES]
    return ScramKeys(salt, iterations, secrets.token_bytes(32), secrets.token_bytes(32))


class ScramServer:
    """One exchange: first(), then final(). BadCredentials ends it."""

    def __init__(self, keys_of: Callable[[str], ScramKeys], nonce: str | None = None) -> None:
        """`keys_of` a user's name, real or pretended."""
        self._keys_of = keys_of
        self._nonce = secrets.token_urlsafe(_NONCE_BYTES) if nonce is None else nonce
        self._keys: ScramKeys | None = None
        self._header = self._so_far = ""
        self.user = ""
        """whom the client says it is"""

    def first(self, data: bytes) -> bytes:
        match = _CLIENT_FIRST.fullmatch(_text(data))
        if match is None or self._keys is not None:
            raise BadCredentials(
                "the first SCRAM message cannot be read, or asks for channel binding, which is not supported"
            )
        self._header, bare, self.user = match[1], match[3], _user(match[4])
        if match[2] is not None and _user(match[2]) != self.user:
            raise BadCredentials("SCRAM cannot log in as somebody else")
        self._nonce = match[5] + self._nonce
        self._keys = self._keys_of(self.user)
        salt = base64.b64encode(self._keys.salt).decode()
        answer = f"r={self._nonce},s={salt},i={self._keys.iterations}"
        self._so_far = f"{bare},{answer}"
        return answer.encode()

    def final(self, data: bytes) -> bytes:
        """Returns if the proof is right: the last message, which proves to the client that this is its server."""
        match = _CLIENT_FINAL.fullmatch(_text(data))
        keys, self._keys = self._keys, None
        if match is None or keys is None:
            raise BadCredentials("the last SCRAM message cannot be read")
        message = f"{self._so_far},{match[1]}".encode()
        key = _xor(_base64(match[4]), _hmac(keys.stored_key, message))
        is_right = hmac.compare_digest(hashlib.sha256(key).digest(), keys.stored_key)
        if not is_right or match[3] != self._nonce or _base64(match[2]) != self._header.encode():
            raise BadCredentials
        return b"v=" + base64.b64encode(_hmac(keys.server_key, message))


def prepared(text: str) -> str:
    """SASLprep (RFC 4013): what looks the same is the same. InvalidArgument for what cannot be typed reliably."""
    mapped = "".join(
        " " if stringprep.in_table_c12(char) else char for char in text if not stringprep.in_table_b1(char)
    )
    normal = unicodedata.ucd_3_2_0.normalize("NFKC", mapped)
    if any(in_table(char) for char in normal for in_table in _PROHIBITED) or _is_mixed(normal):
        raise InvalidArgument("a name or password for SCRAM has a character in it that SASLprep (RFC 4013) prohibits")
    return normal


def _is_mixed(text: str) -> bool:
    """Text from right to left stands alone: it begins and ends so, and has nothing from left to right in it."""
    if not any(map(stringprep.in_table_d1, text)):
        return False
    ends_well = stringprep.in_table_d1(text[0]) and stringprep.in_table_d1(text[-1])
    return not ends_well or any(map(stringprep.in_table_d2, text))


def _text(data: bytes) -> str:
    if len(data) > _MAX_MESSAGE_BYTES:
        raise BadCredentials(f"a SCRAM message of {len(data)} bytes is too long")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise BadCredentials("a SCRAM message is not UTF-8") from None


def _user(escaped: str) -> str:
    if _BAD_ESCAPE.search(escaped):
        raise BadCredentials("a name in a SCRAM message has = in it that is neither =2C nor =3D")
    try:
        return prepared(escaped.replace("=2C", ",").replace("=3D", "="))
    except InvalidArgument as error:
        raise BadCredentials(str(error)) from None


def _base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise BadCredentials("a SCRAM message has something in it that is not base64") from None


def _hmac(key: bytes, message: bytes) -> bytes:
    return hmac.digest(key, message, "sha256")


def _xor(left: bytes, right: bytes) -> bytes:
    if len(left) != len(right):
        raise BadCredentials
    return bytes(a ^ b for a, b in zip(left, right, strict=True))
