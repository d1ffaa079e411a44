"""The second half of the tour: a queue at work, and what becomes of a message that nobody can handle."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import penstock
from examples.stage import Stage
from penstock.broker.broker import BrokerOptions
from penstock.embedded.database import Database
from penstock.log.options import ShardOptions

QUEUE, GROUP, LETTERS = "orders", "billing", "$dlq/orders"
POISON = b"an order that makes the handler fail"
_BATCH, _PREFETCH = 100, 400
_PATIENCE_S = 60.0
_SETTINGS = {
    "partitions": 6,
    "retry_policy": {"max_retries": 3, "initial_backoff": "100ms", "max_backoff": "400ms"},
    "limits": {"max_queue_depth": None},
}


@dataclass(slots=True)
class Work:
    """What the consumers did, for all threads."""

    handled: int = 0
    failed: int = 0
    is_fixed: bool = False
    is_over: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)

    def count(self, handled: int, failed: int) -> None:
        with self.lock:
            self.handled += handled
            self.failed += failed


class QueueTour:
    def __init__(self, directory: Path, messages: int, stage: Stage) -> None:
        self._directory, self._messages, self._stage = directory, messages, stage
        self._work = Work()

    def run(self) -> bool:
        """Whether every message was handled, the poisonous one at last too."""
        self._stage.scene(
            f"a queue: two producers, a group of three, {self._messages:,} orders and one nobody can handle"
        )
        options = BrokerOptions(shard=ShardOptions(disk_reserve_bytes=0))
        with penstock.open(self._directory, options=options) as db:
            db.declare(QUEUE, **_SETTINGS)
            with self._stage.watching(lambda: self._row(db)), _running(*self._crew(db)):
                is_done = _wait(lambda: self._work.handled >= self._messages and self._letters(db) == 1)
                self._report(db, is_done)
                is_redriven = is_done and self._redrive(db)
                self._work.is_over = True
        return is_redriven

    def _crew(self, db: Database) -> list[threading.Thread]:
        half = self._messages // 2
        return [
            threading.Thread(target=self._produce, args=(db, 0, half, half // 2), name="producer-1"),
            threading.Thread(target=self._produce, args=(db, half, self._messages, None), name="producer-2"),
            threading.Thread(target=self._consume, args=(db, None), name="billing-1"),
            threading.Thread(target=self._consume, args=(db, None), name="billing-2"),
            threading.Thread(target=self._consume, args=(db, self._messages // 10), name="billing-3"),
        ]

    def _produce(self, db: Database, first: int, stop: int, poison_at: int | None) -> None:
        for at in range(first, stop, _BATCH):
            numbers = range(at, min(at + _BATCH, stop))
            db.put_many(QUEUE, [b"order %d" % n for n in numbers], keys=[b"customer %d" % (n % 97) for n in numbers])
            if poison_at is not None and at <= poison_at < at + _BATCH:
                db.put(QUEUE, POISON)

    def _consume(self, db: Database, leaves_after: int | None) -> None:
        """Until the work is over. One that leaves goes away with messages in hand, as if it had been killed."""
        with db.consume(QUEUE, GROUP, prefetch=_PREFETCH) as messages:
            while not self._work.is_over:
                batch = messages.get_many(_BATCH, timeout=0.1)
                if leaves_after is not None and batch and self._work.handled >= leaves_after:
                    self._stage.say(f"a consumer goes away with {len(batch)} messages in hand: others get them")
                    return
                self._handle(messages, batch)

    def _handle(self, messages: penstock.Consumer, batch: Sequence[penstock.Message]) -> None:
        good = [message for message in batch if self._work.is_fixed or message.value != POISON]
        for message in batch:
            if message.value == POISON and not self._work.is_fixed:
                message.retry(reason="cannot handle this")
        self._work.count(messages.ack_many(good).done, len(batch) - len(good))

    def _report(self, db: Database, is_done: bool) -> None:
        counts = db.describe(QUEUE).groups[0].counts
        if not is_done:
            self._stage.bad(f"only {self._work.handled:,} of {self._messages:,} orders were handled")
            return
        self._stage.good(
            f"{self._work.handled:,} orders handled; {counts.redelivered:,} deliveries were repeated for the one "
            f"that left and the one that failed {self._work.failed} times"
        )
        letter = next(db.browse(LETTERS))
        self._stage.say(
            f"in {LETTERS}: {letter.value!r}, {letter.headers['dlq-reason']}: {letter.headers['dlq-detail']}"
        )

    def _redrive(self, db: Database) -> bool:
        self._stage.say("the handler is mended, and the dead letter sent again to the group that gave it up")
        self._work.is_fixed, before = True, self._work.handled
        db.redrive(QUEUE)
        is_handled = _wait(lambda: self._work.handled > before and db.describe(QUEUE).depth == 0)
        if is_handled:
            self._stage.good("handled; nothing is left unsettled")
        else:
            self._stage.bad("the redriven message was not handled")
        return is_handled

    def _letters(self, db: Database) -> int:
        return db.describe(LETTERS).messages if LETTERS in db.queues() else 0

    def _row(self, db: Database) -> dict[str, str]:
        """What is seen of the queue now."""
        queue = db.describe(QUEUE)
        group = queue.groups[0] if queue.groups else None
        return {
            "published": f"{queue.published:,}",
            "depth": f"{queue.depth:,}",
            "lag": f"{group.lag:,}" if group else "",
            "lag s": f"{group.lag_s:.1f}" if group else "",
            "in flight": f"{group.in_flight:,}" if group else "",
            "in retry": f"{group.waiting:,}" if group else "",
            "members": str(len(group.members)) if group else "",
            "dead letters": str(self._letters(db)),
        }


def _wait(is_so: Callable[[], bool]) -> bool:
    until = time.monotonic() + _PATIENCE_S
    while not is_so():
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
    return True


@contextmanager
def _running(*threads: threading.Thread) -> Iterator[None]:
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        for thread in threads:
            thread.join()
