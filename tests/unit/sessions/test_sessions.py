from __future__ import annotations

import asyncio
from array import array
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.loop import run
from tests.support.sessions import (
    HOUR_S,
    SessionStage,
    flags_of,
    message_ids,
    session_stage,
    take_all,
    values,
)

from penstock.broker.sessions.options import NEVER_S, Policy, SessionOptions
from penstock.broker.sessions.records import Subscription, Will
from penstock.broker.sessions.session import Outgoing, Session
from penstock.broker.sessions.targets import RETAIN, Targets
from penstock.core.errors import InvalidArgument
from penstock.core.types import Durability
from penstock.log.columns import Columns

Scene = Callable[[SessionStage], Awaitable[None]]


def play(directory: Path, scene: Scene, options: SessionOptions | None = None) -> None:
    async def main() -> None:
        async with session_stage(directory, options) as stage:
            await scene(stage)

    run(main())


def test_what_was_sent_to_a_session_is_there_after_a_restart_and_after_a_crash(tmp_path: Path) -> None:
    async def scene(stage: SessionStage) -> None:
        await stage.send(b"1", b"2", to=[await stage.begin()])
        await stage.restart()
        await stage.send(b"3", to=[stage.find()], flags=2 | RETAIN)
        await stage.crash()
        taken = await take_all(stage.find())
        assert values(taken) == [b"1", b"2", b"3"]
        assert flags_of(taken) == [1, 1, 2 | RETAIN]
        assert stage.find().queued == 3
        assert not stage.find().has_more

    play(tmp_path, scene)


def test_a_message_for_many_sessions_is_stored_once_in_each_log(tmp_path: Path) -> None:
    async def scene(stage: SessionStage) -> None:
        sessions = [await stage.begin(f"c{number}") for number in range(20)]
        await stage.send(b"1", b"2", b"3", to=sessions)
        logs = {session.queue.messages for session in sessions}
        assert len(logs) == 2
        assert [messages.log.end for messages in logs] == [3, 3]
        for session in sessions:
            assert values(session.take_near(10, 1000)) == [b"1", b"2", b"3"]

    play(tmp_path, scene)


def test_rows_reach_those_they_are_for(tmp_path: Path) -> None:
    async def scene(stage: SessionStage) -> None:
        one, other = await stage.begin("one"), await stage.begin("other")
        columns = Columns.of([b"0", b"1", b"2", b"3"], topics=[b"t"] * 4)
        targets = Targets()
        targets.add(one, array("i", [0, 1, 3]), b"\x00\x01\x02")
        targets.add(other, array("i", [1]), 2)
        accepted = stage.sessions.accept(columns, targets)
        await stage.shard.commit(accepted.parts)
        accepted.close()
        taken = one.take_near(10, 1000)
        assert (values(taken), flags_of(taken)) == ([b"0", b"1", b"3"], [0, 1, 2])
        assert values(other.take_near(10, 1000)) == [b"1"]
        assert one.reserved == one.reserved_bytes == 0

    play(tmp_path, scene)


def test_settled_messages_do_not_come_again_after_a_flush(tmp_path: Path) -> None:
    async def scene(stage: SessionStage) -> None:
        session = await stage.begin()
        await stage.send(*[b"%d" % number for number in range(6)], to=[session])
        ids = message_ids(await take_all(session))
        session.settle([ids[0], ids[1], ids[4]])
        assert session.queued == 3
        await stage.sessions.flush()
        await stage.crash()
        assert values(await take_all(stage.find())) == [b"2", b"3", b"5"]
        assert stage.find().queued == 3

    play(tmp_path, scene)


def test_an_acknowledgement_that_was_not_flushed_means_a_duplicate(tmp_path: Path) -> None:
    async def scene(stage: SessionStage) -> None:
        session = await stage.begin()
        await stage.send(b"1", b"2", to=[session])
        session.settle(message_ids(await take_all(session)))
        await stage.crash()
        assert values(await take_all(stage.find())) == [b"1", b"2"]

    play(tmp_path, scene)


def test_settlements_ride_in_the_next_commit_of_the_state_log(tmp_path: Path) -> None:
    async def scene(stage: SessionStage) -> None:
        session = await stage.begin()
        await stage.send(b"1", b"2", to=[session])
        session.settle(message_ids(await take_all(session))[:1])
        await stage.begin("another")
        await stage.crash()
        assert values(await take_all(stage.find())) == [b"2"]

    play(tmp_path, scene)


