from __future__ import annotations

import gc
import threading
import tracemalloc
import weakref
from collections import Counter

import penstock
from penstock.embedded.subscription import Subscription


def test_64_threads_put_take_and_acknowledge_and_nothing_is_lost_or_doubled(db: penstock.Database) -> None:
    db.declare("orders", partitions=8)
    each, threads_count = 20, 64
    seen: list[list[bytes]] = [[] for _ in range(threads_count)]
    left, lock = [each * threads_count], threading.Lock()
    with db.consume("orders") as messages:

        def work(number: int) -> None:
            for i in range(each):
                db.put("orders", b"%d-%d" % (number, i))
            while True:
                with lock:
                    if not left[0]:
                        return
                    left[0] -= 1
                message = messages.get(timeout=20)
                assert message is not None
                message.ack()
                seen[number].append(message.value)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(threads_count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    expected = Counter(b"%d-%d" % (number, i) for number in range(threads_count) for i in range(each))
    assert Counter(value for values in seen for value in values) == expected
    group = db.groups("orders")[0]
    assert (group.depth, group.in_flight) == (0, 0)


def test_members_of_a_group_share_its_messages(db: penstock.Database) -> None:
    db.declare("orders", partitions=8)
    seen: dict[int, list[bytes]] = {0: [], 1: []}

    def work(number: int) -> None:
        with db.consume("orders", idle_timeout=0.3) as messages:
            ready.wait()
            for message in messages:
                seen[number].append(message.value)
                message.ack()

    ready = threading.Barrier(3)
    threads = [threading.Thread(target=work, args=(number,)) for number in seen]
    for thread in threads:
        thread.start()
    ready.wait()
    db.put_many("orders", [b"%d" % i for i in range(200)], keys=[b"%d" % i for i in range(200)])
    for thread in threads:
        thread.join()
    assert sorted([*seen[0], *seen[1]], key=int) == [b"%d" % i for i in range(200)]
    assert seen[0] and seen[1]


def cycle(db: penstock.Database, messages: penstock.Consumer, count: int) -> weakref.ref[Subscription]:
    message = None
    for _ in range(count):
        db.put("orders", b"x" * 100, key=b"k", headers={"a": "b"})
        message = messages.get(timeout=5)
        assert message is not None
        message.ack()
    assert message is not None
    return weakref.ref(message.subscription)


def test_messages_that_were_settled_leave_nothing_behind(db: penstock.Database) -> None:
    db.declare("orders", partitions=1, durability="memory")
    messages = db.consume("orders")
    feed = cycle(db, messages, 50)
    tracemalloc.start()
    before = tracemalloc.take_snapshot()
    cycle(db, messages, 400)
    gc.collect()
    grown = [
        stat
        for stat in tracemalloc.take_snapshot().compare_to(before, "filename")
        if "embedded" in stat.traceback[0].filename and stat.size_diff > 20_000
    ]
    tracemalloc.stop()
    assert grown == []
    messages.close()
    del messages
    gc.collect()
    assert feed() is None
