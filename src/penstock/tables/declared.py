"""Which queues were declared, read beside the broker that may be declaring more."""

from __future__ import annotations

import msgspec

from penstock.core.errors import NoSuchLog
from penstock.log.batch import Batch, next_offset
from penstock.log.outside import DirectoryReader, OutsideLog
from penstock.queues.names import CONFIGURATION_LOG, DEFAULT_NAMESPACE

_QUEUE = b"queue:"


class DeclaredSettings(msgspec.Struct, frozen=True):
    """Of a queue's settings, what a reader has to know."""

    name: str
    partitions: int = 0
    namespace: str = DEFAULT_NAMESPACE


class DeclaredQueue(msgspec.Struct, frozen=True):
    """Of a queue's record in the log of the configuration."""

    settings: DeclaredSettings
    is_deleted: bool = False


class DeclaredQueues:
    """Reads on where it stopped. One thread, that of the reader."""

    def __init__(self, reader: DirectoryReader) -> None:
        self._reader = reader
        self._number, self._offset = -1, 0
        self._records: dict[bytes, DeclaredQueue] = {}

    def read(self) -> dict[tuple[str, str], DeclaredQueue]:
        """By namespace and name, as of now; one that is being deleted counts unless it was declared anew."""
        try:
            self._read_on(self._reader.log(CONFIGURATION_LOG))
        except NoSuchLog:
            self._records = {}
        found: dict[tuple[str, str], DeclaredQueue] = {}
        for record in sorted(self._records.values(), key=lambda record: not record.is_deleted):
            found[record.settings.namespace, record.settings.name] = record
        return found

    def _read_on(self, log: OutsideLog) -> None:
        if log.number != self._number or log.end < self._offset or log.start > self._offset:
            self._number, self._offset, self._records = log.number, log.start, {}
        for data in self._reader.batches(log.number, self._offset, log.end):
            for row in Batch.parse(data, verify=False):
                self._apply(row.key or b"", row.value)
            self._offset = next_offset(data)

    def _apply(self, key: bytes, value: bytes) -> None:
        if not key.startswith(_QUEUE):
            return
        if value:
            self._records[key] = msgspec.json.decode(value, type=DeclaredQueue)
        else:
            self._records.pop(key, None)
