from __future__ import annotations

from array import array
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from tests.support.broker import SMALL
from tests.support.clock import FakeClock
from tests.support.loop import run
from tests.support.sessions import copy_of_now

from penstock.broker.retained.retained import Retained
from penstock.broker.retained.space import RetainedSpace
from penstock.core.errors import InvalidArgument
from penstock.core.types import Durability
from penstock.log.columns import Columns
from penstock.log.records import Compaction, LogSettings
from penstock.log.segments.keeper import KeeperOptions
from penstock.log.shard import Shard


@dataclass
class RetainedStage:
    directory: Path
    clock: FakeClock = field(default_factory=FakeClock)
    shard: Shard = field(init=False)
    retained: Retained = field(init=False)
    space: RetainedSpace = field(init=False)

    async def open(self) -> None:
        options = replace(SMALL, keeper=KeeperOptions(flush_bytes=1 << 10, flush_s=0.01))
        self.shard = await Shard.open(self.directory, options, self.clock)
        self.retained = await Retained.open(self.shard)
        self.space = await self.retained.space()

    async def close(self) -> None:
        self.retained.close()
        await self.shard.close()

    async def crash(self) -> None:
        copy = self.directory.with_name(self.directory.name + "x")
        await copy_of_now(self.shard, self.directory, copy)
        await self.close()
        self.directory = copy
        await self.open()

    async def put(self, *messages: tuple[bytes, bytes], expiry: int = 0) -> None:
        columns = Columns.of(
            [value for _, value in messages],
            topics=[topic for topic, _ in messages],
            native=[b"\x01"] * len(messages),
            expiry=[expiry] * len(messages),
        )
        await self.shard.commit(self.space.parts(columns, array("i", range(columns.count))))

    async def get(self, filter: bytes, limit: int = 1000) -> dict[bytes, bytes]:
        found = {}
        async for stored, rows in self.space.read(await self.space.matched(filter, limit)):
            for row in stored.messages(rows):
                assert row.topic == row.key and row.topic is not None and row.native == b"\x01"
                assert row.topic not in found
                found[row.topic] = row.value
        return found


Scene = Callable[[RetainedStage], Awaitable[None]]


@asynccontextmanager
async def retained_stage(directory: Path) -> AsyncIterator[RetainedStage]:
    made = RetainedStage(directory / "r")
    await made.open()
    try:
        yield made
    finally:
        await made.close()


def play(directory: Path, scene: Scene) -> None:
    async def main() -> None:
        async with retained_stage(directory) as stage:
            await scene(stage)

    run(main())


def test_the_last_message_of_a_topic_is_retained_over_restarts(tmp_path: Path) -> None:
    async def scene(stage: RetainedStage) -> None:
        await stage.put((b"a/b", b"1"), (b"a/c", b"2"), (b"a/b", b"3"))
        assert stage.space.log.end == 2
        await stage.crash()
        await stage.put((b"a/c", b"4"), (b"$SYS/x", b"5"))
        await stage.crash()
        assert await stage.get(b"#") == {b"a/b": b"3", b"a/c": b"4"}
        assert await stage.get(b"$SYS/#") == {b"$SYS/x": b"5"}
        assert await stage.get(b"+/c") == {b"a/c": b"4"}
        assert (stage.space.count, stage.space.message_bytes) == (3, 4 + 4 + 7)

    play(tmp_path, scene)


def test_an_empty_message_takes_the_retained_one_away(tmp_path: Path) -> None:
    async def scene(stage: RetainedStage) -> None:
        await stage.put((b"a", b"1"), (b"b", b"2"))
        await stage.put((b"a", b""))
        assert await stage.get(b"#") == {b"b": b"2"}
        await stage.crash()
        assert await stage.get(b"#") == {b"b": b"2"}
        assert (stage.space.find(b"a"), stage.retained.count, stage.retained.message_bytes) == (-1, 1, 2)

    play(tmp_path, scene)


def test_what_was_replaced_since_the_match_is_left_out(tmp_path: Path) -> None:
    async def scene(stage: RetainedStage) -> None:
        await stage.put((b"a", b"1"), (b"b", b"2"), (b"c", b"3"))
        offsets = await stage.space.matched(b"#", 10)
        await stage.put((b"a", b"4"), (b"b", b""))
        found = [stored.messages(rows) async for stored, rows in stage.space.read(offsets)]
        assert [row.value for rows in found for row in rows] == [b"3"]

    play(tmp_path, scene)


