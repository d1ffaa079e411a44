"""Who calls: logged in by the header authorization that a door was given, on the server's loop."""

from __future__ import annotations

import base64
import binascii
from typing import Protocol

from penstock.broker.auth.access import Access
from penstock.broker.auth.identity import Credentials, Identity
from penstock.broker.auth.permissions import Permissions
from penstock.core.errors import BadCredentials, NotAuthorised
from penstock.gateways.beside.lines import LOGIN_PREFIX

KEY_PREFIX = "psk_"


class Caller(Protocol):
    """What a call says of who calls."""

    @property
    def authorization(self) -> str | None: ...

    @property
    def peer(self) -> str: ...


def namespace_of(identity: Identity, permissions: Permissions, wanted: str | None) -> str:
    """NotAuthorised for another one than the caller's own, but for administrators of the server."""
    if wanted is None or wanted == identity.namespace:
        return identity.namespace
    if not permissions.administers(wanted):
        raise NotAuthorised(f"{identity.name} belongs to the namespace {identity.namespace!r}, not to {wanted!r}")
    return wanted


async def login(access: Access, caller: Caller, is_loopback: bool) -> Identity:
    """BadCredentials, NotAuthorised, TooManyAttempts."""
    username, password = _said(caller.authorization)
    if username is None and password is not None and password.startswith(KEY_PREFIX.encode()):
        return access.login_key(password.decode("latin-1"), caller.peer, is_loopback=is_loopback)
    credentials = Credentials(username, password, client_id="", peer=caller.peer, is_loopback=is_loopback)
    try:
        return await access.login(credentials)
    except NotAuthorised:
        if caller.authorization is not None:
            raise
        raise BadCredentials("a call needs the header authorization, with Basic or Bearer") from None


def _said(authorization: str | None) -> tuple[str | None, bytes | None]:
    """Name and password; a token or a key is a password without a name."""
    if authorization is None:
        return None, None
    kind, _, value = authorization.partition(" ")
    value = value.strip()
    if kind.lower() == "bearer" and not value.startswith(LOGIN_PREFIX):
        return None, value.encode()
    if kind.lower() not in ("basic", "bearer"):
        raise BadCredentials("the header authorization is neither Bearer nor Basic")
    try:
        name, colon, password = base64.b64decode(value.removeprefix(LOGIN_PREFIX), validate=True).partition(b":")
        if not colon:
            raise ValueError("there is no colon in it")
        return name.decode(), password
    except (binascii.Error, ValueError):
        raise BadCredentials("the header authorization has no name and password in it") from None
