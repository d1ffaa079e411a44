"""Users and rules as records in a log."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest
from tests.support.access import cheap_passwords, door
from tests.support.broker import LARGE
from tests.support.clock import FakeClock
from tests.support.loop import run

from penstock.broker.auth.options import ConfiguredUser
from penstock.broker.auth.rules import Action, Effect, rule
from penstock.broker.auth.store import Store, User, key_of
from penstock.broker.auth.users import Users
from penstock.core.errors import InvalidArgument, NoSuchUser, UserExists
from penstock.log.shard import Shard

READ = rule(Effect.ALLOW, Action.SUBSCRIBE, "a/#", user="alice")
WRITE = rule(Effect.ALLOW, Action.PUBLISH, "a/#", role="writers")


def test_users_and_rules_come_back_after_a_restart(tmp_path: Path) -> None:
    async def main() -> None:
        async with door(tmp_path) as access:
            await access.users.add("alice", b"wonderland", ["staff", "staff"], "tenant")
            await access.users.add("device", None)
            await access.users.add_rule(READ)
            await access.users.add_rule(WRITE)
            before, rules = access.users.all(), access.users.rules
        async with door(tmp_path) as access:
            assert access.users.all() == before
            assert access.users.rules == rules == [READ, WRITE]
            alice = access.users.find("alice")
            assert alice is not None
            assert (alice.roles, alice.namespace) == (("staff",), "tenant")

    run(main())


def test_no_password_is_on_the_disk_or_in_a_text(tmp_path: Path) -> None:
    async def main() -> None:
        async with door(tmp_path) as access:
            user = await access.users.add("alice", b"wonderland")
            assert user.password_hash is not None
            assert user.scram is not None
            assert user.password_hash.startswith("$argon2id$")
            assert "argon2" not in repr(user)
            assert str(user.scram.stored_key) not in repr(user)

    run(main())
    written = b"".join(file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())
    assert b"alice" in written
    assert b"wonderland" not in written


def test_a_name_is_given_once(tmp_path: Path) -> None:
    async def main() -> None:
        async with door(tmp_path) as access:
            made = await asyncio.gather(
                *(access.users.add("alice", b"%d" % number) for number in range(5)), return_exceptions=True
            )
            assert sorted(type(result).__name__ for result in made) == ["User"] + ["UserExists"] * 4
            with pytest.raises(UserExists):
                await access.users.add("alice", None)

    run(main())


def test_changes_made_at_once_are_all_there(tmp_path: Path) -> None:
    async def main() -> None:
        async with door(tmp_path) as access:
            await access.users.add("alice", b"old")
            await asyncio.gather(
                access.users.set_password("alice", b"new"), access.users.set_roles("alice", ["a", "b"])
            )
            user = access.users.find("alice")
            assert user is not None
            assert user.roles == ("a", "b")
            assert cheap_passwords().matches(b"new", user.password_hash)

    run(main())


def test_a_removed_user_takes_its_rules_along(tmp_path: Path) -> None:
    async def main() -> None:
        async with door(tmp_path) as access:
            await access.users.add("alice", b"x")
            await access.users.add_rule(READ)
            await access.users.add_rule(WRITE)
            assert await access.users.remove("alice") == [READ]
            with pytest.raises(NoSuchUser):
                await access.users.remove("alice")
        async with door(tmp_path) as access:
            assert access.users.find("alice") is None
            assert access.users.rules == [WRITE]

    run(main())


def test_a_rule_is_there_once(tmp_path: Path) -> None:
    async def main() -> None:
        async with door(tmp_path) as access:
            assert await access.users.add_rule(READ)
            assert not await access.users.add_rule(READ)
            assert await access.users.remove_rule(READ)
            assert not await access.users.remove_rule(READ)
            assert access.users.rules == []

    run(main())


def test_a_name_that_will_not_do_is_refused(tmp_path: Path) -> None:
    async def main() -> None:
        async with door(tmp_path) as access:
            for name in ("", "anonymous", "a\tb", " a"):
                with pytest.raises(InvalidArgument):
                    await access.users.add(name, b"x")

    run(main())


def test_a_password_that_will_not_do_is_refused(tmp_path: Path) -> None:
    async def main() -> None:
        async with door(tmp_path) as access:
            for password in (b"", b"x" * 1025):
                with pytest.raises(InvalidArgument):
                    await access.users.add("alice", password)
            assert access.users.all() == []

    run(main())


def test_a_password_that_is_no_text_needs_to_go_without_scram(tmp_path: Path) -> None:
    async def main() -> None:
        async with door(tmp_path) as access:
            with pytest.raises(InvalidArgument, match="UTF-8"):
                await access.users.add("alice", b"\xff")
            user = await access.users.add("alice", b"\xff", with_scram=False)
            assert user.scram is None

    run(main())


def test_the_first_start_makes_an_admin_and_tells_the_password_once(tmp_path: Path) -> None:
    async def main() -> None:
        async with door(tmp_path) as access:
            password = await access.users.bootstrap()
            assert password is not None
            assert len(password) >= 20
            assert await access.users.bootstrap() is None
            admin = access.users.find("admin")
            assert admin is not None
            assert admin.roles == ("admin",)
            assert cheap_passwords().matches(password.encode(), admin.password_hash)
        async with door(tmp_path) as access:
            assert await access.users.bootstrap() is None

    run(main())


def test_a_configured_user_goes_first_and_is_not_changed(tmp_path: Path) -> None:
    async def main() -> None:
        async with door(tmp_path) as access:
            await access.users.add("alice", b"x", ["stored"])
            own = rule(Effect.ALLOW, Action.PUBLISH, "own/#")
            access.users.configure([ConfiguredUser("alice", None, ("configured",), acl=(own,))], [WRITE])
            user = access.users.find("alice")
            assert user is not None
            assert user.roles == ("configured",)
            assert access.users.rules == [WRITE, msgspec.structs.replace(own, user="alice")]
            for change in (access.users.remove("alice"), access.users.set_roles("alice", [])):
                with pytest.raises(InvalidArgument, match="configuration"):
                    await change
            access.users.configure([], [])
            assert access.users.rules == []
            assert await access.users.bootstrap() is None

    run(main())


def test_where_users_are_configured_none_is_made(tmp_path: Path) -> None:
    async def main() -> None:
        async with door(tmp_path) as access:
            access.users.configure([ConfiguredUser("alice")], [])
            assert await access.users.bootstrap() is None

    run(main())


def test_salts_of_users_that_are_not_there_outlive_a_restart(tmp_path: Path) -> None:
    async def main() -> None:
        async with door(tmp_path) as access:
            before = access.users.scram_keys("nobody")
        async with door(tmp_path) as access:
            after = access.users.scram_keys("nobody")
            await access.users.add("somebody", b"x")
            real = access.users.scram_keys("somebody")
        assert (after.salt, after.iterations) == (before.salt, before.iterations)
        assert (len(real.salt), real.iterations) == (len(after.salt), after.iterations)

    run(main())


def test_ten_thousand_users_are_found_after_a_restart(tmp_path: Path) -> None:
    async def main() -> None:
        async with await Shard.open(tmp_path, LARGE, FakeClock()) as shard:
            users = [User(f"user-{number}", "$argon2id$" + "x" * 80) for number in range(10_000)]
            store = await Store.open(shard)
            for first in range(0, len(users), 1000):
                await store.write((key_of(user), user) for user in users[first : first + 1000])
        async with await Shard.open(tmp_path, LARGE, FakeClock()) as shard:
            passwords = cheap_passwords()
            opened = await Users.open(shard, passwords, FakeClock())
            assert len(opened.all()) == 10_000
            assert opened.find("user-9999") == users[9999]
            passwords.close()

    run(main())
