"""A seeded walk of a sink that stages, commits, forgets answers and replays, through a broker that crashes: every row
of a committed epoch is there once, of others none."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

from tests.support.broker import Stage
from tests.support.staging import stored

from penstock.broker.queues.queue import Queue
from penstock.broker.staging.records import StagedRange
from penstock.core.errors import StageGone
from penstock.log.batch import encode
from penstock.log.columns import Columns
from penstock.log.encoded import Encoded

QUEUES = {"one": 1, "three": 3}
QUERIES = ("a", "b")
# A frame of these tests holds 128 KiB: half of the epochs fit into one.
ROW_BYTES = (1, 100, 4000)


class StagingWalk:
    def __init__(self, seed: int, directory: Path, steps: int = 60) -> None:
        self.random, self.place, self.steps = random.Random(seed), directory, steps
        self.lives = self.numbers = 0
        self.stage = Stage(directory / "0")
        self.epochs = dict.fromkeys(QUERIES, 0)
        self.committed: dict[str, list[bytes]] = {name: [] for name in QUEUES}
        self.answers: dict[tuple[str, int], tuple[object, ...]] = {}
        self.orphans: list[StagedRange] = []
        self.trace: list[str] = []

    async def run(self) -> None:
        await self.stage.open()
        try:
            for name, partitions in QUEUES.items():
                await self.stage.queue(name, partitions)
            for _ in range(self.steps):
                await self._step()
                await self._check()
        finally:
            await self.stage.broker.close()

    async def _step(self) -> None:
        actions = [self._epoch, self._replay, self._publish, self._crash_in_the_middle, self._crash, self._late]
        [action] = self.random.choices(actions, [10, 4, 4, 3, 2, 2])
        self.trace.append(action.__name__)
        await action()

    def _rows(self) -> dict[str, list[list[bytes]]]:
        """For each queue, what each of its writers stages."""
        draw = self.random
        rows: dict[str, list[list[bytes]]] = {}
        for name in QUEUES:
            for _ in range(draw.choice((0, 1, 3))):
                size, count = draw.choice(ROW_BYTES), draw.choice((1, 7, 25))
                first, self.numbers = self.numbers, self.numbers + count
                values = [(b"%d." % number).ljust(size, b".") for number in range(first, first + count)]
                rows.setdefault(name, []).append(values)
        return rows

    async def _staged(self, rows: dict[str, list[list[bytes]]]) -> list[StagedRange]:
        """Some writers fail and write all of it again: what they had written stays behind."""
        ranges: list[StagedRange] = []
        for name, several in rows.items():
            for values in several:
                for is_orphan in [True] * (self.random.random() < 0.2) + [False]:
                    keys = [value[:3] for value in values] if self.random.random() < 0.7 else None
                    queue = self.stage.broker.queue(name)
                    staged = await self.stage.broker.staging.stage(queue, Columns.of(values, keys=keys), writer=name)
                    (self.orphans if is_orphan else ranges).append(staged)
        return ranges

    def _carried(self, rows: dict[str, list[list[bytes]]]) -> list[tuple[Queue, Encoded]]:
        """What goes with the commit."""
        return [
            (self.stage.broker.queue(name), Encoded.checked(encode(Columns.of(values, keys=[v[:3] for v in values]))))
            for name, several in rows.items()
            for values in several
        ]

    async def _commit(self, query: str, epoch: int, rows: dict[str, list[list[bytes]]]) -> None:
        """Each time by another way: all rows staged, or those of the first queue brought along."""
        ahead = dict(list(rows.items())[: self.random.randrange(2)])
        ranges = await self._staged({name: several for name, several in rows.items() if name not in ahead})
        answer = await self.stage.broker.staging.commit(query, epoch, ranges, rows=self._carried(ahead))
        known = self.answers.setdefault((query, epoch), answer.placed)
        assert answer.placed == known, "a repeated key was answered otherwise"

    async def _epoch(self) -> None:
        query, rows = self.random.choice(QUERIES), self._rows()
        epoch = self.epochs[query]
        self.epochs[query] += 1
        await self._commit(query, epoch, rows)
        self._note(rows)

    async def _replay(self) -> None:
        """As after the crash of a driver that did not note what it had committed."""
        query = self.random.choice(QUERIES)
        if self.epochs[query]:
            await self._commit(query, self.random.randrange(self.epochs[query]), self._rows())

    async def _late(self) -> None:
        """What was left behind is committed by nobody but whoever names it, once."""
        if not self.orphans:
            return
        orphan = self.orphans[0]
        gone = await self.stage.broker.staging.abandon([orphan])
        self.orphans.pop(0)
        query = self.random.choice(QUERIES)
        try:
            await self.stage.broker.staging.commit(query, 10**9 + self.numbers, [orphan])
        except StageGone:
            return
        raise AssertionError(f"{gone} stages were let go, and one was committed")

    async def _publish(self) -> None:
        name = self.random.choice(list(QUEUES))
        self.numbers += 1
        value = b"%d.published" % self.numbers
        await self.stage.put(self.stage.broker.queue(name), value)
        self.committed[name].append(value)

    def _note(self, rows: dict[str, list[list[bytes]]]) -> None:
        for name, several in rows.items():
            self.committed[name] += [value for values in several for value in values]

    # Crashes

    async def _crash(self) -> None:
        """What is on the disk at this moment is opened as if the process were gone."""
        await self._reopen(self._copied())

    async def _crash_in_the_middle(self) -> None:
        """Copies of the directory from before a commit, from behind it; the sink replays the epoch on either."""
        query, rows = self.random.choice(QUERIES), self._rows()
        epoch = self.epochs[query]
        ranges = await self._staged(rows)
        await self.stage.broker.shard.checkpoint()
        before = self._copied()
        answer = await self.stage.broker.staging.commit(query, epoch, ranges)
        behind = self._copied()
        is_decided = self.random.random() < 0.5
        if is_decided:
            self.answers[query, epoch] = answer.placed
        await self._reopen(behind if is_decided else before)
        repeated = await self.stage.broker.staging.commit(query, epoch, ranges)
        assert repeated.is_repeated is is_decided
        assert self.answers.setdefault((query, epoch), repeated.placed) == repeated.placed
        self.epochs[query] += 1
        self._note(rows)

    def _copied(self) -> Path:
        self.lives += 1
        copy = self.place / str(self.lives)
        shutil.copytree(self.stage.directory, copy, ignore=shutil.ignore_patterns("table*", "lock"))
        return copy

    async def _reopen(self, copy: Path) -> None:
        self.stage.directory = copy
        await self.stage.restart()

    async def _check(self) -> None:
        for name, wanted in self.committed.items():
            found = await stored(self.stage, name)
            assert found == sorted(wanted), f"{name}: {len(found)} rows, should be {len(wanted)}"
