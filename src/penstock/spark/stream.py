"""Reading as a stream: micro-batches from one position to the next, which Spark keeps in its checkpoint."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from penstock.core.errors import PenstockError
from penstock.spark.backing import Backing, open_backing
from penstock.spark.metrics import behind, by_queue, waiting_rows
from penstock.spark.offsets import (
    BEHIND,
    METRICS,
    Edge,
    OffsetsJson,
    Positions,
    json_of,
    logs_of,
    positions_of,
    ranges_between,
)
from penstock.spark.options import SourceOptions
from penstock.spark.places import (
    Seen,
    check_start,
    is_anew,
    readable,
    resolve,
    resumed,
    row_maps,
    seen_logs,
    still_there,
    tell_losses,
    vanished,
)
from penstock.spark.plainly import plainly
from penstock.spark.planning import admitted, plan
from penstock.spark.progress import GroupProgress
from penstock.spark.reader import read_ranges

_LOG = logging.getLogger("penstock.spark")
_now_s = time.monotonic


class QueueStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """On the driver one for a query, in a process of its own; executors get a copy that only reads."""

    def __init__(self, options: SourceOptions, columns: tuple[str, ...]) -> None:
        self._options, self._columns = options, columns
        self._backing: Backing | None = None
        self._progress: GroupProgress | None = None
        self._target: Positions | None = None
        self._initial: OffsetsJson | None = None
        self._planned: tuple[OffsetsJson, Seen] | None = None
        """the end of the next micro-batch, or where one waits for more rows; and what was seen when it was asked for"""
        self._has_begun = False
        self._read_at_s = -math.inf
        """when a micro-batch was last given; the first one does not wait, as with Kafka's connector"""

    @plainly
    def initialOffset(self) -> OffsetsJson:
        """Spark asks where there is no checkpoint yet, and once more when it plans the first micro-batch: the end of
        that is above the first answer, and may be below what is the latest by then."""
        self._has_begun = True
        if self._initial is None:
            backing = self._opened()
            seen = backing.seen(is_patient=True)
            start = resolve(self._options.start, seen, Edge.EARLIEST, backing.offset_at_time)
            check_start(start, seen, backing.is_whole)
            self._initial = json_of(start, seen_logs(seen))
            if self._options.start_option is None:
                _LOG.warning(
                    "the stream begins with the earliest offsets, not with the latest as those of Kafka's connector: "
                    "set startingOffsets to earliest or latest, and this line goes"
                )
        return self._initial

    def getDefaultReadLimit(self) -> ReadLimit:
        options = self._options
        if options.max_rows is not None:
            return ReadMaxRows(options.max_rows)
        return ReadAllAvailable() if options.max_bytes is None else ReadMaxBytes(options.max_bytes)

    @plainly
    def prepareForTriggerAvailableNow(self) -> None:
        self._target = _ends(self._opened().seen(is_patient=True))

    @plainly
    def latestOffset(self, start: Mapping[str, object], limit: ReadLimit) -> OffsetsJson:
        """How far the next micro-batch reads. A partition that is gone keeps its place where that is no error; one that
        was declared anew ends below its place, which partitions() takes for a new beginning. While a broker that died
        has not started again, nothing new is read."""
        begun, logs, backing = positions_of(start), logs_of(start), self._opened()
        seen = backing.seen(is_patient=True)
        self._say_what_the_checkpoint_overrides(begun)
        self.commit(start)
        if losses := list(vanished(begun, logs, seen)):
            if not backing.is_whole:
                self._planned = None
                return json_of(begun, logs)
            tell_losses(losses, self._options.fail_on_data_loss)
        kept = still_there(begun, logs, seen)
        here = {source: max(at, seen[source].start) for source, at in resumed(kept, seen).items()}
        end = {source: max(at, here[source]) for source, at in self._ends(seen).items()}
        if self._waits_for_more(here, end, seen):
            self._planned = (json_of(here, seen_logs(seen)), seen) if backing.is_whole else None
            return json_of(begun, logs)
        reached = {**kept, **self._limited(here, end, seen, limit)}
        unseen = {source: log for source, log in logs.items() if source in kept and source not in seen}
        planned = json_of(reached, {**unseen, **seen_logs(seen)})
        self._planned = (planned, seen) if backing.is_whole else None
        return planned

    @plainly
    def reportLatestOffset(self) -> OffsetsJson:
        """Spark asks behind latestOffset(): what was seen there is not asked for again. Beside the offsets stands how
        far the stream is behind them: Spark has no other place for what a Python source tells of itself."""
        seen = self._opened().seen(is_patient=True) if self._planned is None else self._planned[1]
        latest = json_of(_ends(seen), seen_logs(seen))
        if self._planned is not None:
            waiting = waiting_rows(positions_of(self._planned[0]), seen)
            latest |= {METRICS: behind(waiting, seen), BEHIND: by_queue(waiting)}
        return latest

    @plainly
    def partitions(self, start: Mapping[str, object], end: Mapping[str, object]) -> Sequence[InputPartition]:
        backing, stop = self._opened(), positions_of(end)
        seen = self._seen_for(end)
        known, planned = logs_of(start), logs_of(end)
        begun = {
            source: at
            for source, at in positions_of(start).items()
            if at <= stop.get(source, at) and not is_anew(source, known, planned)
        }
        wanted = ranges_between({**begun, **resumed(begun, seen)}, stop, planned)
        ranges = readable(wanted, seen, backing.is_whole, self._options.fail_on_data_loss)
        return [InputPartition(task) for task in plan(ranges, self._options.split, row_maps(seen))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_ranges(self._options, self._columns, partition.value)

    def commit(self, end: Mapping[str, object]) -> None:
        """Spark commits a micro-batch when it has planned the next, so the last one never; but it asks for the latest
        offset from where the last one ended, which tells the same."""
        if self._progress is not None:
            self._progress.tell(positions_of(end))

    def stop(self) -> None:
        if self._backing is not None:
            self._backing.close()
        if self._progress is not None:
            self._progress.close()

    def _opened(self) -> Backing:
        """The backing, and the group in the broker; both as soon as the stream needs one of them."""
        if self._backing is None:
            self._backing = open_backing(self._options, follows=True)
            self._begin_progress(self._backing.seen(is_patient=True))
        return self._backing

    def _seen_for(self, end: Mapping[str, object]) -> Seen:
        """What latestOffset() saw when it gave this end, once: what is lost in between, those that read will tell."""
        planned, self._planned = self._planned, None
        return planned[1] if planned is not None and planned[0] == end else self._opened().seen(is_patient=True)

    def _begin_progress(self, seen: Seen) -> None:
        options = self._options
        if options.group is not None and options.group_url is not None:
            self._progress = GroupProgress(options.group_url, options.token, options.namespace, options.group)
            self._progress.begin(source.queue for source in seen)

    def _say_what_the_checkpoint_overrides(self, begun: Positions) -> None:
        if not self._has_begun and (name := self._options.start_option) is not None:
            _LOG.warning(
                "option %s is not used: the checkpoint goes on at %s; use a new checkpointLocation to start anew",
                name,
                json_of(begun),
            )
        self._has_begun = True

    def _ends(self, seen: Seen) -> Positions:
        """What there is, but nothing that came after an availableNow query began."""
        ends = _ends(seen)
        if self._target is None:
            return ends
        return {source: min(end, self._target[source]) for source, end in ends.items() if source in self._target}

    def _waits_for_more(self, here: Positions, end: Positions, seen: Seen) -> bool:
        """While there are fewer rows than minOffsetsPerTrigger, up to maxTriggerDelay after the last ones were read. A
        query that reads what is there and ends does not wait."""
        least = self._options.min_rows
        if least is None or self._target is not None:
            return False
        maps, now_s = row_maps(seen), _now_s()
        waiting = sum([maps[source].rows(here[source], stop) for source, stop in end.items()])
        if waiting >= least or now_s - self._read_at_s >= self._options.max_delay_s:
            self._read_at_s = now_s
            return False
        return True

    def _limited(self, here: Positions, end: Positions, seen: Seen, limit: ReadLimit) -> Positions:
        """By what Spark says; where that is one of our limits, by both."""
        if isinstance(limit, ReadAllAvailable):
            return end
        rows = limit.max_rows if isinstance(limit, ReadMaxRows) else self._options.max_rows
        size_bytes = limit.max_bytes if isinstance(limit, ReadMaxBytes) else self._options.max_bytes
        maps = row_maps(seen)
        if rows is not None:
            end = admitted(here, end, rows, {}, maps)
        if size_bytes is not None:
            end = admitted(here, end, size_bytes, {source: seen[source].row_bytes for source in end}, maps)
        return end


class RefusedStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """In the place of one whose options are wrong: says so, whatever it is asked."""

    def __init__(self, error: PenstockError) -> None:
        self._error = error

    @plainly
    def getDefaultReadLimit(self) -> ReadLimit:
        raise self._error

    @plainly
    def prepareForTriggerAvailableNow(self) -> None:
        raise self._error

    @plainly
    def initialOffset(self) -> OffsetsJson:
        raise self._error

    @plainly
    def latestOffset(self, start: Mapping[str, object], limit: ReadLimit) -> OffsetsJson:
        raise self._error

    @plainly
    def partitions(self, start: Mapping[str, object], end: Mapping[str, object]) -> Sequence[InputPartition]:
        raise self._error

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        raise self._error


def _ends(seen: Seen) -> Positions:
    return {source: visible.end for source, visible in seen.items()}
