"""What can be set of the journal and the files behind it."""

from __future__ import annotations

from typing import Annotated

import msgspec

from penstock.core.errors import InvalidArgument
from penstock.core.settings.numbers import Auto, Count, Duration, Size
from penstock.log.journal.commit import CommitOptions
from penstock.log.journal.journal import JournalOptions
from penstock.log.options import ShardOptions
from penstock.log.segments.keeper import KeeperOptions
from penstock.server.written import BadConfiguration

_MOST_BYTES = 1 << 50
_DEFAULTS = ShardOptions()


class Storage(msgspec.Struct, frozen=True, kw_only=True):
    journal_file_size_bytes: Annotated[int, Size(1 << 20, _MOST_BYTES)] = _DEFAULTS.journal.file_bytes
    """size of one journal file; the largest commit is half of it, at most 16 MiB. Files are larger where larger
    messages are stored"""
    journal_size_bytes: Annotated[int, Size(4 << 20, _MOST_BYTES)] = _DEFAULTS.journal.limit_bytes
    """size of the whole journal; publishes wait beyond it"""
    sync_interval_ms: Annotated[int, Duration()] = round(_DEFAULTS.commit.sync_interval_s * 1000)
    """how often the journal is synced for queues of durability `interval`"""
    checkpoint_size_bytes: Annotated[int, Size(1 << 20, _MOST_BYTES)] = _DEFAULTS.keeper.checkpoint_bytes
    """a checkpoint, which frees the journal, is made after so much was written"""
    checkpoint_interval_ms: Annotated[int, Duration()] = round(_DEFAULTS.keeper.checkpoint_s * 1000)
    """a checkpoint is made at least this often"""
    max_open_files: Annotated[int, Count(16, 1 << 20)] = _DEFAULTS.keeper.max_open_files
    """most segment files that are open at a time; no more than a quarter of what the process may open"""
    publish_budget_size_bytes: Annotated[int, Size(1 << 20, _MOST_BYTES)] = _DEFAULTS.publish_budget_bytes
    """publishes taken and not yet in the journal; others wait"""
    tail_size_bytes: Annotated[int, Size(1 << 20, _MOST_BYTES)] = _DEFAULTS.tail_bytes
    """what may wait in memory to be written to segments; publishes wait beyond it"""
    recent_size_bytes: Annotated[int, Size(0, _MOST_BYTES)] = _DEFAULTS.recent_bytes
    """batches that stay in memory after they were written, for groups that are a little behind"""
    disk_reserve_bytes: Annotated[int | None, Auto(Size(0, _MOST_BYTES))] = _DEFAULTS.disk_reserve_bytes
    """publishes are refused when less is free; `auto` is the greater of 1 GiB and 5 % of the disk"""
    housekeeping_interval_ms: Annotated[int, Duration()] = round(_DEFAULTS.housekeeping_s * 1000)
    """how often retention and compaction look at the logs"""

    def options(self) -> ShardOptions:
        """BadConfiguration for sizes that do not go together."""
        try:
            journal = JournalOptions(self.journal_file_size_bytes, self.journal_size_bytes, **self._frame())
        except InvalidArgument as error:
            raise BadConfiguration("storage", str(error)) from None
        return ShardOptions(
            journal=journal,
            keeper=KeeperOptions(
                checkpoint_bytes=self.checkpoint_size_bytes,
                checkpoint_s=self.checkpoint_interval_ms / 1000,
                max_open_files=self.max_open_files,
            ),
            commit=CommitOptions(sync_interval_s=self.sync_interval_ms / 1000),
            publish_budget_bytes=self.publish_budget_size_bytes,
            tail_bytes=self.tail_size_bytes,
            recent_bytes=self.recent_size_bytes,
            disk_reserve_bytes=self.disk_reserve_bytes,
            housekeeping_s=self.housekeeping_interval_ms / 1000,
        )

    def _frame(self) -> dict[str, int]:
        return {"max_frame_bytes": min(JournalOptions().max_frame_bytes, self.journal_file_size_bytes // 2)}
