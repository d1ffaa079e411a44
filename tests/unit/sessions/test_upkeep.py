from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.support.loop import run
from tests.support.sessions import SessionStage, message_ids, session_stage, take_all, values

from penstock.broker.sessions import snapshots
from penstock.broker.sessions.options import SessionOptions
from penstock.broker.sessions.records import Subscription, Will

SMALL_SEGMENTS = SessionOptions(message_logs=1, settle_delay_s=60.0, segment_bytes=600)


async def keep_up(stage: SessionStage) -> None:
    """When the segments are sealed."""
    await stage.shard.checkpoint()
    await stage.sessions.keep_up(stage.clock.now_ms())


def test_segments_that_nobody_wants_go(tmp_path: Path) -> None:
    async def main() -> None:
        async with session_stage(tmp_path, SMALL_SEGMENTS) as stage:
            session = await stage.begin()
            for number in range(40):
                await stage.send(b"%d" % number, to=[session])
            log = session.queue.messages.log
            await keep_up(stage)
            assert log.start == 0
            session.settle(message_ids(await take_all(session)))
            await keep_up(stage)
            assert log.start > 30
            await stage.crash()
            assert stage.find().queued == 0 and await take_all(stage.find()) == []
            assert stage.sessions.totals.lost == 0

    run(main())


def test_the_few_that_are_wanted_are_copied_to_the_end_with_their_ids(tmp_path: Path) -> None:
    async def main() -> None:
        async with session_stage(tmp_path, SMALL_SEGMENTS) as stage:
            session, slow = await stage.begin(), await stage.begin("slow")
            await stage.send(b"old", to=[slow, session], flags=2)
            for number in range(40):
                await stage.send(b"%d" % number, to=[session])
            log = session.queue.messages.log
            ids = message_ids(await take_all(session))
            [old] = message_ids(await take_all(slow))
            session.settle(ids)
            await keep_up(stage)
            assert log.start > 30 and log.end == 42
            await stage.send(b"new", to=[slow])
            assert values(await slow.look_up([old])) == [b"old"]
            await slow.sent([7], [old])
            await stage.crash()
            slow = stage.find("slow")
            assert [(one.packet_id, one.message_id) for one in slow.outgoing] == [(7, old)]
            assert values(await slow.look_up([old])) == [b"old"]
            assert values(await take_all(slow)) == [b"new"]
            slow.rewind()
            slow.settle([old])
            assert slow.queued == 1

    run(main())


def test_a_living_segment_in_front_does_not_keep_dead_ones_behind_it(tmp_path: Path) -> None:
    async def main() -> None:
        async with session_stage(tmp_path, SMALL_SEGMENTS) as stage:
            session, slow = await stage.begin(), await stage.begin("slow")
            for number in range(20):
                await stage.send(b"slow %d" % number, to=[slow])
            for _ in range(5):
                for number in range(40):
                    await stage.send(b"%d" % number, to=[session])
                session.settle(message_ids(await take_all(session)))
                await keep_up(stage)
            log = session.queue.messages.log
            assert log.end - log.start < 140
            assert values(await take_all(slow)) == [b"slow %d" % number for number in range(20)]

    run(main())


def test_what_expired_is_not_copied_for_those_who_are_away(tmp_path: Path) -> None:
    async def main() -> None:
        async with session_stage(tmp_path, SMALL_SEGMENTS) as stage:
            away, session = await stage.begin("away"), await stage.begin()
            await stage.send(b"old", to=[away], expiry=[stage.clock.now_ms() + 1000])
            await stage.sessions.disconnected(away, keeps_will=False)
            for number in range(40):
                await stage.send(b"%d" % number, to=[session])
            session.settle(message_ids(await take_all(session)))
            stage.clock.advance(5)
            await keep_up(stage)
            assert (away.queued, stage.sessions.totals.expired) == (0, 1)

    run(main())


@pytest.mark.parametrize("jump_s", [-3600, 3600])
def test_a_copy_has_as_much_time_left_whatever_clock_its_message_is_of(tmp_path: Path, jump_s: int) -> None:
    async def main() -> None:
        async with session_stage(tmp_path, SMALL_SEGMENTS) as stage:
            away, session = await stage.begin("away"), await stage.begin()
            await stage.send(b"old", to=[away], expiry=[stage.clock.now_ms() + 600_000])
            stage.clock.wall_ms += 1000 * jump_s
            stage.shard.timeline.look()
            for number in range(40):
                await stage.send(b"%d" % number, to=[session])
            session.settle(message_ids(await take_all(session)))
            await keep_up(stage)
            assert away.queue.messages.log.start > 30
            stage.clock.advance(590)
            assert values(await take_all(away)) == [b"old"]
            away.rewind()
            stage.clock.advance(20 + max(-jump_s, 0))
            assert values(await take_all(away)) == []

    run(main())


