from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.support.broker import stage
from tests.support.loop import run

from penstock.broker.queues.start import LATEST
from penstock.core.errors import InvalidSetting
from penstock.log.columns import Columns


def key_that_moves(before: int, after: int) -> bytes:
    """A key whose partition is another one when there are more."""
    for i in range(1000):
        columns = Columns.of([b""], keys=[b"k%d" % i])
        if columns.partitions(before)[0] == 0 and columns.partitions(after)[0] >= before:
            return b"k%d" % i
    raise AssertionError("no key moves")


def test_order_by_key_holds_across_a_change_of_partitions(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            key = key_that_moves(1, 4)
            queue = await s.queue(partitions=1)
            consumer = await s.consumer(queue)
            await s.put(queue, b"old", keys=[key])
            await s.broker.declaring.change(queue, {"partitions": 4})
            await s.put(queue, b"new", keys=[key])
            assert consumer.partitions == [0, 1, 2, 3], "members are told of added partitions"
            found = await s.receive(consumer)
            assert [m.value for m in found] == [b"old"]
            assert await s.receive(consumer) == [], "the key went to another partition, and waits"
            await s.ack(consumer, *found)
            [new] = await s.receive(consumer)
            assert (new.value, new.partition >= 1) == (b"new", True)

    run(main())


def test_the_switch_stands_over_a_restart(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            key = key_that_moves(1, 4)
            queue = await s.queue(partitions=1)
            await s.broker.group(queue, "g")
            await s.put(queue, b"old", keys=[key])
            await s.broker.declaring.change(queue, {"partitions": 4})
            await s.put(queue, b"new", keys=[key])
            await s.restart()
            consumer = s.broker.join(s.group_of())
            found = await s.receive(consumer)
            assert [m.value for m in found] == [b"old"]
            await s.ack(consumer, *found)
            assert [m.value for m in await s.receive(consumer)] == [b"new"]

    run(main())


def test_a_group_that_cannot_pass_the_switch_goes_past_it_after_a_while_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            key = key_that_moves(1, 4)
            queue = await s.queue(partitions=1, switch_timeout="60s", performance={"delivery_timeout": "1h"})
            consumer = await s.consumer(queue)
            await s.put(queue, b"old", keys=[key])
            await s.receive(consumer)
            await s.broker.declaring.change(queue, {"partitions": 4})
            await s.put(queue, b"new", keys=[key])
            await s.advance(59)
            assert await s.receive(consumer) == []
            await s.advance(1)
            assert [m.value for m in await s.receive(consumer)] == [b"new"]
            assert "past a change of partitions" in caplog.text

    run(main())


def test_a_group_that_has_settled_everything_is_not_held_up(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue(partitions=1)
            consumer = await s.consumer(queue)
            await s.put(queue, b"old")
            await s.ack(consumer, *await s.receive(consumer))
            await s.broker.declaring.change(queue, {"partitions": 2})
            await s.put(queue, b"new", partition=1)
            assert [m.value for m in await s.receive(consumer)] == [b"new"]

    run(main())


def test_two_changes_in_a_row_are_passed_one_after_the_other(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            key = key_that_moves(1, 2)
            queue = await s.queue(partitions=1)
            consumer = await s.consumer(queue)
            await s.put(queue, b"1", keys=[key])
            await s.broker.declaring.change(queue, {"partitions": 2})
            await s.put(queue, b"2", keys=[key])
            await s.broker.declaring.change(queue, {"partitions": 3})
            await s.put(queue, b"3", keys=[key])
            for value in (b"1", b"2", b"3"):
                found = await s.receive(consumer)
                assert [m.value for m in found] == [value]
                await s.ack(consumer, *found)

    run(main())


def test_partitions_are_added_never_taken_away(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue(partitions=2)
            with pytest.raises(InvalidSetting, match="cannot go down"):
                await s.broker.declaring.change(queue, {"partitions": 1})

    run(main())


def test_publishes_under_way_are_committed_before_partitions_are_added(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            key = key_that_moves(1, 4)
            queue = await s.queue(partitions=1)
            await s.put(queue, b"first", keys=[key])
            puts = [asyncio.create_task(s.put(queue, b"%d" % i, keys=[key])) for i in range(20)]
            await asyncio.sleep(0)
            growing = asyncio.create_task(s.broker.declaring.change(queue, {"partitions": 4}))
            await asyncio.sleep(0)
            late = asyncio.create_task(s.put(queue, b"late", keys=[key]))
            await asyncio.gather(*puts, growing, late)
            [switch] = queue.record.switches
            assert switch.ends == {0: 21}, "all that was placed by the old count lies below the switch"
            assert queue.units[0].data.end == 21

    run(main())


def test_a_group_at_the_end_of_everything_is_not_held_up_by_an_earlier_switch(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue(partitions=1)
            await s.put(queue, b"old")
            await s.broker.declaring.change(queue, {"partitions": 2})
            late = await s.consumer(queue, "late", start=LATEST)
            sought = await s.consumer(queue, "sought")
            await s.broker.declaring.seek(sought.group, LATEST)
            await s.put(queue, b"new", partition=1)
            for consumer in (late, sought):
                assert [m.value for m in await s.receive(consumer)] == [b"new"]

    run(main())


def test_after_a_restart_a_group_that_had_settled_everything_is_past_the_switch(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue(partitions=1)
            consumer = await s.consumer(queue)
            await s.put(queue, b"old")
            await s.broker.declaring.change(queue, {"partitions": 2})
            await s.put(queue, b"new", partition=1)
            await s.ack(consumer, *await s.receive(consumer))
            await s.restart()
            consumer = s.broker.join(s.group_of())
            assert [m.value for m in await s.receive(consumer)] == [b"new"]

    run(main())


def test_a_group_that_is_left_with_what_it_does_not_want_goes_past_the_switch(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue(partitions=1)
            consumer = await s.consumer(queue, "g|wanted")
            await s.put(queue, b"old", topics=[b"$queue/q/unwanted"])
            await s.broker.declaring.change(queue, {"partitions": 2})
            await s.put(queue, b"new", topics=[b"$queue/q/wanted"], partition=1)
            found = [m.value for _ in range(2) for m in await s.receive(consumer)]
            assert found == [b"new"]

    run(main())


def test_a_switch_among_offsets_that_a_crash_left_out_holds_nobody_up(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path / "0") as s:
            queue = await s.queue(partitions=1, durability="memory")
            await s.consumer(queue)
            await s.put(queue, b"old")
            await s.crash(tmp_path / "1")
            await s.broker.declaring.change(s.broker.queue("q"), {"partitions": 2})
            await s.crash(tmp_path / "2")
            queue = s.broker.queue("q")
            await s.put(queue, b"same partition", partition=0)
            await s.put(queue, b"new", partition=1)
            consumer = s.broker.join(s.group_of())
            found = await s.receive(consumer)
            assert [m.value for m in found] == [b"old"]
            await s.ack(consumer, *found)
            values = [m.value for _ in range(2) for m in await s.receive(consumer)]
            assert sorted(values) == [b"new", b"same partition"]

    run(main())


def test_a_group_that_is_made_long_after_a_switch_says_nothing_of_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue(partitions=1)
            await s.put(queue, b"old")
            await s.broker.declaring.change(queue, {"partitions": 2})
            await s.put(queue, b"new", partition=1)
            await s.advance(60)
            consumer = await s.consumer(queue)
            assert sorted([m.value for m in await s.receive(consumer)]) == [b"new", b"old"]
            assert "past a change of partitions" not in caplog.text

    run(main())