def test_what_is_in_flight_keeps_its_packet_ids(tmp_path: Path) -> None:
    async def scene(stage: SessionStage) -> None:
        session = await stage.begin()
        await stage.send(*[b"%d" % number for number in range(5)], to=[session])
        ids = message_ids(await take_all(session))
        await session.sent([7, 8], [ids[1], ids[3]])
        await session.received([8])
        await stage.sessions.disconnected(session, keeps_will=False, in_flight=[(3, ids[0]), (4, ids[2])])
        await stage.crash()
        session = stage.find()
        assert session.outgoing == [
            Outgoing(8, ids[3], 2, True),
            Outgoing(3, ids[0], 1, False),
            Outgoing(7, ids[1], 2, False),
            Outgoing(4, ids[2], 1, False),
        ]
        assert values(await session.look_up([ids[0], ids[1], ids[2]])) == [b"0", b"1", b"2"]
        session.rewind()
        assert values(await take_all(session)) == [b"4"]
        session.completed([8])
        session.settle([ids[0]])
        await session.received([7])
        assert session.outgoing == [Outgoing(7, ids[1], 2, True), Outgoing(4, ids[2], 1, False)]
        await stage.crash()
        assert stage.find().outgoing == [Outgoing(7, ids[1], 2, True), Outgoing(4, ids[2], 1, False)]
        assert stage.find().queued == 2

    play(tmp_path, scene)


def test_what_may_have_been_sent_before_a_crash_is_known_after_it(tmp_path: Path) -> None:
    """Also after a snapshot, and after another connection; what came later was not sent."""

    async def scene(stage: SessionStage) -> None:
        session = await stage.begin()
        await stage.send(b"1", b"2", to=[session])
        assert session.sent_below == 0
        await stage.crash()
        await stage.send(b"3", to=[stage.find()])
        assert [one < stage.find().sent_below for one in message_ids(await take_all(stage.find()))] == [
            True,
            True,
            False,
        ]
        await stage.sessions.keep_up(stage.clock.now_ms() + 10 * 60 * 1000)
        await stage.crash()
        below = stage.find().sent_below
        await stage.sessions.connected(stage.find(), owner="somebody", expiry_s=HOUR_S)
        await stage.sessions.disconnected(stage.find(), keeps_will=False)
        await stage.restart()
        assert stage.find().sent_below == below == message_ids(await take_all(stage.find()))[2]

    play(tmp_path, scene)


def test_a_crash_after_the_client_came_back_leaves_packet_ids_as_they_were(tmp_path: Path) -> None:
    async def scene(stage: SessionStage) -> None:
        session = await stage.begin()
        await stage.send(b"1", b"2", to=[session])
        ids = message_ids(await take_all(session))
        await stage.sessions.disconnected(session, keeps_will=False, in_flight=[(3, ids[0]), (4, ids[1])])
        await stage.sessions.connected(session, owner="somebody", expiry_s=HOUR_S)
        session.settle([ids[0]])
        await stage.sessions.flush()
        await stage.crash()
        assert stage.find().in_flight == [(4, ids[1])]

    play(tmp_path, scene)


def test_what_was_sent_before_a_known_packet_id_gets_one_that_is_new_after_a_crash(tmp_path: Path) -> None:
    """Also after a snapshot; what came behind it may have been sent or not, and waits for its turn."""

    async def scene(stage: SessionStage) -> None:
        session = await stage.begin()
        await stage.send(b"0", b"1", to=[session])
        await stage.send(b"2", to=[session], flags=2)
        await stage.send(b"3", to=[session])
        ids = message_ids(await take_all(session))
        await session.sent([3], [ids[2]])
        await stage.crash()
        named = stage.find().outgoing
        assert [(one.message_id, one.qos) for one in named] == [(ids[0], 1), (ids[1], 1), (ids[2], 2)]
        assert named[2].packet_id == 3
        assert not {one.packet_id for one in named[:2]} & {1, 2, 4}
        assert stage.find().last_packet_id == named[1].packet_id
        assert values(await take_all(stage.find())) == [b"3"]
        await stage.sessions.keep_up(stage.clock.now_ms() + 10 * 60 * 1000)
        await stage.crash()
        assert (stage.find().outgoing, stage.find().last_packet_id) == (named, named[1].packet_id)

    play(tmp_path, scene)


