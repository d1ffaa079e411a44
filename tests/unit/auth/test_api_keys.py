"""API keys: made once, kept as a hash, taken back at once."""

from __future__ import annotations

import logging
import time
from pathlib import Path

import jwt
import pytest
from tests.support.access import credentials, door
from tests.support.broker import SMALL
from tests.support.clock import FakeClock
from tests.support.loop import run

from penstock.broker.auth.access import Access
from penstock.broker.auth.descriptions import describe_key
from penstock.broker.auth.identity import Identity
from penstock.broker.auth.keys import NoSuchKey, parse_key
from penstock.broker.auth.options import AuthOptions, ConfiguredUser, JwtOptions
from penstock.broker.auth.rules import Action, Effect, rule
from penstock.broker.auth.store import Store
from penstock.core.errors import BadCredentials, DirectoryFormat, InvalidArgument, TooManyAttempts
from penstock.core.types import Purpose
from penstock.log.columns import Columns
from penstock.log.shard import Shard

PEER = "192.0.2.1"
SECRET = "0123456789abcdef0123456789abcdef"
WRONG = "psk_0123456789ab_" + 64 * "0"


def test_a_key_is_a_login_with_its_own_roles_and_namespace(tmp_path: Path) -> None:
    async def main() -> None:
        async with door(tmp_path) as access:
            key, text = await access.users.add_key(["producer"], "tenant", "web shop")
            identity = access.login_key(text, PEER)
            assert identity == Identity(f"key:{key.id}", "tenant", False, "api-key")
            some = access.permissions(identity, "c")
            assert some.may_publish(b"orders/eu")
            assert not some.may_consume("orders")
            assert access.metrics.logins == 1
            _, text = await access.users.add_key(["admin"])
            assert access.login_key(text, PEER).is_admin

    run(main())


def test_keys_come_back_after_a_restart(tmp_path: Path) -> None:
    async def main() -> None:
        clock = FakeClock()
        async with door(tmp_path, clock=clock) as access:
            first, text = await access.users.add_key(["producer", "producer"], description="first", expires_ms=2**60)
            clock.advance(1.0)
            second, _ = await access.users.add_key()
            third, _ = await access.users.add_key()
            await access.users.remove_key(third.id)
        async with door(tmp_path) as access:
            assert access.users.keys() == [first, second]
            assert first.roles == ("producer",)
            assert access.login_key(text, PEER).name == f"key:{first.id}"

    run(main())


def test_only_a_hash_of_the_secret_is_on_the_disk_and_none_of_it_in_a_text(tmp_path: Path) -> None:
    secrets: list[bytes] = []

    async def main() -> None:
        async with door(tmp_path) as access:
            key, text = await access.users.add_key(["producer"], description="web shop")
            presented = parse_key(text)
            assert presented is not None
            assert len(bytes.fromhex(presented.secret)) == 32
            assert presented.secret not in repr(presented) + repr(key)
            assert repr(key.hash) not in repr(key)
            assert not hasattr(describe_key(key), "hash")
            secrets.append(presented.secret.encode())
            secrets.append(bytes.fromhex(presented.secret))

    run(main())
    written = b"".join(file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())
    assert b"web shop" in written
    assert not any(secret in written for secret in secrets)


def test_a_revoked_key_stops_its_sessions_and_takes_its_rules_along(tmp_path: Path) -> None:
    async def main() -> None:
        async with door(tmp_path) as access:
            key, text = await access.users.add_key(["admin"])
            about = rule(Effect.ALLOW, Action.PUBLISH, "a", user=f"key:{key.id}")
            other = rule(Effect.ALLOW, Action.PUBLISH, "a", user="bob")
            await access.users.add_rule(about)
            await access.users.add_rule(other)
            some = access.permissions(access.login_key(text, PEER), "c")
            seen: list[bool] = []
            access.watch(lambda: seen.append(some.may_publish(b"a")))
            assert some.may_publish(b"a")
            assert some.is_admin
            assert await access.users.remove_key(key.id) == [about]
            assert seen == [False]
            assert not some.may_publish(b"a")
            assert not some.is_admin
            assert not some.may_read
            assert access.users.rules == [other]
            with pytest.raises(BadCredentials):
                access.login_key(text, PEER)
            with pytest.raises(NoSuchKey, match="penstock key list"):
                await access.users.remove_key(key.id)

    run(main())


