"""A shard without its threads: stages commits, counts what is durable, keeps the logs. One order, one state, plain
calls."""

from __future__ import annotations

import logging
from array import array
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import cast

from penstock.core.errors import (
    DiskLow,
    InvalidArgument,
    JournalFailed,
    LogPoisoned,
    LogStopped,
    NoSuchLog,
    OffsetOutOfRange,
    OutcomeUnknown,
    PenstockError,
    TooLarge,
)
from penstock.core.metrics import ShardMetrics
from penstock.core.ports import Buffer, Clock, Disk
from penstock.core.types import Durability, LogName, LogNumber, Offset, Purpose
from penstock.core.types import Sequence as FrameSequence
from penstock.kernels import staged
from penstock.kernels.batch import seal
from penstock.kernels.entry import entries_of
from penstock.log import batch as batches
from penstock.log.catalogue import CatalogueChange, declared_columns, deleted_columns
from penstock.log.columns import Columns
from penstock.log.encoded import Rows, encode
from penstock.log.journal.adoption import Adoption
from penstock.log.journal.commit import GroupCommit, Progress
from penstock.log.journal.frames import ENTRY_HEADER_BYTES, FRAME_HEADER_BYTES, Entry, Frame, edit_entry, frame_bytes
from penstock.log.journal.spread import Spread
from penstock.log.names import CATALOGUE_NUMBER
from penstock.log.options import ShardOptions
from penstock.log.partition import Log
from penstock.log.reading.bounds import OFFSET_GAP, Bounds
from penstock.log.reading.recent import Recently
from penstock.log.records import Declared, Edit, LogSettings, SegmentInfo
from penstock.log.segments.keeper import Written
from penstock.log.upkeep.recovery import Recovered

logger = logging.getLogger("penstock.log.engine")

_LEVELS = tuple(Durability)
_MEMORY, _COMMIT = Durability.MEMORY, Durability.COMMIT
Done = Callable[[PenstockError | None], None]
Post = Callable[[Callable[[], None]], None]
Effect = Callable[[], None]


@dataclass(slots=True)
class Usage:
    """Bytes under way, for admission."""

    staged: list[int] = field(default_factory=lambda: [0 for _ in Purpose])
    """not yet in the journal, by purpose"""
    tail: int = 0
    """not yet in a segment"""


