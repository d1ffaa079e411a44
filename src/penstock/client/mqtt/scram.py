"""SCRAM-SHA-256 (RFC 5802, RFC 7677), the client's side: the password is not sent, and the server proves that it knows
it."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
import stringprep
import unicodedata

from penstock.client.mqtt.errors import MqttRefused
from penstock.codecs.mqtt.reasons import ReasonCode

# gs2 header: no channel binding, no other identity.
_HEADER = b"n,,"
# More would only keep this client busy; RFC 7677 asks for 4096 at least, and OWASP for 600,000.
_MIN_ITERATIONS, _MAX_ITERATIONS = 4096, 10_000_000


class ScramSha256:
    """Give it as `MqttOptions.authentication`. MqttRefused where the server's part is wrong: do not trust it then."""

    method = "SCRAM-SHA-256"

    def __init__(self, username: str, password: str) -> None:
        self._username = _prepared(username).replace("=", "=3D").replace(",", "=2C").encode()
        self._password = _prepared(password).encode()
        self._first, self._nonce, self._expected = b"", b"", b""

    def first(self) -> bytes:
        self._nonce = self._make_nonce()
        self._first, self._expected = b"n=%s,r=%s" % (self._username, self._nonce), b""
        return _HEADER + self._first

    def answer(self, challenge: bytes) -> bytes:
        nonce, salt, iterations = self._parse(challenge)
        salted = hashlib.pbkdf2_hmac("sha256", self._password, salt, iterations)
        client_key, server_key = _hmac(salted, b"Client Key"), _hmac(salted, b"Server Key")
        last = b"c=%s,r=%s" % (base64.b64encode(_HEADER), nonce)
        exchange = b",".join([self._first, challenge, last])
        signature = _hmac(hashlib.sha256(client_key).digest(), exchange)
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        self._expected = _hmac(server_key, exchange)
        return last + b",p=" + base64.b64encode(proof)

    def finish(self, data: bytes) -> None:
        said = b"v=" + base64.b64encode(self._expected)
        if not self._expected or not hmac.compare_digest(data, said):
            raise _refusal("the server has not proved that it knows the password")

    def _make_nonce(self) -> bytes:
        return secrets.token_urlsafe(24).encode()

    def _parse(self, challenge: bytes) -> tuple[bytes, bytes, int]:
        fields = dict(field.partition(b"=")[::2] for field in challenge.split(b","))
        nonce, count = fields.get(b"r", b""), fields.get(b"i", b"")
        try:
            salt = base64.b64decode(fields.get(b"s", b""), validate=True)
        except binascii.Error:
            salt = b""
        if not nonce.startswith(self._nonce) or nonce == self._nonce or not salt or not count.isdigit():
            raise _refusal("the server's challenge cannot be read")
        if len(count) > 9 or not _MIN_ITERATIONS <= int(count) <= _MAX_ITERATIONS:
            limits = f"{_MIN_ITERATIONS} to {_MAX_ITERATIONS}"
            raise _refusal(f"the server asks for {count[:20].decode()} iterations, and {limits} are safe")
        return nonce, salt, int(count)


def _prepared(text: str) -> str:
    """The mapping of SASLprep (RFC 4013), so that one password typed on two keyboards is one password. What it forbids,
    the server refuses."""
    mapped = [" " if stringprep.in_table_c12(each) else each for each in text if not stringprep.in_table_b1(each)]
    return unicodedata.normalize("NFKC", "".join(mapped))


def _hmac(key: bytes, data: bytes) -> bytes:
    return hmac.digest(key, data, "sha256")


def _refusal(detail: str) -> MqttRefused:
    return MqttRefused("a login by SCRAM-SHA-256", ReasonCode.BAD_AUTHENTICATION_METHOD, detail)
