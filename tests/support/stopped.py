"""A log whose files fail, on a disk that does not."""

from __future__ import annotations

import errno
import os

from tests.support.small_shard import SmallShard

from penstock.core.errors import LogPoisoned
from penstock.log.partition import Log
from penstock.log.upkeep.faults import SyncFailed


def stop(shard: SmallShard, log: Log) -> None:
    """What came to it since the checkpoint is in a file aside, and nowhere else."""
    files = shard.engine.keeper.files
    sync = files.sync

    def failing(path: str) -> None:
        if f"@{log.number}/" in path:
            raise SyncFailed(errno.EIO, os.strerror(errno.EIO), path)
        sync(path)

    files.sync = failing  # type: ignore[method-assign]  # the disk fails
    while not shard.engine.keeper.write_checkpoint():
        continue
    files.sync = sync  # type: ignore[method-assign]  # as it was
    assert isinstance(log.fault, LogPoisoned)
