"""May U do A on T, and what decides it?"""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest
from tests.support.access import door
from tests.support.clock import FakeClock
from tests.support.loop import run

from penstock.broker.auth.access import Access
from penstock.broker.auth.identity import Identity
from penstock.broker.auth.keys import NoSuchKey
from penstock.broker.auth.options import AuthOptions
from penstock.broker.auth.permissions import Permissions
from penstock.broker.auth.rules import Action, Effect, rule
from penstock.broker.auth.verdicts import AskedAction, Verdict
from penstock.core.errors import NoSuchUser

RULES = (
    rule(Effect.ALLOW, Action.PUBLISH, "devices/%c/#", role="staff"),
    rule(Effect.ALLOW, Action.SUBSCRIBE, "a/+/#", user="alice"),
    rule(Effect.ALLOW, Action.SUBSCRIBE, "a"),
    rule(Effect.DENY, Action.ALL, "secret/#"),
    rule(Effect.ALLOW, Action.CONSUME, "orders", user="alice"),
    rule(Effect.DENY, Action.CONSUME, "hidden"),
    rule(Effect.ALLOW, Action.PUBLISH, "elsewhere", user="alice", namespace="tenant"),
)
TOPICS = ("devices/c1/up", "devices/c2/up", "a/#", "a/b", "a", "secret/x", "orders", "$queue/orders", "hidden", "#")


async def filled(access: Access) -> None:
    for name, roles in (("alice", ["staff"]), ("shop", ["producer"]), ("eye", ["read-only"]), ("root", ["admin"])):
        await access.users.add(name, None, roles)
    for each in RULES:
        await access.users.add_rule(each)


@pytest.mark.parametrize(
    ("user", "action", "topic", "verdict"),
    [
        (
            "alice",
            "publish",
            "devices/c1/up",
            Verdict(True, "the rule `allow publish devices/%c/# --role staff` allows it"),
        ),
        ("alice", "publish", "b", Verdict(False, "no rule about alice, its roles (staff) or everyone allows it")),
        ("alice", "publish", "secret/x", Verdict(False, "the rule `deny all secret/#` denies it")),
        (
            "alice",
            "subscribe",
            "#",
            Verdict(False, "the rule `deny all secret/#` denies it"),
        ),
        (
            "alice",
            "subscribe",
            "+/b",
            Verdict(False, "the rule `deny all secret/#` denies it"),
        ),
        (
            "alice",
            "subscribe",
            "a/#",
            Verdict(
                True,
                "the rule `allow subscribe a/+/# --user alice`, the rule `allow subscribe a` allow it together",
            ),
        ),
        (
            "alice",
            "consume",
            "$queue/orders",
            Verdict(True, "the rule `allow consume $queue/orders --user alice` allows it"),
        ),
        ("alice", "browse", "orders", Verdict(True, "the rule `allow consume $queue/orders --user alice` allows it")),
        (
            "alice",
            "publish",
            "elsewhere",
            Verdict(False, "no rule about alice, its roles (staff) or everyone allows it"),
        ),
        ("shop", "publish", "a/b", Verdict(True, "the role producer allows it")),
        ("shop", "publish", "secret/x", Verdict(False, "the rule `deny all secret/#` denies it")),
        ("shop", "subscribe", "a/#/b", Verdict(False, "'a/#/b' is nothing that a rule could allow")),
        ("shop", "receive", "a", Verdict(True, "the rule `allow subscribe a` allows it")),
        ("shop", "subscribe", "a/#", Verdict(False, "only a part of it is allowed, by the rule `allow subscribe a`")),
        ("eye", "browse", "orders", Verdict(True, "the role read-only may browse every queue")),
        ("eye", "browse", "hidden", Verdict(False, "the rule `deny consume $queue/hidden` denies it")),
        ("eye", "consume", "orders", Verdict(False, "no rule about eye, its roles (read-only) or everyone allows it")),
        ("root", "consume", "hidden", Verdict(True, "the role admin may do everything")),
    ],
)
def test_the_answer_names_what_decides(
    tmp_path: Path, user: str, action: AskedAction, topic: str, verdict: Verdict
) -> None:
    async def main() -> None:
        async with door(tmp_path) as access:
            await filled(access)
            assert access.may(user, action, topic, client_id="c1") == verdict

    run(main())


def asked(permissions: Permissions, action: AskedAction, topic: str) -> bool:
    match action:
        case "publish":
            return permissions.may_publish(topic.encode())
        case "receive":
            return permissions.may_receive(topic.encode())
        case "subscribe":
            return permissions.may_subscribe(topic)
        case "consume":
            return permissions.may_consume(topic.removeprefix("$queue/"))
        case "browse":
            return permissions.may_browse(topic.removeprefix("$queue/"))
        case "configure":
            return permissions.may_configure(topic)


def test_the_answer_is_the_one_that_a_session_gets(tmp_path: Path) -> None:
    async def main() -> None:
        async with door(tmp_path) as access:
            await filled(access)
            for user in ("alice", "shop", "eye", "root"):
                permissions = access.permissions(Identity(user), "c1")
                for action in get_args(AskedAction):
                    for topic in TOPICS:
                        verdict = access.may(user, action, topic, "c1")
                        assert verdict.allowed is asked(permissions, action, topic), (user, action, topic)

    run(main())


def test_keys_can_be_asked_about_until_they_expire(tmp_path: Path) -> None:
    clock = FakeClock()

    async def main() -> None:
        async with door(tmp_path, clock=clock) as access:
            key, _ = await access.users.add_key(["producer"], expires_ms=clock.now_ms() + 1000)
            name = f"key:{key.id}"
            assert access.may(name, "publish", "a") == Verdict(True, "the role producer allows it")
            clock.advance(1.0)
            assert access.may(name, "publish", "a") == Verdict(False, f"{name} has expired")
            await access.users.remove_key(key.id)
            with pytest.raises(NoSuchKey):
                access.may(name, "publish", "a")
            with pytest.raises(NoSuchUser):
                access.may("nobody", "publish", "a")

    run(main())


def test_who_has_no_name_is_asked_about_where_such_come_in(tmp_path: Path) -> None:
    async def main() -> None:
        async with door(tmp_path) as access:
            await access.users.add_rule(rule(Effect.ALLOW, Action.SUBSCRIBE, "news/#"))
            assert "allow_anonymous" in access.may("anonymous", "subscribe", "news/#").because
            access.reload(AuthOptions(allow_anonymous=True))
            assert access.may("anonymous", "subscribe", "news/#").allowed

    run(main())


def test_development_mode_says_that_it_is_why() -> None:
    verdict = Access.open_to_all().may("anybody", "publish", "$SYS/x")
    assert verdict == Verdict(True, "in development mode everyone may do everything")
