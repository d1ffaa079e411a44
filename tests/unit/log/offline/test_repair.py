"""Every way of mending, on real damage: a flipped bit, a file cut short, a file gone."""

from __future__ import annotations

import errno
import random
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import pytest
from tests.support.engines import close_engine, make_log, open_engine, put, values_of
from tests.support.simdisk import SimDisk, SimulatedCrash

from penstock.core.errors import DirectoryInUse, InvalidArgument, JournalDamaged, LogDamaged, NoSuchLog
from penstock.core.types import Durability, FilePosition, LogName
from penstock.log.disk import DirectoryLock, RealDisk
from penstock.log.engine import Engine
from penstock.log.journal.slots import journal_slots
from penstock.log.names import log_name
from penstock.log.offline.offline import fold, segment_files
from penstock.log.offline.repair import RepairMethod, RepairPlan, apply_repair, plan_repair
from penstock.log.offline.verify import verify
from penstock.log.reading.bounds import OFFSET_GAP
from penstock.log.records import Edit, LogSettings
from penstock.log.upkeep.checkpoint import LogState, read_checkpoint, write_checkpoint

A, B = log_name("a"), log_name("b")
# Two records a batch, about four batches a segment.
SMALL_SEGMENTS = LogSettings(segment_bytes=700)


def value(i: int) -> bytes:
    return b"value %d " % i * 6


def filled(*, clean: bool = True, checkpoint_at: int = 20, durability: Durability = Durability.COMMIT) -> SimDisk:
    """Logs a and b of 40 records each, two a batch; a checkpoint after `checkpoint_at` batches."""
    disk = SimDisk()
    engine = open_engine(disk)
    settings = LogSettings(segment_bytes=SMALL_SEGMENTS.segment_bytes, durability=durability)
    logs = [make_log(engine, "a", settings), make_log(engine, "b", settings)]
    for i in range(20):
        for log in logs:
            put(engine, log, value(2 * i), value(2 * i + 1))
        engine.commit.step(sync=True)
        if i + 1 == checkpoint_at:
            assert engine.keeper.write_checkpoint()
    if clean:
        close_engine(engine)
    return disk


def segments(disk: SimDisk, number: int) -> list[str]:
    """Segment files of a log that the checkpoint names, oldest first."""
    directory = {0: "logs/@catalogue@0", 1: "logs/a@1", 2: "logs/b@2"}[number]
    return [f"{directory}/{name}" for name in disk.list(directory) if name.endswith(".seg")]


def flip(disk: SimDisk, path: str, position: int) -> None:
    file = disk.open(path)
    [byte] = file.read(FilePosition(position), 1)
    file.write(FilePosition(position), [bytes([byte ^ 4])])
    file.sync()


def shorten(disk: SimDisk, path: str, size: int) -> None:
    file = disk.open(path)
    file.truncate(size)
    file.sync()


def tree(disk: SimDisk | RealDisk, path: str = "") -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for name in disk.list(path):
        inner = f"{path}/{name}" if path else name
        try:
            file = disk.open_read(inner)
            found[inner] = file.read(FilePosition(0), file.size())
        except IsADirectoryError:
            found |= tree(disk, inner)
    return found


def repair(disk: SimDisk, method: RepairMethod, name: LogName | None = A) -> RepairPlan:
    before = tree(disk)
    plan = plan_repair(disk, name, method)
    assert tree(disk) == before
    apply_repair(disk, plan)
    return plan


def reopened(disk: SimDisk) -> Engine:
    """Verifies clean and opens, every log without a fault."""
    with TemporaryDirectory() as place:
        for path, data in tree(disk).items():
            file = Path(place, path)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(data)
        assert verify(Path(place)).findings == []
    engine = open_engine(disk)
    assert {log.name: log.fault for log in engine.logs.values() if log.fault} == {}
    return engine


def expect(engine: Engine, name: str, offsets: list[int]) -> None:
    assert values_of(engine, name) == [(offset, value(offset)) for offset in offsets]


def state_of(disk: SimDisk, number: int) -> LogState:
    checkpoint = read_checkpoint(disk)
    assert checkpoint is not None
    return next(state for state in checkpoint.logs if state.number == number)


def second_batch(disk: SimDisk, path: str) -> int:
    file = disk.open_read(path)
    return 64 + int.from_bytes(file.read(FilePosition(16), 4), "little")


