"""Policies are laid over queues, taken away again, and outlive a restart."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.broker import stage
from tests.support.loop import run

from penstock.core.errors import InvalidArgument, NoSuchPolicy
from penstock.queues.policies import PolicyRecord


def ttl(name: str, pattern: str, value: int, priority: int = 0) -> PolicyRecord:
    return PolicyRecord("default", name, pattern, {"message-ttl": value}, "queues", priority)


def test_queues_follow_the_policies_there_are_and_keep_their_own_settings(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue("orders", limits={"message_ttl": "10s"})
            other = await s.queue("other")
            assert await s.broker.policies.put(ttl("a", "^ord", 4000))
            assert not await s.broker.policies.put(ttl("a", "^ord", 5000))
            assert queue.settings.limits.message_ttl_ms == 5000
            assert queue.own.limits.message_ttl_ms == 10_000
            assert other.settings == other.own
            await s.broker.policies.put(ttl("b", "^orders$", 3000, 1))
            assert queue.settings.limits.message_ttl_ms == 3000
            later = await s.queue("orderly")
            assert later.settings.limits.message_ttl_ms == 5000
            await s.broker.declaring.change(queue, {"limits": {"message_ttl": "2s"}})
            assert queue.settings.limits.message_ttl_ms == 2000
            await s.broker.declaring.change(queue, {"limits": {"message_ttl": "8s"}})
            await s.restart()
            queue = s.broker.queue("orders")
            assert (queue.settings.limits.message_ttl_ms, queue.own.limits.message_ttl_ms) == (3000, 8000)
            assert [each.name for each in s.broker.policies.all()] == ["a", "b"]
            await s.broker.policies.remove("default", "b")
            assert queue.settings.limits.message_ttl_ms == 5000
            await s.broker.policies.remove("default", "a")
            assert queue.settings == queue.own
            with pytest.raises(NoSuchPolicy):
                await s.broker.policies.remove("default", "a")

    run(main())


def test_policies_are_a_namespaces_own_and_a_wrong_one_changes_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue("q", namespace="shop")
            await s.broker.policies.put(ttl("a", ".*", 1))
            assert queue.settings == queue.own
            with pytest.raises(InvalidArgument):
                await s.broker.policies.put(ttl("b", "(", 1))
            assert len(s.broker.policies.all()) == 1

    run(main())


def test_those_of_the_configuration_go_before_stored_ones_and_away_again(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue("q")
            await s.broker.policies.put(ttl("a", ".*", 4000))
            await s.broker.policies.put_given([ttl("a", ".*", 3000), ttl("b", ".*", 2000, -1)])
            assert queue.settings.limits.message_ttl_ms == 3000
            with pytest.raises(InvalidArgument, match="configuration"):
                await s.broker.policies.put(ttl("a", ".*", 1))
            await s.broker.policies.put_given([])
            assert queue.settings.limits.message_ttl_ms == 4000
            assert [each.name for each in s.broker.policies.all()] == ["a"]

    run(main())


def test_logs_follow_what_a_policy_says_of_retention(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue("q")
            await s.put(queue, b"1")
            [unit] = queue.units.values()
            await s.broker.policies.put(PolicyRecord("default", "age", ".*", {"max-age": "1h"}))
            assert unit.data.settings.retention is not None and unit.data.settings.retention.time_s == 3600
            await s.restart()
            [unit] = s.broker.queue("q").units.values()
            assert unit.data.settings.retention is not None and unit.data.settings.retention.time_s == 3600
            await s.broker.policies.remove("default", "age")
            assert unit.data.settings.retention is not None and unit.data.settings.retention.time_s == 168 * 3600

    run(main())
