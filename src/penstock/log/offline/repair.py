"""`penstock log repair`: mending a directory that nobody has open. Every way can be planned first, which changes
nothing, and keeps the damaged bytes aside.

What is new is written to new files and synced; a new checkpoint makes it count; then the old files go. Until the
checkpoint a crash leaves the directory as it was, with leftovers that the next opening removes."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import Literal

from penstock.core.errors import InvalidArgument, NoSuchLog
from penstock.core.ports import Disk
from penstock.core.types import LogName, LogNumber, Sequence
from penstock.log.journal.frames import Entry, edit_entry
from penstock.log.journal.slots import journal_slots, slot_paths
from penstock.log.names import CATALOGUE_NAME, CATALOGUE_NUMBER, directory_of
from penstock.log.offline.damage import batches_in_journal, readable_frames
from penstock.log.offline.damaged_log import LogMethod, Mend, Revived, Stretch, plan_mend, stretches_of, write_anew
from penstock.log.offline.offline import (
    NUMBER_GAP,
    OfflineShard,
    directory_lock,
    empty_journal,
    fold,
    infos,
    loses_offsets,
    refuse_if_held,
    segment_files,
)
from penstock.log.records import Edit
from penstock.log.segments.aside import DIRECTORY as ASIDE_DIRECTORY
from penstock.log.segments.aside import put_back, write_aside
from penstock.log.segments.keeper import Keeper
from penstock.log.segments.segments import segment_path
from penstock.log.segments.written import WrittenLog

logger = logging.getLogger("penstock.log.repair")

RepairMethod = Literal["cut", "skip", "rebuild", "journal"]


@dataclass(frozen=True, slots=True)
class RepairPlan:
    """What is wrong and what would be done, a line each; `left` is what this method cannot mend. Without actions there
    is nothing to do."""

    log_name: LogName | None
    method: RepairMethod
    findings: tuple[str, ...]
    actions: tuple[str, ...]
    left: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RepairReport:
    """What was done; `aside` are the files that hold what was taken out."""

    plan: RepairPlan
    aside: tuple[str, ...]


@dataclass(slots=True)
class _Look:
    """A plan with what it was made from."""

    plan: RepairPlan
    shard: OfflineShard
    mends: list[Mend]
    files_aside: list[str]
    next_sequence: Sequence


def plan_repair(disk: Disk, log_name: LogName | None, method: RepairMethod) -> RepairPlan:
    """Look at one log, or at all, and say what would be done. Changes nothing; DirectoryInUse if a process has it open.

    cut: a log ends before its first damage. skip: damaged batches are taken out, the rest stays. rebuild: what is
    damaged is written anew from the journal, and a stopped log from what was kept aside. journal: frames that cannot be
    read are given up, those behind them kept; what the lost ones brought is taken from segments, if it is there."""
    refuse_if_held(disk)
    return _look(disk, log_name, method).plan


def apply_repair(disk: Disk, plan: RepairPlan) -> RepairReport:
    """Do what the plan says; durable when this returns, and the directory can be opened. Takes the directory's lock."""
    with directory_lock(disk):
        look = _look(disk, plan.log_name, plan.method)
        if look.plan != plan:
            raise InvalidArgument("the directory changed since the repair was planned: plan it again")
        if not plan.actions:
            return RepairReport(plan, ())
        report = RepairReport(plan, tuple(_apply(disk, look)))
    for line in plan.actions:
        logger.warning("repaired action=%r", line)
    return report


def _look(disk: Disk, log_name: LogName | None, method: RepairMethod) -> _Look:
    if method == "journal":
        return _look_at_journal(disk)
    return _look_at_logs(disk, log_name, method)


# Logs


def _look_at_logs(disk: Disk, log_name: LogName | None, method: LogMethod) -> _Look:
    reviver = _Reviver(disk, log_name)
    shard = fold(disk, segment_files(disk, look_only=True), reviver)
    if shard.journal_damage is not None:
        raise shard.journal_damage
    picked = _picked(shard, log_name)
    stretches = {log.number: stretches_of(disk, log) for log in picked}
    journal = _missing_batches(disk, stretches) if method == "rebuild" else {}
    mends = [
        mend
        for log in picked
        if (
            mend := plan_mend(
                log, stretches[log.number], method, reviver.revived.get(log.number), journal.get(log.number, [])
            )
        )
    ]
    findings, actions, files = _catalogue_lines(shard)
    for mend in mends:
        findings += mend.findings()
        actions += mend.actions()
    left = [line for mend in mends for line in mend.left]
    mends = [mend for mend in mends if not mend.left]
    files += [path for mend in mends for path in mend.files_aside]
    plan = RepairPlan(log_name, method, tuple(findings), tuple(actions), tuple(left))
    return _Look(plan, shard, mends, files, shard.reader.end)


@dataclass(slots=True)
class _Reviver:
    """Called before the journal is folded: puts what was kept aside of stopped logs back into their folds."""

    disk: Disk
    log_name: LogName | None
    revived: dict[LogNumber, Revived] = field(default_factory=dict)

    def __call__(self, keeper: Keeper) -> None:
        for log in keeper.logs.values():
            if log.stopped and self.log_name in (None, log.name):
                self._revive(log)

    def _revive(self, log: WrittenLog) -> None:
        reason, aside, end = log.stopped, log.aside, log.base.aside_end if log.base is not None else 0
        damage = put_back(self.disk, log)
        if damage is not None and end > log.bounds.end:
            # Those of records that are lost: the log goes on behind them.
            log.take(edit_entry(log.number, Edit(end=end)))
        self.revived[log.number] = Revived(reason, aside, damage)


