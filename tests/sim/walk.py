"""A seeded random walk over a shard on a simulated disk: commits, faults, stops and crashes, held against the model."""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Callable

from tests.sim.life import Life
from tests.sim.model import Alter, Append, Change, Commit, Declare, Delete, ModelBatch
from tests.sim.reading import check_readable
from tests.support.simdisk import SimulatedCrash

from penstock.core.errors import JournalFailed, LogPoisoned, PenstockError, TooLarge
from penstock.core.ports import Buffer
from penstock.core.types import Compression, Durability
from penstock.kernels.staged import NO_CUT
from penstock.log import batch as batches
from penstock.log.columns import Columns
from penstock.log.names import CATALOGUE_NUMBER, directory_of, log_name
from penstock.log.partition import Log
from penstock.log.records import Edit, LogSettings, SegmentInfo
from penstock.log.segments.index import places
from penstock.log.segments.segments import segment_path
from penstock.log.segments.side_segments import Importer, imported_version

# Calls of the disk that can fail, and what with. A directory that cannot be synced is not among them, only one that
# cannot be opened: where its sync fails, a file system stops as a whole, and shows what it has when mounted again.
CALLS = ("open", "create", "write", "sync", "allocate", "truncate", "rename", "unlink", "make_directory")
CODES = (errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENOMEM)
# None, a few, and around and above the sector in which writes are torn.
VALUE_BYTES = (0, 1, 7, 40, 200, 511, 700, 1500)
NAMES = ("a", "b", "c", "deep/er", "é.x")


