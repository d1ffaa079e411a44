"""The client's side of SCRAM-SHA-256, written from RFC 5802."""

from __future__ import annotations

import base64
import hashlib
import hmac


class ScramClient:
    """Says first(), answers final(), looks at the server's proof with is_server()."""

    def __init__(self, user: str, password: str, nonce: str = "fyko+d2lbbFgONRv9qkxdawL", header: str = "n,,") -> None:
        self._password, self._nonce, self._header = password, nonce, header
        self._bare = f"n={user.replace('=', '=3D').replace(',', '=2C')},r={nonce}"
        self._message = b""
        self._salted = b""

    def first(self) -> bytes:
        return f"{self._header}{self._bare}".encode()

    def final(self, server_first: bytes) -> bytes:
        fields = dict(part.split("=", 1) for part in server_first.decode().split(","))
        assert fields["r"].startswith(self._nonce)
        salt, iterations = base64.b64decode(fields["s"]), int(fields["i"])
        self._salted = hashlib.pbkdf2_hmac("sha256", self._password.encode(), salt, iterations)
        bare = f"c={base64.b64encode(self._header.encode()).decode()},r={fields['r']}"
        self._message = f"{self._bare},{server_first.decode()},{bare}".encode()
        key = _hmac(self._salted, b"Client Key")
        signature = _hmac(hashlib.sha256(key).digest(), self._message)
        proof = bytes(a ^ b for a, b in zip(key, signature, strict=True))
        return f"{bare},p={base64.b64encode(proof).decode()}".encode()

    def is_server(self, server_final: bytes) -> bool:
        """Only who has the keys of the password can say this."""
        signature = _hmac(_hmac(self._salted, b"Server Key"), self._message)
        return server_final == b"v=" + base64.b64encode(signature)


def _hmac(key: bytes, message: bytes) -> bytes:
    return hmac.digest(key, message, "sha256")