def _picked(shard: OfflineShard, log_name: LogName | None) -> list[WrittenLog]:
    """A damaged catalogue is not among them: the fold made a new one."""
    logs = [log for log in shard.keeper.logs.values() if log_name in (None, log.name)]
    if log_name is not None and not logs:
        raise NoSuchLog(log_name)
    return [log for log in logs if log.number != CATALOGUE_NUMBER or shard.catalogue_damage is None]


def _missing_batches(disk: Disk, stretches: dict[LogNumber, list[Stretch]]) -> dict[LogNumber, list[Entry]]:
    damaged = {number for number, parts in stretches.items() if any(part.damages for part in parts)}
    return batches_in_journal(disk, damaged) if damaged else {}


def _catalogue_lines(shard: OfflineShard) -> tuple[list[str], list[str], list[str]]:
    """Findings, actions and files to keep aside. Nothing opens without its catalogue, so it is mended with whatever
    else is."""
    if shard.catalogue_damage is None:
        return [], [], []
    state = next((state for state in shard.checkpoint.logs if state.number == CATALOGUE_NUMBER), None)
    directory = directory_of(CATALOGUE_NAME, CATALOGUE_NUMBER)
    paths = [segment_path(directory, info.base, info.version) for info in infos(state)]
    files = [path for path in paths if shard.disk.exists(path)]
    count = len(shard.catalogue.declared) - 1
    actions = [f"keep {path} aside" for path in files]
    actions.append(f"write the catalogue anew, with the {count} logs that are known")
    actions += [
        f"log {record.name}: its record is lost; declare it as its directory is named, with default settings"
        for record in shard.renamed
    ]
    actions += [
        f"log number {number}: its record is lost and it has no directory; forget it" for number in shard.nameless
    ]
    damage = shard.catalogue_damage
    return [f"the catalogue: {damage.file}, byte {damage.position}: {damage.reason}"], actions, files


# The journal


def _look_at_journal(disk: Disk) -> _Look:
    damage = fold(disk, segment_files(disk, look_only=True)).journal_damage
    shard = fold(disk, segment_files(disk, look_only=True), go_on=damage is not None)
    if damage is None:
        return _Look(RepairPlan(None, "journal", (), ()), shard, [], [], shard.reader.end)
    beyond = max((Sequence(frame.sequence + 1) for frame in readable_frames(disk)), default=Sequence(0))
    headers = max((slot.header.first_sequence for slot in journal_slots(disk)), default=Sequence(0))
    next_sequence = Sequence(max(shard.reader.end, shard.reader.known_durable, beyond, headers))
    findings, actions, files = _catalogue_lines(shard)
    paths = slot_paths(disk)
    findings.append(f"the journal: frame {damage.sequence} cannot be read ({damage.reason})")
    actions += [f"keep {path} aside" for path in paths]
    actions.append("keep every frame that can be read, also behind the damage")
    for first, end in shard.reader.lost:
        frames = f"frame {first}" if end == first + 1 else f"frames {first}..{end}"
        actions.append(f"give up {frames}: what is not found in the segments is lost, settlements too")
    actions += shard.salvaged
    actions.append("every log: go on 2^32 behind its end, so that no offset names two messages")
    plan = RepairPlan(None, "journal", tuple(findings), tuple(actions))
    return _Look(plan, shard, [], [*files, *paths], next_sequence)


# Doing it


def _apply(disk: Disk, look: _Look) -> list[str]:
    """The files that were kept aside."""
    aside = _keep_aside(disk, look)
    numbers = frozenset(mend.log.number for mend in look.mends)
    go_on = look.plan.method == "journal"
    shard = fold(disk, segment_files(disk, look_only=False), without=numbers, go_on=go_on)
    shard.keeper.flush_all()
    for mend in look.mends:
        shard.keeper.replace(write_anew(mend, shard.keeper.files))
    if look.plan.method == "journal":
        shard.catalogue.next_number = LogNumber(shard.catalogue.next_number + NUMBER_GAP)
        shard.skip_offsets(shard.keeper.logs.values())
    elif not shard.checkpoint.clean:
        shard.skip_offsets(
            log for number, log in shard.keeper.logs.items() if number not in numbers and loses_offsets(log)
        )
    shard.finish(look.next_sequence)
    _remove_what_is_settled(disk, look)
    return aside


def _keep_aside(disk: Disk, look: _Look) -> list[str]:
    """Links, so that it needs no room; the files lose their old names later and are not written again."""
    root = _unused_directory(disk)
    kept: list[str] = []
    for path in look.files_aside:
        kept.append(f"{root}/{path}")
        disk.make_directory(kept[-1].rpartition("/")[0])
        disk.link(path, kept[-1])
    for mend in look.mends:
        if mend.dropped:
            kept.append(f"{root}/{mend.log.directory}/journal")
            write_aside(disk, kept[-1], mend.dropped)
    _sync_parents(disk, kept)
    return kept


def _unused_directory(disk: Disk) -> str:
    number = 1
    while disk.exists(f"{ASIDE_DIRECTORY}/repair-{number}"):
        number += 1
    return f"{ASIDE_DIRECTORY}/repair-{number}"


def _sync_parents(disk: Disk, paths: list[str]) -> None:
    directories = {""} if paths else set()
    for path in paths:
        while "/" in path:
            path = path.rpartition("/")[0]
            directories.add(path)
    for directory in sorted(directories):
        disk.sync_directory(directory)


def _remove_what_is_settled(disk: Disk, look: _Look) -> None:
    """The checkpoint covers all that the journal held, and what was kept aside of revived logs is in their segments."""
    if look.plan.method == "journal":
        empty_journal(disk)
    for mend in look.mends:
        if mend.revived is not None and mend.revived.damage is None:
            for path in mend.revived.aside:
                disk.unlink(path)