def test_expired_messages_are_left_out_and_then_taken_away(tmp_path: Path) -> None:
    async def scene(stage: RetainedStage) -> None:
        await stage.put((b"a", b"1"), (b"b", b"2"), expiry=stage.clock.now_ms() + 5000)
        await stage.put((b"c", b"3"))
        stage.clock.advance(4)
        assert len(await stage.get(b"#")) == 3
        stage.clock.advance(2)
        assert await stage.get(b"#") == {b"c": b"3"}
        await stage.retained.keep_up(stage.clock.now_ms())
        assert stage.space.count == 1
        await stage.crash()
        assert stage.space.count == 1
        await stage.retained.keep_up(stage.clock.now_ms())
        assert stage.space.log.end == 5

    play(tmp_path, scene)


def test_many_long_topics_that_expired_are_taken_away_in_several_frames(tmp_path: Path) -> None:
    async def scene(stage: RetainedStage) -> None:
        for number in range(4):
            await stage.put((b"%d" % number * 20_000, b"v"), expiry=stage.clock.now_ms() + 1)
        stage.clock.advance(2)
        await stage.retained.keep_up(stage.clock.now_ms())
        assert (stage.space.count, stage.space.log.end) == (0, 8)

    play(tmp_path, scene)


def test_logs_are_as_durable_as_they_are_to_be_now(tmp_path: Path) -> None:
    async def scene(stage: RetainedStage) -> None:
        memory, log = Durability.MEMORY, stage.space.log
        stage.retained.close()
        retained = await Retained.open(stage.shard, memory)
        assert (log.settings.durability, (await retained.space("new")).log.settings.durability) == (memory, memory)
        retained.close()
        retained = await Retained.open(stage.shard, None)
        assert log.settings.durability is memory
        await retained.change(Durability.COMMIT)
        assert {space.log.settings.durability for space in retained.spaces.values()} == {Durability.COMMIT}
        retained.close()

    play(tmp_path, scene)


def test_no_more_than_the_limit_is_found(tmp_path: Path) -> None:
    async def scene(stage: RetainedStage) -> None:
        await stage.put(*[(b"t/%d" % number, b"v") for number in range(100)])
        assert len(await stage.get(b"t/+", limit=30)) == 30
        assert len(await stage.get(b"t/+")) == 100

    play(tmp_path, scene)


def test_namespaces_do_not_see_each_other(tmp_path: Path) -> None:
    async def scene(stage: RetainedStage) -> None:
        await stage.put((b"a", b"1"))
        stage.space = await stage.retained.space("other/one")
        assert await stage.get(b"#") == {}
        await stage.put((b"a", b"2"))
        await stage.crash()
        assert set(stage.retained.spaces) == {"default", "other/one"}
        assert await stage.get(b"#") == {b"a": b"1"}

    play(tmp_path, scene)


def test_topics_and_filters_that_are_none_are_refused(tmp_path: Path) -> None:
    async def scene(stage: RetainedStage) -> None:
        with pytest.raises(InvalidArgument, match="256 levels"):
            await stage.put((b"/" * 256, b"1"))
        with pytest.raises(InvalidArgument, match="needs a topic"):
            stage.space.parts(Columns.of([b"1"]), array("i", [0]))
        with pytest.raises(InvalidArgument):
            await stage.space.matched(b"a#", 1)
        assert stage.space.parts(Columns.of([b"1"], topics=[b"a"]), array("i")) == []

    play(tmp_path, scene)


def test_compaction_leaves_what_is_retained(tmp_path: Path) -> None:
    async def scene(stage: RetainedStage) -> None:
        log = stage.space.log
        compaction = Compaction(lag_s=0.0, tombstone_s=0.0, dirty_ratio=0.0, interval_s=0.0)
        await stage.shard.change(log, LogSettings(segment_bytes=2048, compaction=compaction))
        for round in range(30):
            await stage.put(*[(b"t/%d" % number, b"%d" % round * 40) for number in range(10)])
            stage.clock.advance(1)
        await stage.put((b"t/3", b""))
        await stage.shard.checkpoint()
        stage.clock.advance(100)
        await stage.shard.keep_house()
        await stage.shard.drain()
        expected = {b"t/%d" % number: b"29" * 40 for number in range(10) if number != 3}
        assert stage.shard.metrics.compactions > 0
        assert await stage.get(b"#") == expected
        await stage.crash()
        assert await stage.get(b"#") == expected

    play(tmp_path, scene)
