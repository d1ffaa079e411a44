"""Damage in the journal: what lies below the checkpoint does not matter, what lies behind a damaged frame is not given
up, and a file that is gone, zeroed or cut is seen."""

from __future__ import annotations

import pytest
from tests.support.engines import close_engine, make_log, open_engine, put, values_of
from tests.support.simdisk import SimDisk

from penstock.core.errors import JournalDamaged
from penstock.core.types import FilePosition, Sequence
from penstock.kernels.entry import MAGIC
from penstock.log.engine import Engine
from penstock.log.journal.journal import FILE_HEADER_BYTES
from penstock.log.journal.marks import Mark, write_marks
from penstock.log.journal.replay import JournalReader, ReplayedFrame
from penstock.log.journal.slots import journal_slots, slot_paths
from penstock.log.offline.check import journal_reader
from penstock.log.offline.inspect import FoldedDirectory
from penstock.log.reading.cuts import DirectoryState
from penstock.log.upkeep.checkpoint import read_checkpoint


def value(number: int) -> bytes:
    return b"value %d " % number * 6


def filled(frames: int = 20, checkpoint_at: int = 10) -> SimDisk:
    """Log a, a record and a sync a frame, a checkpoint in the middle; then killed."""
    disk = SimDisk()
    engine = open_engine(disk)
    log = make_log(engine)
    for number in range(frames):
        assert append(engine, number)
        if number + 1 == checkpoint_at:
            assert engine.keeper.write_checkpoint()
    assert log.end == frames
    return disk.kill()


def append(engine: Engine, number: int) -> bool:
    outcome = put(engine, engine.log("a"), value(number))
    engine.commit.step(sync=True)
    return outcome.is_acknowledged


def frames_of(disk: SimDisk) -> list[ReplayedFrame]:
    """All that the journal's files hold, also what is below the checkpoint."""
    return list(JournalReader(disk, Sequence(0), Sequence(0)).frames())


def flip(disk: SimDisk, path: str, position: int, mask: int = 4) -> None:
    file = disk.open(path)
    [byte] = file.read(FilePosition(position), 1)
    file.write(FilePosition(position), [bytes([byte ^ mask])])
    file.sync()


def expect_all(disk: SimDisk, frames: int = 20) -> None:
    assert values_of(open_engine(disk)) == [(number, value(number)) for number in range(frames)]


@pytest.mark.parametrize(
    "at", [0, 9, 18, 33, 38, 60], ids=["magic", "generation", "sequence", "length", "count", "body"]
)
def test_a_damaged_frame_below_the_checkpoint_does_not_matter(at: int) -> None:
    whole = filled()
    checkpoint = read_checkpoint(whole)
    assert checkpoint is not None
    for frame in frames_of(whole):
        if frame.sequence < checkpoint.first_sequence:
            disk = whole.kill()
            flip(disk, frame.path, frame.position + at)
            expect_all(disk)


def test_all_frames_below_the_checkpoint_may_be_zeros() -> None:
    disk = filled()
    checkpoint = read_checkpoint(disk)
    assert checkpoint is not None
    first = next(frame for frame in frames_of(disk) if frame.sequence == checkpoint.first_sequence)
    disk.open(first.path).write(FilePosition(FILE_HEADER_BYTES), [bytes(first.position - FILE_HEADER_BYTES)])
    expect_all(disk)


def test_a_damaged_frame_behind_the_checkpoint_is_still_damage() -> None:
    whole = filled()
    checkpoint = read_checkpoint(whole)
    assert checkpoint is not None
    for frame in frames_of(whole):
        if checkpoint.first_sequence <= frame.sequence < frames_of(whole)[-1].sequence:
            disk = whole.kill()
            flip(disk, frame.path, frame.position + 60)
            with pytest.raises(JournalDamaged) as caught:
                open_engine(disk)
            assert caught.value.sequence == frame.sequence


def test_a_value_that_looks_like_a_frame_is_not_taken_for_one() -> None:
    """Damage in front of it makes replay look for the next frame."""
    disk = SimDisk()
    engine = open_engine(disk)
    make_log(engine)
    assert append(engine, 0)
    frame = frames_of(disk)[-1]
    stolen = bytes(disk.open_read(frame.path).map()[frame.position :][:200])
    assert stolen.startswith(MAGIC)
    put(engine, engine.log("a"), stolen)
    engine.commit.step(sync=True)
    assert engine.keeper.write_checkpoint()
    assert append(engine, 2)
    disk = disk.kill()
    holder = frames_of(disk)[-2]
    flip(disk, holder.path, holder.position + 50)
    assert [offset for offset, _ in values_of(open_engine(disk))] == [0, 1, 2]