def test_packet_ids_after_a_crash_are_far_from_the_last_that_was_acknowledged(tmp_path: Path) -> None:
    async def scene(stage: SessionStage) -> None:
        session = await stage.begin()
        await stage.send(b"1", b"2", to=[session])
        session.last_packet_id = 60_000
        session.settle(message_ids(await take_all(session))[:1])
        await stage.sessions.flush()
        await stage.crash()
        assert stage.find().last_packet_id == 60_000 + 32_767 - 65_535

    play(tmp_path, scene)


def test_a_message_that_the_client_refuses_frees_its_packet_id(tmp_path: Path) -> None:
    async def scene(stage: SessionStage) -> None:
        session = await stage.begin()
        await stage.send(b"1", b"2", to=[session], flags=2)
        ids = message_ids(await take_all(session))
        await session.sent([7, 8], ids)
        session.settle([ids[0]])
        assert [one.packet_id for one in session.outgoing] == [8]
        await session.received([8])
        await stage.crash()
        assert stage.find().outgoing == [Outgoing(8, ids[1], 2, True)]
        assert stage.find().queued == 0

    play(tmp_path, scene)


def test_a_packet_id_of_an_incoming_message_is_held_with_it_and_released(tmp_path: Path) -> None:
    async def scene(stage: SessionStage) -> None:
        session = await stage.begin()
        await stage.shard.commit([stage.sessions.held_part(session, [5, 9])])
        assert session.held == {5, 9}
        await stage.crash()
        assert stage.find().held == {5, 9}
        await stage.sessions.released(stage.find(), [5])
        await stage.crash()
        assert stage.find().held == {9}

    play(tmp_path, scene)


def test_subscriptions_come_change_and_go(tmp_path: Path) -> None:
    async def scene(stage: SessionStage) -> None:
        session = await stage.begin()
        await stage.sessions.subscribe(session, {"a/#": Subscription(1), "b": Subscription(2, 7, b"extra")})
        await stage.sessions.subscribe(session, {"a/#": Subscription(0, 3)})
        await stage.sessions.subscribe(session, {"gone": Subscription(0)})
        await stage.sessions.unsubscribe(session, ["gone", "never there"])
        await stage.crash()
        assert stage.find().subscriptions == {"a/#": Subscription(0, 3), "b": Subscription(2, 7, b"extra")}

    play(tmp_path, scene)


def test_a_clean_start_ends_the_session_before_it(tmp_path: Path) -> None:
    async def scene(stage: SessionStage) -> None:
        before = await stage.begin()
        await stage.send(b"1", to=[before])
        after = await stage.begin()
        await stage.send(b"2", to=[before, after])
        assert before.is_ended and stage.find() is after
        assert stage.sessions.queued_messages == 1
        await stage.crash()
        assert len(stage.sessions) == 1
        assert values(await take_all(stage.find())) == [b"2"]
        assert stage.sessions.queued_messages == 1

    play(tmp_path, scene)


def test_client_ids_are_told_apart_by_namespace(tmp_path: Path) -> None:
    async def scene(stage: SessionStage) -> None:
        for namespace in ("default", "other"):
            await stage.sessions.begin("c", owner="x", expiry_s=1, namespace=namespace)
        assert len(stage.sessions) == 2
        assert stage.sessions.find("c", "other") is not stage.sessions.find("c")
        assert stage.sessions.find("c", "third") is None

    play(tmp_path, scene)


def test_expiry_counts_from_the_disconnect(tmp_path: Path) -> None:
    async def scene(stage: SessionStage) -> None:
        session, forever = await stage.begin("c", 10), await stage.begin("forever", NEVER_S)
        stage.clock.advance(100)
        assert stage.sessions.due(stage.clock.now_ms()).ended == []
        for one in (session, forever):
            await stage.sessions.disconnected(one, keeps_will=False)
        stage.clock.advance(9)
        await stage.restart()
        assert stage.sessions.due(stage.clock.now_ms()).ended == []
        stage.clock.advance(1)
        [ended] = stage.sessions.due(stage.clock.now_ms()).ended
        assert ended is stage.find()
        await stage.sessions.end(ended)
        assert [session.client_id for session in stage.sessions] == ["forever"]

    play(tmp_path, scene)


