"""Who sends a request: tokens, keys, passwords, certificates. What was found out is remembered for a moment."""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections import OrderedDict
from dataclasses import dataclass

from penstock.broker.auth.access import Access
from penstock.broker.auth.identity import ANONYMOUS, Certificate, Credentials, Identity
from penstock.broker.auth.limits import ClientRates
from penstock.broker.auth.permissions import Permissions
from penstock.broker.publish.publisher import Publisher
from penstock.core.errors import BadCredentials
from penstock.core.ports import Clock
from penstock.gateways.wire.listener import ListenerFacts

KEY_PREFIX = "psk_"
# A login costs from some microseconds (a key) to 20 ms (a password). A change of users, keys or rules counts at once:
# everything is forgotten then.
_REMEMBERED_S = 30.0
_REMEMBERED = 4096


Place = bytes | tuple[str, str]


@dataclass(frozen=True, slots=True)
class Caller:
    identity: Identity
    permissions: Permissions
    is_anonymous: bool
    is_admitted: bool = True
    """False: said nothing where everybody must, and may do what is public"""


@dataclass(frozen=True, slots=True)
class ConnectionFacts:
    """What a connection says of whoever sends requests by it."""

    listener: ListenerFacts
    peer: str
    certificate: Certificate | None
    rates: ClientRates
    publisher: Publisher


class Logins:
    """Of all connections."""

    def __init__(self, access: Access, clock: Clock) -> None:
        self._access, self._clock = access, clock
        self._known: OrderedDict[Place, tuple[float, Caller]] = OrderedDict()
        self._version = access.version

    def known(self, authorization: bytes | None, key: bytes | None, facts: ConnectionFacts) -> Caller | None:
        """As caller(), if that was found out lately."""
        if (version := self._access.version) != self._version:
            self._version = version
            self._known.clear()
        known = self._known.get(_place(authorization, key, facts))
        return known[1] if known is not None and known[0] > self._clock.monotonic() else None

    async def caller(self, authorization: bytes | None, key: bytes | None, facts: ConnectionFacts) -> Caller:
        """BadCredentials, TooManyAttempts. Who says nothing is anonymous, and may do what is public."""
        if (known := self.known(authorization, key, facts)) is not None:
            return known
        place, now_s, version = _place(authorization, key, facts), self._clock.monotonic(), self._version
        caller = await self._login(authorization, key, facts)
        if version == self._access.version:
            self._remember(place, now_s, caller)
        return caller

    def _remember(self, place: Place, now_s: float, caller: Caller) -> None:
        expires_ms, left_s = caller.identity.expires_ms, _REMEMBERED_S
        if expires_ms is not None:
            left_s = min(left_s, (expires_ms - self._clock.now_ms()) / 1000)
        self._known[place] = now_s + left_s, caller
        self._known.move_to_end(place)
        if len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)

    async def _login(self, authorization: bytes | None, key: bytes | None, facts: ConnectionFacts) -> Caller:
        listener = facts.listener
        secret = key.decode("latin-1") if key is not None else _bearer(authorization)
        if secret is not None and secret.startswith(KEY_PREFIX):
            identity = self._access.login_key(secret, facts.peer, is_loopback=listener.is_loopback)
            return self._caller(identity, is_anonymous=False)
        username, password = (None, secret.encode()) if secret is not None else _basic(authorization)
        has_certificate = facts.certificate is not None and listener.certificate_identity
        if username is None and password is None and not has_certificate:
            return self._without_login()
        identity = await self._access.login(_credentials(username, password, facts))
        return self._caller(identity, is_anonymous=False)

    def _without_login(self) -> Caller:
        """Where nobody may come without one, public routes answer all the same."""
        identity = self._access.without_login()
        if identity is None:
            return self._caller(Identity(ANONYMOUS, how="anonymous"), is_anonymous=True, is_admitted=False)
        return self._caller(identity, is_anonymous=True)

    def _caller(self, identity: Identity, is_anonymous: bool, is_admitted: bool = True) -> Caller:
        return Caller(identity, self._access.permissions(identity, identity.name), is_anonymous, is_admitted)


def _credentials(username: str | None, password: bytes | None, facts: ConnectionFacts) -> Credentials:
    return Credentials(
        username,
        password,
        client_id="",
        peer=facts.peer,
        certificate=facts.certificate,
        certificate_identity=facts.listener.certificate_identity,
        is_loopback=facts.listener.is_loopback,
    )


def _bearer(authorization: bytes | None) -> str | None:
    kind, _, value = (authorization or b"").partition(b" ")
    return value.strip().decode("latin-1") if kind.lower() == b"bearer" else None


def _basic(authorization: bytes | None) -> tuple[str | None, bytes | None]:
    if authorization is None:
        return None, None
    kind, _, value = authorization.partition(b" ")
    if kind.lower() != b"basic":
        raise BadCredentials("the header Authorization is neither Bearer nor Basic")
    try:
        name, colon, password = base64.b64decode(value.strip(), validate=True).partition(b":")
        username = name.decode()
    except (binascii.Error, ValueError):
        raise BadCredentials("the header Authorization has no name and password in it") from None
    if not colon:
        raise BadCredentials("the header Authorization has no name and password in it")
    return username, password


def _place(authorization: bytes | None, key: bytes | None, facts: ConnectionFacts) -> Place:
    """Where a login is remembered. Passwords are not kept for it."""
    if authorization is None and key is None and facts.certificate is None:
        return facts.listener.name, facts.peer
    said = (authorization, key, facts.listener.name, facts.peer, facts.certificate)
    return hashlib.blake2b(repr(said).encode(), digest_size=32).digest()
