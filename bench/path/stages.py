"""Processor time a message costs at each stage of its way, with compiled kernels and without."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from bench.measure import Benchmark, Comparison, Run, Series, Unit, cpu_seconds, peak_bytes
from bench.path.load import BATCH_MESSAGES, batch_columns
from bench.process import environment, isolated
from bench.report import number_text
from penstock import kernels
from penstock.core.clock import SystemClock
from penstock.core.metrics import ShardMetrics
from penstock.core.ports import Buffer
from penstock.core.types import Durability, FilePosition, Generation, LogName, LogNumber, Sequence
from penstock.kernels.crc import crc32c
from penstock.log import batch as batches
from penstock.log.arrow import record_batch
from penstock.log.disk import RealDisk
from penstock.log.journal.frames import Entry, Frame, encode_frame, frame_bytes
from penstock.log.partition import Log
from penstock.log.reading.bounds import Bounds
from penstock.log.reading.reading import LogReader
from penstock.log.records import LogSettings
from penstock.log.segments.segment_files import SegmentFiles
from penstock.log.segments.written import WrittenLog

_NUMBER, _NAME = LogNumber(1), LogName("stages")
_JOURNAL_BYTES = 32 << 20
_STAGES = ("encode", "seal", "checksum alone", "frame", "journal write", "fold + segment write", "read", "to Arrow")
_COMPILED_TIMES, _PURE_TIMES = 400, 4
_BATCHES_A_READ = 8
# One to warm up, two to look at memory.
_UNTIMED_CALLS = 3


@dataclass(frozen=True, slots=True)
class Cost:
    seconds: float
    """of processor time a batch"""
    peak_bytes: int


class _Path:
    """The objects a batch meets on its way, without threads and syncs between them."""

    def __init__(self, directory: Path, times: int) -> None:
        disk = RealDisk(directory)
        disk.make_directory("")
        self._journal = disk.create("journal")
        self._journal.allocate(_JOURNAL_BYTES)
        self._columns = batch_columns()
        self._batch = batches.encode(self._columns)
        batches.seal(self._batch, 0, 0, 1)
        self._entries = [self._entry(number) for number in range(max(times, _BATCHES_A_READ) + _UNTIMED_CALLS)]
        frame = Frame(Sequence(0), Durability.COMMIT, self._entries[:1], 0)
        frame.bytes = frame_bytes(frame.entries)
        self._frame, self._buffers = frame, encode_frame(frame, Generation(1), Sequence(0))
        self._written = WrittenLog(SegmentFiles(disk, 8, ShardMetrics()), SystemClock(), _NUMBER, _NAME, LogSettings())
        self._reader = LogReader(disk, {})
        self._disk = disk
        self._positions = (number * frame.bytes % (_JOURNAL_BYTES - frame.bytes) for number in count())
        self._to_fold = iter(self._entries)

    def calls(self) -> dict[str, Callable[[], object]]:
        return dict(
            zip(
                _STAGES,
                (
                    lambda: batches.encode(self._columns),
                    lambda: batches.seal(self._batch, 0, 0, 1),
                    lambda: crc32c(self._batch),
                    lambda: encode_frame(self._frame, Generation(1), Sequence(0)),
                    lambda: self._journal.write(FilePosition(next(self._positions)), self._buffers),
                    self._fold,
                    self._read,
                    lambda: record_batch(self._batch),
                ),
                strict=True,
            )
        )

    def prepare_reading(self) -> None:
        """Read what was folded: files only, no tail, and never less than asked for."""
        for entry in self._to_fold:
            self._written.take(entry)
        self._written.flush()
        view = self._written.view()
        whole_reads = len(self._entries) // _BATCHES_A_READ
        self._log = Log(_NUMBER, _NAME, LogSettings(), Bounds(view.start, view.end))
        self._reader = LogReader(self._disk, {_NUMBER: view})
        self._offsets = (number % whole_reads * _BATCHES_A_READ * BATCH_MESSAGES for number in count())

    def close(self) -> None:
        self._journal.close()

    def _entry(self, number: int) -> Entry:
        batch, first = bytearray(self._batch), number * BATCH_MESSAGES
        batches.seal(batch, first, 0, 1)
        return Entry(_NUMBER, batch, None, first, first + BATCH_MESSAGES, BATCH_MESSAGES, 1, 1)

    def _fold(self) -> None:
        self._written.take(next(self._to_fold))
        self._written.flush()

    def _read(self) -> list[Buffer]:
        return self._reader.read(self._log, next(self._offsets), _BATCHES_A_READ * len(self._batch))


def costs(directory: Path, times: int, with_memory: bool) -> dict[str, Cost]:
    path = _Path(directory, times)
    found = {}
    for name, call in path.calls().items():
        if name == "read":
            path.prepare_reading()
        call()
        peak = peak_bytes(call) if with_memory else 0
        batch_share = 1 / _BATCHES_A_READ if name == "read" else 1.0
        found[name] = Cost(cpu_seconds(call, times) * batch_share, int(peak * batch_share))
    path.close()
    return found


def run(settings: Run) -> list[Comparison]:
    compiled: list[dict[str, Cost]] = []
    pure: list[dict[str, Cost]] = []
    for number in range(settings.rounds):
        times, own = settings.size(_COMPILED_TIMES, 5), settings.directory / f"compiled-{number}"
        compiled.append(isolated(costs, own, times, with_memory=True))
        with environment({"PENSTOCK_PURE": "1"}):
            pure.append(isolated(costs, settings.directory / f"pure-{number}", settings.size(_PURE_TIMES), False))
    subject = "compiled" if kernels.compiled() else "as installed (uncompiled)"
    return [_comparison(name, subject, compiled, pure) for name in _STAGES]


def _comparison(name: str, subject: str, compiled: list[dict[str, Cost]], pure: list[dict[str, Cost]]) -> Comparison:
    def a_message(rounds: list[dict[str, Cost]]) -> tuple[float, ...]:
        return tuple(costs[name].seconds / BATCH_MESSAGES for costs in rounds)

    allocated = number_text(compiled[0][name].peak_bytes, Unit.BYTES)
    return Comparison(
        Series(f"{name}, {subject}", a_message(compiled)),
        Series("kernels as plain Python", a_message(pure)),
        notes={"allocated at most, a batch": allocated},
    )


BENCHMARK = Benchmark(
    "stages", "processor time a 256-byte message, stage by stage, in batches of 500", run, syncs=False
)
