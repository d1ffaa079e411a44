"""One damaged file of a directory that lived: a bit, a block of zeros, a cut, or the file gone, after a clean stop or a
kill. Then it is opened, mended if it has to be, and opened again: nothing is missing without being told."""

from __future__ import annotations

import errno
import logging
import os
import random
import traceback
from dataclasses import dataclass, field

from tests.sim.reading import files_below
from tests.sim.walk import Walk
from tests.support.clock import FakeClock
from tests.support.engines import put
from tests.support.simdisk import SimDisk

from penstock.core.errors import JournalDamaged, LogDamaged, LogStopped
from penstock.core.metrics import ShardMetrics
from penstock.core.types import FilePosition
from penstock.log.engine import Engine
from penstock.log.names import CATALOGUE_NUMBER
from penstock.log.offline.damage import Damage
from penstock.log.offline.repair import RepairMethod, apply_repair, plan_repair
from penstock.log.options import ShardOptions
from penstock.log.reading.reading import LogReader
from penstock.log.upkeep.recovery import recover

WAYS = ("flip", "flip", "zeros", "cut", "gone")
# Either of two is enough, or it is made anew: whatever happens to one of these costs nothing.
HAS_A_COPY = ("checkpoint", "format", "synced", "logs/@catalogue@0/", "logs/%40catalogue@0/")
MENDS = 6
LOST_FRAMES = "give up frame"

Contents = dict[int, tuple[str, set[bytes], int]]
"""number of a log -> its name, batches and end"""


@dataclass
class Told:
    lines: list[str] = field(default_factory=list)

    def of(self, name: str) -> bool:
        return any(name in line or LOST_FRAMES in line for line in self.lines)

    def has_lost_aside(self, name: str) -> bool:
        """Edits may be among what is lost."""
        return any(f"log {name}: what was kept aside is damaged" in line for line in self.lines)

    @property
    def has_lost_frames(self) -> bool:
        return any(LOST_FRAMES in line for line in self.lines)


def lived(rng: random.Random, seed: int) -> tuple[SimDisk, ShardOptions]:
    """A directory that nobody has open, everything acknowledged in it synced."""
    walk = Walk(seed)
    walk.faulty = False
    walk._open()
    for _ in range(rng.choice((15, 40, 80))):
        walk._step()
    walk.disk.heal()
    if walk.live.commit.failure is not None or walk.keeper_ended:
        walk.kill()
        walk.disk.heal()
    walk.live.commit.step(sync=True)
    if seed % 5 == 1:
        _stop_a_log(walk)
    if rng.random() < 0.3:
        walk.live.keeper.write_checkpoint(clean=True)
    elif rng.random() < 0.7:
        walk.live.keeper.step()
        walk.live.keeper.flush_all()
    return walk.disk.kill(), walk.options


def _stop_a_log(walk: Walk) -> None:
    """One whose file fails: what it took since the checkpoint lies aside."""
    if (log := walk._some_log()) is None:
        return
    for _ in range(3):
        walk.append()
        put(walk.live, log, b"%d" % walk.rng.randrange(1 << 30))
        walk.live.commit.step(sync=True)
    walk.disk.fail("sync", f"@{log.number}/", OSError(errno.EIO, os.strerror(errno.EIO)), times=1000)
    for _ in range(3):
        walk.live.keeper.write_checkpoint()
    walk.disk.heal()


def damage(rng: random.Random, disk: SimDisk, path: str, way: str) -> str:
    """What was done. Bytes that mean something are hit more often than the zeros of a journal file."""
    if way == "gone":
        disk.unlink(path)
        return f"{path} is gone"
    file = disk.open(path)
    data = file.read(FilePosition(0), file.size())
    used = len(data.rstrip(b"\0")) or 1
    at = rng.randrange(min(used + 64, len(data)) or 1)
    if way == "cut" or not data:
        file.truncate(at)
    elif way == "zeros":
        file.write(FilePosition(at), [bytes(min(rng.choice((64, 512, 4096, 20_000)), len(data) - at))])
    else:
        file.write(FilePosition(at), [bytes([data[at] ^ 1 << rng.randrange(8)])])
    file.sync()
    return f"{way} at byte {at} of {path}"


