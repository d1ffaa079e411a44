"""Calls that are done in the calling thread while the broker's loop sleeps."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.embedded.conftest import SMALL

import penstock
from penstock.core.errors import Closed, InvalidArgument, NoSuchQueue
from penstock.embedded.bridge import Bridge, Stage
from penstock.embedded.shared_loop import CAN_HOLD_SIGNALS, SharedLoop

pytestmark = pytest.mark.skipif(not CAN_HOLD_SIGNALS, reason="kernels are not compiled: all is left to the loop")


@pytest.fixture
def bridge(db: penstock.Database) -> Bridge:
    """Of an open database: how work is committed is the broker's."""
    db.declare("orders", partitions=2)
    return db._runtime._bridge


@pytest.fixture
def loop() -> Iterator[SharedLoop]:
    loop = SharedLoop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    yield loop
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


def asleep(loop: SharedLoop) -> None:
    """Returns when its thread waits for events, with the turn taken."""
    while not loop.borrow(wait=False):
        pass


async def thread_name() -> str:
    return threading.current_thread().name


def test_a_sleeping_loop_lends_its_turn_to_one_at_a_time(loop: SharedLoop) -> None:
    asleep(loop)
    assert loop.borrower == threading.get_ident()
    assert not loop.borrow(wait=False)
    loop.give_back()
    assert loop.borrower == 0


def test_a_loop_at_work_lends_nothing(loop: SharedLoop) -> None:
    started, go_on = threading.Event(), threading.Event()

    def work() -> None:
        started.set()
        go_on.wait()

    loop.call_soon_threadsafe(work)
    started.wait()
    assert not loop.borrow(wait=False)
    go_on.set()
    assert loop.borrow(wait=True)
    loop.give_back()


def test_what_a_borrower_has_the_loop_do_is_done_when_the_turn_is_given_back(loop: SharedLoop) -> None:
    soon, later = threading.Event(), threading.Event()
    asleep(loop)
    assert asyncio.get_running_loop() is loop
    loop.call_soon(soon.set)
    loop.call_later(0.01, later.set)
    assert not soon.is_set()
    loop.give_back()
    assert soon.wait(5)
    assert later.wait(5)
    with pytest.raises(RuntimeError):
        asyncio.get_running_loop()


def test_work_is_done_in_the_calling_thread_while_the_loop_sleeps(bridge: Bridge) -> None:
    names: list[str] = []
    for _ in range(100):
        bridge.visit(lambda: names.append(threading.current_thread().name))
    assert set(names) == {threading.current_thread().name}


def test_a_call_from_inside_a_call_is_refused_and_not_waited_for(db: penstock.Database, bridge: Bridge) -> None:
    asleep(bridge._loop)
    try:
        for call in (lambda: db.put("orders", b"x"), lambda: db.put_many("orders", [b"x"]), db.queues):
            with pytest.raises(InvalidArgument, match="in the middle of a call"):
                call()
    finally:
        bridge._loop.give_back()
    assert db.put("orders", b"y").endswith(":0")


def visited(bridge: Bridge, stage: Stage) -> None:
    """Returns once the loop was asleep for it."""
    while not bridge.visit(stage):
        pass


def test_a_visit_waits_for_what_it_staged_wherever_that_ends(bridge: Bridge) -> None:
    def ended() -> asyncio.Future[None]:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        future.set_result(None)
        return future

    def later() -> asyncio.Future[None]:
        return asyncio.ensure_future(asyncio.sleep(0.001))

    visited(bridge, ended)
    visited(bridge, later)
    assert bridge.run(thread_name()) != threading.current_thread().name


def test_what_goes_wrong_in_a_visit_reaches_the_caller_before_and_after_a_wait(bridge: Bridge) -> None:
    async def refuse() -> None:
        raise NoSuchQueue("orders")

    def refuse_at_once() -> None:
        raise NoSuchQueue("orders")

    for stage in (refuse_at_once, lambda: asyncio.ensure_future(refuse())):
        with pytest.raises(NoSuchQueue):
            visited(bridge, stage)
    assert bridge.run(thread_name())


def test_a_visit_that_would_have_to_wait_is_left_to_the_loop(bridge: Bridge) -> None:
    for _ in range(100):
        assert not bridge.visit(lambda: None)


def test_a_queue_that_is_not_there_yet_is_made_by_the_first_put(db: penstock.Database) -> None:
    assert db.put("fresh", b"x").endswith(":0")
    assert [placed.rows for placed in db.put_many("another", [b"x", b"y"])] == [2]


def test_after_the_end_work_is_refused(db: penstock.Database, bridge: Bridge) -> None:
    db.close()
    for _ in range(3):
        with pytest.raises(Closed, match="open it again"):
            bridge.run(thread_name())


def test_threads_that_come_together_lose_nothing(directory: Path) -> None:
    with penstock.open(directory, options=SMALL) as db:
        db.declare("orders", partitions=3)
        ids: list[str] = []

        def put(number: int) -> None:
            ids.extend([db.put("orders", f"{number} {i}") for i in range(40)])

        threads = [threading.Thread(target=put, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        with db.consume("orders") as messages:
            taken: list[str] = []
            while len(taken) < 320:
                message = messages.get(timeout=10)
                assert message is not None
                message.ack()
                taken.append(message.id)
        for thread in threads:
            thread.join()
        assert sorted(taken) == sorted(ids)
        assert db.describe("orders").depth == 0


# Work that was interrupted before it began is never awaited, which Python reports.
@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_handlers_that_raise_at_any_moment_harm_nothing(directory: Path) -> None:
    """As Ctrl-C does, over and over, in the middle of puts and acknowledgements of the main thread."""

    class Interrupt(Exception):
        pass

    def interrupt(*_: object) -> None:
        raise Interrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    known: set[str] = set()
    acked: set[str] = set()
    interrupted = 0
    with penstock.open(directory, options=SMALL) as db:
        db.declare("orders", partitions=2)
        messages = db.consume("orders")
        for number in range(300):
            message = messages.get(timeout=0) if number % 2 else None
            try:
                try:
                    signal.setitimer(signal.ITIMER_REAL, 0.00002 + 0.00001 * (number % 60))
                    if message is not None:
                        message.ack()
                        acked.add(message.id)
                    else:
                        known.add(db.put("orders", b"%d" % number))
                finally:
                    signal.setitimer(signal.ITIMER_REAL, 0)
            except Interrupt:
                interrupted += 1
        signal.signal(signal.SIGALRM, before)
        messages.close()
        assert interrupted
        with db.consume("orders", "another") as everything:
            stored = {message.id for message in everything.get_many(1000, 5)}
            while len(stored) < len(known) and (more := everything.get_many(1000, 1)):
                stored |= {message.id for message in more}
        assert known <= stored
        with db.consume("orders", idle_timeout=0.05) as rest:
            assert not acked & {message.id for message in rest}


def test_a_thread_that_never_rests_does_not_keep_the_loop_from_its_turn(directory: Path) -> None:
    with penstock.open(directory, durability="memory", options=SMALL) as db:
        db.declare("orders", partitions=1)
        is_over = threading.Event()

        def put() -> None:
            while not is_over.is_set():
                db.put("orders", b"x")

        thread = threading.Thread(target=put)
        thread.start()
        try:
            for _ in range(50):
                assert db._runtime.run(asyncio.sleep(0.001, "rested")) == "rested"
        finally:
            is_over.set()
            thread.join()
