"""Which queues were declared, read beside the broker that may be declaring more."""

from __future__ import annotations

from penstock.core.errors import NoSuchLog
from penstock.log.batch import Batch, next_offset
from penstock.log.outside import DirectoryReader, OutsideLog
from penstock.queues.declared import QUEUE_KEYS, QueueRecord, Record, apply
from penstock.queues.names import CONFIGURATION_LOG


class DeclaredQueues:
    """Reads on where it stopped. One thread, that of the reader."""

    def __init__(self, reader: DirectoryReader) -> None:
        self._reader = reader
        self._number, self._offset = -1, 0
        self._records: dict[str, Record] = {}

    def read(self) -> dict[tuple[str, str], QueueRecord]:
        """By namespace and name, as of now; one that is being deleted counts unless it was declared anew."""
        try:
            self._read_on(self._reader.log(CONFIGURATION_LOG))
        except NoSuchLog:
            self._records = {}
        queues = [record for record in self._records.values() if isinstance(record, QueueRecord)]
        queues.sort(key=lambda record: not record.is_deleted)
        return {(record.namespace, record.name): record for record in queues}

    def _read_on(self, log: OutsideLog) -> None:
        if log.number != self._number or log.end < self._offset or log.start > self._offset:
            self._number, self._offset, self._records = log.number, log.start, {}
        for data in self._reader.batches(log.number, self._offset, log.end):
            rows = [((row.key or b"").decode(), row.value) for row in Batch.parse(data, verify=False)]
            apply(self._records, [row for row in rows if row[0].startswith(QUEUE_KEYS)])
            self._offset = next_offset(data)
