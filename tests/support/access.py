"""A door on a small directory, with passwords that are cheap to hash."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from argon2 import PasswordHasher
from tests.support.broker import SMALL
from tests.support.clock import FakeClock

from penstock.broker.auth.access import Access
from penstock.broker.auth.identity import Certificate, Credentials
from penstock.broker.auth.options import AuthOptions
from penstock.broker.auth.passwords import Passwords
from penstock.broker.auth.users import Users
from penstock.log.shard import Shard

SCRAM_ITERATIONS = 4096


def cheap_passwords(max_waiting: int = 500) -> Passwords:
    return Passwords(PasswordHasher(time_cost=1, memory_cost=8, parallelism=1), max_waiting)


async def access_to(shard: Shard, options: AuthOptions | None, clock: FakeClock) -> Access:
    """Without options everyone may do everything."""
    if options is None:
        return Access.open_to_all()
    passwords = cheap_passwords()
    return Access(await Users.open(shard, passwords, clock, SCRAM_ITERATIONS), passwords, options, clock)


@asynccontextmanager
async def door(
    directory: Path, options: AuthOptions | None = None, clock: FakeClock | None = None
) -> AsyncIterator[Access]:
    clock = clock or FakeClock()
    async with await Shard.open(directory, SMALL, clock) as shard:
        access = await access_to(shard, options or AuthOptions(), clock)
        try:
            yield access
        finally:
            access.close()


def credentials(
    username: str | None = None,
    password: bytes | None = None,
    *,
    client_id: str = "c1",
    peer: str = "192.0.2.1",
    certificate: Certificate | None = None,
    certificate_identity: bool = False,
    is_loopback: bool = False,
) -> Credentials:
    return Credentials(username, password, client_id, peer, certificate, certificate_identity, is_loopback)