def test_a_session_that_was_connected_again_does_not_end(tmp_path: Path) -> None:
    async def scene(stage: SessionStage) -> None:
        session = await stage.begin("c", 10)
        await stage.sessions.disconnected(session, keeps_will=False)
        await stage.sessions.connected(session, owner="another", expiry_s=20)
        stage.clock.advance(15)
        assert stage.sessions.due(stage.clock.now_ms()).ended == []
        assert (session.owner, session.expiry_s, session.is_connected) == ("another", 20, True)

    play(tmp_path, scene)


def test_coming_and_going_costs_one_deadline(tmp_path: Path) -> None:
    async def scene(stage: SessionStage) -> None:
        session = await stage.begin("c", HOUR_S)
        for _ in range(20):
            await stage.sessions.disconnected(session, keeps_will=False)
            await stage.sessions.connected(session, owner="x", expiry_s=HOUR_S)
            stage.clock.advance(10)
        await stage.sessions.disconnected(session, keeps_will=False)
        assert len(stage.sessions._fold.deadlines._heap) == 1
        stage.clock.advance(HOUR_S - 1)
        assert stage.sessions.due(stage.clock.now_ms()).ended == []
        stage.clock.advance(1)
        assert stage.sessions.due(stage.clock.now_ms()).ended == [session]
        assert stage.sessions.due(stage.clock.now_ms()).ended == []
        stage.clock.advance(5)
        assert stage.sessions.due(stage.clock.now_ms()).ended == [session]

    play(tmp_path, scene)


def test_a_will_is_due_after_its_delay_or_when_the_session_ends_also_after_a_restart(tmp_path: Path) -> None:
    async def scene(stage: SessionStage) -> None:
        will = Will(b"gone/c", b"bye", delay_s=30)
        for name, expiry_s in (("soon", 10), ("late", HOUR_S)):
            await stage.sessions.begin(name, owner="x", expiry_s=expiry_s, will=will)
        await stage.crash()
        assert not any(session.is_connected for session in stage.sessions)
        stage.clock.advance(10)
        assert [one.client_id for one in stage.sessions.due(stage.clock.now_ms()).wills] == ["soon"]
        await stage.shard.commit([stage.sessions.will_part(stage.find("soon"))])
        await stage.sessions.end(stage.find("soon"))
        stage.clock.advance(20)
        assert [one.will for one in stage.sessions.due(stage.clock.now_ms()).wills] == [will]
        await stage.shard.commit([stage.sessions.will_part(stage.find("late"))])
        await stage.crash()
        assert stage.find("late").will is None
        stage.clock.advance(60)
        assert stage.sessions.due(stage.clock.now_ms()).wills == []

    play(tmp_path, scene)


def test_a_client_that_says_goodbye_takes_its_will_back(tmp_path: Path) -> None:
    async def scene(stage: SessionStage) -> None:
        session = await stage.sessions.begin("c", owner="x", expiry_s=100, will=Will(b"t", b"v"))
        await stage.sessions.disconnected(session, keeps_will=False)
        await stage.restart()
        assert stage.find().will is None

    play(tmp_path, scene)


def limited(policy: Policy, messages: int = 3, size: int = 1 << 20) -> SessionOptions:
    return SessionOptions(
        message_logs=1, max_queued_messages=messages, max_queued_bytes=size, policy=policy, settle_delay_s=60.0
    )


@pytest.mark.parametrize("policy", [Policy.DROP_NEWEST, Policy.DISCONNECT])
def test_a_full_session_takes_no_more(tmp_path: Path, policy: Policy) -> None:
    async def scene(stage: SessionStage) -> None:
        session = await stage.begin()
        await stage.send(b"1", b"2", to=[session])
        accepted = await stage.send(b"3", b"4", to=[session])
        assert accepted.dropped == session.dropped == stage.sessions.totals.dropped == 1
        assert accepted.overflowed == ([session] if policy is Policy.DISCONNECT else [])
        assert values(await take_all(session)) == [b"1", b"2", b"3"]

    play(tmp_path, scene, limited(policy))


