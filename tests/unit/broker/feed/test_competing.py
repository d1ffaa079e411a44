"""Many who share the messages of one partition."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.broker import Stage, got, retries, stage, values
from tests.support.competing import Rival, quiet
from tests.support.loop import run

from penstock.broker.feed.delivery import Delivery
from penstock.broker.feed.held import Held
from penstock.broker.queues.group import Group
from penstock.broker.queues.queue import Queue
from penstock.broker.queues.unit import Unit
from penstock.core.errors import Closed, GroupInUse, InvalidArgument, NoSuchGroup
from penstock.queues.cursor import Cursor


async def opened(s: Stage, count: int, prefetch: int = 0, **settings: object) -> tuple[Queue, Group, list[Rival]]:
    queue = await s.broker.declare({"name": "q", "partitions": 1, "ordering": "none"} | settings)
    group = await s.broker.group(queue, "g")
    rivals = [Rival(s.broker, group, prefetch) for _ in range(count)]
    await quiet(s, *rivals)
    return queue, group, rivals


def amounts(rivals: list[Rival]) -> list[int]:
    return [sum(map(len, rival.deliveries)) for rival in rivals]


def _noting(told: list[int], number: int, call: Callable[[], None]) -> Callable[[], None]:
    def note() -> None:
        told.append(number)
        call()

    return note


def test_three_messages_for_three_are_one_each(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue, _, rivals = await opened(s, 3)
            await s.put(queue, b"1", b"2", b"3")
            await quiet(s)
            assert [values(rival.deliveries) for rival in rivals] == [[b"1"], [b"2"], [b"3"]]

    run(main())


def test_three_thousand_for_three_are_runs_of_a_thousand(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue, group, rivals = await opened(s, 3)
            await s.put(queue, *[b"x"] * 3000)
            await quiet(s)
            assert amounts(rivals) == [1000, 1000, 1000]
            assert [len(rival.deliveries) for rival in rivals] == [1, 1, 1], "in one piece"
            assert [list(rival.deliveries[0].offsets) for rival in rivals] == [
                list(range(first, first + 1000)) for first in (0, 1000, 2000)
            ]
            assert [rival.competitor.held for rival in rivals] == [1000, 1000, 1000]
            settled = s.broker.settling.several([Held(d) for rival in rivals for d in rival.deliveries])
            assert settled.settled == (3000, 0)
            assert group.depth() == 0
            assert [rival.competitor.held for rival in rivals] == [0, 0, 0]

    run(main())


def test_single_messages_go_round_and_only_whose_turn_it_is_is_told(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue, _, rivals = await opened(s, 4)
            told: list[int] = []
            for rival in rivals:
                rival.competitor.told = _noting(told, rival.number, rival.competitor.told)
            for i in range(12):
                await s.put(queue, b"%d" % i)
                await quiet(s)
            assert amounts(rivals) == [3, 3, 3, 3]
            assert told == [rival.number for rival in rivals] * 3

    run(main())


def test_what_one_has_no_room_for_goes_to_the_others(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue, _, rivals = await opened(s, 3)
            rivals[0].left, rivals[1].left = 0, 2
            await s.put(queue, *[b"x"] * 30)
            await quiet(s)
            assert amounts(rivals) == [0, 2, 28]
            rivals[0].left = 5
            rivals[0].feed.has_room()
            await s.put(queue, *[b"x"] * 4)
            await quiet(s)
            assert amounts(rivals) == [2, 2, 30]

    run(main())


def test_an_outlet_that_forgets_to_say_that_it_has_room_is_asked_when_there_is_something_new(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue, _, rivals = await opened(s, 2)
            rivals[0].left = 0
            await s.put(queue, b"1", b"2")
            await quiet(s)
            rivals[0].left = 100
            for _ in range(3):
                await s.put(queue, b"3", b"4")
                await quiet(s)
            assert amounts(rivals)[0] >= 2

    run(main())


def test_nobody_holds_more_than_its_prefetch(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue, group, rivals = await opened(s, 2, prefetch=3)
            await s.put(queue, *[b"x"] * 20)
            await quiet(s)
            assert (amounts(rivals), group.ready()) == ([3, 3], 14)
            await s.broker.settling.ack(Held(rivals[0].deliveries[0], [0, 1]))
            await quiet(s)
            assert (amounts(rivals), group.ready()) == ([5, 3], 12)
            rivals[1].competitor.limit(5)
            await quiet(s)
            assert amounts(rivals) == [5, 5]
            rivals[0].competitor.limit(1)
            await s.broker.settling.ack(Held(rivals[0].deliveries[0], [2]))
            await quiet(s)
            assert (amounts(rivals), rivals[0].competitor.held) == ([5, 5], 2)
            rivals[0].competitor.limit(0)
            await quiet(s)
            assert (amounts(rivals), group.ready()) == ([15, 5], 0)
            with pytest.raises(InvalidArgument):
                rivals[0].competitor.limit(-1)

    run(main())


def test_without_a_limit_the_window_of_the_group_is_one(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue, group, rivals = await opened(s, 2, group_window=10)
            await s.put(queue, *[b"x"] * 30)
            await quiet(s)
            assert amounts(rivals) == [5, 5]
            single = s.broker.take_one(group, s.broker.session())
            assert single is None
            await s.broker.settling.ack(Held(rivals[0].deliveries[0], [0, 1]))
            await quiet(s)
            assert amounts(rivals) == [6, 6]

    run(main())


def test_a_higher_priority_gets_messages_first_while_it_has_room(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue(ordering="none")
            group = await s.broker.group(queue, "g")
            low, high, other = (Rival(s.broker, group, 2, priority) for priority in (0, 5, 5))
            await s.put(queue, b"1", b"2", b"3")
            await quiet(s)
            assert amounts([low, high, other]) == [0, 2, 1]
            await s.put(queue, b"4", b"5")
            await quiet(s)
            assert amounts([low, high, other]) == [1, 2, 2]
            await s.broker.settling.ack(Held(high.deliveries[0]))
            await s.put(queue, b"6")
            await quiet(s)
            assert amounts([low, high, other]) == [1, 3, 2]

    run(main())


def test_a_single_active_consumer_gets_all_until_it_goes(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue, group, rivals = await opened(s, 2)
            group.turns.is_single_active = True
            urgent = Rival(s.broker, group, 0, 3)
            first, second = rivals
            assert group.turns.active is first.competitor
            assert [each.competitor.is_active for each in (first, second, urgent)] == [True, False, False]
            await s.put(queue, b"1", b"2")
            await quiet(s)
            assert amounts([first, second, urgent]) == [2, 0, 0]
            first.feed.close()
            assert group.turns.active is urgent.competitor
            await s.put(queue, b"3")
            await quiet(s)
            assert values(urgent.deliveries) == [b"1", b"2", b"3"]
            urgent.feed.close()
            second.feed.close()
            assert group.turns.active is None
            third = Rival(s.broker, group)
            await quiet(s)
            assert group.turns.active is third.competitor
            assert values(third.deliveries) == [b"1", b"2", b"3"]

    run(main())


def test_who_wants_to_be_alone_is_refused_beside_others_and_refuses_them(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue, group, [rival] = await opened(s, 1)
            with pytest.raises(GroupInUse) as refused:
                Rival(s.broker, group, alone=True)
            assert (refused.value.is_exclusive, len(group.consumers)) == (False, 1)
            rival.feed.close()
            alone = Rival(s.broker, group, alone=True)
            for join in (
                lambda: Rival(s.broker, group),
                lambda: s.broker.join(group),
                lambda: Rival(s.broker, group, alone=True),
            ):
                with pytest.raises(GroupInUse) as refused:
                    join()
                assert refused.value.is_exclusive
            assert len(group.consumers) == 1
            alone.feed.close()
            await s.consumer(queue)

    run(main())


def test_what_is_released_comes_again_at_its_place_and_says_that_it_did(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue, _, [rival] = await opened(s, 1, prefetch=6)
            await s.put(queue, *[b"%d" % i for i in range(8)])
            await quiet(s)
            await s.broker.settling.release(Held(rival.deliveries[0], [1, 4]))
            await quiet(s)
            assert [(m.value, m.times) for m in got(rival.deliveries[1:])] == [(b"1", 2), (b"4", 2)]
            assert (await s.broker.settling.release(Held(rival.deliveries[0], [1]))).stale == 1

    run(main())


def test_returns_count_if_asked_and_too_many_are_a_dead_letter(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue, group, [rival] = await opened(s, 1, max_deliveries=2)
            await s.put(queue, b"poison")
            for times in (1, 2, 3):
                await quiet(s)
                [message] = got(rival.news())
                assert message.times == times
                await s.broker.settling.release(Held(rival.deliveries[-1]))
            await quiet(s)
            for _ in range(3):
                await s.broker.settling.release(Held(rival.deliveries[-1]), counted=True)
                await quiet(s)
            assert (group.depth(), rival.competitor.held, s.dead_letters()) == (0, 0, 1)

    run(main())


def test_failures_and_rejections_are_those_of_any_consumer(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue, group, [rival] = await opened(s, 1, retry_policy=retries(1))
            await s.put(queue, b"fails", b"is rejected", b"stays")
            await quiet(s)
            [delivery] = rival.deliveries
            await s.broker.settling.fail(Held(delivery, [0]), delay_ms=5000)
            await s.broker.settling.reject(Held(delivery, [1]))
            assert (rival.competitor.held, group.ready(), s.dead_letters()) == (1, 0, 1)
            await s.advance(6)
            await quiet(s)
            assert [(m.value, m.times) for m in got(rival.deliveries[1:])] == [(b"fails", 2)]
            await s.broker.settling.fail(Held(rival.deliveries[1]))
            await quiet(s)
            assert (rival.competitor.held, s.dead_letters()) == (1, 2)

    run(main())


def test_no_time_runs_out_and_who_asks_is_told_since_when(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue, _, rivals = await opened(s, 2, performance={"delivery_timeout": "1s"})
            now = s.broker.now()
            await s.put(queue, b"1")
            await quiet(s)
            await s.advance(7200)
            assert (amounts(rivals), rivals[0].competitor.oldest_ms) == ([1, 0], now)
            assert rivals[1].competitor.oldest_ms is None
            assert (await s.broker.settling.ack(Held(rivals[0].deliveries[0]))).done == 1

    run(main())


def test_what_one_holds_that_leaves_is_free_at_once(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue, group, [rival] = await opened(s, 1)
            await s.put(queue, b"1", b"2")
            await quiet(s)
            rival.feed.close()
            assert group.ready() == 2
            window = group.cursor(queue.units[0]).window
            assert (window.held, window.ready) == (0, 2)
            found = s.broker.take_one(group, s.broker.session())
            assert isinstance(found, Delivery)
            assert [(m.value, m.times) for m in got([found])] == [(b"1", 2)]
            with pytest.raises(Closed):
                await rival.competitor.receive(1)

    run(main())


def test_a_thousand_that_leave_together_are_one_pass_over_the_window(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    passes: list[int] = []
    real = Cursor.give_back_many

    def counted(self: Cursor, consumers: object, *more: object) -> object:
        passes.append(len(consumers))  # type: ignore[arg-type]
        return real(self, consumers, *more)  # type: ignore[arg-type]

    monkeypatch.setattr(Cursor, "give_back_many", counted)
    monkeypatch.setattr(Cursor, "give_back", None)

    async def main() -> None:
        async with stage(tmp_path) as s:
            queue, group, rivals = await opened(s, 1000, prefetch=5)
            stays = Rival(s.broker, group, left=0)
            await s.put(queue, *[b"x"] * 5000)
            await quiet(s)
            assert amounts(rivals) == [5] * 1000
            for rival in rivals:
                rival.feed.close()
            await quiet(s)
            assert (passes, group.ready(), len(group.consumers)) == ([1000], 5000, 1)
            stays.left = 5000
            stays.feed.has_room()
            await quiet(s)
            assert [m.offset for m in got(stays.deliveries)] == list(range(5000))

    run(main())


def test_deleting_a_queue_dismisses_all_who_compete(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue, group, rivals = await opened(s, 3)
            await s.put(queue, b"1")
            await quiet(s)
            await s.broker.declaring.delete(queue)
            await quiet(s)
            assert [rival.is_dismissed for rival in rivals] == [True] * 3
            with pytest.raises(NoSuchGroup):
                s.broker.take_one(group, 7)

    run(main())


def test_one_message_is_held_by_who_asked_for_it(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue, group, _ = await opened(s, 0)
            number = s.broker.session()
            assert s.broker.take_one(group, number) is None
            await s.put(queue, b"1", b"2", b"3")
            found = [s.broker.take_one(group, number) for _ in range(2)]
            assert values([each for each in found if isinstance(each, Delivery)]) == [b"1", b"2"]
            assert (group.ready(), group.cursor(queue.units[0]).window.held_by(number)) == (1, 2)
            await s.advance(100_000)
            assert group.ready() == 1, "without a lease"
            group.free([number], False)
            assert group.ready() == 3

    run(main())


def test_one_message_out_of_a_file_is_waited_for(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue, _group, _ = await opened(s, 0)
            await s.put(queue, b"1", b"2")
            await s.restart()
            found = s.broker.take_one(s.group_of(), s.broker.session())
            assert isinstance(found, asyncio.Task)
            delivery = await found
            assert delivery is not None
            assert values([delivery]) == [b"1"]

    run(main())


def test_a_purge_takes_what_is_ready_and_leaves_what_is_held(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue, group, [rival] = await opened(s, 1, prefetch=4)
            await s.put(queue, *[b"%d" % i for i in range(10)])
            await quiet(s)
            await s.broker.settling.fail(Held(rival.deliveries[0], [3]), delay_ms=5000)
            await quiet(s)
            assert (await s.broker.settling.purge_ready(group)).done == 5
            assert (group.ready(), rival.competitor.held, group.depth()) == (0, 4, 5)
            await s.restart()
            rival = Rival(s.broker, group := s.group_of())
            await quiet(s, rival)
            assert [(m.value, m.times) for m in got(rival.deliveries)] == [(b"0", 2), (b"1", 2), (b"2", 2), (b"4", 2)]
            await s.advance(6)
            await quiet(s, rival)
            assert values(rival.deliveries)[4:] == [b"3"]

    run(main())


def test_what_drop_oldest_and_a_seek_take_gives_room_back(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            settings = {"overflow": "drop-oldest", "limits": {"max_queue_depth": 4}}
            queue, _group, [rival] = await opened(s, 1, prefetch=4, **settings)
            await s.put(queue, b"1", b"2", b"3", b"4")
            await quiet(s)
            await s.put(queue, b"5", b"6")
            await quiet(s)
            assert (values(rival.deliveries), rival.competitor.held) == ([b"1", b"2", b"3", b"4", b"5", b"6"], 4)

    run(main())


def test_nothing_is_handed_out_while_the_group_is_paused(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue, group, rivals = await opened(s, 3)
            await s.broker.declaring.pause_group(group, True)
            await s.put(queue, b"1", b"2", b"3")
            await quiet(s)
            assert amounts(rivals) == [0, 0, 0]
            await s.broker.declaring.pause_group(group, False)
            await quiet(s)
            assert amounts(rivals) == [1, 1, 1]

    run(main())


def test_what_several_want_of_a_file_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[int] = []
    real = Unit.stored

    async def counted(self: Unit, offset: int) -> object:
        reads.append(offset)
        return await real(self, offset)

    async def main() -> None:
        async with stage(tmp_path) as s:
            queue, _group, _ = await opened(s, 0)
            await s.put(queue, *[b"x"] * 30)
            await s.restart()
            monkeypatch.setattr(Unit, "stored", counted)
            rivals = [Rival(s.broker, s.group_of(), 10) for _ in range(3)]
            await quiet(s, *rivals)
            assert (amounts(rivals), reads) == ([10, 10, 10], [0])

    run(main())


def test_a_batch_that_cannot_be_read_is_tried_again_when_there_is_something_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(_: Unit, offset: int) -> object:
        raise OSError(f"no batch at {offset}")

    async def main() -> None:
        async with stage(tmp_path) as s:
            queue, _group, _ = await opened(s, 0)
            await s.put(queue, *[b"x"] * 30)
            await s.restart()
            with monkeypatch.context() as patch:
                patch.setattr(Unit, "stored", broken)
                rivals = [Rival(s.broker, s.group_of(), 16) for _ in range(2)]
                await quiet(s, *rivals)
                assert [len(rival.errors) for rival in rivals] == [1, 1]
            for _ in range(2):
                await s.put(s.broker.queue("q"), b"y")
                await quiet(s, *rivals)
            assert amounts(rivals) == [16, 16]

    run(main())


def test_what_was_held_comes_again_after_a_crash(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path / "a") as s:
            queue, _, rivals = await opened(s, 2)
            await s.put(queue, *[b"%d" % i for i in range(10)])
            await quiet(s)
            await s.broker.settling.ack(Held(rivals[0].deliveries[0], [0, 2]))
            await s.crash(tmp_path / "b")
            rival = Rival(s.broker, s.group_of())
            await quiet(s, rival)
            again = got(rival.deliveries)
            assert [m.offset for m in again] == [1, 3, 4, 5, 6, 7, 8, 9]

    run(main())
