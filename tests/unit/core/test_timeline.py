from __future__ import annotations

import logging

import pytest
from tests.support.clock import FakeClock

from penstock.core.clock import SystemClock
from penstock.core.timeline import Timeline

HOUR_S, HOUR_MS = 3600, 3_600_000


def begun() -> tuple[FakeClock, Timeline]:
    clock = FakeClock()
    return clock, Timeline(clock)


def test_running_time_is_that_of_the_wall_clock_while_nobody_sets_it() -> None:
    clock, timeline = begun()
    clock.advance(12.345)
    timeline.look()
    assert timeline.now() == timeline.wall() == clock.wall_ms
    assert (timeline.shift, timeline.jumps) == (0, 0)


@pytest.mark.parametrize("jump_s", [HOUR_S, -HOUR_S, 2, -2])
def test_a_jump_of_the_wall_clock_is_seen_told_once_and_moves_no_running_time(
    jump_s: int, caplog: pytest.LogCaptureFixture
) -> None:
    clock, timeline = begun()
    told: list[int] = []
    timeline.watch(lambda: told.append(timeline.shift))
    before = timeline.now()
    clock.wall_ms += 1000 * jump_s
    assert timeline.now() == before
    with caplog.at_level(logging.WARNING, "penstock.clock"):
        for _ in range(3):
            clock.advance(1)
            timeline.look()
    assert timeline.now() == before + 3000
    assert (timeline.shift, timeline.jumps, told) == (1000 * jump_s, 1, [1000 * jump_s])
    assert caplog.text.count("wall clock was set") == 1


def test_a_clock_that_is_slewed_does_not_jump() -> None:
    clock, timeline = begun()
    for _ in range(100):
        clock.advance(1)
        clock.wall_ms += 50
        timeline.look()
    assert (timeline.jumps, timeline.shift) == (0, 5000)


def passed(clock: FakeClock, timeline: Timeline, seconds: float) -> None:
    clock.advance(seconds)
    timeline.look()


def test_what_was_stamped_before_the_clock_was_set_forward_is_not_older_for_it() -> None:
    clock, timeline = begun()
    stamp = clock.wall_ms
    passed(clock, timeline, 60)
    clock.wall_ms += HOUR_MS
    passed(clock, timeline, 1)
    later = clock.wall_ms
    passed(clock, timeline, 60)
    assert timeline.now_at(stamp) - stamp == 121_000
    assert timeline.now_at(later) - later == 60_000
    for age_ms, is_past in ((121_000, True), (122_000, False)):
        assert (stamp <= timeline.stamped_by(timeline.now() - age_ms)) is is_past
    for age_ms, is_past in ((60_000, True), (61_000, False)):
        assert (later <= timeline.stamped_by(timeline.now() - age_ms)) is is_past


def test_what_was_stamped_around_setting_the_clock_back_is_never_taken_for_older_than_it_is() -> None:
    clock, timeline = begun()
    stamps = []
    for step in range(40):
        stamps.append((timeline.now(), clock.wall_ms))
        passed(clock, timeline, 300)
        if step in (10, 25):
            clock.wall_ms -= HOUR_MS
            passed(clock, timeline, 1)
    for made, stamp in stamps:
        age_ms = timeline.now() - made
        assert timeline.now_at(stamp) - stamp <= age_ms
        assert not stamp <= timeline.stamped_by(timeline.now() - age_ms - 1)
    assert timeline.now_at(stamps[-1][1]) - stamps[-1][1] == timeline.now() - stamps[-1][0]


@pytest.mark.parametrize("ahead_s", [30 * HOUR_S, HOUR_S // 2])
def test_what_a_log_of_an_earlier_process_stamped_ahead_is_never_taken_for_older_than_it_is(ahead_s: int) -> None:
    clock, timeline = begun()
    # A log whose last stamp is of a clock that was ahead gives that stamp to all that comes, until it is passed.
    stamp, ends_ms = clock.wall_ms + 1000 * ahead_s, clock.wall_ms + 600_000
    clock.wall_ms += 1000 * HOUR_S
    passed(clock, timeline, 1)
    assert timeline.now_at(stamp) < ends_ms
    passed(clock, timeline, 600 + HOUR_S)
    assert timeline.now_at(stamp) >= ends_ms


def test_many_jumps_cost_no_memory() -> None:
    clock, timeline = begun()
    for number in range(1000):
        clock.wall_ms += HOUR_MS if number % 2 else -HOUR_MS
        passed(clock, timeline, 1)
    assert timeline.jumps == 1000
    assert len(timeline._pieces) <= 32
    timeline.stamped_by(0)


def test_the_running_clock_of_a_process_goes_on() -> None:
    clock = SystemClock()
    assert clock.monotonic() <= clock.monotonic()
