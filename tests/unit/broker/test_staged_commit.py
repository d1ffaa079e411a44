from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.support.broker import stage
from tests.support.loop import run
from tests.support.staging import QUERY, side_logs, staged, stored

from penstock.broker.staging import epochs
from penstock.broker.staging.epochs import EPOCHS_KEPT
from penstock.broker.staging.records import StagedRange
from penstock.core.errors import EpochForgotten, InvalidArgument, QueueFull, StageGone, TooLarge
from penstock.log.batch import encode
from penstock.log.columns import Columns
from penstock.log.encoded import Encoded
from penstock.log.outside import DirectoryReader

DAY_S = 24 * 3600


def test_staged_rows_are_seen_by_nobody_until_they_are_committed(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue(partitions=3)
            consumer = await s.consumer(queue)
            one = await staged(s, queue, b"a", b"b", keys=[b"k1", b"k2"])
            two = await staged(s, queue, b"c", partition=2)
            assert await s.receive(consumer) == []
            assert await stored(s) == []
            await s.broker.shard.checkpoint()
            outside = DirectoryReader(tmp_path)
            assert [log.name for log in outside.logs() if log.end > log.start and "default" in log.name] == []
            outside.close()
            committed = await s.broker.staging.commit(QUERY, 0, [one, two])
            assert sum(place.rows for place in committed.placed) == 3
            assert {message.value for message in await s.receive(consumer)} == {b"a", b"b", b"c"}

    run(main())


def _encoded(*values: bytes, keys: list[bytes] | None = None) -> Encoded:
    return Encoded.checked(encode(Columns.of(values, keys=keys)))


def test_rows_that_come_with_a_commit_are_there_once_by_one_frame(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue(partitions=2)
            for partition in range(2):
                await s.put(queue, b"before", partition=partition)
            behind = await staged(s, queue, b"c", keys=[b"1"])
            frames, side = s.broker.shard.metrics.frames, len(side_logs(s))
            rows = _encoded(b"a", b"b", keys=[b"1", b"2"])
            first = await s.broker.staging.commit(QUERY, 3, [behind], rows=[(queue, rows)])
            assert s.broker.shard.metrics.frames == frames + 1 and len(side_logs(s)) == side
            assert (first.is_repeated, sum(place.rows for place in first.placed)) == (False, 3)
            await s.restart()
            queue = s.broker.queue("q")
            again = _encoded(b"a", b"b", keys=[b"1", b"2"])
            repeated = await s.broker.staging.commit(QUERY, 3, [], rows=[(queue, again)])
            assert repeated.is_repeated and repeated.placed == first.placed
            assert await stored(s) == [b"a", b"b", b"before", b"before", b"c"]

    run(main())


def test_rows_that_come_with_a_commit_take_room_as_others_do_and_give_it_back(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue(limits={"max_queue_depth": 3})
            await s.consumer(queue)
            await s.put(queue, b"before")
            with pytest.raises(QueueFull):
                await s.broker.staging.commit(
                    QUERY, 0, [], rows=[(queue, _encoded(b"a")), (queue, _encoded(b"b", b"c"))]
                )
            await s.broker.staging.commit(QUERY, 0, [], rows=[(queue, _encoded(b"a")), (queue, _encoded(b"b"))])
            assert await stored(s) == [b"a", b"b", b"before"]
            with pytest.raises(QueueFull):
                await s.put(queue, b"over")

    run(main())


def test_a_commit_goes_into_several_queues_by_one_frame(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            one, two = await s.queue("one", partitions=2), await s.queue("two")
            for partition in range(2):
                await s.put(one, b"before", partition=partition)
            await s.put(two, b"before")
            ranges = [await staged(s, one, b"1", b"2", keys=[b"a", b"b"]), await staged(s, two, b"3")]
            frames = s.broker.shard.metrics.frames
            committed = await s.broker.staging.commit(QUERY, 0, ranges)
            assert s.broker.shard.metrics.frames == frames + 1
            assert {place.queue for place in committed.placed} == {"one", "two"}
            for place in committed.placed:
                unit = s.broker.queue(place.queue).units[place.partition]
                assert place.base_offset == 1
                assert unit.end == place.base_offset + place.rows

    run(main())


def test_a_repeated_key_is_answered_as_the_first_time_and_its_new_stages_go(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue(partitions=2)
            first = await s.broker.staging.commit(QUERY, 7, [await staged(s, queue, b"a", b"b", keys=[b"1", b"2"])])
            await s.restart()
            again = await staged(s, s.broker.queue("q"), b"a", b"b", keys=[b"1", b"2"])
            repeated = await s.broker.staging.commit(QUERY, 7, [again])
            assert repeated.placed == first.placed
            assert (first.is_repeated, repeated.is_repeated) == (False, True)
            assert await stored(s) == [b"a", b"b"]
            assert (s.broker.staging.stage_count, s.broker.staging.staged_bytes) == (0, 0)

    run(main())


def test_a_commit_lets_go_of_what_its_epochs_writer_staged_beside_it(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path / "0") as s:
            queue = await s.queue()
            writer = f"{QUERY}/0"
            lost, won = await staged(s, queue, b"a", writer=writer), await staged(s, queue, b"a", writer=writer)
            other = await staged(s, queue, b"b", writer=f"{QUERY}/1")
            await s.broker.staging.commit(QUERY, 0, [won])
            assert s.broker.staging.stage_count == 1
            with pytest.raises(StageGone):
                await s.broker.staging.commit("another", 0, [lost])
            late = await staged(s, queue, b"a", writer=writer)
            assert (await s.broker.staging.commit(QUERY, 0, [])).is_repeated
            with pytest.raises(StageGone):
                await s.broker.staging.commit("another", 0, [late])
            await s.broker.keep_up(s.broker.now())
            await s.crash(tmp_path / "1")
            await s.broker.staging.commit(QUERY, 1, [other])
            assert s.broker.staging.stage_count == 0
            assert await stored(s) == [b"a", b"b"]

    run(main())


def test_two_commits_of_one_key_at_once_store_its_rows_once(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue()
            ranges = [[await staged(s, queue, b"a")], [await staged(s, queue, b"a")]]
            results = await asyncio.gather(*[s.broker.staging.commit(QUERY, 1, some) for some in ranges])
            assert sorted(result.is_repeated for result in results) == [False, True]
            assert await stored(s) == [b"a"]

    run(main())


def test_a_stage_is_committed_once_whatever_the_key(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue()
            one, two = await staged(s, queue, b"a"), await staged(s, queue, b"b")
            await s.broker.staging.commit(QUERY, 1, [one, one])
            with pytest.raises(StageGone, match="Nothing was committed"):
                await s.broker.staging.commit(QUERY, 2, [two, one])
            assert await stored(s) == [b"a"]
            assert not (await s.broker.staging.commit(QUERY, 2, [two])).is_repeated
            assert await stored(s) == [b"a", b"b"]

    run(main())


def test_an_epoch_without_rows_is_remembered_too(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue()
            assert (await s.broker.staging.commit(QUERY, 0, [])).placed == ()
            late = await staged(s, queue, b"late")
            assert (await s.broker.staging.commit(QUERY, 0, [late])).is_repeated
            assert await stored(s) == []

    run(main())


def test_stages_and_keys_outlive_a_restart(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue(limits={"max_queue_depth": 5})
            await s.consumer(queue)
            ranges = [await staged(s, queue, b"a", b"b"), await staged(s, queue, b"c")]
            bytes_before = s.broker.staging.staged_bytes
            await s.restart()
            assert s.broker.staging.staged_bytes == bytes_before
            queue = s.broker.queue("q")
            with pytest.raises(QueueFull):
                await s.put(queue, b"1", b"2", b"3")
            await s.put(queue, b"1", b"2")
            await s.broker.staging.commit(QUERY, 0, ranges)
            assert await stored(s) == [b"1", b"2", b"a", b"b", b"c"]

    run(main())


def test_a_full_queue_refuses_to_stage_and_never_to_commit(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue(limits={"max_queue_depth": 4})
            await s.consumer(queue)
            some = await staged(s, queue, b"a", b"b", b"c")
            with pytest.raises(QueueFull):
                await staged(s, queue, b"d", b"e")
            with pytest.raises(QueueFull):
                await s.put(queue, b"d", b"e")
            await s.put(queue, b"d")
            await s.broker.staging.commit(QUERY, 0, [some])
            assert queue.depth() == 4
            with pytest.raises(QueueFull):
                await staged(s, queue, b"e")

    run(main())


def test_what_is_let_go_gives_its_room_back(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue(limits={"max_queue_depth": 2})
            await s.consumer(queue)
            some = await staged(s, queue, b"a", b"b")
            assert await s.broker.staging.abandon([some, some]) == 1
            await s.put(queue, b"c", b"d")
            with pytest.raises(StageGone):
                await s.broker.staging.commit(QUERY, 0, [some])

    run(main())


def test_a_queue_that_drops_its_oldest_makes_room_at_the_commit(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue(limits={"max_queue_depth": 3}, overflow="drop-oldest")
            consumer = await s.consumer(queue)
            await s.put(queue, b"1", b"2", b"3")
            some = await staged(s, queue, b"a", b"b")
            assert queue.depth() == 3
            await s.broker.staging.commit(QUERY, 0, [some])
            assert [message.value for message in await s.receive(consumer)] == [b"3", b"a", b"b"]

    run(main())


def test_abandoned_stages_are_collected_a_day_after_their_writers_last_write(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue()
            alone = await staged(s, queue, b"alone")
            early = await staged(s, queue, b"early", writer="task")
            await s.advance(DAY_S - 60)
            late = await staged(s, queue, b"late", writer="task")
            await s.advance(120)
            assert s.broker.staging.stage_count == 2
            with pytest.raises(StageGone, match="24 h"):
                await s.broker.staging.commit(QUERY, 0, [early, alone])
            assert await stored(s) == []
            await s.broker.staging.commit(QUERY, 0, [early, late])
            assert await stored(s) == [b"early", b"late"]

    run(main())


def test_side_logs_go_when_nothing_lives_in_them(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue()
            kept = await staged(s, queue, b"kept")
            await s.restart()
            queue = s.broker.queue("q")
            other = await staged(s, queue, b"other")
            assert len(side_logs(s)) == 2
            await s.broker.staging.commit(QUERY, 0, [kept])
            await s.broker.keep_up(s.broker.now())
            assert len(side_logs(s)) == 1
            await s.broker.staging.commit(QUERY, 1, [other])
            await s.restart()
            await s.broker.keep_up(s.broker.now())
            assert side_logs(s) == []
            assert await stored(s) == [b"kept", b"other"]

    run(main())


def test_stages_of_a_deleted_queue_are_refused_and_collected(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            gone, stays = await s.queue("gone"), await s.queue("q")
            ranges = [await staged(s, stays, b"a"), await staged(s, gone, b"b")]
            await s.broker.declaring.delete(gone)
            with pytest.raises(StageGone, match="deleted"):
                await s.broker.staging.commit(QUERY, 0, ranges)
            await s.advance(60)
            assert s.broker.staging.stage_count == 1
            assert await stored(s) == []

    run(main())


def test_the_last_hundred_epochs_are_known_and_older_ones_refused(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue()
            staging = s.broker.staging
            for epoch in range(EPOCHS_KEPT + 5):
                await staging.commit(QUERY, epoch, [await staged(s, queue, b"%d" % epoch)])
            await s.restart()
            staging, queue = s.broker.staging, s.broker.queue("q")
            assert (await staging.commit(QUERY, 5, [])).is_repeated
            again = await staged(s, queue, b"4")
            with pytest.raises(EpochForgotten):
                await staging.commit(QUERY, 4, [again])
            assert len(await stored(s)) == EPOCHS_KEPT + 5
            assert not (await staging.commit("another", 4, [again])).is_repeated

    run(main())


def test_a_query_is_forgotten_thirty_days_after_its_last_commit(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue()
            for epoch in range(2):
                await s.broker.staging.commit(QUERY, epoch, [await staged(s, queue, b"a")])
                await s.advance(29 * DAY_S)
            assert (await s.broker.staging.commit(QUERY, 0, [])).is_repeated
            await s.advance(2 * DAY_S)
            await s.restart()
            assert not (await s.broker.staging.commit(QUERY, 0, [])).is_repeated

    run(main())


def test_single_writes_never_fill_the_memory_and_are_known_for_a_day(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(epochs, "MAX_QUERIES", 3)
    monkeypatch.setattr(epochs, "MAX_SINGLE", 4)

    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue()
            await s.broker.staging.commit(QUERY, 0, [await staged(s, queue, b"stream")])
            for number in range(10):
                ranges = [await staged(s, queue, b"%d" % number)]
                await s.broker.staging.commit(f"batch-{number}", 0, ranges, single=True)
                assert (await s.broker.staging.commit(f"batch-{number}", 0, ranges, single=True)).is_repeated
            await s.restart()
            assert [s.broker.staging.epochs(f"batch-{number}") for number in (5, 6, 9)] == [[], [0], [0]]
            assert s.broker.staging.epochs(QUERY) == [0]
            assert len(await stored(s)) == 11
            with pytest.raises(StageGone):
                await s.broker.staging.commit("batch-0", 0, [StagedRange(*ranges[0].place, 1, 1)], single=True)
            await s.advance(2 * DAY_S)
            assert s.broker.staging.epochs("batch-9") == []
            assert s.broker.staging.epochs(QUERY) == [0]

    run(main())


def test_one_query_too_many_takes_the_place_of_one_that_is_quiet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(epochs, "MAX_QUERIES", 3)

    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue()
            for name in ("a", "b", "c", "a"):
                await s.broker.staging.commit(name, len(s.broker.staging.epochs(name)), [await staged(s, queue, b"1")])
            with pytest.raises(InvalidArgument, match="3 queries have committed"):
                await s.broker.staging.commit("d", 0, [await staged(s, queue, b"1")])
            await s.advance(DAY_S)
            await s.broker.staging.commit("d", 0, [await staged(s, queue, b"1")])
            await s.restart()
            assert [s.broker.staging.epochs(name) for name in "abcd"] == [[0, 1], [], [0], [0]]

    run(main())


def test_no_query_is_forgotten_for_others_that_commit_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(epochs, "MAX_QUERIES", 3)

    async def main() -> None:
        async with stage(tmp_path) as s:
            known, fresh = await s.queue("known"), await s.queue("fresh")
            for name in "ab":
                await s.broker.staging.commit(name, 0, [await staged(s, known, b"1")])
            commits = [s.broker.staging.commit(name, 0, [await staged(s, fresh, b"1")]) for name in "cd"]
            outcomes = await asyncio.gather(*commits, return_exceptions=True)
            assert sum(isinstance(outcome, InvalidArgument) for outcome in outcomes) == 1
            assert [len(s.broker.staging.epochs(name)) for name in "ab"] == [1, 1]
            assert len(await stored(s, "fresh")) == 1

    run(main())


def test_rows_are_placed_by_the_partitions_there_are_when_they_are_committed(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue(partitions=1)
            keys = [b"key-%d" % i for i in range(40)]
            some = await staged(s, queue, *keys, keys=keys)
            await s.broker.declaring.change(queue, {"partitions": 4})
            await s.broker.staging.commit(QUERY, 0, [some])
            ends = {number: unit.end for number, unit in queue.units.items()}
            published = await s.put(queue, *keys, keys=keys)
            assert {placed.partition: placed.base_offset for placed in published.placed} == ends
            assert {placed.partition: placed.rows for placed in published.placed} == ends

    run(main())


def test_a_writers_rows_without_keys_keep_their_order(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue(partitions=5)
            ranges = [await staged(s, queue, b"%d" % number, writer="task") for number in range(4)]
            committed = await s.broker.staging.commit(QUERY, 0, ranges)
            [place] = committed.placed
            consumer = await s.consumer(queue)
            assert [message.value for message in await s.receive(consumer)] == [b"0", b"1", b"2", b"3"]
            assert place.rows == 4

    run(main())


def test_what_a_frame_cannot_hold_is_refused_and_holds_no_room(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue()
            with pytest.raises(TooLarge):
                await staged(s, queue, bytes(200 << 10))
            assert (s.broker.staging.stage_count, s.broker.staging.staged_bytes) == (0, 0)
            await s.put(queue, b"a")

    run(main())


@pytest.mark.parametrize(("query", "epoch"), [("", 0), ("q\n", 0), ("q" * 256, 0), ("q", -1), ("q", 1 << 62)], ids=str)
def test_keys_that_cannot_be_kept_are_refused(tmp_path: Path, query: str, epoch: int) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            with pytest.raises(InvalidArgument):
                await s.broker.staging.commit(query, epoch, [])

    run(main())


def test_a_range_that_nobody_was_given_names_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue()
            await s.put(queue, b"a")
            forged = StagedRange(queue.units[0].data.number, 0, 1, 1)
            with pytest.raises(StageGone):
                await s.broker.staging.commit(QUERY, 0, [forged])
            assert s.broker.staging.targets([forged]) == []
            assert s.broker.staging.targets([await staged(s, queue, b"b")]) == [queue]

    run(main())


def test_a_commit_is_not_refused_by_a_limit_that_was_lowered_since(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue(partitions=1, overflow="drop-oldest", limits={"max_queue_depth": 10})
            consumer = await s.consumer(queue)
            place = await staged(s, queue, b"1", b"2", b"3")
            await s.put(queue, b"0")
            await s.broker.declaring.change(queue, {"limits": {"max_queue_depth": 2}})
            await s.broker.staging.commit(QUERY, 0, [place])
            assert [m.value for m in await s.receive(consumer)] == [b"1", b"2", b"3"]

    run(main())


def test_a_commit_finds_nothing_to_drop_where_a_crash_left_offsets_out(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path / "0") as s:
            queue = await s.queue(partitions=1, overflow="drop-oldest", limits={"max_queue_depth": 3})
            consumer = await s.consumer(queue)
            await s.put(queue, b"0")
            await s.ack(consumer, *await s.receive(consumer))
            place = await staged(s, queue, b"1", b"2", b"3")
            await s.crash(tmp_path / "1")
            await s.broker.declaring.change(s.broker.queue("q"), {"limits": {"max_queue_depth": 2}})
            await s.broker.staging.commit(QUERY, 0, [place])
            assert await stored(s) == [b"0", b"1", b"2", b"3"]

    run(main())
