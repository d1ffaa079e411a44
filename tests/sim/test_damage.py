"""Damaged files: whatever byte is changed, what is read is right, or an error says where it is wrong."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from tests.sim.reading import files_below
from tests.support.clock import FakeClock
from tests.support.simdisk import SimDisk

from penstock.core.errors import JournalDamaged, LogDamaged, PenstockError
from penstock.core.metrics import ShardMetrics
from penstock.core.types import Compression, FilePosition, Generation, Sequence
from penstock.log.batch import Batch
from penstock.log.columns import Columns
from penstock.log.engine import Engine
from penstock.log.journal.journal import FILE_HEADER_BYTES, JournalOptions
from penstock.log.journal.marks import Mark, write_marks
from penstock.log.names import log_name
from penstock.log.options import ShardOptions
from penstock.log.reading.reading import LogReader
from penstock.log.records import LogSettings
from penstock.log.segments.keeper import KeeperOptions
from penstock.log.upkeep.recovery import recover

OPTIONS = ShardOptions(
    journal=JournalOptions(24 << 10, 96 << 10, 8 << 10), keeper=KeeperOptions(flush_bytes=1), disk_reserve_bytes=0
)
FRAMES = 10
CHECKPOINT_AFTER = 5

Contents = dict[str, list[bytes]]


def opened(disk: SimDisk) -> Engine:
    clock, metrics = FakeClock(), ShardMetrics()
    return Engine(disk, clock, OPTIONS, metrics, recover(disk, clock, OPTIONS, metrics), lambda call: call())


def frame_values(frame: int) -> list[bytes]:
    return [b"frame %d record %d " % (frame, record) * (3 + 20 * (frame % 3)) for record in range(2)]


def contents_after(frames: int) -> Contents:
    return {name: [value for frame in range(frames) for value in frame_values(frame)] for name in ("plain", "packed")}


def filled(clean: bool) -> SimDisk:
    """Two logs, one frame and one sync after the other over both, a checkpoint in the middle."""
    disk = SimDisk()
    engine = opened(disk)
    settings = [LogSettings(segment_bytes=700), LogSettings(compression=Compression.ZSTD, segment_bytes=400)]
    names = [log_name("plain"), log_name("packed")]
    logs = engine.stage_create(list(zip(names, settings, strict=True)), lambda error: None)
    for frame in range(FRAMES):
        engine.stage([(log, Columns.of(frame_values(frame))) for log in logs], lambda error: None)
        engine.commit.step()
        if frame + 1 == CHECKPOINT_AFTER:
            assert engine.keeper.write_checkpoint()
    if clean:
        assert engine.keeper.write_checkpoint(clean=True)
    return disk.kill()


def read_all(disk: SimDisk) -> Contents:
    """Everything, through recovery and the reader; the first error met."""
    clock, metrics = FakeClock(), ShardMetrics()
    recovered = recover(disk, clock, OPTIONS, metrics)
    engine = Engine(disk, clock, OPTIONS, metrics, recovered, lambda call: call())
    for fault in recovered.faults.values():
        raise fault
    reader = LogReader(disk, engine.keeper.views)
    found: Contents = {}
    for log in engine.logs.values():
        found[log.name] = [row.value for data in reader.batches(log, log.start) for row in Batch.parse(data)]
    return {name: found.get(name, []) for name in ("plain", "packed")}


def flip(disk: SimDisk, path: str, position: int, mask: int) -> SimDisk:
    damaged = disk.kill()
    file = damaged.open(path)
    [byte] = file.read(FilePosition(position), 1)
    file.write(FilePosition(position), [bytes([byte ^ mask])])
    file.sync()
    file.close()
    return damaged


def used_bytes(disk: SimDisk, path: str) -> Iterator[int]:
    """Positions worth damaging: all but the zeros of a journal file, of which some are taken too."""
    file = disk.open_read(path)
    data = file.read(FilePosition(0), file.size())
    file.close()
    last = len(data.rstrip(b"\0"))
    yield from (at for at in range(len(data)) if at < 64 or FILE_HEADER_BYTES <= at < last + 64 or at % 997 == 0)


def check_harmless_or_told(clean: bool, path: str, positions: list[int], rng: random.Random) -> None:
    whole = filled(clean)
    for position in positions:
        mask = 1 << rng.randrange(8)
        try:
            found = read_all(flip(whole, path, position, mask))
        except PenstockError as error:
            assert path in str(error), f"the error about byte {position} of {path} does not name it: {error}"
            continue
        assert found == contents_after(FRAMES), f"byte {position} of {path}, mask {mask}: silently wrong"


@pytest.mark.parametrize("clean", [False, True])
def test_a_changed_byte_is_harmless_or_told_with_its_file(clean: bool) -> None:
    rng = random.Random(7)
    disk = filled(clean)
    for path in files_below(disk, ""):
        positions = list(used_bytes(disk, path))
        check_harmless_or_told(clean, path, rng.sample(positions, min(len(positions), 150)), rng)


def test_the_undamaged_directory_is_read_whole() -> None:
    for clean in (False, True):
        assert read_all(filled(clean)) == contents_after(FRAMES)


def test_a_frame_that_was_known_to_be_durable_is_never_cut() -> None:
    """Every byte of all frames between the checkpoint and the last one."""
    whole = filled(clean=False)
    [path] = [path for path in files_below(whole, "journal") if _frames_in(whole, path)]
    frames = _frames_in(whole, path)
    for position in range(frames[CHECKPOINT_AFTER + 1], frames[-1], 5):
        with pytest.raises(JournalDamaged, match=path):
            read_all(flip(whole, path, position, 0x10))


def test_the_last_frame_is_damaged_if_it_was_synced_and_torn_if_it_was_not() -> None:
    """The mark tells; after a power cut it may be too old for that."""
    whole = filled(clean=False)
    [path] = [path for path in files_below(whole, "journal") if _frames_in(whole, path)]
    damaged = flip(whole, path, _frames_in(whole, path)[-1] + 50, 1)
    with pytest.raises(JournalDamaged, match=path):
        read_all(damaged.kill())
    write_marks(damaged, Mark(0, Generation(1), Sequence(0), Sequence(0)))
    assert read_all(damaged) == contents_after(FRAMES - 1)


@pytest.mark.parametrize("clean", [False, True])
def test_a_missing_file_is_told(clean: bool) -> None:
    whole = filled(clean)
    for path in files_below(whole, ""):
        damaged = whole.kill()
        damaged.unlink(path)
        try:
            found = read_all(damaged)
        except PenstockError as error:
            assert path in str(error) or path.startswith("journal/"), f"{path}: {error}"
            continue
        assert found == contents_after(FRAMES), f"{path} is missing, silently"


@pytest.mark.parametrize("clean", [False, True])
def test_a_segment_that_was_cut_short_is_told(clean: bool) -> None:
    whole = filled(clean)
    for path in (path for path in files_below(whole, "logs") if path.endswith(".seg")):
        damaged = whole.kill()
        file = damaged.open(path)
        file.truncate(file.size() - 8)
        file.sync()
        file.close()
        try:
            assert read_all(damaged) == contents_after(FRAMES), f"{path} is short, silently"
        except LogDamaged as error:
            assert path in str(error)


def _frames_in(disk: SimDisk, path: str) -> list[int]:
    file = disk.open_read(path)
    data = file.read(FilePosition(0), file.size())
    file.close()
    return [at for at in range(FILE_HEADER_BYTES, len(data) - 4, 8) if data[at : at + 4] == b"PSTF"]