def test_a_message_that_is_taken_while_it_is_copied_is_found(tmp_path: Path) -> None:
    async def main() -> None:
        async with session_stage(tmp_path, SMALL_SEGMENTS) as stage:
            session, slow = await stage.begin(), await stage.begin("slow")
            for number in range(60):
                await stage.send(b"%d" % number, to=[session, slow] if number % 10 == 0 else [session])
            session.settle(message_ids(await take_all(session)))
            await stage.shard.checkpoint()
            _, taken = await asyncio.gather(stage.sessions.keep_up(stage.clock.now_ms()), take_all(slow))
            assert values(taken) == [b"0", b"10", b"20", b"30", b"40", b"50"]
            assert stage.sessions.totals.lost == 0

    run(main())


def test_a_snapshot_takes_the_place_of_the_records_before_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots, "RECORDS", 20)

    async def main() -> None:
        async with session_stage(tmp_path) as stage:
            session = await stage.sessions.begin("c", owner="me", expiry_s=77, will=Will(b"w", b"v", delay_s=5))
            await stage.sessions.subscribe(session, {"a/#": Subscription(2, 9, b"x")})
            await stage.send(*[b"%d" % number for number in range(5)], to=[session])
            ids = message_ids(await take_all(session))
            session.settle([ids[0], ids[2]])
            await session.sent([4], [ids[1]])
            await stage.shard.commit([stage.sessions.held_part(session, [11])])
            for round in range(6):
                for number in range(30):
                    await stage.sessions.subscribe(session, {f"t/{number}": Subscription(round % 3)})
                await stage.sessions.keep_up(stage.clock.now_ms())
            state = stage.sessions._state.log
            assert state.start > 30
            await stage.crash()
            session = stage.find()
            assert (session.owner, session.expiry_s, session.will) == ("me", 77, Will(b"w", b"v", delay_s=5))
            assert session.subscriptions["a/#"] == Subscription(2, 9, b"x") and len(session.subscriptions) == 31
            assert [one.packet_id for one in session.outgoing] == [4] and session.held == {11}
            assert values(await take_all(session)) == [b"3", b"4"]

    run(main())


def test_a_snapshot_that_is_not_whole_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots, "_SESSIONS_IN_TURN", 1)

    async def main() -> None:
        async with session_stage(tmp_path) as stage:
            for number in range(4):
                await stage.send(b"1", to=[await stage.begin(f"c{number}")])
            await stage.sessions._snapshots.write(0)
            await stage.send(b"2", to=list(stage.sessions))
            log, is_half_done = stage.sessions._snapshots._log, asyncio.Event()
            log.on_commit = lambda _: is_half_done.set() if log.high_watermark >= 7 else None
            writing = asyncio.ensure_future(stage.sessions._snapshots.write(0))
            await is_half_done.wait()
            writing.cancel()
            await asyncio.wait([writing])
            await stage.crash()
            for session in stage.sessions:
                assert values(await take_all(session)) == [b"1", b"2"]

    run(main())


def test_one_session_costs_few_bytes(tmp_path: Path) -> None:
    """A hundred thousand sessions with ten messages each fit 500 MiB: tests/soak_sessions.py; here a part of them."""

    async def main() -> None:
        options = SessionOptions(message_logs=4, settle_delay_s=60.0)
        async with session_stage(tmp_path, options) as stage:
            sessions = [await stage.begin(f"device-{number}") for number in range(20)]
            for number in range(10):
                await stage.send(b"%d" % number, to=sessions)
            entries = sum(len(session.queue.entries) * 8 for session in sessions)
            assert entries == 20 * 10 * 24
            assert stage.sessions.queued_messages == 200

    run(main())


def test_a_session_with_long_filters_does_not_keep_others_from_a_snapshot(tmp_path: Path) -> None:
    async def main() -> None:
        async with session_stage(tmp_path) as stage:
            before, large, behind = await stage.begin("a"), await stage.begin("b"), await stage.begin("c")
            many = [f"{number}/{'x' * 20_000}" for number in range(100)]  # 2 MB, where a frame takes 512 KiB
            for filter in many:
                await stage.sessions.subscribe(large, {filter: Subscription(1)})
            for session in (before, behind):
                await stage.sessions.subscribe(session, {"t": Subscription(2)})
            await stage.sessions._snapshots.write(stage.clock.now_ms())
            await stage.crash()
            assert set(stage.find("b").subscriptions) == set(many)
            assert [set(stage.find(name).subscriptions) for name in "ac"] == [{"t"}, {"t"}]

    run(main())
