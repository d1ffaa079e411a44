from __future__ import annotations

import asyncio
import logging

import pytest
from tests.support.clock import FakeClock
from tests.support.loop import run

from penstock.broker.alarms import Alarms
from penstock.core.timeline import Timeline


def test_an_alarm_rings_at_its_time_and_once() -> None:
    async def main() -> None:
        clock, rung = FakeClock(0), list[int]()
        alarms = Alarms(Timeline(clock))
        alarms.set("a", 1000, rung.append)
        clock.advance(0.999)
        alarms.ring()
        assert rung == []
        clock.advance(0.001)
        alarms.ring()
        alarms.ring()
        assert rung == [1000]
        alarms.close()

    run(main())


def test_of_several_times_for_a_key_the_earliest_stands() -> None:
    async def main() -> None:
        clock, rung = FakeClock(0), list[str]()
        alarms = Alarms(Timeline(clock))
        alarms.set("a", 2000, lambda now: rung.append("late"))
        alarms.set("a", 1000, lambda now: rung.append("early"))
        alarms.set("a", 3000, lambda now: rung.append("later"))
        clock.advance(10)
        alarms.ring()
        assert rung == ["early"]
        alarms.close()

    run(main())


def test_a_call_may_set_its_alarm_anew_and_another_that_fails_stops_nobody(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        clock, rung = FakeClock(0), list[int]()
        alarms = Alarms(Timeline(clock))

        def again(now: int) -> None:
            rung.append(now)
            alarms.set("again", now + 1000, again)

        def fail(now: int) -> None:
            raise ZeroDivisionError

        alarms.set("fails", 500, fail)
        alarms.set("again", 1000, again)
        for _ in range(3):
            clock.advance(1)
            alarms.ring()
        assert rung == [1000, 2000, 3000]
        alarms.close()

    with caplog.at_level(logging.ERROR):
        run(main())
    assert "an alarm failed" in caplog.text


def test_a_dropped_alarm_and_those_of_a_closed_clock_ring_no_more() -> None:
    async def main() -> None:
        clock, rung = FakeClock(0), list[int]()
        alarms = Alarms(Timeline(clock))
        alarms.set("dropped", 1000, rung.append)
        alarms.drop("dropped")
        clock.advance(1)
        alarms.ring()
        alarms.set("a", 2000, rung.append)
        alarms.close()
        alarms.set("b", 2000, rung.append)
        clock.advance(1)
        alarms.ring()
        assert rung == []

    run(main())


def test_alarms_ring_by_themselves_when_their_time_is_there() -> None:
    async def main() -> None:
        clock, done = FakeClock(0), asyncio.Event()
        alarms = Alarms(Timeline(clock))
        alarms.set("a", 0, lambda now: done.set())
        await done.wait()
        alarms.close()

    run(main())


def test_alarms_that_were_dropped_take_no_room() -> None:
    async def main() -> None:
        alarms = Alarms(Timeline(FakeClock(0)))
        for number in range(10_000):
            alarms.set(number, 1_000_000, lambda now: None)
            alarms.drop(number)
        assert len(alarms._heap) < 2_000
        alarms.close()

    run(main())
