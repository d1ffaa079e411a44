"""What is staged and lives: its room in queues and on the disk, and the side logs that hold it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from penstock.broker.queues.queue import Queue
from penstock.broker.staging.placement import Carried
from penstock.broker.staging.records import StagedRange, StagePlace, StageRecord
from penstock.core.errors import InvalidArgument, StageGone
from penstock.log.names import log_name
from penstock.log.partition import Log
from penstock.log.records import LogSettings
from penstock.log.shard import Shard

STAGE_KEPT_MS = 24 * 3600 * 1000
# About 300 bytes each in memory, and 50 in the one frame that commits them all.
MAX_STAGES = 100_000
# A look at all stages takes up to 50 ms where there are as many as there may be.
_LOOK_EVERY_MS = 60_000
# Side logs are deleted whole: an abandoned stage holds back no more than this.
SIDE_LOG_BYTES = 64 << 20
_PREFIX = "@staging"
_SETTINGS = LogSettings(segment_bytes=SIDE_LOG_BYTES)

QueueOf = Callable[[int], Queue | None]
"""by its incarnation; None once it is deleted"""


@dataclass(slots=True)
class SideLog:
    log: Log
    living: int = 0
    """stages in it that are neither committed nor collected, or that are being stored"""
    bytes: int = 0


@dataclass(slots=True)
class Claim:
    owner: str
    stages: int = 0


def query_of(writer: str) -> str:
    """A writer `<query>/<epoch>` stages for that query; any other is taken for the query itself."""
    query, slash, epoch = writer.rpartition("/")
    return query if slash and epoch.isdecimal() else writer


class Stages:
    """Used from the loop."""

    def __init__(self, shard: Shard, queue_of: QueueOf) -> None:
        self._shard, self._queue_of = shard, queue_of
        self.living: dict[StagePlace, StageRecord] = {}
        self.size_bytes = 0
        """of all that live"""
        self._taken: set[StagePlace] = set()
        """by a commit that is under way"""
        self._sides: dict[int, SideLog] = {log.number: SideLog(log) for log in shard.logs if _is_side_log(log)}
        self._current: SideLog | None = None
        self._making = asyncio.Lock()
        self._storing = 0
        self._next_look_ms = 0
        self._claims: dict[str, Claim] = {}
        """of queries that have stages"""

    # Staging

    def owner(self, query: str) -> str:
        """The mark of who staged for a query first, while that lives; empty where nobody has."""
        claim = self._claims.get(query)
        return "" if claim is None else claim.owner

    def of_query(self, query: str) -> list[StagePlace]:
        """Those that no commit is about to take."""
        return [
            place for place, each in self.living.items() if query_of(each.writer) == query and place not in self._taken
        ]

    def _claim(self, record: StageRecord) -> None:
        if record.writer:
            claim = self._claims.setdefault(query_of(record.writer), Claim(record.owner))
            claim.stages += 1

    def _unclaim(self, record: StageRecord) -> None:
        query = query_of(record.writer)
        claim = self._claims.get(query)
        if record.writer and claim is not None:
            claim.stages -= 1
            if not claim.stages:
                del self._claims[query]

    def reserve(self, queue: Queue, rows: int, size: int) -> None:
        """Room for a commit, so that it cannot be refused. QueueFull, DiskLow or InvalidArgument if there is none."""
        if len(self.living) + self._storing >= MAX_STAGES:
            raise InvalidArgument(
                f"{MAX_STAGES} stages wait for their commit: commit some, or stage more rows with one call"
            )
        self._shard.promise(size)
        try:
            queue.reserve(rows)
        except BaseException:
            self._shard.restore_promise(-size)
            raise

    @contextmanager
    def room_for(self, carried: Sequence[Carried]) -> Iterator[Callable[[], None]]:
        """reserve() for rows that come with their commit, until what it gives is called, or it is left. They are
        checked as those that are staged are."""
        held: list[Carried] = []

        def release() -> None:
            while held:
                each = held.pop()
                self.release(each.queue, each.rows, each.size_bytes)

        try:
            for each in carried:
                each.queue.check(each.encoded)
                self.reserve(each.queue, each.rows, each.size_bytes)
                held.append(each)
            yield release
        finally:
            release()

    def release(self, queue: Queue, rows: int, size: int) -> None:
        queue.release(rows)
        self._shard.restore_promise(-size)

    async def enter(self) -> SideLog:
        """The side log for the next stage; leave() it if nothing was stored."""
        async with self._making:
            if self._current is None or self._current.bytes >= SIDE_LOG_BYTES:
                number = 1 + max([int(side.log.name.rpartition("/")[2]) for side in self._sides.values()], default=0)
                log = await self._shard.create(log_name(_PREFIX, str(number)), _SETTINGS)
                self._shard.hold_back(log)
                self._current = self._sides[log.number] = SideLog(log)
            side = self._current
        side.living += 1
        self._storing += 1
        return side

    def leave(self, side: SideLog) -> None:
        side.living -= 1
        self._storing -= 1

    def add(self, side: SideLog, place: StagePlace, record: StageRecord) -> None:
        """What was entered for is stored."""
        side.bytes += record.size_bytes
        self._storing -= 1
        self.living[place] = record
        self._claim(record)
        self.size_bytes += record.size_bytes

    def restore(self, place: StagePlace, record: StageRecord) -> bool:
        """After opening; False if its rows or its queue are not there."""
        side, queue = self._sides.get(place.log), self._queue_of(record.incarnation)
        if side is None or queue is None:
            return False
        self.living[place] = record
        self._claim(record)
        self.size_bytes += record.size_bytes
        side.living += 1
        side.bytes += record.size_bytes
        queue.reserve(record.rows, is_forced=True)
        self._shard.restore_promise(record.size_bytes)
        return True

    # Committing

    def take(self, ranges: Iterable[StagedRange]) -> dict[StagePlace, StageRecord]:
        """For a commit, in the order given: give_back() or drop() them. StageGone, with nothing taken, if one is not
        there."""
        taken: dict[StagePlace, StageRecord] = {}
        for staged in ranges:
            record = self.living.get(staged.place)
            if record is None:
                raise StageGone(str(staged.place), "they were committed before, or collected 24 h after the last write")
            if staged.place in self._taken:
                raise StageGone(str(staged.place), "another commit is about to take them")
            if self._queue_of(record.incarnation) is None:
                raise StageGone(str(staged.place), "their queue was deleted")
            taken[staged.place] = record
        self._taken |= taken.keys()
        return taken

    def give_back(self, places: Iterable[StagePlace]) -> None:
        self._taken.difference_update(places)

    def untaken(self, ranges: Iterable[StagedRange]) -> list[StagePlace]:
        """Those of them that no commit is about to take."""
        return [staged.place for staged in ranges if staged.place not in self._taken]

    def of_writer(self, writer: str) -> list[StagePlace]:
        """Those that no commit is about to take."""
        return [place for place, each in self.living.items() if each.writer == writer and place not in self._taken]

    def side_log(self, place: StagePlace) -> Log:
        return self._sides[place.log].log

    def queue(self, record: StageRecord) -> Queue | None:
        return self._queue_of(record.incarnation)

    def there(self, places: Iterable[StagePlace]) -> list[StagePlace]:
        """Those that are neither committed nor collected."""
        return [place for place in dict.fromkeys(places) if place in self.living]

    def drop(self, places: Iterable[StagePlace]) -> list[StagePlace]:
        """They are committed, or collected: what of them was there still."""
        gone = self.there(places)
        for place in gone:
            record = self.living.pop(place)
            self._unclaim(record)
            self.size_bytes -= record.size_bytes
            self._taken.discard(place)
            self._sides[place.log].living -= 1
            self._shard.restore_promise(-record.size_bytes)
            if (queue := self._queue_of(record.incarnation)) is not None:
                queue.release(record.rows)
        return gone

    # Collecting

    def abandoned(self, now_ms: int) -> list[StagePlace]:
        """Those whose writer has written nothing for long, and those of deleted queues. Looks only now and then."""
        if now_ms < self._next_look_ms:
            return []
        self._next_look_ms = now_ms + _LOOK_EVERY_MS
        last_ms: dict[str, int] = {}
        for record in self.living.values():
            last_ms[record.writer] = max(last_ms.get(record.writer, 0), record.staged_ms)
        return [
            place
            for place, record in self.living.items()
            if place not in self._taken
            and (
                self._queue_of(record.incarnation) is None
                or (last_ms[record.writer] if record.writer else record.staged_ms) + STAGE_KEPT_MS <= now_ms
            )
        ]

    async def delete_empty(self) -> None:
        """Side logs in which nothing lives; the one that is written to once it is worth it."""
        for number, side in list(self._sides.items()):
            is_small = side is self._current and side.bytes < SIDE_LOG_BYTES // 4
            if side.living or is_small or self._making.locked() or number not in self._sides:
                continue
            del self._sides[number]
            self._current = None if side is self._current else self._current
            await self._shard.delete(side.log)


def _is_side_log(log: Log) -> bool:
    space, _, number = log.name.rpartition("/")
    return space == log_name(_PREFIX) and number.isdecimal()
