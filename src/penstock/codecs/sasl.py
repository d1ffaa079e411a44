"""Logins by SASL, the side of the server: PLAIN, AMQPLAIN, EXTERNAL, ANONYMOUS and SCRAM-SHA-256 as one machine.

It takes what a client sends and says what to ask next, or whom the client says it is. Whether that is so is looked up
by whoever has the users; only SCRAM proves it itself, through a port."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from penstock.codecs.amqp091.errors import AmqpError
from penstock.codecs.amqp091.wire import Reader
from penstock.core.errors import BadCredentials

MECHANISMS = ("PLAIN", "AMQPLAIN", "EXTERNAL", "ANONYMOUS", "SCRAM-SHA-256")
_MAX_RESPONSE_BYTES = 16 << 10


class ScramPort(Protocol):
    """One exchange of SCRAM; BadCredentials ends it."""

    user: str

    def first(self, data: bytes) -> bytes: ...

    def final(self, data: bytes) -> bytes: ...


@dataclass(frozen=True, slots=True)
class Challenge:
    """Send it and give the answer to `respond`."""

    data: bytes


@dataclass(frozen=True, slots=True)
class PasswordLogin:
    user: str
    password: bytes


@dataclass(frozen=True, slots=True)
class CertificateLogin:
    """The user is the one of the client's certificate; `user`, if it is not empty, must be the same."""

    user: str


@dataclass(frozen=True, slots=True)
class AnonymousLogin:
    trace: str


@dataclass(frozen=True, slots=True)
class ProvenLogin:
    """The password was right."""

    user: str
    data: bytes = b""
    """to be sent along with the good news, where the protocol has a place for it"""


Login = PasswordLogin | CertificateLogin | AnonymousLogin | ProvenLogin


class Exchange:
    """A login by one mechanism. `respond` until there is a Login; BadCredentials ends it."""

    def __init__(self, mechanism: str, scram: ScramPort | None = None, outcome_has_data: bool = True) -> None:
        """Without `outcome_has_data`, as in AMQP 0.9.1, the server's proof of SCRAM is one more challenge, and its
        answer is empty. BadCredentials for a mechanism that is none of MECHANISMS, or SCRAM without a port."""
        self.mechanism = mechanism
        self._scram, self._outcome_has_data = scram, outcome_has_data
        if mechanism not in MECHANISMS or (mechanism == "SCRAM-SHA-256" and scram is None):
            raise BadCredentials(f"the mechanism {mechanism[:40]!r} is not offered")
        self._next: Callable[[bytes], Challenge | Login] = {
            "PLAIN": _plain,
            "AMQPLAIN": _amqplain,
            "EXTERNAL": _external,
            "ANONYMOUS": _anonymous,
            "SCRAM-SHA-256": self._scram_first,
        }[mechanism]
        self._is_over = False

    def respond(self, data: bytes | None) -> Challenge | Login:
        """To what the client sent; None if it sent no first response with the mechanism's name."""
        if self._is_over:
            raise BadCredentials("the login is over")
        if data is None:
            return Challenge(b"")
        try:
            if len(data) > _MAX_RESPONSE_BYTES:
                raise BadCredentials(f"a response of {len(data)} bytes is too long")
            answer = self._next(data)
        except BadCredentials:
            self._is_over = True
            raise
        self._is_over = not isinstance(answer, Challenge)
        return answer

    def _scram_first(self, data: bytes) -> Challenge:
        assert self._scram is not None
        self._next = self._scram_final
        return Challenge(self._scram.first(data))

    def _scram_final(self, data: bytes) -> Challenge | Login:
        assert self._scram is not None
        proof = self._scram.final(data)
        if self._outcome_has_data:
            return ProvenLogin(self._scram.user, proof)
        self._next = self._scram_end
        return Challenge(proof)

    def _scram_end(self, data: bytes) -> Login:
        assert self._scram is not None
        if data:
            raise BadCredentials("SCRAM ends with an empty response")
        return ProvenLogin(self._scram.user)


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise BadCredentials("a name in a login is not UTF-8") from None


def _plain(data: bytes) -> Login:
    """authorisation NUL user NUL password (RFC 4616)"""
    parts = data.split(b"\0")
    if len(parts) != 3 or not parts[1]:
        raise BadCredentials("a PLAIN response is a name, a user and a password with NUL between them")
    if parts[0] and parts[0] != parts[1]:
        raise BadCredentials("PLAIN cannot log in as somebody else")
    return PasswordLogin(_text(parts[1]), parts[2])


def _amqplain(data: bytes) -> Login:
    """A field table without its length, with LOGIN and PASSWORD."""
    try:
        fields = Reader(len(data).to_bytes(4, "big") + data).table("AMQPLAIN")
    except AmqpError as error:
        raise BadCredentials(f"an AMQPLAIN response is ill-formed: {error}") from None
    found = [fields[name].value if name in fields else None for name in ("LOGIN", "PASSWORD")]
    user, password = (value.encode("utf-8", "surrogateescape") if isinstance(value, str) else value for value in found)
    if not isinstance(user, bytes) or not isinstance(password, bytes) or not user:
        raise BadCredentials("an AMQPLAIN response has LOGIN and PASSWORD as strings")
    return PasswordLogin(_text(user), password)


def _external(data: bytes) -> Login:
    return CertificateLogin(_text(data))


def _anonymous(data: bytes) -> Login:
    return AnonymousLogin(_text(data))
