"""The queues of a server that a query reads, over Arrow Flight, for driver and executors."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence

import pyarrow as pa

from penstock.client.errors import Refused
from penstock.client.flight import Partition, PartitionRange
from penstock.core.errors import ErrorCode, InvalidArgument, NoSuchQueue, PenstockError
from penstock.log.reading.extents import Extent
from penstock.queues.names import DEFAULT_NAMESPACE
from penstock.spark.address import ServerAddress
from penstock.spark.connections import connection
from penstock.spark.offsets import OffsetRange, PartitionId
from penstock.spark.options import SourceOptions
from penstock.spark.patience import Patience, patiently
from penstock.spark.places import DataLost, Seen, Visible, only_assigned, other_log, tell_losses
from penstock.spark.queue_names import by_regex, chosen

_LOG = logging.getLogger("penstock.spark")
# Somebody looks while a table is planned, and may have mistyped the address.
_SHORT_WAIT_S = 10.0
# What is read by one call: one that fails is begun anew, and a ticket has 64 KiB.
_JOINT_RANGES, _JOINT_OFFSETS = 100, 100_000


class QueueServer:
    """One thread, one process: it is opened where it is used, and never pickled. A server that is away is waited for;
    what it says when it is there is whole."""

    def __init__(self, options: SourceOptions, server: ServerAddress) -> None:
        self._options, self._server = options, server
        # A server gives everybody his own namespace; only who asks for another one must be allowed to.
        self._namespace = None if options.namespace == DEFAULT_NAMESPACE else options.namespace
        self._client = connection(server)
        self._times: dict[tuple[str, int], dict[int, int]] = {}
        self.is_whole = True

    def seen(self, is_patient: bool = False) -> Seen:
        wait_s = self._server.wait_s if is_patient else min(self._server.wait_s, _SHORT_WAIT_S)
        return patiently(self._seen, wait_s, f"the queues of {self._server.url}")

    def offset_at_time(self, source: PartitionId, timestamp_ms: int) -> int:
        """As of the first time that it was asked for: a partition that came since has nothing older."""
        known = self._times.get((source.queue, timestamp_ms))
        if known is None:
            known = self._times[source.queue, timestamp_ms] = patiently(
                lambda: self._client.offset_at_time(source.queue, timestamp_ms, self._namespace),
                self._server.wait_s,
                f"the offsets of {source.queue!r} at a time",
            )
        return known.get(source.partition, 0)

    def read(self, wanted: OffsetRange, columns: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
        """When the server goes away in between, from where it was."""
        # The column tells how far the rows have come, which their number does not where compaction was.
        asked = columns if "offset" in columns else (*columns, "offset")
        patience = Patience(self._server.wait_s, f"reading {wanted}")
        left = wanted
        while left.offsets > 0:
            try:
                for batch in self._rows(left, asked):
                    left = left._replace(start=batch.column("offset")[-1].as_py() + 1)
                    patience.moved()
                    yield batch if asked is columns else batch.select(columns)
                return
            except PenstockError as error:
                if isinstance(error, Refused) and error.code is ErrorCode.QUEUE_REPLACED:
                    return tell_losses([other_log(left)], self._options.fail_on_data_loss)
                if isinstance(error, Refused) and error.code is ErrorCode.TRIMMED:
                    raise DataLost([str(error)]) from error
                patience.wait(error)

    def read_all(self, ranges: Sequence[OffsetRange], columns: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
        """Small ranges of a queue by one call: each costs as much as some thousand rows. Whatever it fails with, what
        is left is read range by range."""
        for joint in _joined(ranges):
            left = list(joint)
            if len(left) > 1:
                yield from self._read_joint(left, columns)
            for each in left:
                yield from self.read(each, columns)

    def _read_joint(self, left: list[OffsetRange], columns: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
        """Takes from `left` what it has read: nothing is left, or what could not be read."""
        wanted = (*columns, *(name for name in ("partition", "offset") if name not in columns))
        try:
            for batch in self._rows(left[0], wanted, left[1:]):
                partition = batch.column("partition")[0].as_py()
                while left[0].source.partition != partition:
                    del left[0]
                left[0] = left[0]._replace(start=batch.column("offset")[-1].as_py() + 1)
                yield batch if wanted == columns else batch.select(columns)
            left.clear()
        except PenstockError as error:
            _LOG.info("the rows of %d partitions are read one after the other: %s", len(left), error)

    def close(self) -> None:
        """The connection is for the next one too."""

    def _rows(
        self, wanted: OffsetRange, columns: tuple[str, ...], behind: Sequence[OffsetRange] = ()
    ) -> Iterator[pa.RecordBatch]:
        queue, partition = wanted.source
        rows = self._client.read(
            queue,
            partition,
            wanted.start,
            wanted.stop,
            columns,
            namespace=self._namespace,
            skip_trimmed=not self._options.fail_on_data_loss,
            log=wanted.log,
            more=[PartitionRange(each.source.partition, each.start, each.stop, each.log) for each in behind],
        )
        try:
            yield from rows
        finally:
            rows.close()
        if rows.skipped_offsets:
            what = ", ".join(map(str, (wanted, *behind)))
            _LOG.warning("data lost while reading %s, %d offsets: %s", what, rows.skipped_offsets, rows.skipped)

    def _seen(self) -> Seen:
        asked: dict[str, list[Partition] | None] = {}

        def is_there(queue: str) -> bool:
            if queue not in asked:
                asked[queue] = self._partitions(queue)
            return asked[queue] is not None

        regex = self._options.queue_regex
        written = self._options.queues if regex is None else by_regex(regex, self._matching(None))
        queues = chosen(written, is_there, self._matching, self._options.include_dead_letters)
        if queues.missing:
            raise NoSuchQueue(queues.missing[0])
        # One that a pattern found may be gone by now.
        there = {queue: asked[queue] for queue in queues.found if is_there(queue)}
        found = {
            PartitionId(queue, one.number): _visible(one)
            for queue, partitions in there.items()
            for one in partitions or ()
        }
        return only_assigned(found, self._options.assigned, is_whole=True)

    def _partitions(self, queue: str) -> list[Partition] | None:
        try:
            return self._client.partitions(queue, self._namespace)
        except Refused as error:
            if error.code is ErrorCode.NO_SUCH_QUEUE:
                return None
            raise

    def _matching(self, pattern: str | None) -> list[str]:
        if self._namespace is not None:
            written = self._options.queue_regex if pattern is None else pattern
            raise InvalidArgument(
                f"{written!r} is a pattern, which a server looks for in the login's own namespace: leave the option "
                f"namespace out, or name the queues"
            )
        return self._client.queues(pattern)


def _joined(ranges: Sequence[OffsetRange]) -> Iterator[list[OffsetRange]]:
    """Neighbours of one queue, as many as are small together."""
    joint: list[OffsetRange] = []
    for each in ranges:
        is_other = joint and (
            joint[0].source.queue != each.source.queue
            or len(joint) == _JOINT_RANGES
            or sum([one.offsets for one in joint]) + each.offsets > _JOINT_OFFSETS
        )
        if is_other:
            yield joint
            joint = []
        joint.append(each)
    if joint:
        yield joint


def _visible(partition: Partition) -> Visible:
    extents = None if partition.extents is None else tuple(Extent(*each) for each in partition.extents)
    return Visible(partition.start, partition.end, partition.size_bytes, partition.log, extents)