class Walk(Life):
    """One scenario. Deterministic: the seed decides everything."""

    def __init__(self, seed: int) -> None:
        super().__init__(random.Random(seed))
        self.values = 0
        kind = self.rng.random()
        self.weights = NARROW_WEIGHTS if kind < 0.1 else STORMY_WEIGHTS if kind < 0.3 else WEIGHTS
        self.faulty |= self.weights is STORMY_WEIGHTS

    def run(self) -> None:
        self._open()
        for _ in range(self.rng.choice((10, 25, 60))):
            self._step()
        self._finish()

    def _step(self) -> None:
        action = self.rng.choices(ACTIONS, self.weights)[0]
        self.trace.append(action.__name__)
        try:
            action(self)
        except SimulatedCrash as crash:
            self.trace.append(str(crash))
            self._die()
            return
        except OSError as error:
            assert self.faulty  # a reader was told so, before anything was staged
            self.trace.append(repr(error))
        except JournalFailed as failure:
            assert self.faulty
            self.keeper_ended = True
            self.live.commit.fail(failure)
        self._check_live()
        if self.live.commit.failure is not None and self.rng.random() < 0.5:
            self._die()

    def _finish(self) -> None:
        """The end of every walk: all is well again, closed and opened, nothing lost and nothing left over."""
        self.trace.append("finish")
        if self.live.commit.failure is not None or self.rng.random() < 0.5:
            self.kill()
        self.disk.heal()
        self.close()
        self.disk.heal()
        self.faulty = False
        self.look()
        self.checkpoint()

    # Commits

    def _stage(self, level: Durability, call: Callable[[Commit], list[Change]]) -> None:
        """`call` stages the commit and says what it changes; a refused one changes nothing."""
        commit = self.history.begin(level)
        try:
            changes = call(commit)
        except TooLarge:
            return
        except (JournalFailed, LogPoisoned):
            assert self.live.commit.failure is not None
            return
        self.history.staged(commit, changes)

    def _some_log(self) -> Log | None:
        """One that takes records."""
        logs = [log for log in self.live.logs.values() if log.number != CATALOGUE_NUMBER and log.fault is None]
        return self.rng.choice(logs) if logs else None

    def _settings(self) -> LogSettings:
        return LogSettings(
            durability=self.rng.choice(list(Durability)),
            compression=self.rng.choice(list(Compression)),
            segment_bytes=self.rng.choice((1, 700, 2500, 9000)),
            segment_age_s=self.rng.choice((2.0, 3600.0)),
        )

    def create(self) -> None:
        taken = {log.name for log in self.live.logs.values()}
        names = [name for part in NAMES if (name := log_name(*part.split("/"))) not in taken]
        if not names:
            return
        wanted = [(name, self._settings()) for name in self.rng.sample(names, min(len(names), self.rng.randint(1, 2)))]

        def call(commit: Commit) -> list[Change]:
            logs = self.live.stage_create(wanted, commit.done)
            return [Declare(log.number, log.name, log.settings) for log in logs]

        self._stage(Durability.COMMIT, call)

    def change(self) -> None:
        log = self._some_log()
        if log is None:
            return
        settings = self._settings()

        def call(commit: Commit) -> list[Change]:
            self.live.stage_change([(log, settings)], commit.done)
            return [Declare(log.number, log.name, settings)]

        self._stage(Durability.COMMIT, call)

    def delete(self) -> None:
        log = self._some_log()
        if log is None:
            return

        def call(commit: Commit) -> list[Change]:
            self.live.stage_delete(log, commit.done)
            return [Delete(log.number)]

        self._stage(Durability.COMMIT, call)

    def _columns(self) -> tuple[Columns, list[bytes]]:
        values: list[bytes] = []
        for _ in range(self.rng.choice((1, 1, 2, 5))):
            self.values += 1
            size = self.rng.choice(VALUE_BYTES)
            filler = self.rng.randbytes(size) if self.rng.random() < 0.5 else bytes(size)
            values.append((b"%d." % self.values + filler)[:size])
        keys = [b"k%d" % self.rng.randrange(4) for _ in values] if self.rng.random() < 0.3 else None
        return Columns.of(values, keys=keys), values

    def append(self) -> None:
        """One commit over one or several logs, some with several batches."""
        picked = [log for _ in range(self.rng.choice((1, 1, 1, 2, 3))) if (log := self._some_log()) is not None]
        if not picked:
            return
        parts = [(log, *self._columns()) for log in picked]

        def call(commit: Commit) -> list[Change]:
            before = {log.number: len(log.tail) for log in picked}
            offsets = self.live.stage([(log, columns) for log, columns, _ in parts], commit.done)
            changes: list[Change] = []
            for (log, _, values), first in zip(parts, offsets, strict=True):
                tail = log.tail[before[log.number]]
                before[log.number] += 1
                self._check_batch(tail.data, first, values)
                changes.append(Append(log.number, ModelBatch(first, first + len(values), bytes(tail.data))))
            return changes

        self._stage(max(log.settings.durability for log in picked), call)

    def _check_batch(self, data: Buffer, first: int, values: list[bytes]) -> None:
        batch = batches.Batch.parse(data)
        assert batch.header.base_offset == first
        assert [batch.value(row) for row in range(len(batch))] == values

    def append_raw(self) -> None:
        log = self._some_log()
        if log is None:
            return
        columns, _ = self._columns()
        first = log.end + self.rng.choice((0, 0, 1, 50))
        epoch = log.bounds.epoch + self.rng.choice((0, 0, 1))
        data = batches.encode(columns, log.settings.compression)
        batches.seal(data, first, epoch, max(self.clock.now_ms(), log.last_timestamp))
        end = first if first > log.end else None
        edit = Edit(end=end, epoch=epoch if epoch != log.bounds.epoch else None)

        def call(commit: Commit) -> list[Change]:
            self.live.stage_raw(log, data, commit.done)
            batch = ModelBatch(first, first + columns.count, bytes(data))
            return [Alter(log.number, edit), Append(log.number, batch)]

        self._stage(log.settings.durability, call)

    def adopt(self) -> None:
        """Segments written beside the journal become the ends of some logs, with a commit to another in one frame."""
        logs = list({log.number: log for _ in range(self.rng.choice((1, 2, 3))) if (log := self._some_log())}.values())
        if not logs or any(log.adopted_base != NO_CUT or log.number not in self.history.settled for log in logs):
            return  # as the shard: one at a time, and for logs that are sure to be there
        importer = Importer(self.disk, logs, self.clock.now_ms(), imported_version(self.live.next_sequence))
        try:
            for _ in range(self.rng.choice((1, 3, 8))):
                importer.add(self.rng.choice(logs), self._columns()[0])
            importer.finish()
            adopted = importer.adopted
            found = [
                (log.number, batch)
                for log, infos in adopted.items()
                for info in infos
                for batch in self._batches_of(log, info)
            ]
        except OSError:
            assert self.faulty
            self._abandon(importer)
            return
        if self.rng.random() < 0.1:
            self._abandon(importer)
            return
        beside = next((log for log in self.live.logs.values() if log.number in self.history.tip), logs[0])
        parts = [(beside, self._columns()[0])] if beside not in adopted and beside.fault is None else []

        def call(commit: Commit) -> list[Change]:
            before = len(beside.tail)
            try:
                self.live.stage_adoption(adopted, parts, commit.done)
            except PenstockError:
                self._abandon(importer)
                raise
            others = [(beside.number, bytes(tail.data)) for tail in beside.tail[before:]]
            return [Append(number, _model_batch(data)) for number, data in found + others]

        self._stage(Durability.COMMIT, call)

    def _abandon(self, importer: Importer) -> None:
        """What cannot be removed stays until the next opening."""
        importer.abandon()
        self.may_leave_strays |= self.faulty

    def _batches_of(self, log: Log, info: SegmentInfo) -> list[bytes]:
        file = self.disk.open_read(segment_path(directory_of(log.name, log.number), info.base, info.version))
        data = file.map()
        file.close()
        return [bytes(data[place.position : place.position + place.bytes]) for place in places(data, 0, len(data))]

    def _edit(self, log: Log, edit: Edit) -> None:
        def call(commit: Commit) -> list[Change]:
            self.live.stage_edit(log, edit, commit.done)
            return [Alter(log.number, edit)]

        self._stage(Durability.COMMIT, call)

    def trim(self) -> None:
        log = self._some_log()
        if log is None:
            return
        model = self.history.tip[log.number]
        points = [log.end, *(batch.first + self.rng.randrange(2) for batch in model.batches)]
        self._edit(log, Edit(start=min(self.rng.choice(points), log.end)))

    def begin_epoch(self) -> None:
        log = self._some_log()
        if log is not None:
            self._edit(log, Edit(epoch=log.bounds.epoch + 1))

    def truncate(self) -> None:
        """As the shard does it: the commits before are durable, then a frame cuts and puts back the head of a batch."""
        log = self._some_log()
        if log is None or self.live._adoptions:
            return
        self.live.commit.step(sync=True)
        inside = [batch for batch in self.history.tip[log.number].batches if batch.end > log.start]
        if not inside:
            return
        batch = self.rng.choice(inside)
        end = self.rng.randrange(max(batch.first, log.start), batch.end)
        head = bytes(batches.below_offset(batch.data, end)) if end > batch.first else None

        def call(commit: Commit) -> list[Change]:
            self.live.stage_truncate(log, end, batch.first, head, commit.done)
            cut = Alter(log.number, Edit(end=batch.first))
            return [cut] if head is None else [cut, Append(log.number, ModelBatch(batch.first, end, head))]

        self._stage(Durability.COMMIT, call)

    def barrier(self) -> None:
        def call(commit: Commit) -> list[Change]:
            self.live.stage_barrier(commit.done)
            return []

        self._stage(Durability.COMMIT, call)

    # Threads and time

    def commit(self) -> None:
        self.live.commit.step()

    def commit_and_sync(self) -> None:
        self.live.commit.step(sync=True)

    def keep(self) -> None:
        self._keeper(self.live.keeper.step)

    def checkpoint(self) -> None:
        self._keeper(lambda: self._after_checkpoint(self.live.keeper.write_checkpoint()))

    def advance(self) -> None:
        self.clock.advance(self.rng.choice((0.05, 0.3, 1.5, 40.0)))
        if self.rng.random() < 0.1:
            self.clock.wall_ms -= 100_000

    def look(self) -> None:
        """Readers see what is committed, and all of it."""
        for log in self.live.logs.values():
            if log.number in self.history.tip and log.fault is None and not self._is_stopped(log):
                check_readable(self.reader, log, self.history.tip[log.number])
                self.history.seen(log.number, log.visible_end)

    # Faults

    def crash_soon(self) -> None:
        self.disk.crash_at = self.disk.calls + self.rng.randint(1, 25)

    def fail_something(self) -> None:
        if not self.faulty:
            return
        call, part = (
            self.rng.choice(("write", "sync")),
            self.rng.choice((".seg", ".seg", ".seg", "journal/", "checkpoint")),
        )
        code = self.rng.choice((errno.EIO, errno.EIO, errno.ENOSPC))
        if self.rng.random() < 0.5:
            call = self.rng.choice(CALLS)
            part, code = self.rng.choice(("", ".seg", "journal", "logs", "checkpoint")), self.rng.choice(CODES)
        log = self._some_log()
        times = self.rng.choice((1, 1, 3))
        if log is not None and self.rng.random() < 0.15:
            part, times = f"@{log.number}/", 4
        self.disk.fail(call, part, OSError(code, os.strerror(code)), times)

    def fill(self) -> None:
        if self.faulty:
            self.disk.capacity_bytes = 1 << 40
            used = self.disk.capacity_bytes - self.disk.free_bytes()
            self.disk.capacity_bytes = used + self.rng.choice((0, 300, 3000, 30_000))

    def free(self) -> None:
        self.disk.capacity_bytes = None