class Engine:
    """Every method is the loop's, except commit.step() (storage thread), commit.try_step() (any) and keeper.step()
    (keeper thread), which reach back only through `post`."""

    def __init__(
        self, disk: Disk, clock: Clock, options: ShardOptions, metrics: ShardMetrics, opened: Recovered, post: Post
    ) -> None:
        self._clock, self._options, self.metrics = clock, opened.options, metrics
        self.keeper, self.journal, self.catalogue = opened.keeper, opened.journal, opened.catalogue
        self.commit = GroupCommit(
            self.journal, clock, options.commit, metrics, lambda p: post(lambda: self.report(p)), self._hand_over
        )
        self.keeper.tell = lambda written: post(lambda: self._on_written(written))
        self.logs: dict[LogNumber, Log] = {}
        self.usage = Usage()
        self._recently = Recently(options.recent_bytes)
        self.handed_over: Callable[[int], None] = lambda size: None
        """called by the storage thread with the bytes it gave to the keeper"""
        self.views_wanted: Callable[[], None] = lambda: None
        """called when readers wait for what the keeper has to fold"""
        self.room: Callable[[], None] = lambda: None
        """called when bytes under way became fewer"""
        self._next_sequence = self.journal.next_sequence
        self._waiting_for_sync: deque[Frame] = deque()
        self._waiting_for_write: deque[Frame] = deque()
        self._under_way: deque[tuple[FrameSequence, Purpose, int]] = deque()
        self._adoptions: list[Adoption] = []
        """staged, and not shown to readers yet"""
        self._reserve = options.reserve(disk.total_bytes())
        self._promised_bytes = 0
        """of the disk, which only those take who were promised it"""
        for number, written in self.keeper.logs.items():
            self._adopt(number, written.name, written.settings, written.reached or written.bounds)
            self.logs[number].last_timestamp = written.last_timestamp
            self.logs[number].fault = opened.faults.get(number) or _stopped(written.name, written.stopped)
        self._faulty = {number: log for number, log in self.logs.items() if log.fault is not None}
        metrics.logs_poisoned += sum(isinstance(log.fault, LogPoisoned) for log in self._faulty.values())
        if opened.unclean:
            self._skip_lost_offsets()

    # Commits

    def stage(
        self,
        parts: Sequence[tuple[Log, Rows]],
        done: Done,
        purpose: Purpose = Purpose.PUBLISH,
        encoded: Sequence[bytearray] | None = None,
        apply: Effect | None = None,
    ) -> list[Offset]:
        """Append to any number of logs in one frame; the first offset of each part. `done` is called once it is
        committed, or with OutcomeUnknown. Raises, with nothing changed, what can be refused before. `encoded` are the
        batches of the first parts where somebody has made them already. `apply` is called when nothing can be refused
        any more, before the frame is staged."""
        if not parts:
            raise InvalidArgument("a commit needs at least one log to append to")
        entries, logs = self._batch_entries(parts, encoded), [log for log, _ in parts]
        self._submit(entries, logs, Durability.MEMORY, done, purpose, apply=apply)
        return [Offset(entry.first) for entry in entries]

    def _batch_entries(
        self, parts: Sequence[tuple[Log, Rows]], encoded: Sequence[bytearray] | None = None
    ) -> list[Entry]:
        now, sequence = self._clock.now_ms(), self._next_sequence
        ends: dict[LogNumber, int] = {}
        entries: list[Entry] = []
        for number, (log, columns) in enumerate(parts):
            if log.fault is not None:
                raise log.fault
            settings, bounds, count = log.settings, log.bounds, columns.count
            if encoded is not None and number < len(encoded):
                batch = encoded[number]
            else:
                batch = encode(columns, settings.compression)
            first = ends.get(log.number, bounds.end)
            timestamp = max(now, log.last_timestamp)
            batches.seal(batch, first, bounds.epoch, timestamp)
            end = ends[log.number] = first + count
            entries.append(Entry(log.number, batch, None, first, end, count, timestamp, timestamp, sequence))
        return entries

    def stage_spread(
        self,
        spread: Spread,
        done: Done,
        purpose: Purpose = Purpose.PUBLISH,
        apply: Effect | None = None,
    ) -> Sequence[int]:
        """As stage(), for one set of columns over many logs, none of which compresses."""
        if len(spread.logs) == 1:
            return [self._stage_one(spread.logs[0], spread.columns, done, purpose, apply)]
        logs, counts = spread.logs, spread.counts
        zeros = array("q", bytes(8 * len(logs)))
        numbers, firsts, epochs, times = zeros, zeros[:], zeros[:], zeros[:]
        faulty = staged.stamps(logs, self._clock.now_ms(), numbers, firsts, epochs, times)
        if faulty >= 0:
            raise cast(PenstockError, logs[faulty].fault)
        sealed = spread.sealed(firsts, epochs, times)
        entries = cast(list[Entry], entries_of(numbers, sealed, firsts, counts, times, self._next_sequence))
        self._submit(entries, logs, Durability.MEMORY, done, purpose, apply=apply)
        return firsts

    def _stage_one(self, log: Log, columns: Columns, done: Done, purpose: Purpose, apply: Effect | None) -> int:
        """stage() of one part, which most commits of a lone caller are. The log does not compress."""
        if log.fault is not None:
            raise log.fault
        bounds, count = log.bounds, columns.count
        batch = batches.encode(columns)
        first, timestamp, now = bounds.end, log.last_timestamp, self._clock.now_ms()
        timestamp = now if now > timestamp else timestamp
        seal(batch, first, bounds.epoch, timestamp, timestamp)
        entry = Entry(log.number, batch, None, first, first + count, count, timestamp, timestamp, self._next_sequence)
        self._submit([entry], [log], _MEMORY, done, purpose, False, apply)
        return first

    def stage_raw(self, log: Log, data: Buffer, done: Done, purpose: Purpose = Purpose.PUBLISH) -> None:
        """Append a batch that carries its own offsets and epoch: it must begin at or behind the end of the log."""
        header = batches.check(data)
        if log.fault is not None:
            raise log.fault
        if header.base_offset < log.end or header.epoch < log.bounds.epoch:
            raise InvalidArgument(
                f"batch at offset {header.base_offset}, epoch {header.epoch} does not continue log {log.name!r} "
                f"(end {log.end}, epoch {log.bounds.epoch})"
            )
        end = batches.next_offset(data)
        times = header.base_timestamp, header.max_timestamp
        edit = Edit(
            end=header.base_offset if header.base_offset > log.end else None,
            epoch=header.epoch if header.epoch != log.bounds.epoch else None,
        )
        entries = [edit_entry(log.number, edit, self._next_sequence)] if edit != Edit() else []
        first, sequence = header.base_offset, self._next_sequence
        entries.append(Entry(log.number, data, None, first, end, header.count, *times, sequence))
        self._submit(entries, [log] * len(entries), log.settings.durability, done, purpose, has_edits=True)

    def stage_edit(self, log: Log, edit: Edit, done: Done) -> None:
        if log.fault is not None:
            raise log.fault
        if edit.start is not None and edit.start > log.end:
            raise OffsetOutOfRange(log.name, edit.start, log.start, log.end)
        entries = [edit_entry(log.number, edit, self._next_sequence)]
        self._submit_edits(entries, [log], done)

    def stage_adoption(
        self,
        adopted: Mapping[Log, tuple[SegmentInfo, ...]],
        parts: Sequence[tuple[Log, Rows]],
        done: Done,
        apply: Effect | None = None,
    ) -> None:
        """Segments that were written and synced beside the journal become the ends of their logs, and `parts` are
        appended to others, in one frame. `done` is called once all of it is committed and readers are shown the new
        ends, all in the same turn. One adoption of a log at a time; raises, with nothing changed, TooLarge and what
        refuse_adoption() does. `apply` as in stage()."""
        self.refuse_adoption(adopted)
        sequence = self._next_sequence
        edits = [edit_entry(log.number, Edit(adopted=infos), sequence) for log, infos in adopted.items()]
        adoption = Adoption(sequence, list(adopted), done, self.logs)
        entries, logs = [*edits, *self._batch_entries(parts)], [*adopted, *[log for log, _ in parts]]
        self._submit_edits(entries, logs, partial(self._adopted, adoption), apply)
        self._adoptions.append(adoption)
        self.metrics.records += sum([info.records for infos in adopted.values() for info in infos])

    def hold_back(self, log: Log) -> None:
        """Until the next checkpoint its records are in the journal and the hot tail alone: worth it where most logs of
        its kind are deleted before. Not for what other processes read. It is forgotten when somebody waits for room,
        and when the directory is closed."""
        self.keeper.held = frozenset([number for number in self.keeper.held if number in self.logs] + [log.number])

    def want_room(self) -> None:
        """Somebody waits for room in the hot tail: what was held back is written now."""
        if self.keeper.held:
            self.keeper.held = frozenset()
            self.keeper.is_room_wanted = True  # in this order: who sees that finds nothing held
            self.views_wanted()

    def refuse_adoption(self, adopted: Mapping[Log, tuple[SegmentInfo, ...]]) -> None:
        """Raise what stands against it: a log has a fault, or its end has moved."""
        for log, infos in adopted.items():
            if log.fault is not None:
                raise log.fault
            if infos[0].base != log.end:
                raise InvalidArgument(f"log {log.name!r} ends at {log.end}, the segments begin at {infos[0].base}")

    def _adopted(self, adoption: Adoption, error: PenstockError | None) -> None:
        adoption.is_committed = error is None
        if error is not None:
            self._adoptions.remove(adoption)
            adoption.done(error)
        else:
            self._reveal()
            self.views_wanted()

    def _reveal(self) -> None:
        """Show readers what was adopted and has come into the views of all its logs."""
        for adoption in [each for each in self._adoptions if each.is_ready]:
            self._adoptions.remove(adoption)
            adoption.reveal()

    def stage_truncate(self, log: Log, end: int, at_batch: int, head: Buffer | None, done: Done) -> None:
        """Cut the log at `end`. `at_batch` is the first offset of the batch that holds `end`, `head` that batch's
        part below it."""
        if not (log.start <= end <= log.end and at_batch <= end):
            raise OffsetOutOfRange(log.name, end, log.start, log.end)
        sequence = self._next_sequence
        entries = [edit_entry(log.number, Edit(end=at_batch), sequence)]
        if head is not None:
            header = batches.read_header(head)
            times = header.base_timestamp, header.max_timestamp
            following = batches.next_offset(head)
            entries.append(Entry(log.number, head, None, at_batch, following, header.count, *times, sequence))
        self._submit_edits(entries, [log] * len(entries), done)

    @property
    def next_sequence(self) -> FrameSequence:
        """Of the frame that is staged next; it never comes again."""
        return self._next_sequence

    def stage_barrier(self, done: Done) -> None:
        """An empty commit: done when everything before it is durable."""
        self._submit([], [], Durability.COMMIT, done, Purpose.SETTLE)

    # The catalogue

    def stage_create(
        self, logs: Sequence[tuple[LogName, LogSettings]], done: Done, parts: Sequence[tuple[Log, Rows]] = ()
    ) -> list[Log]:
        """In one frame with `parts` of other logs. Usable at once: a commit to a new log comes behind its creation in
        the one order, and is not acknowledged before it."""
        declared = self.catalogue.decide_create(logs)
        created: list[Log] = []
        sequence = self._declare(declared, created, done, parts)
        for record in declared:
            self._adopt(LogNumber(record.number), LogName(record.name), record.settings, Bounds())
            created.append(self.logs[LogNumber(record.number)])
            created[-1].hold(sequence)
        return created

    def stage_change(
        self, changes: Sequence[tuple[Log, LogSettings]], done: Done, parts: Sequence[tuple[Log, Rows]] = ()
    ) -> None:
        """New settings of any number of logs, in one frame with `parts`."""
        logs = [log for log, _ in changes]
        records = [Declared(log.number, log.name, settings) for log, settings in changes]
        sequence = self._declare(records, logs, done, parts)
        for log, settings in changes:
            log.settings = settings
            log.hold(sequence)

    def _declare(
        self, records: list[Declared], logs: list[Log], done: Done, parts: Sequence[tuple[Log, Rows]] = ()
    ) -> FrameSequence:
        """Put records into the catalogue; `logs` wait for that frame with their own commits."""
        sequence = self._next_sequence

        def declared(error: PenstockError | None) -> None:
            for log in logs:
                log.free(sequence)
            done(error)

        self.stage([(self.logs[CATALOGUE_NUMBER], declared_columns(records)), *parts], declared, Purpose.SETTLE)
        for record in records:
            self.catalogue.apply(CatalogueChange(LogNumber(record.number), record))
        return sequence

    def stage_delete(self, log: Log, done: Done) -> None:
        self.stage_delete_many([log], done)

    def stage_delete_many(self, logs: Sequence[Log], done: Done, parts: Sequence[tuple[Log, Rows]] = ()) -> None:
        """In one frame, with `parts` of others."""
        numbers = [log.number for log in logs]
        if CATALOGUE_NUMBER in numbers:
            raise InvalidArgument("the catalogue cannot be deleted")
        gone = [(self.logs[CATALOGUE_NUMBER], deleted_columns(numbers))] if numbers else []
        self.stage([*gone, *parts], done, Purpose.SETTLE)
        for log in logs:
            self.catalogue.apply(CatalogueChange(log.number, None))
            del self.logs[log.number]
            self._faulty.pop(log.number, None)
            self.usage.tail -= staged.data_bytes(log.tail)
            log.fault = NoSuchLog(log.name)

    @property
    def faulty_logs(self) -> list[Log]:
        """Those that take no records."""
        return list(self._faulty.values())

    def log(self, name: str) -> Log:
        return self.logs[self.catalogue.number_of(name)]

    # Room

    def refuse_if_low(self) -> None:
        """DiskLow when a publish would eat into the reserve, counting what is staged and not yet written."""
        if self.keeper.free_bytes - self.usage.tail - self._promised_bytes < self._reserve:
            self.metrics.publishes_refused_disk += 1
            raise cast(DiskLow, self.low)

    @property
    def low(self) -> DiskLow | None:
        """What a publish would be refused with now."""
        free = self.keeper.free_bytes - self.usage.tail - self._promised_bytes
        return DiskLow(max(free, 0), self._reserve) if free < self._reserve else None

    def promise(self, size: int) -> None:
        """Keep so much of the disk for a later commit, beside what is stored now in its stead: DiskLow unless twice the
        size is free above the reserve."""
        free = self.keeper.free_bytes - self.usage.tail - self._promised_bytes
        if free - 2 * size < self._reserve:
            self.metrics.publishes_refused_disk += 1
            raise DiskLow(max(free, 0), self._reserve + 2 * size)
        self._promised_bytes += size

    def restore_promise(self, size: int) -> None:
        """One that was given before the directory was opened; a negative size takes one back."""
        self._promised_bytes += size

    @property
    def frame_room(self) -> int:
        """Bytes of entries that a frame takes."""
        return self._options.journal.max_frame_bytes - FRAME_HEADER_BYTES

    def room_beside(self, batches: Sequence[bytearray]) -> int:
        """Bytes of entries that a frame takes beside these batches; TooLarge where it does not take them."""
        entries = sum([ENTRY_HEADER_BYTES + -(-len(batch) // 8) * 8 for batch in batches])
        if entries > self.frame_room:
            raise TooLarge("the commit", entries + FRAME_HEADER_BYTES, self._options.journal.max_frame_bytes)
        return self.frame_room - entries

    def _submit_edits(self, entries: list[Entry], logs: list[Log], done: Done, apply: Effect | None = None) -> None:
        self._submit(entries, logs, Durability.COMMIT, done, Purpose.SETTLE, has_edits=True, apply=apply)

    def _submit(
        self,
        entries: list[Entry],
        logs: list[Log],
        level: Durability,
        done: Done,
        purpose: Purpose,
        has_edits: bool = False,
        apply: Effect | None = None,
    ) -> None:
        """Entry i is for log i; without edits all are batches. Nothing is refused behind `apply`."""
        if self.commit.failure is not None:
            raise self.commit.failure
        size = frame_bytes(entries)
        if size > self._options.journal.max_frame_bytes:
            raise TooLarge("the commit", size, self._options.journal.max_frame_bytes)
        if apply is not None:
            before = self._next_sequence
            apply()
            assert before == self._next_sequence, "a frame was staged while another one was"
        sequence, usage, metrics = self._next_sequence, self.usage, self.metrics
        # An earlier commit of one of its logs that waits longer holds this one back too: what is readable has no holes.
        if has_edits:
            strongest = staged.strongest(logs, level)
            batch_bytes, records = self._apply(entries, logs)
            if strongest:
                staged.wait_all(logs, strongest, sequence)
        else:
            strongest, batch_bytes, records = staged.fold_all(logs, entries, level, sequence)
            usage.tail += batch_bytes
        metrics.records += records
        metrics.batch_bytes += batch_bytes
        frame = Frame(sequence, _LEVELS[strongest], entries, size, done, has_edits)
        self._next_sequence = FrameSequence(sequence + 1)
        self._under_way.append((sequence, purpose, size))
        usage.staged[purpose] += size
        self.commit.submit(frame)
        metrics.frames += 1
        if strongest == _COMMIT:
            self._waiting_for_sync.append(frame)
        elif strongest:
            self._waiting_for_write.append(frame)
        else:
            # Last: whoever is told that it is done may stage the next one, which comes behind it.
            self._complete(frame)

    def _apply(self, entries: list[Entry], logs: list[Log]) -> tuple[int, int]:
        """Edits, and batches among them; the bytes and records of these."""
        batch_bytes = records = 0
        for entry, log in zip(entries, logs, strict=True):
            grown_bytes = log.apply(entry)
            self.usage.tail += grown_bytes
            if entry.edit is None:
                batch_bytes += grown_bytes
                records += entry.records
        return batch_bytes, records

    def _complete(self, frame: Frame) -> None:
        reached = self._reached(frame)
        if len(reached) == 1:
            if (on_commit := reached[0].on_commit) is not None:
                on_commit(reached)
        elif reached:
            self._tell_all(reached)
        if frame.done is not None:
            frame.done(None)

    def _tell_all(self, reached: list[Log]) -> None:
        grown: dict[Callable[[list[Log]], None], list[Log]] = {}
        last, several = None, list[Log]()
        for log in reached:
            on_commit = log.on_commit
            if on_commit is not None and on_commit is not last:  # they come in runs: those of a queue have the same
                last, several = on_commit, grown.setdefault(on_commit, [])
            several.append(log)
        for on_commit, several in grown.items():
            on_commit(several)

    def _reached(self, frame: Frame) -> list[Log]:
        """The logs in which there is more to read, where somebody wants to be told."""
        if not frame.has_edits:
            return staged.reached_all(self.logs, frame.entries, frame.sequence)
        logs, sequence = self.logs, frame.sequence
        found = []
        for entry in frame.entries:
            log = logs.get(entry.log)
            if log is not None and log.committed(entry, sequence) and log.on_commit is not None:
                found.append(log)
        return found

    # What the threads report

    def report(self, progress: Progress) -> None:
        """Reports may come late: what an earlier one says is known then."""
        if progress.failure is not None:
            self._on_failure(progress.failure)
            return
        waiting = self._waiting_for_write
        while waiting and waiting[0].sequence < progress.written:
            self._complete(waiting.popleft())
        waiting = self._waiting_for_sync
        while waiting and waiting[0].sequence < progress.synced:
            self._complete(waiting.popleft())
        under_way = self._under_way
        while under_way and under_way[0][0] < progress.written:
            _, purpose, size = under_way.popleft()
            self.usage.staged[purpose] -= size
        self.room()

    def _on_failure(self, failure: JournalFailed) -> None:
        """Nobody is told that a commit failed: it may be there after reopening, whole."""
        frames = [*self._waiting_for_write, *self._waiting_for_sync]
        self._waiting_for_write.clear()
        self._waiting_for_sync.clear()
        for frame in frames:
            for entry in frame.entries:
                self._poison(entry.log, failure.reason)
            if frame.done is not None:
                frame.done(OutcomeUnknown(failure.reason))
        adoptions, self._adoptions = self._adoptions, []
        for adoption in adoptions:
            adoption.done(OutcomeUnknown(failure.reason))
        self.room()

    def _poison(self, number: LogNumber, reason: str) -> None:
        log = self.logs.get(number)
        if log is not None and log.fault is None:
            log.fault = LogPoisoned(log.name, reason)
            self._faulty[number] = log
            self.metrics.logs_poisoned += 1

    def _on_written(self, written: Written) -> None:
        followed: list[tuple[Log, list[Entry]]] = []
        self.usage.tail -= staged.written_all(self.logs, written.logs, written.sequence, followed)
        for log, gone in followed:
            if gone[-1].end > (wanted := log.wanted_from()):
                kept = [batch for batch in gone if batch.end > wanted]
                self._recently.add(log.recent, kept, staged.data_bytes(kept))
        for number, reason in written.stopped.items():
            self._poison(number, reason)
        if self._adoptions:
            self._reveal()
        self.room()

    def _hand_over(self, frames: list[Frame]) -> None:
        self.keeper.inbox.extend(frames)
        size = 0
        for frame in frames:
            size += frame.bytes
        self.handed_over(size)

    # Opening

    def _adopt(self, number: LogNumber, name: LogName, settings: LogSettings, bounds: Bounds) -> None:
        self.logs[number] = Log(number, name, settings, Bounds(bounds.start, bounds.end, bounds.epochs))

    def _skip_lost_offsets(self) -> None:
        """An offset never names two messages: a log that may have lost acknowledged ones goes on far behind its end. Of
        a stopped one that is kept aside too."""
        logs = [
            log
            for log in self.logs.values()
            if log.settings.durability is not Durability.COMMIT and isinstance(log.fault, LogStopped | None)
        ]
        for i in range(0, len(logs), 10_000):
            sequence = self._next_sequence
            edits = [edit_entry(log.number, Edit(end=log.end + OFFSET_GAP), sequence) for log in logs[i : i + 10_000]]
            self._submit_edits(edits, logs[i : i + 10_000], lambda error: None)
        self.commit.step(sync=True)


def _stopped(name: str, reason: str) -> PenstockError | None:
    return LogStopped(name, reason) if reason else None
