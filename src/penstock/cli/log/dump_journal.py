"""The frames that the files of a journal hold, those too that a checkpoint covers."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from penstock.cli.log.window import Window
from penstock.core.errors import CorruptBatch, CorruptFrame
from penstock.core.ports import Disk
from penstock.core.types import Sequence
from penstock.log.journal.frames import Entry, FrameHeader, FrameScratch, read_entries
from penstock.log.journal.replay import entry_of
from penstock.log.journal.slots import JournalSlot, SlotWalk, journal_slots, known_durable_in, map_slot
from penstock.log.records import Edit


class EntryLine(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One log's part of a frame: a batch or an edit."""

    log_number: int
    bytes: int
    problem: str = ""
    base_offset: int | None = None
    next_offset: int | None = None
    records: int | None = None
    max_timestamp: int | None = None
    edit: Edit | None = None


class FrameLine(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    file: str
    position: int
    bytes: int
    generation: int
    sequence: int
    durable: int
    """frames below were known durable when this one was written"""
    entries: tuple[EntryLine, ...]


def frame_lines(disk: Disk, log_number: int | None, window: Window) -> Iterator[FrameLine]:
    """By sequence; only frames that have an entry of the log, inside the window, if these are given."""
    slots = journal_slots(disk)
    for i, slot in enumerate(slots):
        limit = slots[i + 1].header.first_sequence if i + 1 < len(slots) else None
        for line in _frames_of(disk, slot, limit):
            entries = tuple(entry for entry in line.entries if _is_asked_for(entry, log_number, window))
            if entries or (log_number is None and window == Window()):
                yield msgspec.structs.replace(line, entries=entries)


def _frames_of(disk: Disk, slot: JournalSlot, limit: Sequence | None) -> Iterator[FrameLine]:
    # Journal files keep their size for ever, so that a map of one is safe beside its writer.
    data, scratch = map_slot(disk, slot), FrameScratch()
    for position, header in SlotWalk(data, slot, limit, known_durable_in(data, slot, limit)):
        yield FrameLine(
            file=slot.path,
            position=position,
            bytes=header.bytes,
            generation=header.generation,
            sequence=header.sequence,
            durable=header.durable,
            entries=tuple(_entries(data, position, header, scratch)),
        )


def _entries(data: memoryview, position: int, header: FrameHeader, scratch: FrameScratch) -> Iterator[EntryLine]:
    for log, kind, piece in read_entries(data, position, header, scratch):
        try:
            yield _entry_line(entry_of(log, kind, piece))
        except (CorruptBatch, CorruptFrame, msgspec.DecodeError) as error:
            yield EntryLine(log_number=log, bytes=len(piece), problem=str(error))


def _entry_line(entry: Entry) -> EntryLine:
    if entry.edit is not None:
        return EntryLine(log_number=entry.log, bytes=len(entry.data), edit=entry.edit)
    return EntryLine(
        log_number=entry.log,
        bytes=len(entry.data),
        base_offset=entry.first,
        next_offset=entry.end,
        records=entry.records,
        max_timestamp=entry.max_timestamp,
    )


def _is_asked_for(entry: EntryLine, log_number: int | None, window: Window) -> bool:
    if log_number is not None and entry.log_number != log_number:
        return False
    if entry.base_offset is None or entry.next_offset is None or entry.max_timestamp is None:
        return True
    is_before = window.first is not None and entry.next_offset <= window.first
    is_older = window.since_ms is not None and entry.max_timestamp < window.since_ms
    return not (is_before or is_older or window.ends_before(entry.base_offset, entry.max_timestamp))