@pytest.mark.parametrize("clean", [True, False])
def test_cut_ends_the_log_before_a_flipped_bit_and_goes_on_behind_a_gap(clean: bool) -> None:
    disk = filled(clean=clean)
    first, second = segments(disk, 1)[:2]
    flip(disk, second, second_batch(disk, second) + 80)
    base = int(second.rpartition("/")[2][:20])

    plan = repair(disk, "cut")

    assert second in plan.findings[0]
    engine = reopened(disk)
    expect(engine, "a", list(range(base + 2)))
    expect(engine, "b", list(range(40)))
    log = engine.log("a")
    assert log.end == base + 2 + OFFSET_GAP
    assert log.bounds.epochs[-1].previous_end == base + 2
    put(engine, log, b"new")
    engine.commit.step()
    assert values_of(engine, "a")[-1] == (base + 2 + OFFSET_GAP, b"new")
    assert disk.exists(first)
    assert not disk.exists(second)


def test_skip_takes_out_one_batch_and_keeps_the_rest() -> None:
    disk = filled()
    path = segments(disk, 1)[1]
    base = int(path.rpartition("/")[2][:20])
    flip(disk, path, second_batch(disk, path) + 80)

    repair(disk, "skip")

    engine = reopened(disk)
    expect(engine, "a", [i for i in range(40) if i not in (base + 2, base + 3)])
    assert engine.log("a").end == 40 + OFFSET_GAP


def test_skip_finds_the_next_good_batch_behind_a_damaged_header() -> None:
    disk = filled()
    path = segments(disk, 1)[1]
    base = int(path.rpartition("/")[2][:20])
    flip(disk, path, second_batch(disk, path) + 18)  # its length

    repair(disk, "skip")

    expect(reopened(disk), "a", [i for i in range(40) if i not in (base + 2, base + 3)])


@pytest.mark.parametrize("method", ["cut", "skip"])
@pytest.mark.parametrize("clean", [True, False])
def test_a_file_that_is_gone_is_mended(method: RepairMethod, clean: bool) -> None:
    disk = filled(clean=clean)
    second, third = segments(disk, 1)[1:3]
    base, end = (int(path.rpartition("/")[2][:20]) for path in (second, third))
    disk.unlink(second)
    with_fault = open_engine(disk.kill())
    assert isinstance(with_fault.log("a").fault, LogDamaged)

    repair(disk, method)

    rest = range(end, 40) if method == "skip" else range(0)
    engine = reopened(disk)
    expect(engine, "a", [*range(base), *rest])
    log = engine.log("a")
    assert log.end - log.bounds.skipped() == base + len(rest)


@pytest.mark.parametrize("method", ["cut", "skip"])
def test_a_file_cut_short_is_mended(method: RepairMethod) -> None:
    disk = filled()
    second, third = segments(disk, 1)[1:3]
    base, end = (int(path.rpartition("/")[2][:20]) for path in (second, third))
    shorten(disk, second, second_batch(disk, second) + 30)

    repair(disk, method)

    rest = range(end, 40) if method == "skip" else range(0)
    expect(reopened(disk), "a", [*range(base + 2), *rest])


def test_what_a_cut_drops_is_kept_aside() -> None:
    disk = filled(clean=False, checkpoint_at=12)
    before = tree(disk)
    path = segments(disk, 1)[1]
    flip(disk, path, 100)
    damaged = tree(disk)[path]

    report = apply_repair(disk, plan_repair(disk, A, "cut"))

    kept = tree(disk)
    assert kept[f"aside/repair-1/{path}"] == damaged
    later = [name for name in before if name.startswith("logs/a@1/") and name.endswith(".seg") and name > path]
    for name in later:
        assert kept.get(f"aside/repair-1/{name}", before[name]) == before[name]
    assert set(report.aside) == {name for name in kept if name.startswith("aside/")}
    assert "aside/repair-1/logs/a@1/journal" in report.aside


def test_rebuild_takes_a_damaged_batch_from_the_journal() -> None:
    disk = filled()
    path = segments(disk, 1)[-1]
    flip(disk, path, 90)

    plan = repair(disk, "rebuild")

    assert plan.left == ()
    engine = reopened(disk)
    expect(engine, "a", list(range(40)))
    assert engine.log("a").end == 40


