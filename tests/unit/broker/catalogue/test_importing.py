"""What another broker had declared comes in with one commit, users included, or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.access import cheap_passwords
from tests.support.broker import Stage, stage
from tests.support.loop import run

from penstock.broker.auth.rules import Action, Effect, rule
from penstock.broker.auth.store import User
from penstock.broker.auth.users import Users
from penstock.broker.catalogue.importing import Wanted, WantedBinding, WantedQueue
from penstock.core.errors import NoSuchExchange, NoSuchQueue, PenstockError
from penstock.queues.declared import NamespaceRecord
from penstock.queues.exchange_types import Destination
from penstock.queues.exchanges import Exchange
from penstock.queues.names import GroupName
from penstock.queues.policies import PolicyRecord
from penstock.queues.rabbit_arguments import Declared
from penstock.queues.rabbit_records import record_of
from penstock.queues.rabbit_settings import queue_settings


def bound(source: str, key: str, queue: str = "new") -> WantedBinding:
    return WantedBinding("shop", source, Destination("queue", queue), key, {})


def wanted(s: Stage, *more: WantedBinding) -> Wanted:
    declared = Declared()
    settings = s.broker.declaring.settings_for("new", {**queue_settings(declared), "namespace": "shop"})
    return Wanted(
        namespaces=[NamespaceRecord("shop")],
        users=[User("bunny", "rabbit:sha256:AAAA")],
        rules={("bunny", "shop"): [rule(Effect.ALLOW, Action.CONSUME, "$queue/#", user="bunny", namespace="shop")]},
        policies=[PolicyRecord("shop", "ttl", "^n", {"message-ttl": 1000})],
        exchanges=[("shop", Exchange("bus", "topic"))],
        queues=[WantedQueue(settings, (GroupName("default"),), record_of(declared))],
        bindings=[bound("bus", "eu.#"), bound("bus", "eu.#"), bound("amq.topic", "a.*"), *more],
    )


async def users_of(s: Stage) -> Users:
    return await Users.open(s.broker.shard, cheap_passwords(), s.clock, 4096)


def standing(s: Stage, users: Users) -> object:
    """Everything that an import may bring."""
    declaring = s.broker.declaring
    bindings = {space: declaring.exchanges.of(space).bindings for space in ("default", "shop")}
    return (
        sorted(declaring.queues),
        {space: sorted(each.name for each in declaring.exchanges.of(space)) for space in bindings},
        {space: sorted((each.source, each.key) for each in found) for space, found in bindings.items()},
        sorted(declaring.policies),
        sorted(declaring.namespaces),
        [user.name for user in users.all()],
        list(map(str, users.rules)),
        {name: queue.own.topics for name, queue in declaring.queues.items()},
    )


def test_it_is_one_frame_and_is_there_after_a_restart(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            users = await users_of(s)
            there = await s.queue("there", namespace="shop")
            before = s.broker.shard.metrics.frames
            await s.broker.importing.take(
                wanted(s, bound("amq.topic", "b", "there"), bound("bus", "x", "there")), users
            )
            assert s.broker.shard.metrics.frames == before + 1
            queue = s.broker.queue("new", "shop")
            assert (queue.settings.limits.message_ttl_ms, queue.own.limits.message_ttl_ms) == (1000, None)
            assert queue.own.topics == ("a/+",)
            assert there.own.topics == ("b",)
            assert [str(key) for key in queue.groups] == ["default"]
            was = standing(s, users)
            await s.restart()
            assert standing(s, await users_of(s)) == was
            space = s.broker.exchanges.of("shop")
            assert set(space.route("bus", b"eu.de").queues) == {"new"}
            assert space.route("bus", b"x").queues == ("there",)

    run(main())


@pytest.mark.parametrize(
    ("more", "error"), [(bound("none", "k"), NoSuchExchange), (bound("bus", "k", "none"), NoSuchQueue)]
)
def test_a_mistake_anywhere_leaves_nothing(tmp_path: Path, more: WantedBinding, error: type[PenstockError]) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            users = await users_of(s)
            await s.queue("there", namespace="shop")
            was, before = standing(s, users), s.broker.shard.metrics.frames
            with pytest.raises(error):
                await s.broker.importing.take(wanted(s, bound("amq.topic", "b", "there"), more), users)
            assert (standing(s, users), s.broker.shard.metrics.frames) == (was, before)
            await s.broker.importing.take(wanted(s), users)
            assert s.broker.queue("new", "shop").name == "new"

    run(main())
