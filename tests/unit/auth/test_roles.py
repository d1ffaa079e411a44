"""What the built-in roles allow, and what a rule takes from them."""

from __future__ import annotations

import time
from pathlib import Path

import jwt
import pytest
from tests.support.access import credentials, door
from tests.support.loop import run

from penstock.broker.auth.access import Access
from penstock.broker.auth.identity import Identity
from penstock.broker.auth.options import AuthOptions, ConfiguredUser, JwtOptions
from penstock.broker.auth.permissions import Permissions
from penstock.broker.auth.rules import Action, Effect, rule
from penstock.core.errors import BadCredentials

SECRET = "0123456789abcdef0123456789abcdef"
QUESTIONS = (
    "publish t",
    "publish $queue/q",
    "publish $dlq/q",
    "publish $queue/q.dlq",
    "publish $queue/q/$ack",
    "publish $SYS/x",
    "publish $admin/queue/create",
    "subscribe #",
    "subscribe $share/g/t/+",
    "subscribe $queue/q",
    "subscribe $SYS/#",
    "subscribe $admin/#",
    "receive t",
    "consume q",
    "consume $dlq/q",
    "browse q",
    "browse $dlq/q",
)
CONSUMING = {
    "publish $queue/q/$ack",
    "subscribe #",
    "subscribe $share/g/t/+",
    "subscribe $queue/q",
    "receive t",
    "consume q",
    "consume $dlq/q",
    "browse q",
    "browse $dlq/q",
}


def answer(permissions: Permissions, question: str) -> bool:
    action, what = question.split()
    match action:
        case "publish":
            return permissions.may_publish(what.encode())
        case "receive":
            return permissions.may_receive(what.encode())
        case "subscribe":
            return permissions.may_subscribe(what)
        case "consume":
            return permissions.may_consume(what)
        case _:
            return permissions.may_browse(what)


def allowed(permissions: Permissions) -> set[str]:
    return {question for question in QUESTIONS if answer(permissions, question)}


async def user(access: Access, *roles: str, namespace: str = "default") -> Permissions:
    """Of one who has these roles; the password is not what is tested here."""
    await access.users.add("alice", None, roles, namespace)
    return access.permissions(Identity("alice", namespace), "c")


@pytest.mark.parametrize(
    ("role", "expected", "may_read", "is_admin"),
    [
        ("producer", {"publish t", "publish $queue/q"}, False, False),
        ("consumer", CONSUMING, False, False),
        ("read-only", {"browse q", "browse $dlq/q"}, True, False),
        ("admin", set(QUESTIONS), True, True),
        ("staff", set(), False, False),
    ],
)
def test_a_role_allows_this_and_nothing_else_in_any_namespace(
    tmp_path: Path, role: str, expected: set[str], may_read: bool, is_admin: bool
) -> None:
    async def main() -> None:
        async with door(tmp_path) as access:
            some = await user(access, role, namespace="tenant")
            assert allowed(some) == expected
            assert (some.may_read, some.is_admin) == (may_read, is_admin)

    run(main())


def test_roles_add_up_with_each_other_and_with_rules(tmp_path: Path) -> None:
    async def main() -> None:
        async with door(tmp_path) as access:
            await access.users.add_rule(rule(Effect.ALLOW, Action.SUBSCRIBE, "$SYS/#", role="staff"))
            some = await user(access, "staff", "producer", "consumer", "read-only")
            assert allowed(some) == CONSUMING | {"publish t", "publish $queue/q", "subscribe $SYS/#"}
            assert some.may_read

    run(main())


def test_a_deny_takes_from_every_role_but_admin(tmp_path: Path) -> None:
    async def main() -> None:
        async with door(tmp_path) as access:
            some = await user(access, "producer", "consumer", "read-only")
            await access.users.add_rule(rule(Effect.DENY, Action.ALL, "t", role="producer"))
            await access.users.add_rule(rule(Effect.DENY, Action.CONSUME, "q", user="alice"))
            assert not {"publish t", "subscribe #", "receive t", "consume q", "browse q"} & allowed(some)
            assert {"publish $queue/q", "browse $dlq/q"} <= allowed(some)
            await access.users.set_roles("alice", ["admin", "producer"])
            assert allowed(some) == set(QUESTIONS)

    run(main())


def test_a_session_has_the_roles_of_now(tmp_path: Path) -> None:
    async def main() -> None:
        async with door(tmp_path) as access:
            some = await user(access)
            assert not some.may_read
            await access.users.set_roles("alice", ["read-only"])
            assert some.may_read
            assert not some.is_admin
            await access.users.set_roles("alice", ["admin"])
            assert some.is_admin
            await access.users.remove("alice")
            assert (some.may_read, some.is_admin) == (False, False)

    run(main())


def test_a_configured_user_has_them_too(tmp_path: Path) -> None:
    async def main() -> None:
        async with door(tmp_path, AuthOptions(users=(ConfiguredUser("shop", roles=("producer",)),))) as access:
            assert access.permissions(Identity("shop"), "c").may_publish(b"orders/eu")

    run(main())


def token(**claims: object) -> bytes:
    return jwt.encode({"sub": "alice", "exp": int(time.time()) + 600, **claims}, SECRET, "HS256").encode()


def with_tokens(roles_claim: str | None) -> AuthOptions:
    return AuthOptions(jwt=JwtOptions("HS256", SECRET, roles_claim=roles_claim))


def test_roles_of_a_token_add_to_those_of_the_user(tmp_path: Path) -> None:
    async def main() -> None:
        async with door(tmp_path, with_tokens("https://penstock.example/roles")) as access:
            await access.users.add("alice", None, ["consumer"])
            claims = {"https://penstock.example/roles": ["producer", "whatever"], "roles": ["admin"]}
            identity = await access.login(credentials("alice", token(**claims)))
            assert (identity.roles, identity.is_admin) == (("producer", "whatever"), False)
            some = access.permissions(identity, "c")
            assert some.may_publish(b"t")
            assert some.may_consume("q")
            assert not some.is_admin

    run(main())


def test_a_token_can_make_an_admin_only_where_a_claim_for_roles_is_configured(tmp_path: Path) -> None:
    async def main() -> None:
        async with door(tmp_path, with_tokens(None)) as access:
            identity = await access.login(credentials("alice", token(roles=["admin"])))
            assert not identity.is_admin
            assert not access.permissions(identity, "c").is_admin
            access.reload(with_tokens("roles"))
            identity = await access.login(credentials("alice", token(roles=["admin"])))
            assert identity.is_admin
            assert access.permissions(identity, "c").is_admin
            assert not (await access.login(credentials("alice", token()))).is_admin

    run(main())


@pytest.mark.parametrize("roles", ["admin", {"admin": True}, [7], ["a\nb"], ["r"] * 101])
def test_a_claim_that_is_no_list_of_roles_is_refused(tmp_path: Path, roles: object) -> None:
    async def main() -> None:
        async with door(tmp_path, with_tokens("roles")) as access:
            with pytest.raises(BadCredentials):
                await access.login(credentials("alice", token(roles=roles)))

    run(main())