@pytest.mark.parametrize("damage", [lambda disk, path: disk.unlink(path), lambda disk, path: shorten(disk, path, 10)])
def test_rebuild_takes_a_lost_file_from_the_journal(damage: Callable[[SimDisk, str], None]) -> None:
    disk = filled(clean=False, checkpoint_at=18)
    damage(disk, segments(disk, 1)[-1])
    with_fault = open_engine(disk.kill())
    assert with_fault.log("a").fault is not None

    repair(disk, "rebuild")

    expect(reopened(disk), "a", list(range(40)))


def test_rebuild_says_what_the_journal_no_longer_holds_and_does_nothing() -> None:
    disk = filled()
    for name in disk.list("journal"):
        disk.unlink(f"journal/{name}")
    flip(disk, segments(disk, 1)[0], 90)
    before = tree(disk)

    plan = plan_repair(disk, A, "rebuild")
    apply_repair(disk, plan)

    assert plan.findings
    assert plan.actions == ()
    assert "cut or skip" in plan.left[0]
    assert tree(disk) == before


def stopped() -> SimDisk:
    """Log a cannot be written: it was stopped, its frames kept aside, and the broker went on."""
    disk = SimDisk()
    engine = open_engine(disk)
    logs = [make_log(engine, "a"), make_log(engine, "b")]
    for i in range(20):
        for log in logs:
            if log.fault is None:
                put(engine, log, value(2 * i), value(2 * i + 1))
        engine.commit.step(sync=True)
        if i == 4:
            assert engine.keeper.write_checkpoint()
        if i == 9:
            disk.fail("write", "logs/a@1", OSError(errno.EIO, "broken"), times=2)
        engine.keeper.step()
        engine.keeper.flush_all()
    while not engine.keeper.write_checkpoint(clean=True):
        continue
    assert state_of(disk, 1).stopped
    return disk


def test_rebuild_brings_back_a_stopped_log() -> None:
    disk = stopped()
    assert len(state_of(disk, 1).aside) >= 1

    plan = repair(disk, "rebuild", None)

    assert "stopped" in plan.findings[0]
    engine = reopened(disk)
    expect(engine, "a", list(range(20)))
    expect(engine, "b", list(range(40)))
    put(engine, engine.log("a"), value(20))
    engine.commit.step()
    expect(engine, "a", list(range(21)))
    assert state_of(disk, 1).aside == ()


def test_an_opening_does_not_write_behind_the_end_of_a_file_that_was_cut_short() -> None:
    disk = filled(clean=False, checkpoint_at=18)
    path = segments(disk, 1)[-1]
    shorten(disk, path, 10)

    engine = open_engine(disk)

    assert engine.log("a").fault is not None
    assert len(tree(disk)[path]) == 10


def damaged_journal() -> tuple[SimDisk, int]:
    """A frame that later frames know to have been durable cannot be read; how many records of a come before it."""
    disk = filled(clean=False, checkpoint_at=10)
    checkpoint = read_checkpoint(disk)
    assert checkpoint is not None
    frame = list(fold(disk, segment_files(disk, look_only=True)).reader.frames())[8]
    flip(disk, frame.path, frame.position + 60)
    with pytest.raises(JournalDamaged):
        open_engine(disk.kill())
    return disk, 20 + 2 * 4


def test_journal_keeps_all_but_the_damaged_frame_and_the_directory_opens() -> None:
    disk, records = damaged_journal()
    slots = {name: data for name, data in tree(disk).items() if name.startswith("journal/")}

    plan = repair(disk, "journal", None)

    assert any("give up frame " in action for action in plan.actions)
    assert f"log a: offsets {records}..{records + 2} are lost" in plan.actions
    kept = tree(disk)
    for name in disk.list("aside/repair-1/journal"):
        assert kept[f"aside/repair-1/journal/{name}"] == slots[f"journal/{name}"]
    engine = reopened(disk)
    expect(engine, "a", [*range(records), *range(records + 2, 40)])
    expect(engine, "b", list(range(40)))
    for name in ("a", "b"):
        assert engine.log(name).end == 40 + OFFSET_GAP
    put(engine, engine.log("a"), b"new")
    engine.commit.step(sync=True)
    again = open_engine(disk.crash(random.Random(1)))
    assert values_of(again, "a")[-1] == (40 + OFFSET_GAP, b"new")


