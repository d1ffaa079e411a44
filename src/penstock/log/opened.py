"""A data directory made ready: locked, and what its journal knows is where it belongs."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path

from penstock import kernels
from penstock.core.metrics import ShardMetrics
from penstock.core.ports import Clock
from penstock.log.disk import DirectoryLock, RealDisk, is_open_to_others, make_data_directory
from penstock.log.options import ShardOptions
from penstock.log.upkeep.format_file import refuse_foreign
from penstock.log.upkeep.recovery import Recovered, recover

logger = logging.getLogger("penstock.log.shard")


@dataclass(frozen=True, slots=True)
class OpenedDirectory:
    """For one process: `lock` is to be released in the end."""

    lock: DirectoryLock
    disk: RealDisk
    metrics: ShardMetrics
    recovered: Recovered


def opened_directory(directory: Path, options: ShardOptions, clock: Clock) -> OpenedDirectory:
    """Beside the loop: replaying a journal takes its time."""
    if not kernels.compiled():
        logger.warning(
            "kernels are not compiled: correct, but hundreds of times slower; install a C compiler and reinstall"
        )
    make_data_directory(directory)
    if is_open_to_others(directory):
        logger.warning("others on this machine can look into the data directory: chmod o= %s", directory)
    disk, metrics = RealDisk(directory), ShardMetrics()
    refuse_foreign(disk)
    lock = DirectoryLock.acquire(directory)
    try:
        return OpenedDirectory(lock, disk, metrics, recover(disk, clock, options, metrics))
    except BaseException:
        lock.release()
        raise
