"""API keys: `psk_<id>_<secret>`, a login in one text. Only a hash of the secret is kept."""

from __future__ import annotations

import hmac
import re
import secrets
from hashlib import sha256
from typing import NamedTuple

from penstock.broker.auth.store import ApiKey
from penstock.core.errors import InvalidArgument, NoSuchUser, PenstockError
from penstock.core.patterns import LINE

KEY_USER_PREFIX = "key:"
"""rules call a key `key:<id>`; no user has such a name"""

# 256 bits are not guessed: a plain hash of them is as good as a slow one, and costs a request nothing.
_ID_BYTES, _SECRET_BYTES = 6, 32
_KEY = re.compile(rf"psk_([0-9a-f]{{{2 * _ID_BYTES}}})_([0-9a-f]{{{2 * _SECRET_BYTES}}})")
_MAX_DESCRIPTION_BYTES = 256
_LINE = re.compile(LINE)
_NO_HASH = bytes(sha256().digest_size)


class NoSuchKey(NoSuchUser):
    """The same, in words of keys."""

    def __init__(self, key_id: str) -> None:
        PenstockError.__init__(self, f"no API key {key_id[:80]!r}: see those there are with `penstock key list`")
        self.user = KEY_USER_PREFIX + key_id


class PresentedKey(NamedTuple):
    """A text that looks like a key. Its secret is for matches() alone."""

    id: str
    secret: str

    def __repr__(self) -> str:
        return f"PresentedKey({self.id!r})"


def key_user(key_id: str) -> str:
    """Its name in rules, logs and identities."""
    return KEY_USER_PREFIX + key_id


def parse_key(text: str) -> PresentedKey | None:
    """None for what cannot be one."""
    found = _KEY.fullmatch(text)
    return None if found is None else PresentedKey(found[1], found[2])


def matches(key: ApiKey | None, presented: PresentedKey) -> bool:
    """In constant time, whether there is such a key or not."""
    kept = _NO_HASH if key is None else key.hash
    return hmac.compare_digest(kept, _hash(presented.secret)) and key is not None


def new_key(
    roles: tuple[str, ...], namespace: str, description: str, created_ms: int, expires_ms: int | None
) -> tuple[ApiKey, str]:
    """And the text that logs in with it, which is nowhere else to be had. InvalidArgument."""
    _check_description(description)
    if expires_ms is not None and expires_ms <= created_ms:
        raise InvalidArgument("the key would have expired already: give a time that is still to come")
    key_id, secret = secrets.token_hex(_ID_BYTES), secrets.token_hex(_SECRET_BYTES)
    key = ApiKey(key_id, _hash(secret), roles, namespace, description, created_ms, expires_ms)
    return key, f"psk_{key_id}_{secret}"


def _hash(secret: str) -> bytes:
    return sha256(secret.encode()).digest()


def _check_description(description: str) -> None:
    if (size := len(description.encode())) > _MAX_DESCRIPTION_BYTES:
        raise InvalidArgument(f"a description of {size} bytes is too long, the limit is {_MAX_DESCRIPTION_BYTES}")
    if not _LINE.fullmatch(description):
        raise InvalidArgument("the description has control characters in it, a newline perhaps: write one line of text")
