"""In which namespaces a user works, and what is left of the roles there."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.access import credentials, door
from tests.support.loop import run

from penstock.broker.auth.access import Access
from penstock.broker.auth.identity import Identity
from penstock.broker.auth.permissions import Permissions
from penstock.broker.auth.rules import Action, Effect, rule
from penstock.core.errors import BadCredentials, NamespaceRefused, NoSuchNamespace

ALICE = credentials("alice", b"wonderland")


async def entered(access: Access, namespace: str) -> tuple[Identity, Permissions]:
    identity = await access.login(ALICE, namespace)
    return identity, access.permissions(identity, "")


def test_a_user_works_where_a_rule_lets_it_in(tmp_path: Path) -> None:
    async def main() -> None:
        async with door(tmp_path) as access:
            await access.users.add("alice", b"wonderland", ["producer"])
            await access.users.add("bob", b"x", [], "other")
            with pytest.raises(NoSuchNamespace):
                await access.login(ALICE, "shop")
            access.working.is_declared = lambda namespace: namespace == "shop"
            with pytest.raises(NamespaceRefused) as caught:
                await access.login(ALICE, "shop")
            assert (caught.value.user, caught.value.namespace) == ("alice", "shop")
            with pytest.raises(BadCredentials):
                await access.login(credentials("alice", b"wrong"), "shop")
            with pytest.raises(NamespaceRefused):
                await access.login(ALICE, "other")
            await access.users.add_rule(
                rule(Effect.ALLOW, Action.CONSUME, "$queue/orders", user="alice", namespace="shop")
            )
            identity, mine = await entered(access, "shop")
            assert (identity.namespace, identity.home) == ("shop", "default")
            assert mine.may_consume("orders")
            assert not mine.may_publish(b"a"), "the role producer is of the own namespace"
            identity, mine = await entered(access, "default")
            assert not mine.may_consume("orders")
            assert mine.may_publish(b"a")
            assert access.namespaces(identity, ["default", "shop", "other"]) == ["default", "shop"]

    run(main())


def test_a_deny_or_a_built_in_role_lets_nobody_in(tmp_path: Path) -> None:
    async def main() -> None:
        async with door(tmp_path) as access:
            await access.users.add("alice", b"wonderland", ["admin", "monitor", "clerk"], "tenant")
            access.working.is_declared = lambda namespace: True
            await access.users.add_rule(rule(Effect.DENY, Action.ALL, "#", user="alice", namespace="shop"))
            with pytest.raises(NamespaceRefused):
                await access.login(ALICE, "shop")
            await access.users.add_rule(rule(Effect.ALLOW, Action.PUBLISH, "$queue/a", role="clerk"))
            identity, mine = await entered(access, "default")
            assert not (identity.is_admin or mine.is_admin or mine.may_monitor or mine.is_server_admin)
            assert mine.may_publish(b"$queue/a")
            assert not mine.may_publish(b"$queue/b")
            identity, mine = await entered(access, "tenant")
            assert identity.is_admin and mine.administers("tenant")

    run(main())


def test_an_admin_of_the_server_works_everywhere_it_is_something(tmp_path: Path) -> None:
    async def main() -> None:
        async with door(tmp_path) as access:
            await access.users.add("alice", b"wonderland", ["admin"])
            await access.users.add_rule(rule(Effect.ALLOW, Action.CONSUME, "$queue/a", user="x", namespace="shop"))
            identity, mine = await entered(access, "shop")
            assert mine.is_admin and identity.namespace == "shop"
            with pytest.raises(NoSuchNamespace):
                await access.login(ALICE, "shops")
            await access.users.set_roles("alice", [])
            assert not mine.is_admin

    run(main())


def test_a_removed_user_may_do_nothing_in_any_namespace(tmp_path: Path) -> None:
    async def main() -> None:
        async with door(tmp_path) as access:
            await access.users.add("alice", b"wonderland")
            await access.users.add_rule(rule(Effect.ALLOW, Action.CONSUME, "$queue/a", namespace="shop"))
            _, mine = await entered(access, "shop")
            assert mine.may_consume("a")
            await access.users.remove("alice")
            assert not mine.may_consume("a")

    run(main())