def test_rules_may_be_about_a_key(tmp_path: Path) -> None:
    async def main() -> None:
        async with door(tmp_path) as access:
            key, text = await access.users.add_key(["producer"])
            some = access.permissions(access.login_key(text, PEER), "c")
            await access.users.add_rule(rule(Effect.DENY, Action.PUBLISH, "secret/#", user=f"key:{key.id}"))
            await access.users.add_rule(rule(Effect.ALLOW, Action.SUBSCRIBE, "own/%u", user=f"key:{key.id}"))
            assert some.may_publish(b"open")
            assert not some.may_publish(b"secret/x")
            assert some.may_subscribe(f"own/key:{key.id}")

    run(main())


def test_an_expired_key_is_refused_and_its_sessions_may_do_nothing(tmp_path: Path) -> None:
    clock = FakeClock()

    async def main() -> None:
        async with door(tmp_path, clock=clock) as access:
            _, text = await access.users.add_key(["admin"], expires_ms=clock.now_ms() + 1000)
            identity = access.login_key(text, PEER)
            some = access.permissions(identity, "c")
            assert identity.expires_ms == clock.now_ms() + 1000
            assert some.is_admin
            assert some.may_browse("q")
            clock.advance(1.0)
            assert not (some.is_admin or some.may_read or some.may_browse("q") or some.may_publish(b"a"))
            with pytest.raises(BadCredentials, match="expired"):
                access.login_key(text, PEER)

    run(main())


@pytest.mark.parametrize("text", ["", "psk_", "psk__", WRONG.upper(), WRONG + "0", WRONG + "\n", "é" * 1000, "\udc80"])
def test_what_is_no_key_is_refused_like_a_wrong_one(tmp_path: Path, text: str) -> None:
    async def main() -> None:
        async with door(tmp_path) as access:
            for one in (text, WRONG):
                with pytest.raises(BadCredentials, match="wrong, or was revoked"):
                    access.login_key(one, PEER)
            assert access.metrics.logins_failed == 2

    run(main())


def test_wrong_keys_are_counted_and_never_lock_the_right_one_out(tmp_path: Path) -> None:
    async def main() -> None:
        async with door(tmp_path) as access:
            key, text = await access.users.add_key(["producer"])
            wrong = f"psk_{key.id}_{64 * '0'}"
            for _ in range(10):
                with pytest.raises(BadCredentials):
                    access.login_key(wrong, PEER)
            with pytest.raises(TooManyAttempts):
                access.login_key(wrong, PEER)
            assert access.login_key(text, PEER).name == f"key:{key.id}"
            for number in range(90):
                with pytest.raises(BadCredentials):
                    access.login_key(wrong, f"198.51.100.{number}")
            with pytest.raises(TooManyAttempts):
                access.login_key(wrong, "203.0.113.1")
            assert access.login_key(text, "203.0.113.1", is_loopback=True).how == "api-key"
            assert access.metrics.logins_refused == 2

    run(main())


