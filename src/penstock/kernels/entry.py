"""One log's part of a frame, as an object that costs little: there are as many as there are batches in memory.

Numbers are int64. The native one is not looked at by the garbage collector, so nothing that `data` or `edit` refers to
may refer back to it."""

from __future__ import annotations

from penstock.core.ports import Buffer


class FrameEntryPlain:
    """A batch with the offsets it covers, or an edit."""

    __slots__ = ("data", "edit", "end", "first", "first_timestamp", "log", "max_timestamp", "records", "sequence")

    def __init__(
        self,
        log: int,
        data: Buffer,
        edit: object | None = None,
        first: int = 0,
        end: int = 0,
        records: int = 0,
        first_timestamp: int = 0,
        max_timestamp: int = 0,
        sequence: int = -1,
    ) -> None:
        self.log, self.data, self.edit = log, data, edit
        self.first, self.end, self.records = first, end, records
        self.first_timestamp, self.max_timestamp, self.sequence = first_timestamp, max_timestamp, sequence


try:
    from penstock.kernels._native import FrameEntry
except ImportError:
    FrameEntry = FrameEntryPlain  # type: ignore[assignment,misc]  # the same attributes, in Python

__all__ = ["FrameEntry", "FrameEntryPlain"]