def _model_batch(data: bytes) -> ModelBatch:
    first = batches.read_header(data).base_offset
    return ModelBatch(first, batches.next_offset(data), data)


ACTIONS_AND_WEIGHTS: tuple[tuple[Callable[[Walk], None], int], ...] = (
    (Walk.append, 40),
    (Walk.commit, 20),
    (Walk.commit_and_sync, 5),
    (Walk.keep, 15),
    (Walk.advance, 6),
    (Walk.checkpoint, 4),
    (Walk.create, 6),
    (Walk.change, 3),
    (Walk.delete, 2),
    (Walk.append_raw, 4),
    (Walk.adopt, 6),
    (Walk.trim, 4),
    (Walk.begin_epoch, 2),
    (Walk.truncate, 4),
    (Walk.barrier, 1),
    (Walk.look, 4),
    (Walk.crash_soon, 4),
    (Walk.fail_something, 4),
    (Walk.fill, 1),
    (Walk.free, 1),
    (Walk.close, 1),
    (Walk.kill, 1),
    (Walk.power_cut, 2),
)
ACTIONS = [action for action, _ in ACTIONS_AND_WEIGHTS]
WEIGHTS = [weight for _, weight in ACTIONS_AND_WEIGHTS]
# Frames of one size and many short lives: what an earlier use of a journal file left lies where frames are looked for.
NARROW: dict[Callable[[Walk], None], int] = {
    Walk.barrier: 20,
    Walk.commit: 10,
    Walk.checkpoint: 4,
    Walk.crash_soon: 4,
    Walk.kill: 1,
    Walk.power_cut: 4,
}
NARROW_WEIGHTS = [NARROW.get(action, 0) for action in ACTIONS]
# Calls that fail all the time, of every kind; crashes come between them.
STORMY: dict[Callable[[Walk], None], int] = {
    Walk.append: 60,
    Walk.checkpoint: 12,
    Walk.fail_something: 30,
    Walk.crash_soon: 2,
    Walk.kill: 2,
}
STORMY_WEIGHTS = [STORMY.get(action, weight) for action, weight in ACTIONS_AND_WEIGHTS]
