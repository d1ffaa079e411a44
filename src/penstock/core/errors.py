"""Every error Penstock raises on purpose: one root, a stable code, facts as fields. Gateways translate by code."""

from __future__ import annotations

import enum


class ErrorCode(enum.Enum):
    INVALID_ARGUMENT = "invalid-argument"
    NO_SUCH_LOG = "no-such-log"
    LOG_EXISTS = "log-exists"
    OFFSET_OUT_OF_RANGE = "offset-out-of-range"
    TOO_LARGE = "too-large"
    CORRUPT_BATCH = "corrupt-batch"
    CORRUPT_FRAME = "corrupt-frame"
    LOG_DAMAGED = "log-damaged"  # bytes below the checkpoint are missing or wrong
    LOG_POISONED = "log-poisoned"  # a commit failed; the log is rebuilt from disk when the shard is opened again
    JOURNAL_DAMAGED = "journal-damaged"
    JOURNAL_FAILED = "journal-failed"  # a write or sync failed; nothing is acknowledged until the shard is reopened
    OUTCOME_UNKNOWN = "outcome-unknown"  # after a restart the commit is there whole or not at all
    DISK_LOW = "disk-low"  # free space is below disk_reserve; publishes are refused, settlements go on
    DIRECTORY_IN_USE = "directory-in-use"
    DIRECTORY_FORMAT = "directory-format"
    CLOSED = "closed"
    PLATFORM = "platform"


class PenstockError(Exception):
    """Root of all errors. The text says what happened, where, and what to do."""

    code: ErrorCode

    def __reduce__(self) -> tuple[object, ...]:
        """Survives pickling: a subclass takes facts, not the finished text that Exception would call it with again."""
        return _restore, (type(self), self.args), self.__dict__


def _restore(kind: type[PenstockError], args: tuple[object, ...]) -> PenstockError:
    return kind.__new__(kind, *args)


class InvalidArgument(PenstockError, ValueError):
    code = ErrorCode.INVALID_ARGUMENT


class NoSuchLog(PenstockError):
    code = ErrorCode.NO_SUCH_LOG

    def __init__(self, log: object) -> None:
        super().__init__(f"no log {log!r}: create it first, or see the logs there are with `penstock log stat DIR`")
        self.log = log


class LogExists(PenstockError):
    code = ErrorCode.LOG_EXISTS

    def __init__(self, name: str) -> None:
        super().__init__(f"log {name!r} exists already: open it, or delete it before creating it anew")
        self.name = name


class OffsetOutOfRange(PenstockError):
    code = ErrorCode.OFFSET_OUT_OF_RANGE

    def __init__(self, log: str, offset: int, start: int, end: int) -> None:
        super().__init__(
            f"offset {offset} of log {log!r} is outside {start}..{end}: "
            f"the oldest record kept is at {start}, the next one will be at {end}"
        )
        self.log, self.offset, self.start, self.end = log, offset, start, end


class TooLarge(PenstockError):
    code = ErrorCode.TOO_LARGE

    def __init__(self, what: str, size: int, limit: int) -> None:
        super().__init__(f"{what} is {size} bytes, the limit is {limit}: send it in smaller parts")
        self.what, self.size, self.limit = what, size, limit


class CorruptBatch(PenstockError):
    """Bytes that do not form a batch: wrong checksum, lengths that do not fit, offsets out of order."""

    code = ErrorCode.CORRUPT_BATCH

    def __init__(self, reason: str, position: int = 0) -> None:
        super().__init__(f"corrupt batch at byte {position}: {reason}")
        self.reason, self.position = reason, position


class CorruptFrame(PenstockError):
    code = ErrorCode.CORRUPT_FRAME

    def __init__(self, reason: str, position: int = 0) -> None:
        super().__init__(f"corrupt frame at byte {position}: {reason}")
        self.reason, self.position = reason, position


class LogDamaged(PenstockError):
    code = ErrorCode.LOG_DAMAGED

    def __init__(self, log: str, file: str, position: int, reason: str) -> None:
        super().__init__(
            f"log {log!r} is damaged in {file} at byte {position}: {reason}. "
            f"Nothing was cut. Look with `penstock log verify DIR --log {log}`, "
            f"mend with `penstock log repair DIR --log {log}`"
        )
        self.log, self.file, self.position, self.reason = log, file, position, reason


class LogPoisoned(PenstockError):
    code = ErrorCode.LOG_POISONED

    def __init__(self, log: str, reason: str) -> None:
        super().__init__(f"log {log!r} takes no more records until the directory is opened again: {reason}")
        self.log, self.reason = log, reason


class JournalDamaged(PenstockError):
    code = ErrorCode.JOURNAL_DAMAGED

    def __init__(self, sequence: int, known_durable: int, reason: str) -> None:
        super().__init__(
            f"the journal is damaged: frame {sequence} cannot be read ({reason}), though frames up to {known_durable} "
            f"were durable. Nothing was cut. Mend with `penstock log repair DIR --journal`"
        )
        self.sequence, self.known_durable, self.reason = sequence, known_durable, reason


class JournalFailed(PenstockError):
    code = ErrorCode.JOURNAL_FAILED

    def __init__(self, reason: str) -> None:
        super().__init__(f"the journal stopped: {reason}. Nothing is acknowledged until the directory is opened again")
        self.reason = reason


class OutcomeUnknown(PenstockError):
    code = ErrorCode.OUTCOME_UNKNOWN

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"the commit failed and its outcome is unknown ({reason}): "
            f"after reopening it is there whole or not at all, so read before sending it again"
        )
        self.reason = reason


class DiskLow(PenstockError):
    code = ErrorCode.DISK_LOW

    def __init__(self, free_bytes: int, reserve_bytes: int) -> None:
        super().__init__(
            f"only {free_bytes} bytes of the disk are left beside what waits to be written, and disk_reserve is "
            f"{reserve_bytes}: publishes are refused until space is freed (trim or delete logs, or lower disk_reserve)"
        )
        self.free_bytes, self.reserve_bytes = free_bytes, reserve_bytes


class DirectoryInUse(PenstockError):
    code = ErrorCode.DIRECTORY_IN_USE

    def __init__(self, directory: str, holder: str) -> None:
        super().__init__(
            f"{directory} is held by {holder}: "
            f"stop it, or read with the commands that need no lock (log cat, stat, verify)"
        )
        self.directory, self.holder = directory, holder


class DirectoryFormat(PenstockError):
    code = ErrorCode.DIRECTORY_FORMAT


class Closed(PenstockError):
    code = ErrorCode.CLOSED


class UnsupportedPlatform(PenstockError):
    code = ErrorCode.PLATFORM
