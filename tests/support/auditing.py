"""Directories audited, and things done to them behind the broker's back: files changed, and the books with them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec

from penstock.jobs.audit import audit_job
from penstock.jobs.findings import AuditReport, Finding
from penstock.jobs.job import run
from penstock.jobs.local import InThisProcess
from penstock.log.batch import read_header
from penstock.log.disk import RealDisk
from penstock.log.names import directory_of
from penstock.log.offline.inspect import inspect_directory
from penstock.log.records import SegmentInfo
from penstock.log.segments.segments import segment_path
from penstock.log.upkeep.checkpoint import LogState, read_checkpoint, write_checkpoint


def audited(directory: Path) -> AuditReport:
    return run(audit_job(directory), InThisProcess())


def kinds(directory: Path) -> set[str]:
    """Of what an audit finds."""
    return {finding.kind.value for finding in audited(directory).findings}


def silent(directory: Path) -> AuditReport:
    """AssertionError, with the findings, if there are any."""
    report = audited(directory)
    assert report.findings == [], "\n".join(map(_text, report.findings))
    return report


def _text(finding: Finding) -> str:
    return f"{finding.kind.value} {finding.log} {finding.file} {finding.offset}: {finding.reason}"


class Books:
    """A log of a closed directory, whose files and books are changed so that they agree."""

    def __init__(self, directory: Path, name: str) -> None:
        self._root, self._disk = directory, RealDisk(directory)
        log = next(log for log in inspect_directory(directory).logs() if log.name == name)
        self.number, self._directory = log.number, directory_of(log.name, log.number)

    @property
    def state(self) -> LogState:
        checkpoint = read_checkpoint(self._disk)
        assert checkpoint is not None
        return next(state for state in checkpoint.logs if state.number == self.number)

    @property
    def segments(self) -> list[SegmentInfo]:
        return [*self.state.sealed, *([self.state.active] if self.state.active is not None else [])]

    def path(self, at: int = 0) -> Path:
        info = self.segments[at]
        return self._root / segment_path(self._directory, info.base, info.version)

    def batches(self, at: int = 0) -> list[bytes]:
        data, found, position = self.path(at).read_bytes()[: self.segments[at].bytes], [], 0
        while position < len(data):
            size = read_header(memoryview(data), position).total_bytes
            found.append(data[position : position + size])
            position += size
        return found

    def rewrite(self, change: Callable[[list[bytes]], list[bytes]], at: int = 0) -> None:
        """The batches of a segment, with bytes and records on the books as they are then."""
        batches = change(self.batches(at))
        records = sum(read_header(memoryview(batch)).count for batch in batches)
        self.path(at).write_bytes(b"".join(batches))
        changed = msgspec.structs.replace(self.segments[at], bytes=sum(map(len, batches)), records=records)
        self.book(lambda state: _with(state, at, changed))

    def book(self, change: Callable[[LogState], LogState]) -> None:
        checkpoint = read_checkpoint(self._disk)
        assert checkpoint is not None
        logs = tuple(change(state) if state.number == self.number else state for state in checkpoint.logs)
        write_checkpoint(self._disk, msgspec.structs.replace(checkpoint, logs=logs))

    def end_at(self, batches: int) -> None:
        """Keep only so many of a log of one segment, and let it end behind them."""
        kept = self.batches()[:batches]
        end = read_header(memoryview(self.batches()[batches])).base_offset
        self.rewrite(lambda _: kept)

        def ended(state: LogState) -> LogState:
            assert state.active is not None
            return msgspec.structs.replace(state, end=end, active=msgspec.structs.replace(state.active, end=end))

        self.book(ended)


def _with(state: LogState, at: int, info: SegmentInfo) -> LogState:
    if at < len(state.sealed):
        sealed = (*state.sealed[:at], info, *state.sealed[at + 1 :])
        return msgspec.structs.replace(state, sealed=sealed)
    return msgspec.structs.replace(state, active=info)
