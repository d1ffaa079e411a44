from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections import Counter
from pathlib import Path

import pytest
from tests.support.loop import run
from tests.unit.embedded.conftest import SMALL

import penstock
from penstock.core.errors import InvalidArgument, NoSuchQueue, PenstockError
from penstock.queues.deadletter import DETAIL, REASON


def test_a_worker_handles_every_message_once_and_acknowledges_it(db: penstock.Database) -> None:
    db.declare("orders", partitions=4)
    seen, lock = Counter[bytes](), threading.Lock()

    @db.worker("orders", group="billing", concurrency=4)
    def handle(message: penstock.Message) -> None:
        with lock:
            seen[message.value] += 1
            if len(seen) == 300:
                db.stop()

    db.put_many("orders", [b"%d" % i for i in range(300)], keys=[b"%d" % (i % 20) for i in range(300)])
    db.run()
    assert seen == Counter(b"%d" % i for i in range(300))
    assert all(partition.floor == partition.end for partition in db.groups("orders")[0].partitions)


def test_messages_of_a_key_are_handled_one_after_the_other(db: penstock.Database) -> None:
    db.declare("orders", partitions=2)
    busy, seen, failed = set[bytes | None](), dict[bytes, list[int]](), set[int]()
    lock = threading.Lock()

    @db.worker("orders", concurrency=4)
    def handle(message: penstock.Message) -> None:
        key, number = message.key or b"", int(message.value)
        with lock:
            assert key not in busy
            busy.add(key)
        try:
            threading.Event().wait(0.001)
            if number % 10 == 3 and number not in failed:
                failed.add(number)
                raise penstock.Retry("later", delay=0.005)
        finally:
            with lock:
                busy.discard(key)
        with lock:
            seen.setdefault(key, []).append(number)
            if sum(map(len, seen.values())) == 60:
                db.stop()

    db.put_many("orders", [b"%d" % i for i in range(60)], keys=[b"%d" % (i % 3) for i in range(60)])
    db.run()
    assert seen == {b"%d" % key: list(range(key, 60, 3)) for key in range(3)}
    assert len(failed) == 6


def test_what_a_worker_raises_decides_over_the_message(db: penstock.Database) -> None:
    db.declare("orders", retry_policy={"max_retries": 1, "initial_backoff": "1ms"}, ordering="none")
    attempts = Counter[bytes]()

    @db.worker("orders")
    def handle(message: penstock.Message) -> None:
        attempts[message.value] += 1
        if message.value == b"reject":
            raise penstock.Reject("never")
        if message.value == b"broken":
            raise KeyError("amount")
        if message.value == b"settled":
            message.dead_letter("by hand")
        if attempts == Counter({b"reject": 1, b"broken": 2, b"settled": 1, b"last": 1}):
            db.stop()

    @db.worker("$dlq/orders")
    def count(letter: penstock.Message) -> None:
        if letter.headers[DETAIL] == "KeyError: 'amount'":
            db.put("orders", b"last")

    db.put_many("orders", [b"reject", b"broken", b"settled"])
    db.run()
    letters = {letter.value: (letter.headers[REASON], letter.headers[DETAIL]) for letter in db.browse("$dlq/orders")}
    assert letters == {
        b"reject": ("rejected", "never"),
        b"broken": ("max-retries", "KeyError: 'amount'"),
        b"settled": ("rejected", "by hand"),
    }


def test_stopping_finishes_what_is_in_hand_and_gives_back_the_rest(directory: Path) -> None:
    handled = list[bytes]()
    with penstock.open(directory, options=SMALL) as db:
        in_hand, goes_on = threading.Barrier(3), threading.Event()

        @db.worker("orders", concurrency=2)
        def handle(message: penstock.Message) -> None:
            in_hand.wait()
            goes_on.wait()
            handled.append(message.value)

        db.put_many("orders", [b"%d" % i for i in range(10)])
        running = threading.Thread(target=db.run)
        running.start()
        in_hand.wait()
        db.stop()
        goes_on.set()
        running.join()
        assert len(handled) == 2
        with db.consume("orders") as messages:
            rest = messages.get_many(100, timeout=5)
            assert sorted([*handled, *rest.values()]) == [b"%d" % i for i in range(10)]
    with penstock.open(directory, options=SMALL) as db:
        assert db.groups("orders")[0].in_flight == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_stop_the_workers_and_are_as_before_afterwards(db: penstock.Database, number: signal.Signals) -> None:
    before = signal.getsignal(number)

    @db.worker("orders")
    def handle(message: penstock.Message) -> None:
        os.kill(os.getpid(), number)

    db.put("orders", b"x")
    db.run()
    assert signal.getsignal(number) is before
    assert db.groups("orders")[0].in_flight == 0


def test_an_async_worker_of_a_plain_database_runs_in_a_loop_of_its_own(db: penstock.Database) -> None:
    seen = list[bytes]()

    @db.worker("orders", concurrency=3)
    async def handle(message: penstock.AsyncMessage) -> None:
        await asyncio.sleep(0)
        seen.append(message.value)
        if message.value == b"0" and message.delivery_count == 1:
            raise penstock.Retry(delay=0)
        if message.value == b"1":
            raise penstock.Reject("no")
        if len(seen) == 6:
            db.stop()

    db.put_many("orders", [b"%d" % i for i in range(5)])
    db.run()
    assert sorted(seen) == [b"0", b"0", b"1", b"2", b"3", b"4"]
    assert len(list(db.browse("$dlq/orders"))) == 1


def test_an_async_database_runs_async_functions_on_its_own_loop_and_plain_ones_in_threads(directory: Path) -> None:
    async def main() -> None:
        async with penstock.open_async(directory, options=SMALL) as db:
            here, loops, threads = asyncio.get_running_loop(), list[object](), list[int]()

            @db.worker("orders", group="a")
            async def handle(message: penstock.AsyncMessage) -> None:
                loops.append(asyncio.get_running_loop())
                if len(threads) == 1:
                    db.stop()

            @db.worker("orders", group="b")
            def handle_plainly(message: penstock.Message) -> None:
                threads.append(threading.get_ident())
                if len(loops) == 1:
                    db.stop()

            await db.put("orders", b"x")
            await db.run()
            assert loops == [here] and threads != [threading.get_ident()]
            assert [group.in_flight for group in await db.groups("orders")] == [0, 0]

    run(main())


def test_a_worker_that_cannot_begin_ends_the_run_with_its_error(directory: Path) -> None:
    with penstock.open(directory, auto_create=False) as db:
        db.worker("orders")(print)
        with pytest.raises(NoSuchQueue):
            db.run()

    async def main() -> None:
        async with penstock.open_async(directory, auto_create=False) as db:

            @db.worker("orders")
            async def handle(message: penstock.AsyncMessage) -> None:
                raise AssertionError

            with pytest.raises(NoSuchQueue):
                await db.run()

    run(main())


def test_closing_ends_the_run_but_not_from_inside_a_worker(directory: Path) -> None:
    db = penstock.open(directory, options=SMALL)
    told, seen = list[PenstockError](), threading.Event()

    @db.worker("orders")
    def handle(message: penstock.Message) -> None:
        try:
            db.close()
        except InvalidArgument as error:
            told.append(error)
        seen.set()

    db.put("orders", b"x")
    running = threading.Thread(target=db.run)
    running.start()
    seen.wait()
    db.close()
    running.join()
    assert "stop()" in str(told[0])
    with pytest.raises(InvalidArgument, match="at least 1"):
        db.worker("orders", concurrency=0)