def last_slot(disk: SimDisk) -> str:
    return journal_slots(disk)[-1].path


def zero(disk: SimDisk, path: str, first: int, end: int | None = None) -> None:
    file = disk.open(path)
    file.write(FilePosition(first), [bytes((end if end is not None else file.size()) - first)])
    file.sync()


def cut(disk: SimDisk, path: str, size: int) -> None:
    file = disk.open(path)
    file.truncate(size)
    file.sync()


def two_lives() -> SimDisk:
    """Five frames and a clean stop, then twenty more over several files and a kill."""
    disk = SimDisk()
    engine = open_engine(disk)
    make_log(engine)
    for number in range(5):
        assert append(engine, number)
    close_engine(engine)
    engine = open_engine(disk)
    for number in range(5, 105):
        assert append(engine, number)
    assert len(journal_slots(disk)) > 2
    return disk.kill()


def test_a_journal_file_that_is_missing_is_seen_whichever_it_is() -> None:
    whole = two_lives()
    needed = [slot.path for slot in journal_slots(whole) if slot.header.generation > 1]
    for path in needed:
        disk = whole.kill()
        disk.unlink(path)
        with pytest.raises(JournalDamaged):
            open_engine(disk.kill())
        assert FoldedDirectory(disk, DirectoryState.CRASHED).journal.problems
    with pytest.raises(JournalDamaged, match=rf"{needed[-1]}.* is missing"):
        open_engine(disk)


def test_the_last_journal_file_may_not_be_missing_even_if_nothing_is_known_of_its_frames() -> None:
    """After a power cut the mark may be as old as the beginning of the file."""
    disk = two_lives()
    newest = journal_slots(disk)[-1]
    first = newest.header.first_sequence
    write_marks(disk, Mark(int(newest.path[-4:]), newest.header.generation, first, first))
    disk.unlink(newest.path)
    with pytest.raises(JournalDamaged, match="may have been durable"):
        open_engine(disk)


def test_a_journal_file_that_is_zeroed_or_cut_inside_its_used_part_is_seen() -> None:
    whole = two_lives()
    path = last_slot(whole)
    end = max(frame.position for frame in frames_of_life(whole) if frame.path == path)
    for how in ("zeroed whole", "zeroed at the end", "cut"):
        disk = whole.kill()
        cut(disk, path, end) if how == "cut" else zero(disk, path, 0 if how == "zeroed whole" else end)
        with pytest.raises(JournalDamaged, match=path):
            open_engine(disk)


def frames_of_life(disk: SimDisk) -> list[ReplayedFrame]:
    checkpoint = read_checkpoint(disk)
    assert checkpoint is not None
    return list(journal_reader(disk, checkpoint).frames())


def test_a_journal_file_that_lost_its_header_is_read_all_the_same() -> None:
    disk = two_lives()
    zero(disk, last_slot(disk), 0, FILE_HEADER_BYTES)
    expect_all(disk, 105)


@pytest.mark.parametrize("at", [0, 512])
def test_either_copy_of_the_header_of_a_journal_file_is_enough(at: int) -> None:
    disk = two_lives()
    flip(disk, last_slot(disk), at + 20)
    expect_all(disk, 105)


def test_after_a_clean_stop_the_journal_is_not_needed() -> None:
    disk = two_lives()
    engine = open_engine(disk)
    close_engine(engine)
    for path in slot_paths(disk):
        disk.unlink(path)
    expect_all(disk, 105)


def test_one_mark_is_enough_and_without_both_nobody_knows() -> None:
    whole = two_lives()
    for path in ("synced", "synced.2"):
        disk = whole.kill()
        disk.unlink(path)
        expect_all(disk.kill(), 105)
        other = "synced.2" if path == "synced" else "synced"
        flip(disk, other, 12)
        with pytest.raises(JournalDamaged, match=r"synced and synced\.2"):
            open_engine(disk)