def test_the_log_names_the_key_that_failed_and_never_its_secret(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with door(tmp_path) as access:
            for text in (f"psk_0123456789ab_{64 * 'f'}", f"psk_{64 * 'f'}"):
                with pytest.raises(BadCredentials):
                    access.login_key(text, PEER)

    with caplog.at_level(logging.DEBUG):
        run(main())
    assert "key:0123456789ab" in caplog.text
    assert 20 * "f" not in caplog.text


async def logins_with(access: Access, text: str, *usernames: str | None) -> list[str]:
    return [(await access.login(credentials(name, text.encode()))).how for name in usernames]


def test_a_key_may_stand_in_the_password_field(tmp_path: Path) -> None:
    async def main() -> None:
        async with door(tmp_path) as access:
            key, text = await access.users.add_key()
            assert await logins_with(access, text, None, "", f"key:{key.id}") == ["api-key"] * 3
            for name in ("alice", "key:0123456789ab"):
                with pytest.raises(BadCredentials):
                    await access.login(credentials(name, text.encode()))
            await access.users.add("alice", text.encode())
            assert await logins_with(access, text, "alice") == ["password"]

    run(main())


def test_nobody_else_can_have_the_name_of_a_key(tmp_path: Path) -> None:
    async def main() -> None:
        async with door(tmp_path, AuthOptions(jwt=JwtOptions("HS256", SECRET))) as access:
            key, _ = await access.users.add_key(["admin"])
            name = f"key:{key.id}"
            with pytest.raises(InvalidArgument):
                await access.users.add(name, b"wonderland")
            with pytest.raises(InvalidArgument):
                access.reload(AuthOptions(users=(ConfiguredUser(name),)))
            token = jwt.encode({"sub": name, "exp": int(time.time()) + 600}, SECRET, "HS256")
            with pytest.raises(BadCredentials):
                await access.login(credentials(None, token.encode()))
            certificate = {"subject": ((("commonName", name),),)}
            with pytest.raises(BadCredentials):
                await access.login(credentials(certificate=certificate, certificate_identity=True))

    run(main())


def test_a_key_that_cannot_be_is_refused(tmp_path: Path) -> None:
    async def main() -> None:
        clock = FakeClock()
        async with door(tmp_path, clock=clock) as access:
            for roles, namespace, description, expires_ms in (
                ([""], "default", "", None),
                ([], "a/b", "", None),
                ([], "default", "x" * 257, None),
                ([], "default", "two\nlines", None),
                ([], "default", "next line \x85", None),
                ([], "default", "", clock.now_ms()),
            ):
                with pytest.raises(InvalidArgument):
                    await access.users.add_key(roles, namespace, description, expires_ms=expires_ms)
            assert access.users.keys() == []

    run(main())


def test_a_key_is_described_by_any_line_of_text(tmp_path: Path) -> None:
    async def main() -> None:
        async with door(tmp_path) as access:
            described = "for the shop \u00ab\U0010f81c\u00bb"  # private characters too, as fonts have them
            key, _ = await access.users.add_key([], description=described)
            assert key.description == described

    run(main())


# As the version before keys and built-in roles wrote them.
_WRITTEN_BEFORE = {
    "secret:": b'{"value":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="}',
    "user:alice": b'{"name":"alice","password_hash":null,"scram":{"salt":"AAAAAAAAAAAAAAAAAAAAAA==","iterations":4096,'
    b'"stored_key":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=","server_key":'
    b'"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="},"roles":["staff"],"namespace":"default","created_ms":1,'
    b'"changed_ms":2}',
    "user:key:old": b'{"name":"key:old","password_hash":null,"scram":null,"roles":[],"namespace":"default",'
    b'"created_ms":1,"changed_ms":2}',
    'rule:{"effect":"allow","action":"publish","pattern":"a/#","user":null,"role":"staff","namespace":"default"}': (
        b'{"effect":"allow","action":"publish","pattern":"a/#","user":null,"role":"staff","namespace":"default"}'
    ),
}


def test_a_directory_from_before_there_were_keys_opens_and_takes_some(tmp_path: Path) -> None:
    async def main() -> None:
        async with await Shard.open(tmp_path, SMALL, FakeClock()) as shard:
            log = (await Store.open(shard))._copied.log
            keys = [key.encode() for key in _WRITTEN_BEFORE]
            await shard.append(log, Columns.of(list(_WRITTEN_BEFORE.values()), keys=keys), Purpose.SETTLE)
        async with door(tmp_path) as access:
            assert [user.name for user in access.users.all()] == ["alice", "key:old"]
            assert access.users.keys() == []
            assert access.permissions(Identity("alice"), "c").may_publish(b"a/b")
            key, _ = await access.users.add_key()
            await access.users.remove("key:old")
        async with door(tmp_path) as access:
            assert access.users.keys() == [key]
            assert [user.name for user in access.users.all()] == ["alice"]
            assert len(access.users.rules) == 1

    run(main())


def test_what_only_a_newer_version_knows_stops_the_start(tmp_path: Path) -> None:
    async def main() -> None:
        async with await Shard.open(tmp_path, SMALL, FakeClock()) as shard:
            log = (await Store.open(shard))._copied.log
            await shard.append(log, Columns.of([b"{}"], keys=[b"vault:x"]), Purpose.SETTLE)
        with pytest.raises(DirectoryFormat, match="'vault'"):
            async with door(tmp_path):
                pass

    run(main())


def test_development_mode_takes_any_key_and_keeps_none() -> None:
    async def main() -> None:
        access = Access.open_to_all()
        identity = access.login_key("whatever", PEER)
        assert (identity.is_admin, identity.how) == (True, "anonymous")
        some = access.permissions(identity, "c")
        assert (some.is_admin, some.may_read, some.may_browse("q")) == (True, True, True)
        users = access.users
        assert (users.all(), users.keys(), users.rules, users.find("alice")) == ([], [], [], None)
        assert await users.bootstrap() is None
        assert not await users.remove_rule(rule(Effect.ALLOW, Action.ALL, "a"))
        for change in (users.add_key(), users.add("a", b"b"), users.add_rule(rule(Effect.ALLOW, Action.ALL, "a"))):
            with pytest.raises(InvalidArgument, match="development_mode"):
                await change
        with pytest.raises(NoSuchKey):
            await users.remove_key("0123456789ab")

    run(main())
