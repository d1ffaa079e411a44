"""What can come between a reader of a table and the rows it wants."""

from __future__ import annotations

from penstock.core.errors import ErrorCode, PenstockError


class Trimmed(PenstockError):
    """Rows that were asked for are gone. `start` is the oldest offset there is now."""

    code = ErrorCode.TRIMMED

    def __init__(self, queue: str, partition: int, wanted: int, start: int) -> None:
        super().__init__(
            f"offsets {wanted}..{start} of partition {partition} of queue {queue!r} are gone: retention or a trim "
            f"dropped them; read from {start} on, or ask for lost rows to be skipped"
        )
        self.queue, self.partition, self.wanted, self.start = queue, partition, wanted, start


class BeyondEnd(PenstockError):
    """Rows were asked for that cannot be read now: never written, or known only to a journal after a crash."""

    code = ErrorCode.OFFSET_OUT_OF_RANGE

    def __init__(self, queue: str, partition: int, stop: int, end: int) -> None:
        super().__init__(
            f"partition {partition} of queue {queue!r} can be read up to offset {end} now, not to {stop}: ask for "
            f"less, or, if its broker was killed, read again once that has started"
        )
        self.queue, self.partition, self.stop, self.end = queue, partition, stop, end


class NotRecovered(PenstockError):
    """A queue that may be there, but only in the journal of a broker that was killed."""

    code = ErrorCode.NO_SUCH_QUEUE

    def __init__(self, queue: str, directory: str) -> None:
        super().__init__(
            f"no queue {queue!r} in the last checkpoint of {directory}, whose broker was killed: one that was declared "
            f"since is there again once a broker has started; read again then"
        )
        self.queue, self.directory = queue, directory


class QueueReplaced(PenstockError):
    """The queue is another one than that whose rows were asked for, under the same name. `log` was wanted."""

    code = ErrorCode.QUEUE_REPLACED

    def __init__(self, queue: str, partition: int, log: int) -> None:
        super().__init__(
            f"queue {queue!r} was deleted and created again: partition {partition} is no longer log {log}, and its "
            f"offsets name other messages; begin at its start"
        )
        self.queue, self.partition, self.log = queue, partition, log
