"""The doctor's look at the disk below a data directory."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

from penstock.cli.directory import DataDirectory
from penstock.cli.doctor.finding import Finding, Verdict
from penstock.cli.failures import describe
from penstock.cli.output import size_text
from penstock.core.errors import PenstockError
from penstock.core.types import FilePosition
from penstock.log.disk import RealDisk, RealFile, is_open_to_others
from penstock.log.offline.inspect import directory_faults
from penstock.log.options import ShardOptions
from penstock.log.upkeep.format_file import is_ours

_SYNCS_AT_MOST = 500
_SECONDS_AT_MOST = 1.0
_SYNCED_BYTES = 4096
_FILE_BYTES = 1 << 20
# Faster than this no disk is: the sync did not reach one (a virtual disk that ignores it, a file system in memory).
_TOO_FAST_US = 5.0
_SLOW_US = 20_000.0
_IN_MEMORY = frozenset({"tmpfs", "ramfs"})
_REMOTE = frozenset({"nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs"})


def data_directory(directory: Path) -> Finding:
    if not is_ours(RealDisk(directory)):
        return Finding("data directory", Verdict.OK, f"{directory} is not one (yet)", {"state": None})
    try:
        found = DataDirectory.at(directory)
        faults = directory_faults(directory)
    except PenstockError as error:
        return Finding("data directory", Verdict.PROBLEM, str(error), {"state": None})
    facts: dict[str, object] = {"state": found.state.value, "format": found.format, "created_by": found.created_by}
    if faults:
        facts["faults"] = [str(fault) for fault in faults]
        facts["stopped_logs"] = [fault.log for fault in faults if fault.log]
        text = f"{'; '.join(map(str, faults))}: look at all of it with `penstock log verify {directory}`"
        return Finding("data directory", Verdict.PROBLEM, text, facts)
    if is_open_to_others(directory):
        facts["mode"] = f"{directory.stat().st_mode & 0o777:o}"
        text = f"mode {facts['mode']}: others on this machine can look into it; `chmod o= {directory}`"
        return Finding("data directory", Verdict.WARNING, text, facts)
    return Finding("data directory", Verdict.OK, f"format {found.format}, {found}", facts)


def file_system(place: Path) -> Finding:
    kind, mount = _mount_of(place)
    facts: dict[str, object] = {"type": kind, "mount": mount}
    if kind in _IN_MEMORY:
        text = f"{kind} on {mount}: nothing survives a restart of the machine; use a directory on a disk"
        return Finding("file system", Verdict.WARNING, text, facts)
    if kind in _REMOTE:
        text = f"{kind} on {mount}: locks and syncs over a network are not to be relied on; use a local disk"
        return Finding("file system", Verdict.WARNING, text, facts)
    return Finding("file system", Verdict.OK, f"{kind} on {mount}", facts)


_TOO_FAST = (
    "no disk is that fast, so a power cut may lose commits: let the disk or the hypervisor honour flushes, or put the "
    "data elsewhere"
)
_SLOW = (
    "slow; every commit waits for one of these: put the data on a local SSD with power-loss protection, publish in "
    "batches, or let queues that may lose a second have `durability: interval`"
)


def sync_speed(place: Path) -> Finding:
    """What one commit waits for at least."""
    try:
        times_us = sorted(_measure_syncs(place))
    except OSError as error:
        return Finding("sync", Verdict.PROBLEM, f"cannot write here: {describe(error)}")
    p50, p99 = times_us[len(times_us) // 2], times_us[len(times_us) * 99 // 100]
    text = f"p50 {p50:.0f} us, p99 {p99:.0f} us for {_SYNCED_BYTES} bytes ({len(times_us)} syncs)"
    facts: dict[str, object] = {"p50_us": round(p50, 1), "p99_us": round(p99, 1), "syncs": len(times_us)}
    if p50 < _TOO_FAST_US:
        return Finding("sync", Verdict.WARNING, f"{text}: {_TOO_FAST}", facts)
    if p99 > _SLOW_US:
        return Finding("sync", Verdict.WARNING, f"{text}: {_SLOW}", facts)
    return Finding("sync", Verdict.OK, text, facts)


def free_space(place: Path, options: ShardOptions) -> Finding:
    disk = RealDisk(place)
    free, total = disk.free_bytes(), disk.total_bytes()
    reserve = options.reserve(total)
    facts: dict[str, object] = {"free_bytes": free, "total_bytes": total, "disk_reserve_bytes": reserve}
    text = f"{size_text(free)} free of {size_text(total)}; publishes are refused below {size_text(reserve)}"
    if free < reserve:
        return Finding("free space", Verdict.PROBLEM, f"{text}: free space, or lower disk_reserve", facts)
    if free < 2 * reserve:
        return Finding("free space", Verdict.WARNING, f"{text}: it is getting near", facts)
    return Finding("free space", Verdict.OK, text, facts)


def _measure_syncs(place: Path) -> list[float]:
    """Microseconds of each write and sync inside an allocated file, as the journal does them."""
    block = os.urandom(_SYNCED_BYTES)
    times_us: list[float] = []
    with tempfile.TemporaryFile(dir=place) as unnamed:
        file = RealFile(os.dup(unnamed.fileno()))
        try:
            file.allocate(_FILE_BYTES)
            deadline = time.monotonic() + _SECONDS_AT_MOST
            while len(times_us) < _SYNCS_AT_MOST and (not times_us or time.monotonic() < deadline):
                begun = time.perf_counter()
                file.write(FilePosition(len(times_us) * _SYNCED_BYTES % _FILE_BYTES), [block])
                file.sync()
                times_us.append((time.perf_counter() - begun) * 1e6)
        finally:
            file.close()
    return times_us


def _mount_of(place: Path) -> tuple[str, str]:
    """Type and mount point of the file system that holds the place; ("unknown", "?") where the system does not tell."""
    try:
        lines = Path("/proc/self/mounts").read_text().splitlines()
    except FileNotFoundError:
        return "unknown", "?"
    resolved = place.resolve()
    best = ("unknown", "?")
    for line in lines:
        _, mount, kind, *_ = line.split(" ")
        point = Path(mount.replace("\\040", " "))
        # The last mount on a point hides those before it.
        if resolved.is_relative_to(point) and len(str(point)) >= len(best[1]):
            best = kind, str(point)
    return best