def opened(disk: SimDisk, options: ShardOptions, told: Told) -> tuple[Contents, set[str]]:
    """All that can be read, and the logs of which not all can."""
    clock, metrics = FakeClock(), ShardMetrics()
    recovered = recover(disk, clock, options, metrics)
    engine = Engine(disk, clock, options, metrics, recovered, lambda call: call())
    reader, bad = LogReader(disk, engine.keeper.views), set[str]()
    found: Contents = {}
    for log in engine.logs.values():
        if log.number == CATALOGUE_NUMBER:
            continue

        def tell(each: Damage, name: str = log.name) -> None:
            bad.add(name)
            told.lines.append(f"log {name}: {each}")

        if log.fault is not None:
            bad.add(log.name)
            told.lines.append(str(log.fault))
        batches: set[bytes] = set()
        try:
            batches.update(map(bytes, reader.readable(log, log.start, tell)))
        except LogStopped:
            assert log.fault is not None
        found[log.number] = log.name, batches, log.end
    if bad:
        engine.keeper.write_checkpoint(clean=True)  # it is stopped to be mended
    return found, bad


def mended(disk: SimDisk, method: RepairMethod, told: Told) -> None:
    plan = plan_repair(disk, None, method)
    told.lines += [*plan.findings, *plan.actions, *plan.left]
    if plan.actions:
        apply_repair(disk, plan)


def opened_again(disk: SimDisk, options: ShardOptions, told: Told) -> Contents:
    """Mended as the errors say until it opens and every log can be read."""
    for _ in range(MENDS):
        try:
            found, bad = opened(disk, options, told)
        except JournalDamaged as error:
            told.lines.append(str(error))
            mended(disk, "journal", told)
        except LogDamaged as error:
            told.lines.append(str(error))
            mended(disk, "skip", told)
        else:
            if not bad:
                return found
            disk = disk.kill()
            mended(disk, "rebuild", told)
            mended(disk, "skip", told)
    raise AssertionError("it cannot be mended")


def check(truth: Contents, found: Contents, told: Told, path: str) -> None:
    has_copy = path.startswith(HAS_A_COPY)
    for number, (name, batches, end) in truth.items():
        _, left, found_end = found.get(number, (name, set(), 0))
        assert found_end >= end or not path.startswith("aside/"), f"log {name} gives offsets again, from {found_end} on"
        assert batches <= left or (told.of(name) and not has_copy), f"log {name} lacks batches, silently"
        may_be_back = told.has_lost_frames or told.has_lost_aside(name)
        assert left <= batches or (may_be_back and not has_copy), f"log {name} has batches that were gone"
    assert set(found) <= set(truth) or told.has_lost_frames, "logs that were deleted are back, silently"


def run(seed: int) -> str:
    rng = random.Random(seed)
    whole, options = lived(rng, seed)
    truth, bad = opened(whole.kill(), options, Told())
    assert not bad
    paths = list(files_below(whole, ""))
    aside = [path for path in paths if path.startswith("aside/")]
    path, way = rng.choice(aside if aside and rng.random() < 0.7 else paths), rng.choice(WAYS)
    done = damage(rng, whole, path, way)
    told = Told()
    try:
        check(truth, opened_again(whole.kill(), options, told), told, path)
    except BaseException as error:
        error.add_note(f"{done}; told: {told.lines}")
        raise
    return done


def failure_of(seed: int) -> str | None:
    logging.disable(logging.CRITICAL)
    try:
        run(seed)
    except Exception:
        return f"{traceback.format_exc()}\ndamage failed seed={seed}"
    finally:
        logging.disable(logging.NOTSET)
    return None
