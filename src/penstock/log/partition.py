"""A log as the loop sees it: what was staged, what is committed, and the hot tail that is not in its segment yet."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.core.errors import PenstockError
from penstock.core.types import Compression, Durability, LogName, LogNumber, Sequence
from penstock.kernels.staged import NO_CUT, StagedLog, data_bytes
from penstock.log.journal.frames import Entry
from penstock.log.reading.bounds import Bounds
from penstock.log.reading.holes import Holes
from penstock.log.reading.recent import RecentBatches
from penstock.log.records import Edit, LogSettings


class Log(StagedLog):
    """Changed by the loop alone. `bounds` runs ahead to what is staged; readers stop at `high_watermark`."""

    __slots__ = (
        "_settings",
        "files_end",
        "holes",
        "list_sequence",
        "name",
        "recent",
        "wanted_from",
    )

    number: LogNumber
    bounds: Bounds
    high_watermark: int
    """end of what is committed, in the sense of the log's durability"""
    adopted_base: int
    hidden_end: int
    """records from the one on are not shown until the segments that the log adopted are in its view; then those below
    the other"""
    tail: list[Entry]  # type: ignore[assignment]  # entries of the log, with its types
    """the batches that may not be in the segment files yet, oldest first"""
    fault: PenstockError | None
    """why the log takes no records, if it does not"""
    on_commit: Callable[[list[Log]], None] | None
    """called when there is more to read, once a frame with all logs that have the same one"""
    listening: dict[Any, None] | None
    """those whom `on_commit` tells, where it need not be called if there are none"""
    durability: int
    is_apart: bool
    """its batches are compressed, or in no frame: see volatile"""
    cuts: list[tuple[Sequence, int]]
    """those that the files may not have yet"""
    written_sequence: Sequence
    """what frames below it brought lies in the segments"""
    waiting_level: int
    waiting_sequence: int
    """what its newest commit that is not done waits for"""

    def __init__(self, number: LogNumber, name: LogName, settings: LogSettings, bounds: Bounds) -> None:
        super().__init__(number, bounds)
        self.name, self.settings = name, settings
        self.wanted_from: Callable[[], int] = lambda: 0
        """no reader that follows the log comes back to what lies below: it is not kept in memory once it is written"""
        self.recent = RecentBatches()
        self.holes = Holes()
        self.files_end = NO_CUT
        """the files may still hold, at and above it, what a cut took away; read it before the files"""
        self.list_sequence = Sequence(-1)
        """the last frame that cut the log or swapped segments of it"""

    @property
    def settings(self) -> LogSettings:
        return self._settings

    @settings.setter
    def settings(self, settings: LogSettings) -> None:
        self._settings = settings
        self.durability, self.is_apart = settings.durability, settings.compression is not Compression.NONE

    @property
    def start(self) -> int:
        return self.bounds.start

    @property
    def end(self) -> int:
        """first offset not yet given away"""
        return self.bounds.end

    @property
    def visible_end(self) -> int:
        """Readers see records below it. The high watermark: what is not decided is in no log that anybody reads."""
        return self.high_watermark

    @property
    def is_list_settled(self) -> bool:
        """Whether the keeper's view of the log has every cut and swap that was staged: what a compaction may start
        from."""
        return self.written_sequence > self.list_sequence

    def apply(self, entry: Entry) -> int:
        """Fold an entry at once; what rests on it waits for its commit. By how many bytes the tail has grown."""
        return self.append(entry) if entry.edit is None else -self._apply_edit(entry.edit, entry.sequence)

    def hold(self, sequence: Sequence) -> None:
        """Commits from now on wait for the sync of that frame: the log's very existence or durability is in it."""
        self.waiting_level, self.waiting_sequence = Durability.COMMIT, sequence

    def committed(self, entry: Entry, sequence: Sequence) -> bool:
        """The frame that held the entry is committed; whether there may be more to read. What was cut off since does
        not count."""
        end = entry.end if entry.edit is None else _end_after(entry.edit)
        if end is not None:
            return self.reached(end, sequence)
        self.free(sequence)
        return False

    def reveal(self) -> None:
        """What it adopted is in its view: that is shown, and what was committed behind it."""
        self.high_watermark = max(self.high_watermark, self.hidden_end)
        self.adopted_base, self.hidden_end = NO_CUT, 0

    def forget_cuts(self, sequence: int) -> None:
        self.cuts = [cut for cut in self.cuts if cut[0] >= sequence]
        self.files_end = min([end for _, end in self.cuts], default=NO_CUT)

    def _apply_edit(self, edit: Edit, sequence: Sequence) -> int:
        freed_bytes = 0
        if edit.removed or edit.added or edit.adopted:
            self.list_sequence = sequence
        if edit.adopted:
            self.adopted_base = edit.adopted[0].base
            self.last_timestamp = edit.adopted[-1].max_timestamp
        if edit.end is not None and edit.end < self.bounds.end:
            self.cut_sequence = self.list_sequence = sequence
            self.recent.clear()
            freed_bytes = self._keep([batch for batch in self.tail if batch.first < edit.end])
            self.high_watermark = min(self.high_watermark, edit.end)
            self.hidden_end = min(self.hidden_end, edit.end)
            if self.adopted_base != NO_CUT:
                self.adopted_base = min(self.adopted_base, edit.end)
            self.cuts.append((sequence, edit.end))
            self.files_end = min(self.files_end, edit.end)
        self.bounds.apply(edit)
        return freed_bytes

    def _keep(self, tail: list[Entry]) -> int:
        """Replaces the list, which others may be reading; how many bytes went."""
        before, self.tail = self.tail, tail
        return data_bytes(before) - data_bytes(tail)


def _end_after(edit: Edit) -> int | None:
    return edit.adopted[-1].end if edit.adopted else edit.end
