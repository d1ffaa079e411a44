"""What a commit moves in each of its logs, in one call for all of them: what a small batch costs is mostly calls.

Offsets, timestamps and sequences are int64. What the numbers mean, log/partition.py says."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from penstock.kernels import entry as frame

NO_CUT = (1 << 63) - 1


class Span:
    """Offsets start..end of a log, and its epoch."""

    def __init__(self, start: int, end: int, epoch: int) -> None:
        self.start, self.end, self.epoch = start, end, epoch


class StagedLog:
    """The numbers of a log that every commit moves."""

    def __init__(self, number: int, bounds: Span) -> None:
        self.number, self.bounds = number, bounds
        self.high_watermark = bounds.end
        self.last_timestamp = 0
        self.adopted_base, self.hidden_end = NO_CUT, 0
        self.cut_sequence, self.written_sequence = -1, 0
        self.cuts: list[tuple[Any, int]] = []
        self.waiting_level, self.waiting_sequence = 0, -1
        self.tail: list[frame.FrameEntry] = []
        self.fault: BaseException | None = None
        self.on_commit: Callable[[list[Any]], None] | None = None
        self.listening: dict[Any, None] | None = None
        self.durability, self.is_apart = 0, False

    def append(self, entry: frame.FrameEntry) -> int:
        """Fold a batch that was staged; its bytes."""
        self.bounds.end = entry.end
        self.last_timestamp = entry.max_timestamp
        self.tail.append(entry)
        return len(entry.data)

    def let_go(self, sequence: int) -> list[Any]:
        """The part of the tail that frames below `sequence` brought; it is no longer there."""
        tail = self.tail
        keep = len(tail)
        while keep > 0:
            entry = tail[keep - 1]
            if entry.sequence < sequence:
                break
            keep -= 1
        self.tail = tail[keep:]
        return tail[:keep]

    def forget_cuts(self, sequence: int) -> None:
        """The files have those of frames below it."""
        raise NotImplementedError

    def free(self, sequence: int) -> None:
        """That frame is committed; if nothing of the log came after it, nothing is waited for."""
        if sequence == self.waiting_sequence:
            self.waiting_level, self.waiting_sequence = 0, -1

    def reached(self, end: int, sequence: int) -> bool:
        """What that frame brought, up to `end`, is committed; whether there may be more to read."""
        self.free(sequence)
        if sequence < self.cut_sequence:
            return False
        if end > self.adopted_base:
            self.hidden_end = max(self.hidden_end, end)
            return False
        if end > self.high_watermark:
            self.high_watermark = end
        return True


L = TypeVar("L", bound=StagedLog)


def stamps(
    logs: Sequence[StagedLog],
    now: int,
    numbers: array[int],
    firsts: array[int],
    epochs: array[int],
    times: array[int],
) -> int:
    """The number of each log, and offset, epoch and timestamp of its next batch; the first log that has a fault, -1 if
    none has."""
    for i in range(len(logs)):
        log = logs[i]
        if log.fault is not None:
            return i
        numbers[i] = log.number
        firsts[i] = log.bounds.end
        epochs[i] = log.bounds.epoch
        times[i] = max(now, log.last_timestamp)
    return -1


def entries_bytes(entries: Sequence[frame.FrameEntry]) -> int:
    """Of their table in a frame."""
    size = 0
    for i in range(len(entries)):
        entry = entries[i]
        size += 16 + ((len(entry.data) + 7) & -8)
    return size


def data_bytes(entries: Sequence[frame.FrameEntry]) -> int:
    """Of their batches."""
    size = 0
    for i in range(len(entries)):
        entry = entries[i]
        size += len(entry.data)
    return size


def fold_all(
    logs: Sequence[StagedLog], entries: Sequence[frame.FrameEntry], level: int, sequence: int
) -> tuple[int, int, int]:
    """Fold entry i into log i, all of them batches of one frame. What the frame waits for, see strongest(); the bytes
    and records of the batches."""
    size = records = 0
    level = strongest(logs, level)
    for i in range(len(logs)):
        log, entry = logs[i], entries[i]
        size += log.append(entry)
        records += entry.records
    if level > 0:
        wait_all(logs, level, sequence)
    return level, size, records


def strongest(logs: Sequence[StagedLog], level: int) -> int:
    """The level, or what one of the logs or an earlier commit of it waits for, if that is more."""
    for i in range(len(logs)):
        log = logs[i]
        level = max(level, log.waiting_level, log.durability)
    return level


def any_apart(logs: Sequence[StagedLog]) -> bool:
    """Whether a batch of one of them takes more than others: to be compressed, or to be left out of a frame."""
    for i in range(len(logs)):
        log = logs[i]
        if log.is_apart:
            return True
    return False


def wait_all(logs: Sequence[StagedLog], level: int, sequence: int) -> None:
    for i in range(len(logs)):
        log = logs[i]
        log.waiting_level, log.waiting_sequence = level, sequence


def reached_all(logs: Mapping[Any, L], entries: Sequence[frame.FrameEntry], sequence: int) -> list[L]:
    """Entries of a committed frame, all of them batches: the logs that have somebody to be told that there may be more
    to read. A log that is gone is passed over."""
    found = []
    for i in range(len(entries)):
        entry = entries[i]
        log = logs.get(entry.log)
        if log is not None and log.reached(entry.end, sequence) and log.on_commit is not None:
            listening = log.listening
            if listening is None or len(listening):
                found.append(log)
    return found


def written_all(
    logs: Mapping[Any, L], numbers: Sequence[int], sequence: int, followed: list[tuple[L, list[Any]]]
) -> int:
    """Segments of these logs hold what frames below `sequence` brought: that part of the tails is let go of; its bytes.
    Logs that have somebody who reads on go to `followed`, with what they let go of."""
    size = 0
    for i in range(len(numbers)):
        log = logs.get(numbers[i])
        if log is None:
            continue
        log.written_sequence = sequence
        if len(log.cuts):
            log.forget_cuts(sequence)
        gone = log.let_go(sequence)
        size += data_bytes(gone)
        if len(gone) and log.on_commit is not None:
            listening = log.listening
            if listening is None or len(listening):
                followed.append((log, gone))
    return size