def test_journal_loses_nothing_that_the_segments_have() -> None:
    """They are written behind the journal, and not trusted where it can be read."""
    disk = filled(clean=False, checkpoint_at=10)
    engine = open_engine(disk.kill())
    engine.keeper.flush_all()
    written = engine.keeper.files.disk
    assert isinstance(written, SimDisk)
    for i in range(20, 24):
        for name in ("a", "b"):
            put(engine, engine.log(name), value(2 * i), value(2 * i + 1))
            engine.commit.step(sync=True)
        engine.keeper.step()
        engine.keeper.flush_all()
    disk = written.kill()
    checkpoint = read_checkpoint(disk)
    assert checkpoint is not None
    for frame in list(fold(disk, segment_files(disk, look_only=True)).reader.frames()):
        damaged = disk.kill()
        flip(damaged, frame.path, frame.position + 60)
        with pytest.raises(JournalDamaged):
            open_engine(damaged.kill())
        plan = repair(damaged, "journal", None)
        assert not any("are lost" in action for action in plan.actions), plan.actions
        engine = reopened(damaged)
        expect(engine, "a", list(range(48)))
        expect(engine, "b", list(range(48)))


def test_journal_brings_back_what_lies_behind_a_missing_file() -> None:
    disk = SimDisk()
    engine = open_engine(disk)
    log = make_log(engine)
    for number in range(150):
        put(engine, log, value(number))
        engine.commit.step(sync=True)
    disk = disk.kill()
    slots = journal_slots(disk)
    assert len(slots) > 2
    disk.unlink(slots[1].path)
    first, end = slots[1].header.first_sequence, slots[2].header.first_sequence

    plan = repair(disk, "journal", None)

    assert any(f"give up frames {first}..{end}" in action for action in plan.actions)
    assert len(values_of(reopened(disk))) == 150 - (end - first)


def test_journal_whose_marks_are_both_gone_is_taken_as_it_is() -> None:
    disk = filled(clean=False)
    for path in ("synced", "synced.2"):
        disk.unlink(path)
    repair(disk, "journal", None)
    engine = reopened(disk)
    expect(engine, "a", list(range(40)))
    assert engine.log("a").end == 40 + OFFSET_GAP


def test_logs_are_not_mended_over_a_damaged_journal() -> None:
    disk, _ = damaged_journal()
    with pytest.raises(JournalDamaged, match="--journal"):
        plan_repair(disk, None, "cut")


def test_a_journal_that_is_whole_needs_nothing() -> None:
    disk = filled(clean=False)
    before = tree(disk)
    plan = plan_repair(disk, None, "journal")
    apply_repair(disk, plan)
    assert (plan.findings, plan.actions) == ((), ())
    assert tree(disk) == before


def without_copy_of_catalogue(disk: SimDisk) -> None:
    """As an older format wrote the checkpoint."""
    checkpoint = read_checkpoint(disk)
    assert checkpoint is not None
    states = [msgspec.structs.replace(state, name="", settings=None) for state in checkpoint.logs]
    write_checkpoint(disk, msgspec.structs.replace(checkpoint, logs=tuple(states)))


@pytest.mark.parametrize("method", ["cut", "skip", "rebuild"])
@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("has_copy", [True, False])
def test_a_damaged_catalogue_is_written_anew_from_what_is_known(
    method: RepairMethod, clean: bool, has_copy: bool
) -> None:
    disk = filled(clean=clean)
    if not has_copy:
        without_copy_of_catalogue(disk)
    flip(disk, segments(disk, 0)[0], 90)
    if not has_copy:
        with pytest.raises(LogDamaged):
            open_engine(disk.kill())

    plan = repair(disk, method, None)

    assert "catalogue" in plan.findings[0]
    engine = reopened(disk)
    expect(engine, "a", list(range(40)))
    expect(engine, "b", list(range(40)))
    assert (engine.log("a").settings == SMALL_SEGMENTS) is has_copy
    third = make_log(engine, "c")
    assert third.number == 3
    close_engine(engine)
    assert {log.name for log in reopened(disk).logs.values()} == {"@catalogue", "a", "b", "c"}


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("is_missing", [True, False])
def test_an_opening_takes_the_catalogue_from_the_checkpoint_if_its_file_is_damaged(
    clean: bool, is_missing: bool
) -> None:
    disk = filled(clean=clean)
    path = segments(disk, 0)[0]
    disk.unlink(path) if is_missing else flip(disk, path, 90)
    for _ in range(2):
        engine = open_engine(disk)
        expect(engine, "a", list(range(40)))
        assert engine.log("a").settings == SMALL_SEGMENTS
        disk = disk.kill()
    make_log(engine, "c")
    close_engine(engine)
    assert {log.name for log in reopened(disk).logs.values()} == {"@catalogue", "a", "b"}


