from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.support.loop import run
from tests.support.sessions import message_ids, session_stage, take_all, values

from penstock.broker.sessions.options import SessionOptions
from penstock.broker.sessions.records import Completed, Subscription
from penstock.core.errors import Closed, InvalidArgument, TooLarge
from penstock.log.partition import Log


def test_everything_that_is_written_in_one_turn_is_one_frame(tmp_path: Path) -> None:
    async def main() -> None:
        async with session_stage(tmp_path) as stage:
            before = stage.shard.metrics.frames
            sessions = await asyncio.gather(*(stage.begin(f"c{number}") for number in range(50)))
            assert stage.shard.metrics.frames == before + 1
            assert len({session.number for session in sessions}) == 50

    run(main())


def test_more_than_a_frame_takes_is_written_in_several(tmp_path: Path) -> None:
    async def main() -> None:
        async with session_stage(tmp_path) as stage:
            session = await stage.begin()
            many = [{f"{'x' * 5000}/{number}": Subscription(1)} for number in range(60)]
            await asyncio.gather(*(stage.sessions.subscribe(session, some) for some in many))
            assert len(session.subscriptions) == 60
            await stage.crash()
            assert len(stage.find().subscriptions) == 60

    run(main())


def test_what_was_settled_is_committed_after_the_delay(tmp_path: Path) -> None:
    async def main() -> None:
        async with session_stage(tmp_path, SessionOptions(message_logs=1, settle_delay_s=0.001)) as stage:
            session = await stage.begin()
            await stage.send(b"1", b"2", to=[session])
            log, is_written = stage.sessions._state.log, asyncio.Event()
            end, follow = log.end, log.on_commit
            assert follow is not None

            def committed(logs: list[Log]) -> None:
                follow(logs)
                is_written.set()

            log.on_commit = committed
            session.settle(message_ids(await take_all(session))[:1])
            await is_written.wait()
            assert log.end == end + 1
            await stage.crash()
            assert values(await take_all(stage.find())) == [b"2"]

    run(main())


def test_whoever_waits_is_told_that_the_directory_is_closed(tmp_path: Path) -> None:
    async def main() -> None:
        async with session_stage(tmp_path) as stage:
            session = await stage.begin()
            await stage.shard.close()
            with pytest.raises(Closed):
                await stage.sessions.subscribe(session, {"a": Subscription(0)})
            session.settle([1])
            with pytest.raises(Closed):
                await stage.sessions.flush()
            assert session.subscriptions == {}

    run(main())


def test_options_that_leave_no_room_are_refused() -> None:
    with pytest.raises(InvalidArgument):
        SessionOptions(max_queued_messages=0)


def test_a_record_that_failed_is_told_of_once_and_hurts_no_later_one(tmp_path: Path) -> None:
    async def main() -> None:
        async with session_stage(tmp_path) as stage:
            session, writer = await stage.begin(), stage.sessions._writer
            with pytest.raises(TooLarge):
                await stage.sessions.subscribe(session, {"x" * (1 << 20): Subscription(1)})
            await stage.sessions.flush()
            writer.note(Completed(session.number, list(range(1 << 19))))  # no frame takes it
            await stage.sessions.flush()
            writer._failure = Closed("a commit that failed")
            with pytest.raises(Closed):
                await stage.sessions.flush()
            await stage.sessions.subscribe(session, {"t": Subscription(1)})
            await stage.sessions.flush()
            await stage.crash()
            assert set(stage.find().subscriptions) == {"t"}

    run(main())
