"""The queues of a server that a query reads, over Arrow Flight, for driver and executors."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pyarrow as pa

from penstock.client.errors import Refused
from penstock.client.flight import Partition
from penstock.core.errors import ErrorCode, InvalidArgument, NoSuchQueue, PenstockError
from penstock.queues.names import DEFAULT_NAMESPACE
from penstock.spark.address import ServerAddress
from penstock.spark.connections import connection
from penstock.spark.naming import chosen
from penstock.spark.offsets import OffsetRange, PartitionId
from penstock.spark.options import SourceOptions
from penstock.spark.patience import Patience, patiently
from penstock.spark.places import DataLost, Seen, Visible, other_log, tell_losses

_LOG = logging.getLogger("penstock.spark")
# Somebody looks while a table is planned, and may have mistyped the address.
_SHORT_WAIT_S = 10.0


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

    def close(self) -> None:
        """The connection is for the next one too."""

    def _rows(self, wanted: OffsetRange, columns: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
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
        )
        try:
            yield from rows
        finally:
            rows.close()
        if rows.skipped_offsets:
            _LOG.warning("data lost while reading %s, %d offsets: %s", wanted, rows.skipped_offsets, rows.skipped)

    def _seen(self) -> Seen:
        asked: dict[str, list[Partition] | None] = {}

        def is_there(queue: str) -> bool:
            if queue not in asked:
                asked[queue] = self._partitions(queue)
            return asked[queue] is not None

        queues = chosen(self._options.queues, is_there, self._matching, self._options.include_dead_letters)
        if queues.missing:
            raise NoSuchQueue(queues.missing[0])
        # One that a pattern found may be gone by now.
        there = {queue: asked[queue] for queue in queues.found if is_there(queue)}
        return {
            PartitionId(queue, one.number): Visible(one.start, one.end, one.size_bytes, one.log)
            for queue, partitions in there.items()
            for one in partitions or ()
        }

    def _partitions(self, queue: str) -> list[Partition] | None:
        try:
            return self._client.partitions(queue, self._namespace)
        except Refused as error:
            if error.code is ErrorCode.NO_SUCH_QUEUE:
                return None
            raise

    def _matching(self, pattern: str) -> list[str]:
        if self._namespace is not None:
            raise InvalidArgument(
                f"option queue: {pattern!r} is a pattern, which a server looks for in the login's own namespace: "
                f"leave the option namespace out, or name the queues"
            )
        return self._client.queues(pattern)