def test_a_missing_catalogue_is_written_anew() -> None:
    disk = filled()
    disk.unlink(segments(disk, 0)[0])
    repair(disk, "skip", None)
    expect(reopened(disk), "a", list(range(40)))


def test_damage_below_the_start_costs_no_record() -> None:
    disk = filled()
    engine = open_engine(disk)
    second = segments(disk, 1)[1]
    base = int(second.rpartition("/")[2][:20])
    engine.stage_edit(engine.log("a"), Edit(start=base + 2), lambda error: None)
    close_engine(engine)
    flip(disk, second, 90)

    repair(disk, "cut")

    expect(reopened(disk), "a", list(range(base + 2, 40)))


def test_a_directory_without_damage_needs_nothing() -> None:
    disk = filled(clean=False)
    for method in ("cut", "skip", "rebuild"):
        plan = repair(disk, method, None)
        assert (plan.findings, plan.actions, plan.left) == ((), (), ())
    expect(reopened(disk), "a", list(range(40)))


def test_an_unclean_stop_keeps_its_gap_for_logs_that_may_have_lost_records() -> None:
    disk = filled(clean=False, durability=Durability.INTERVAL)
    flip(disk, segments(disk, 1)[0], 90)
    repair(disk, "skip")
    assert reopened(disk).log("b").end == 40 + OFFSET_GAP


def test_a_log_that_lost_offsets_behind_a_gap_never_gives_them_again() -> None:
    disk = filled(clean=False, durability=Durability.INTERVAL)
    engine = open_engine(disk)
    put(engine, engine.log("a"), b"behind the gap")
    close_engine(engine)
    flip(disk, segments(disk, 1)[0], 90)
    repair(disk, "cut")
    assert reopened(disk).log("a").end > 40 + OFFSET_GAP + 1


def test_a_plan_that_no_longer_fits_is_refused() -> None:
    disk = filled()
    path = segments(disk, 1)[1]
    flip(disk, path, 90)
    plan = plan_repair(disk, A, "skip")
    flip(disk, segments(disk, 1)[2], 90)
    before = tree(disk)
    with pytest.raises(InvalidArgument, match="plan it again"):
        apply_repair(disk, plan)
    assert tree(disk) == before


def test_an_unknown_log_is_named() -> None:
    with pytest.raises(NoSuchLog):
        plan_repair(filled(), log_name("nobody"), "cut")


def test_a_directory_in_use_is_refused(tmp_path: Path) -> None:
    with DirectoryLock.acquire(tmp_path), pytest.raises(DirectoryInUse):
        plan_repair(RealDisk(tmp_path), None, "cut")


@pytest.mark.parametrize("method", ["cut", "skip", "journal"])
def test_a_crash_during_repair_leaves_the_old_state_or_the_new_one(method: RepairMethod) -> None:
    """At every call that changes something: afterwards the same repair can be done, or has been."""

    def prepared() -> SimDisk:
        if method == "journal":
            return damaged_journal()[0].kill()
        disk = filled(clean=False, checkpoint_at=15)
        flip(disk, segments(disk, 1)[1], 90)
        return disk.kill()

    whole = prepared()
    done = plan_repair(whole, None, method)
    calls = whole.calls
    apply_repair(whole, done)
    expected = {name: values_of(reopened(whole.kill()), name) for name in ("a", "b")}
    for crash_at in range(calls + 1, whole.calls + 1):
        disk = prepared()
        disk.crash_at = crash_at
        with pytest.raises(SimulatedCrash):
            apply_repair(disk, plan_repair(disk, None, method))
        after = disk.crash(random.Random(crash_at))
        plan = plan_repair(after, None, method)
        apply_repair(after, plan)
        engine = reopened(after) if plan.actions else open_engine(after)
        assert {name: values_of(engine, name) for name in ("a", "b")} == expected
