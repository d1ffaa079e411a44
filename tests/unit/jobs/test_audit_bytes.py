"""An audit finds what was done to the bytes and batches of a log, and names log, file and offset."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec
import pytest
from tests.support.auditing import Books, audited, kinds, silent
from tests.support.live_tables import LiveTables

from penstock.core.errors import LogDamaged
from penstock.jobs.audit import damaged_report
from penstock.jobs.findings import Finding, Kind, Verdict
from penstock.log.disk import RealDisk
from penstock.log.upkeep.checkpoint import read_checkpoint, write_checkpoint

LOG = "default/orders/0"


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Thirty records in ten batches and several segments, closed; the journal cannot help."""
    live = LiveTables(tmp_path)
    live.fill(live.create("orders"), 10)
    live.close()
    shutil.rmtree(tmp_path / "journal")
    return tmp_path


def only(directory: Path) -> Finding:
    [finding] = audited(directory).findings
    return finding


def test_a_clean_log_is_ok(directory: Path) -> None:
    report = silent(directory)
    assert report.verdict is Verdict.OK
    assert (report.checked.records, report.checked.batches, report.checked.logs) == (30, 10, 1)


def test_a_removed_segment_is_found(directory: Path) -> None:
    books = Books(directory, LOG)
    books.path(1).unlink()
    finding = only(directory)
    assert (finding.kind, finding.log, finding.offset) == (Kind.MISSING_FILE, LOG, books.segments[1].base)
    assert directory / finding.file == books.path(1)
    assert audited(directory).verdict is Verdict.DAMAGED
    assert "repair" in finding.advice


@pytest.mark.parametrize("byte", [0, 6, 9, 17, 21, 26, 40, 100, 180])
def test_a_flipped_bit_is_found_and_the_rest_is_still_checked(directory: Path, byte: int) -> None:
    books = Books(directory, LOG)
    data = bytearray(books.path(1).read_bytes())
    data[byte] ^= 4
    books.path(1).write_bytes(data)
    finding = only(directory)
    assert (finding.kind, finding.offset, finding.position) == (Kind.DAMAGED, books.segments[1].base, 0)
    assert audited(directory).checked.batches == 9


def test_a_file_that_was_cut_short_is_found(directory: Path) -> None:
    books = Books(directory, LOG)
    path = books.path(0)
    path.write_bytes(path.read_bytes()[:-10])
    assert kinds(directory) == {"damaged-batch"}
    path.write_bytes(b"")
    assert kinds(directory) == {"damaged-batch"}


def test_a_duplicated_batch_is_found(directory: Path) -> None:
    books = Books(directory, LOG)
    books.rewrite(lambda batches: [batches[0], batches[0], *batches[1:]], 1)
    finding = only(directory)
    assert (finding.kind, finding.offset) == (Kind.DUPLICATE, books.segments[1].base)
    assert finding.position == len(books.batches(1)[0])
    assert audited(directory).verdict is Verdict.INCONSISTENT


def test_a_swapped_order_is_found(directory: Path) -> None:
    books = Books(directory, LOG)
    books.rewrite(lambda batches: [batches[1], batches[0], *batches[2:]], 0)
    finding = next(found for found in audited(directory).findings if found.kind is Kind.ORDER)
    assert (finding.log, finding.offset) == (LOG, 0)
    assert kinds(directory) == {"order"}


def test_a_batch_that_was_taken_out_is_a_gap(directory: Path) -> None:
    books = Books(directory, LOG)
    books.rewrite(lambda batches: [batches[0], *batches[2:]], 0)
    finding = only(directory)
    assert (finding.kind, finding.offset) == (Kind.GAP, 3)
    assert "3..6" in finding.reason


def test_the_last_batch_of_a_segment_that_was_taken_out_is_a_gap(directory: Path) -> None:
    books = Books(directory, LOG)
    books.rewrite(lambda batches: batches[:-1], 0)
    finding = only(directory)
    assert (finding.kind, finding.offset) == (Kind.GAP, books.segments[0].end - 3)


def test_a_segment_that_is_not_on_the_books_any_more_is_a_gap(directory: Path) -> None:
    books = Books(directory, LOG)
    gone = books.segments[1]
    books.book(lambda state: msgspec.structs.replace(state, sealed=(state.sealed[0], *state.sealed[2:])))
    finding = only(directory)
    assert (finding.kind, finding.offset) == (Kind.GAP, gone.base)


def test_records_that_are_not_on_the_books_are_found(directory: Path) -> None:
    books = Books(directory, LOG)
    one_more = msgspec.structs.replace(books.state.sealed[0], records=books.state.sealed[0].records + 1)
    books.book(lambda state: msgspec.structs.replace(state, sealed=(one_more, *state.sealed[1:])))
    assert kinds(directory) == {"wrong-count"}


def test_a_live_log_is_checked_too(tmp_path: Path) -> None:
    live = LiveTables(tmp_path)
    try:
        log = live.create("orders")
        live.fill(log, 10)
        assert silent(tmp_path).checked.records == 30
        [sealed] = list(live.shard.engine.keeper.logs[log.number].sealed)[:1]
        data = bytearray((tmp_path / sealed.path).read_bytes())
        data[100] ^= 1
        (tmp_path / sealed.path).write_bytes(data)
        assert kinds(tmp_path) == {"damaged-batch"}
    finally:
        live.close()


def test_a_killed_directory_is_checked_with_its_journal(tmp_path: Path) -> None:
    live = LiveTables(tmp_path)
    live.fill(live.create("orders"), 10)
    live.die()
    report = silent(tmp_path)
    assert (report.checked.records, report.state.value) == (30, "crashed")


def test_what_a_trim_took_is_no_finding(tmp_path: Path) -> None:
    live = LiveTables(tmp_path)
    log = live.create("orders")
    live.fill(log, 10)
    live.trim(log, 17)
    live.fill(log, 3)
    silent(tmp_path)
    live.die()
    silent(tmp_path)


def test_a_catalogue_that_cannot_be_read_is_a_finding(directory: Path) -> None:
    [catalogue] = (directory / "logs").glob("@catalogue@0/*.seg")
    data = bytearray(catalogue.read_bytes())
    data[70] ^= 1
    catalogue.write_bytes(data)
    report = audited(directory)
    assert [(finding.kind, finding.file) for finding in report.findings] == [
        (Kind.COPY, str(catalogue.relative_to(directory)))
    ]
    checkpoint = read_checkpoint(RealDisk(directory))
    assert checkpoint is not None
    states = [msgspec.structs.replace(state, name="", settings=None) for state in checkpoint.logs]
    write_checkpoint(RealDisk(directory), msgspec.structs.replace(checkpoint, logs=tuple(states)))
    with pytest.raises(LogDamaged) as caught:
        audited(directory)
    assert damaged_report(directory, caught.value).verdict is Verdict.DAMAGED