def test_a_full_session_lets_the_oldest_go_that_were_not_handed_out(tmp_path: Path) -> None:
    async def scene(stage: SessionStage) -> None:
        session = await stage.begin()
        await stage.send(b"1", b"2", b"3", to=[session])
        assert values(session.take_near(1, 1000)) == [b"1"]
        await stage.send(b"4", b"5", to=[session])
        assert (session.queued, session.dropped) == (3, 2)
        assert values(await take_all(session)) == [b"4", b"5"]
        await stage.restart()
        assert values(await take_all(stage.find())) == [b"1", b"4", b"5"]

    play(tmp_path, scene, limited(Policy.DROP_OLDEST))


def test_bytes_are_bounded_too(tmp_path: Path) -> None:
    async def scene(stage: SessionStage) -> None:
        session = await stage.begin()
        accepted = await stage.send(b"x" * 47, b"y" * 40, b"z" * 10, to=[session])
        assert session.queued_bytes == 50 + 43
        assert accepted.dropped == 1

    play(tmp_path, scene, limited(Policy.DROP_NEWEST, 100, 100))


def test_room_is_kept_for_publishes_that_are_under_way(tmp_path: Path) -> None:
    async def scene(stage: SessionStage) -> None:
        session = await stage.begin()
        targets = Targets()
        targets.add(session, array("i", [0, 1]), 1)
        columns = Columns.of([b"1", b"2"])
        first, second = (stage.sessions.accept(columns, targets) for _ in range(2))
        assert (first.dropped, second.dropped) == (0, 1)
        first.close()
        second.close()
        third = stage.sessions.accept(columns, targets)
        assert third.dropped == 0
        third.close()

    play(tmp_path, scene, limited(Policy.DROP_NEWEST))


def test_logs_are_as_durable_as_sessions_are_to_be_now(tmp_path: Path) -> None:
    async def scene(stage: SessionStage) -> None:
        def levels() -> set[Durability]:
            return {log.settings.durability for log in stage.shard.logs if "sessions/" in log.name}

        assert levels() == {Durability.COMMIT}
        stage.options = replace(stage.options, durability=Durability.MEMORY)
        await stage.restart()
        assert levels() == {Durability.MEMORY}
        await stage.sessions.change(Durability.COMMIT)
        assert levels() == {Durability.COMMIT}

    play(tmp_path, scene)


def test_what_is_refused_for_its_flags_keeps_no_room(tmp_path: Path) -> None:
    async def scene(stage: SessionStage) -> None:
        one, other = await stage.begin("one"), await stage.begin("other")
        targets = Targets()
        targets.add(one, array("i", [0]), 1)
        targets.add(other, array("i", [0]), 64)
        with pytest.raises(InvalidArgument):
            stage.sessions.accept(Columns.of([b"1"]), targets)
        assert (one.reserved, one.reserved_bytes) == (0, 0)

    play(tmp_path, scene)


def test_expired_messages_are_passed_over_and_settled(tmp_path: Path) -> None:
    async def scene(stage: SessionStage) -> None:
        session, now = await stage.begin(), stage.clock.now_ms()
        await stage.send(b"1", b"2", b"3", to=[session], expiry=[0, now + 1000, now + 9000])
        stage.clock.advance(2)
        assert values(await take_all(session)) == [b"1", b"3"]
        assert (session.queued, stage.sessions.totals.expired) == (2, 1)

    play(tmp_path, scene)


def test_taking_is_bounded_in_messages_and_bytes(tmp_path: Path) -> None:
    async def scene(stage: SessionStage) -> None:
        session = await stage.begin()
        await stage.send(*[b"x" * 97] * 6, to=[session])
        assert len(values(session.take_near(2, 10_000))) == 2
        assert len(values(session.take_near(10, 250))) == 2
        assert len(values(session.take_near(10, 1))) == 1
        assert session.take_near(0, 100) == session.take_near(10, 0) == []
        assert len(values(session.take_near(10, 10_000))) == 1

    play(tmp_path, scene)


def test_a_listener_is_told_once_a_turn_and_may_fail(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def scene(stage: SessionStage) -> None:
        session, other = await stage.begin(), await stage.begin("other")
        told: list[Session] = []

        def fail() -> None:
            raise ValueError("on purpose")

        session.listener, other.listener = fail, lambda: told.append(other)
        await stage.send(b"1", b"2", to=[session, other])
        await asyncio.sleep(0)
        assert told == [other]
        assert "on purpose" in caplog.text

    play(tmp_path, scene)
