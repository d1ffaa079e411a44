from __future__ import annotations

import json
import random
import re
from pathlib import Path

import pytest
from tests.support.clock import FakeClock
from tests.support.simdisk import SimDisk

import penstock.log
from penstock.core.errors import InvalidArgument, JournalDamaged
from penstock.core.metrics import ShardMetrics
from penstock.core.types import Durability, FilePosition, Generation, LogNumber, Sequence
from penstock.log.journal.frames import Entry, Frame, frame_bytes
from penstock.log.journal.journal import (
    FILE_HEADER_BYTES,
    Journal,
    JournalOptions,
    SlotHeader,
    decode_slot_header,
    encode_slot_header,
)
from penstock.log.journal.marks import Mark, decode_mark, encode_mark
from penstock.log.journal.replay import JournalReader

OPTIONS = JournalOptions(file_bytes=16 << 10, limit_bytes=48 << 10, max_frame_bytes=8 << 10)


def open_journal(disk: SimDisk, reader: JournalReader | None = None) -> Journal:
    reader = reader or read(disk)
    journal = Journal(
        disk,
        FakeClock(),
        OPTIONS,
        ShardMetrics(),
        last_generation=reader.last_generation,
        next_sequence=reader.end,
        used=reader.used,
        free=reader.free,
        slots=reader.slots,
    )
    journal.open()
    return journal


def read(disk: SimDisk, first: int = 0, known_durable: int = 0) -> JournalReader:
    reader = JournalReader(disk, Sequence(first), Sequence(known_durable))
    for _ in reader.frames():
        pass
    return reader


def frame(sequence: int, data: bytes = b"x" * 80) -> Frame:
    entries = [Entry(LogNumber(1), data)]
    return Frame(Sequence(sequence), Durability.COMMIT, entries, frame_bytes(entries))


def fill(journal: Journal, first: int, count: int, data: bytes = b"x" * 80) -> None:
    frames = [frame(first + i, data) for i in range(count)]
    while frames:
        taken = journal.write(frames)
        frames = frames[taken:]
        if frames:
            journal.roll()
    journal.sync()


def test_frames_come_back_in_order_over_several_files() -> None:
    disk = SimDisk()
    fill(open_journal(disk), 0, 250)
    reader = JournalReader(disk, Sequence(0), Sequence(0))
    assert [replayed.sequence for replayed in reader.frames()] == list(range(250))
    assert len(disk.list("journal")) == 3


def test_a_journal_goes_on_in_a_new_file_after_each_opening() -> None:
    disk = SimDisk()
    for opening in range(3):
        fill(open_journal(disk), opening * 10, 10)
    reader = read(disk)
    assert (reader.end, reader.last_generation) == (30, 3)


def test_a_recycled_file_shows_nothing_of_its_earlier_use() -> None:
    disk = SimDisk()
    journal = open_journal(disk)
    fill(journal, 0, 250)
    journal.release(Sequence(250))
    fill(journal, 250, 50)
    reader = read(disk, first=240)
    assert reader.end == 300


def test_a_torn_tail_is_cut_and_measured() -> None:
    disk = SimDisk()
    journal = open_journal(disk)
    fill(journal, 0, 10)
    journal.write([frame(10), frame(11), frame(12)])
    file = disk.open("journal/0000")
    torn_at = FILE_HEADER_BYTES + 11 * frame(0).bytes + 50
    file.write(FilePosition(torn_at), [b"\0" * 8])
    reader = read(disk)
    assert reader.end == 11
    assert reader.torn_bytes > 0


def test_a_hole_below_what_a_later_frame_knew_to_be_durable_is_damage() -> None:
    disk = SimDisk()
    journal = open_journal(disk)
    fill(journal, 0, 10)
    fill(journal, 10, 1)
    disk.open("journal/0000").write(FilePosition(FILE_HEADER_BYTES + 5 * frame(0).bytes + 50), [b"\0" * 8])
    with pytest.raises(JournalDamaged) as caught:
        read(disk)
    assert (caught.value.sequence, caught.value.known_durable) == (5, 10)


def test_a_missing_file_below_the_checkpoints_durable_position_is_damage() -> None:
    disk = SimDisk()
    fill(open_journal(disk), 0, 10)
    with pytest.raises(JournalDamaged):
        read(disk, first=0, known_durable=11)


def test_frames_behind_a_cut_are_not_read_again_once_the_journal_went_on() -> None:
    disk = SimDisk()
    journal = open_journal(disk)
    fill(journal, 0, 3)
    journal.write([frame(3), frame(4)])
    broken = disk.open("journal/0000")
    position = FilePosition(FILE_HEADER_BYTES + 3 * frame(0).bytes + 48)
    good = broken.read(position, 8)
    broken.write(position, [b"\0" * 8])
    fill(open_journal(disk), 3, 1, b"y" * 80)
    broken.write(position, [good])
    frames = list(JournalReader(disk, Sequence(0), Sequence(0)).frames())
    assert [replayed.sequence for replayed in frames] == [0, 1, 2, 3]
    assert bytes(frames[3].entries[0][2]) == b"y" * 80


@pytest.mark.parametrize("seed", range(40))
def test_what_was_synced_survives_a_power_cut(seed: int) -> None:
    disk = SimDisk(seed)
    journal = open_journal(disk)
    fill(journal, 0, 150)
    journal.write([frame(150 + i) for i in range(5)])
    assert read(disk.crash(random.Random(seed))).end >= 150


def test_options_that_cannot_work_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="cannot hold a frame"):
        JournalOptions(file_bytes=1 << 20)
    with pytest.raises(InvalidArgument, match="are too small"):
        JournalOptions(file_bytes=4096, max_frame_bytes=0)
    with pytest.raises(InvalidArgument, match="no room for three files"):
        JournalOptions(file_bytes=32 << 20, limit_bytes=64 << 20)


def test_a_full_journal_asks_for_space_and_goes_on_when_there_is_some() -> None:
    disk = SimDisk()
    journal = open_journal(disk)
    asked: list[int] = []

    def make_space() -> None:
        asked.append(journal.synced_sequence)
        journal.release(journal.synced_sequence)

    journal.make_space = make_space
    fill(journal, 0, 500)
    assert asked
    assert len(disk.list("journal")) == 3


def test_slot_header_vector_of_the_format_document() -> None:
    text = Path(penstock.log.__file__).with_name("FORMAT.md").read_text(encoding="utf-8")
    [(fields, digits)] = re.findall(r"```json slot\n(.*?)\n```\n```hex\n(.*?)\n```", text, re.DOTALL)
    vector = json.loads(fields)
    header = SlotHeader(Generation(vector["generation"]), Sequence(vector["first_sequence"]))
    assert encode_slot_header(header) == bytes.fromhex(digits)
    assert decode_slot_header(bytes.fromhex(digits)) == header


def test_mark_vector_of_the_format_document() -> None:
    text = Path(penstock.log.__file__).with_name("FORMAT.md").read_text(encoding="utf-8")
    [(fields, digits)] = re.findall(r"```json mark\n(.*?)\n```\n```hex\n(.*?)\n```", text, re.DOTALL)
    vector = json.loads(fields)
    mark = Mark(
        vector["slot"],
        Generation(vector["generation"]),
        Sequence(vector["first_sequence"]),
        Sequence(vector["synced"]),
    )
    assert encode_mark(mark) == bytes.fromhex(digits)
    assert decode_mark(bytes.fromhex(digits)) == mark
