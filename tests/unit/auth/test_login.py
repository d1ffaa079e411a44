"""Who comes in, how, and what it costs those who guess."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import time
from pathlib import Path
from unittest import mock

import jwt
import pytest
from argon2 import PasswordHasher
from tests.support.access import cheap_passwords, credentials, door
from tests.support.clock import FakeClock
from tests.support.loop import run
from tests.support.scram_client import ScramClient

from penstock.broker.auth.access import Access
from penstock.broker.auth.attempts import LoginMetrics
from penstock.broker.auth.identity import Identity
from penstock.broker.auth.options import AuthOptions, ConfiguredUser, JwtOptions
from penstock.broker.auth.passwords import Passwords, Verified, check_password_hash
from penstock.broker.auth.rules import Action, Effect, rule
from penstock.core.errors import BadCredentials, InvalidArgument, InvalidSetting, NotAuthorised, TooManyAttempts

SECRET = "0123456789abcdef0123456789abcdef"
ALICE = credentials("alice", b"wonderland")


def token(**claims: object) -> bytes:
    return jwt.encode({"sub": "alice", "exp": int(time.time()) + 600, **claims}, SECRET, "HS256").encode()


def test_a_password_is_a_login(tmp_path: Path) -> None:
    async def main() -> None:
        async with door(tmp_path) as access:
            await access.users.add("alice", b"wonderland", ["admin"], "tenant")
            assert await access.login(ALICE) == Identity("alice", "tenant", True, "password")
            assert access.metrics == LoginMetrics(logins=1)

    run(main())


def test_a_wrong_login_is_refused_without_saying_what_is_wrong(tmp_path: Path) -> None:
    wrong = [
        credentials("alice", b"wrong"),
        credentials("alice", b""),
        credentials("alice", None),
        credentials("alice", b"wonderland" * 200),
        credentials("bob", b"wonderland"),
        credentials("", b"x"),
        credentials(None, b"wonderland"),
        credentials("cert", b""),
    ]

    async def main() -> None:
        async with door(tmp_path) as access:
            await access.users.add("alice", b"wonderland")
            await access.users.add("cert", None)
            for one in wrong:
                with pytest.raises(BadCredentials) as caught:
                    await access.login(one)
                assert str(caught.value) == str(BadCredentials())
            assert access.metrics.logins_failed == len(wrong)

    run(main())


def test_somebody_unknown_is_hashed_like_everyone_else(tmp_path: Path) -> None:
    class Counting(PasswordHasher):
        verified: list[str]

        def verify(self, hash: str | bytes, password: str | bytes) -> bool:  # type: ignore[override]  # says True only
            self.verified.append(threading.current_thread().name)
            return super().verify(hash, password)

    hasher = Counting(time_cost=1, memory_cost=8, parallelism=1)
    hasher.verified = []
    passwords = Passwords(hasher)

    async def main() -> None:
        assert not await passwords.run(lambda: passwords.matches(b"x", None))
        hashed = await passwords.hash(b"x")
        assert await passwords.run(lambda: passwords.matches(b"x", hashed))

    run(main())
    passwords.close()
    assert len(hasher.verified) == 2
    assert all(name.startswith("penstock-passwords") for name in hasher.verified)


def test_without_a_name_nobody_comes_in_unless_it_is_allowed(tmp_path: Path) -> None:
    async def main() -> None:
        async with door(tmp_path) as access:
            with pytest.raises(NotAuthorised):
                await access.login(credentials())
            access.reload(AuthOptions(allow_anonymous=True, acl=(rule(Effect.ALLOW, Action.SUBSCRIBE, "news/#"),)))
            identity = await access.login(credentials())
            assert (identity.name, identity.is_admin, identity.how) == ("anonymous", False, "anonymous")
            assert access.permissions(identity, "c").may_subscribe("news/#")
            assert not access.permissions(identity, "c").may_publish(b"news/x")

    run(main())


def test_guesses_from_one_address_are_limited(tmp_path: Path) -> None:
    clock = FakeClock()

    async def main() -> None:
        async with door(tmp_path, clock=clock) as access:
            await access.users.add("alice", b"wonderland")
            guesses = [access.login(credentials("alice", b"guess %d" % number)) for number in range(30)]
            ended = await asyncio.gather(*guesses, return_exceptions=True)
            looked_at = [type(end) for end in ended].count(BadCredentials)
            assert 10 <= looked_at <= 11  # two threads look at once
            assert [type(end) for end in ended].count(TooManyAttempts) == 30 - looked_at
            assert access.metrics.logins_refused == 30 - looked_at
            with pytest.raises(TooManyAttempts) as caught:
                await access.login(ALICE)
            await access.login(credentials("alice", b"wonderland", peer="192.0.2.2"))
            clock.advance(caught.value.wait_s)
            await access.login(ALICE)

    run(main())


def test_guesses_of_one_user_from_everywhere_are_limited(tmp_path: Path) -> None:
    async def main() -> None:
        async with door(tmp_path, AuthOptions(max_failed_logins_per_user=5)) as access:
            for number in range(5):
                with pytest.raises(BadCredentials):
                    await access.login(credentials("alice", b"x", peer=f"192.0.2.{number}"))
            with pytest.raises(TooManyAttempts):
                await access.login(credentials("alice", b"x", peer="192.0.2.99"))
            with pytest.raises(BadCredentials):
                await access.login(credentials("bob", b"x", peer="192.0.2.99"))

    run(main())


def test_right_logins_are_not_limited(tmp_path: Path) -> None:
    async def main() -> None:
        async with door(tmp_path, AuthOptions(verified_password_s=0)) as access:
            await access.users.add("alice", b"wonderland")
            await asyncio.gather(*(access.login(ALICE) for _ in range(50)))
            assert access.metrics.logins == 50

    run(main())


def test_on_loopback_addresses_are_not_limited(tmp_path: Path) -> None:
    async def main() -> None:
        async with door(tmp_path) as access:
            for number in range(30):
                with pytest.raises(BadCredentials):
                    await access.login(credentials(f"user {number}", b"x", peer="127.0.0.1", is_loopback=True))

    run(main())


def test_a_client_that_comes_back_is_not_hashed_again_and_not_locked_out(tmp_path: Path) -> None:
    clock = FakeClock()

    async def main() -> None:
        async with door(tmp_path, AuthOptions(max_failed_logins_per_user=3), clock) as access:
            await access.users.add("alice", b"wonderland")
            await access.login(ALICE)
            for number in range(5):
                with pytest.raises((BadCredentials, TooManyAttempts)):
                    await access.login(credentials("alice", b"x", peer=f"198.51.100.{number}"))
            await access.login(ALICE)
            await access.users.set_password("alice", b"looking-glass")
            clock.advance(60)
            with pytest.raises(BadCredentials):
                await access.login(ALICE)

    run(main())


def test_a_remembered_password_is_forgotten_in_time_and_number() -> None:
    clock = FakeClock()
    verified = Verified(clock, 60.0, limit=2)
    for user in ("a", "b", "c"):
        verified.remember(user, b"x", "hash")
    assert [verified.knows(user, b"x", "hash") for user in ("a", "b", "c")] == [False, True, True]
    assert not verified.knows("b", b"y", "hash")
    assert not verified.knows("b", b"x", "another hash")
    clock.advance(60)
    assert not verified.knows("b", b"x", "hash")


def test_too_many_logins_at_once_are_refused_not_queued() -> None:
    passwords = cheap_passwords(max_waiting=2)

    async def main() -> None:
        ended = await asyncio.gather(*(passwords.hash(b"x") for _ in range(5)), return_exceptions=True)
        assert [type(end) for end in ended].count(TooManyAttempts) == 3
        await passwords.hash(b"x")

    run(main())
    passwords.close()


def test_a_hash_of_the_configuration_is_checked_and_used(tmp_path: Path) -> None:
    hashed = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1).hash(b"wonderland")
    check_password_hash(hashed)
    for wrong in ("", "plain", hashed.replace("argon2id", "argon2i"), "$argon2id$v=19", "$argon2id$ü"):
        with pytest.raises(InvalidArgument):
            check_password_hash(wrong)

    async def main() -> None:
        options = AuthOptions(users=(ConfiguredUser("alice", hashed, ("staff",)),))
        async with door(tmp_path, options) as access:
            assert (await access.login(ALICE)).name == "alice"

    run(main())


def test_a_damaged_hash_is_a_refusal_and_a_line_in_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with door(tmp_path, AuthOptions(users=(ConfiguredUser("alice", "$argon2id$broken"),))) as access:
            with pytest.raises(BadCredentials):
                await access.login(ALICE)

    with caplog.at_level(logging.ERROR):
        run(main())
    assert "set the password again" in caplog.text


def test_a_certificate_is_a_login_where_the_listener_says_so(tmp_path: Path) -> None:
    certificate = {"subject": ((("commonName", "pump-7"),),)}

    async def main() -> None:
        async with door(tmp_path) as access:
            shown = credentials(certificate=certificate, certificate_identity=True)
            assert await access.login(shown) == Identity("pump-7", how="certificate")
            await access.users.add("pump-7", None, ["admin"], "tenant")
            assert await access.login(shown) == Identity("pump-7", "tenant", True, "certificate")
            with pytest.raises(NotAuthorised):
                await access.login(credentials(certificate=certificate))

    run(main())


def test_a_token_is_a_login_with_rules_of_its_own(tmp_path: Path) -> None:
    options = AuthOptions(jwt=JwtOptions("HS256", SECRET), acl=(rule(Effect.DENY, Action.ALL, "a/secret"),))
    clock = FakeClock(wall_ms=int(time.time() * 1000))

    async def main() -> None:
        async with door(tmp_path, options, clock) as access:
            rules = [{"effect": "allow", "action": "publish", "pattern": "a/#"}]
            identity = await access.login(credentials("alice", token(acl=rules)))
            assert (identity.how, identity.namespace, identity.is_admin) == ("jwt", "default", False)
            permissions = access.permissions(identity, "c")
            assert permissions.may_publish(b"a/x")
            assert not permissions.may_publish(b"a/secret")
            assert identity.expires_ms is not None
            clock.advance((identity.expires_ms - clock.now_ms()) / 1000 + 1)
            assert not permissions.may_publish(b"a/x")
            with pytest.raises(BadCredentials):
                await access.login(credentials("alice", token(exp=1)))

    run(main())


def test_the_rules_of_a_token_hold_in_the_namespace_it_leads_to(tmp_path: Path) -> None:
    async def main() -> None:
        options = AuthOptions(jwt=JwtOptions("HS256", SECRET), acl=(rule(Effect.ALLOW, Action.ALL, "default/#"),))
        async with door(tmp_path, options) as access:
            await access.users.add("alice", None, namespace="home")
            assert (await access.login(credentials(None, token()))).namespace == "home"
            rules = [{"effect": "allow", "action": "publish", "pattern": "a"}]
            identity = await access.login(credentials(None, token(namespace="tenant", acl=rules)))
            assert identity.namespace == "tenant"
            clockless = access.permissions(identity, "c")
            assert clockless.may_publish(b"a")
            assert not clockless.may_publish(b"default/x")

    run(main())


def test_a_token_means_nothing_where_none_are_configured(tmp_path: Path) -> None:
    async def main() -> None:
        async with door(tmp_path) as access:
            with pytest.raises(BadCredentials):
                await access.login(credentials("alice", token()))

    run(main())


def test_without_what_verifies_tokens_the_setting_is_refused(tmp_path: Path) -> None:
    hidden = {"jwt": None, "penstock.broker.auth.tokens": None}

    async def main() -> None:
        async with door(tmp_path) as access:
            with mock.patch.dict(sys.modules, hidden), pytest.raises(InvalidSetting, match=r"penstock\[jwt\]"):
                access.reload(AuthOptions(jwt=JwtOptions("HS256", SECRET)))

    run(main())


def test_a_reload_with_a_bad_key_changes_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        async with door(tmp_path, AuthOptions(allow_anonymous=True)) as access:
            with pytest.raises(InvalidSetting):
                access.reload(AuthOptions(jwt=JwtOptions("HS256", "short")))
            await access.login(credentials())

    run(main())


def test_scram_is_a_login(tmp_path: Path) -> None:
    async def main() -> None:
        async with door(tmp_path) as access:
            await access.users.add("alice", b"wonderland", ["admin"], "tenant")
            exchange, client = access.scram("192.0.2.1"), ScramClient("alice", "wonderland")
            answer, identity = exchange.final(client.final(exchange.first(client.first())))
            assert client.is_server(answer)
            assert identity == Identity("alice", "tenant", True, "scram")
            assert access.metrics.logins == 1

    run(main())


def test_a_wrong_scram_login_looks_the_same_for_everyone(tmp_path: Path) -> None:
    async def main() -> None:
        async with door(tmp_path) as access:
            await access.users.add("alice", b"wonderland")
            await access.users.add("keyless", b"wonderland", with_scram=False)
            for user in ("alice", "nobody", "keyless"):
                exchange, client = access.scram("192.0.2.1"), ScramClient(user, "wrong")
                first = exchange.first(client.first())
                assert b"i=4096" in first
                with pytest.raises(BadCredentials) as caught:
                    exchange.final(client.final(first))
                assert str(caught.value) == str(BadCredentials())

    run(main())


def test_scram_guesses_are_limited_too(tmp_path: Path) -> None:
    async def main() -> None:
        async with door(tmp_path) as access:
            begun = [(access.scram("192.0.2.1"), ScramClient("alice", "x")) for _ in range(12)]
            challenges = [exchange.first(client.first()) for exchange, client in begun]
            for (exchange, client), challenge in zip(begun[:10], challenges, strict=False):
                with pytest.raises(BadCredentials):
                    exchange.final(client.final(challenge))
            with pytest.raises(TooManyAttempts):
                begun[10][0].final(begun[10][1].final(challenges[10]))
            with pytest.raises(TooManyAttempts):
                access.scram("192.0.2.1").first(ScramClient("alice", "x").first())

    run(main())


def test_a_user_that_is_removed_may_nothing_any_more(tmp_path: Path) -> None:
    async def main() -> None:
        async with door(tmp_path) as access:
            await access.users.add("alice", b"wonderland", ["admin"])
            permissions = access.permissions(await access.login(ALICE), "c")
            version, seen = access.version, list[bool]()
            access.watch(lambda: seen.append(permissions.may_publish(b"a")))
            assert permissions.may_publish(b"a")
            await access.users.set_roles("alice", [])
            assert not permissions.may_publish(b"a")
            await access.users.add_rule(rule(Effect.ALLOW, Action.ALL, "a", user="alice"))
            assert permissions.may_publish(b"a")
            await access.users.remove("alice")
            assert not permissions.may_publish(b"a")
            assert access.version > version
            assert seen == [False, True, False]

    run(main())


def test_a_user_changed_during_the_login_does_not_come_in(tmp_path: Path) -> None:
    async def main() -> None:
        async with door(tmp_path) as access:
            await access.users.add("alice", b"wonderland")
            login = asyncio.create_task(access.login(ALICE))
            await asyncio.sleep(0)
            access.users._stored.users.pop("alice")
            with pytest.raises(BadCredentials):
                await login

    run(main())


def test_the_log_names_who_failed_but_never_the_password(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with door(tmp_path) as access:
            for _ in range(20):
                with pytest.raises((BadCredentials, TooManyAttempts)):
                    await access.login(credentials("eve\nuser=admin", b"hunter2"))
            assert b"hunter2" not in repr(ALICE).encode()

    with caplog.at_level(logging.DEBUG):
        run(main())
    lines = [record.getMessage() for record in caplog.records if "login failed" in record.getMessage()]
    assert 1 <= len(lines) <= 5
    assert all("\n" not in line and "192.0.2.1" in line for line in lines)
    assert "hunter2" not in caplog.text


def test_in_development_everyone_may_everything() -> None:
    async def main() -> None:
        access = Access.open_to_all()
        identity = await access.login(credentials())
        assert (identity.is_admin, identity.how) == (True, "anonymous")
        assert (await access.login(credentials("bob", b"whatever"))).name == "bob"
        permissions = access.permissions(identity, "c")
        assert permissions.may_subscribe("$SYS/#")
        assert permissions.may_consume("$dlq/q")
        with pytest.raises(NotAuthorised):
            access.scram()
        access.reload(AuthOptions())
        access.close()

    run(main())
