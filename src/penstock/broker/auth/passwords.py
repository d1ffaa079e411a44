"""Passwords: argon2id beside the loop, and a short memory of those that were right."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
import secrets
from base64 import b64decode
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TypeVar

from argon2 import PasswordHasher, Type, extract_parameters
from argon2.exceptions import InvalidHashError, VerificationError, VerifyMismatchError

from penstock.core.errors import InvalidArgument, TooManyAttempts
from penstock.core.ports import Clock

# 20 ms and 19 MiB for a login: the second of OWASP's choices. argon2-cffi's own takes 147 ms and 64 MiB.
TIME_COST, MEMORY_KIB = 2, 19 * 1024
_THREADS = 2
# At a hundred logins a second these wait for five seconds, which is half of what a client has for its CONNECT.
_MAX_WAITING = 500
_MAX_VERIFIED = 10_000
MAX_PASSWORD_BYTES = 1024

RABBIT_HASHES = {"rabbit_password_hashing_sha256": "sha256", "rabbit_password_hashing_sha512": "sha512"}
"""RabbitMQ's, of which the first login makes one of ours"""
_RABBIT = "rabbit:"
_SALT_BYTES = 4

Result = TypeVar("Result")
logger = logging.getLogger("penstock.auth")


class Passwords:
    """Hashes in a few threads of its own; used from the loop."""

    def __init__(self, hasher: PasswordHasher | None = None, max_waiting: int = _MAX_WAITING) -> None:
        self._hasher = hasher or PasswordHasher(time_cost=TIME_COST, memory_cost=MEMORY_KIB, parallelism=1)
        self._threads = ThreadPoolExecutor(_THREADS, "penstock-passwords")
        self._max_waiting, self._waiting = max_waiting, 0
        self._nobodys_hash: str | None = None

    async def hash(self, password: bytes) -> str:
        check_password(password)
        return await self.run(lambda: self._hasher.hash(password))

    async def run(self, work: Callable[[], Result]) -> Result:
        """Something that would hold the loop up. TooManyAttempts if as much waits already as may."""
        if self._waiting >= self._max_waiting:
            raise TooManyAttempts(f"{self._waiting} logins wait already", wait_s=5.0)
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, work)
        finally:
            self._waiting -= 1

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    def matches(self, password: bytes, password_hash: str | None) -> bool:
        """To be called through run(). Without a hash it takes as long, and the answer is no."""
        if self._nobodys_hash is None:
            self._nobodys_hash = self._hasher.hash(secrets.token_bytes(16))
        is_long = len(password) > MAX_PASSWORD_BYTES
        if password_hash is not None and is_foreign(password_hash):
            # As long as any other: how long it takes says nothing of a user.
            with suppress(VerificationError):
                self._hasher.verify(self._nobodys_hash, b"" if is_long else password)
            return not is_long and _matches_rabbit(password, password_hash)
        try:
            self._hasher.verify(password_hash or self._nobodys_hash, b"" if is_long else password)
        except VerifyMismatchError:
            return False
        except (VerificationError, InvalidHashError) as error:
            logger.error("a stored password hash cannot be used, set the password again error=%s", error)
            return False
        return password_hash is not None and not is_long


def rabbit_hash(algorithm: str, text: str) -> str:
    """One of RabbitMQ's as it is kept until its first login. InvalidArgument unless it is one of that algorithm."""
    kind = RABBIT_HASHES[algorithm]
    try:
        size = len(b64decode(text, validate=True))
    except ValueError:
        size = 0
    if size != _SALT_BYTES + hashlib.new(kind).digest_size:
        raise InvalidArgument("this is not a password hash of RabbitMQ: take password_hash of its definitions as it is")
    return f"{_RABBIT}{kind}:{text}"


def is_foreign(password_hash: str) -> bool:
    return password_hash.startswith(_RABBIT)


def _matches_rabbit(password: bytes, password_hash: str) -> bool:
    kind, _, text = password_hash.removeprefix(_RABBIT).partition(":")
    salted = b64decode(text)
    digest = hashlib.new(kind, salted[:_SALT_BYTES] + password).digest()
    return hmac.compare_digest(digest, salted[_SALT_BYTES:])


def check_password(password: bytes) -> None:
    """InvalidArgument unless it can be one."""
    if not password:
        raise InvalidArgument("the password is empty: give at least one character")
    if len(password) > MAX_PASSWORD_BYTES:
        raise InvalidArgument(f"a password of {len(password)} bytes is too long, the limit is {MAX_PASSWORD_BYTES}")


def check_password_hash(text: str) -> None:
    """InvalidArgument unless it is one that a login can be held against. The text is not shown."""
    try:
        if extract_parameters(text).type is not Type.ID:
            raise InvalidHashError
    except (InvalidHashError, ValueError):
        raise InvalidArgument("this is not an argon2id hash: take what `penstock user hash` prints") from None


def random_password() -> str:
    return secrets.token_urlsafe(18)


class Verified:
    """Who logged in lately with which password, so that clients that come back in thousands are not hashed again. No
    password is kept, only a digest under a key that this process forgets."""

    def __init__(self, clock: Clock, keep_s: float, limit: int = _MAX_VERIFIED) -> None:
        self._clock, self._keep_s, self._limit = clock, keep_s, limit
        self._key = secrets.token_bytes(32)
        self._known: dict[str, tuple[bytes, float]] = {}

    def knows(self, user: str, password: bytes, password_hash: str) -> bool:
        known, until = self._known.get(user, (b"", 0.0))
        return self._clock.monotonic() < until and hmac.compare_digest(known, self._digest(password, password_hash))

    def remember(self, user: str, password: bytes, password_hash: str) -> None:
        self._known.pop(user, None)
        if len(self._known) >= self._limit:
            del self._known[next(iter(self._known))]
        self._known[user] = self._digest(password, password_hash), self._clock.monotonic() + self._keep_s

    def _digest(self, password: bytes, password_hash: str) -> bytes:
        """With the hash, which has a salt: a changed password is not known any more."""
        return hmac.digest(self._key, hashlib.sha256(password).digest() + password_hash.encode(), "sha256")
