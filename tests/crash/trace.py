"""What the shim saw: which frame was written when, when a sync covered it, and what was told when."""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

from penstock.kernels.entry import KIND_BATCH, MAGIC
from penstock.log.journal.frames import FrameScratch, read_entries, read_frame_header
from penstock.log.journal.replay import entry_of

_RECORD = struct.Struct("<QQqqIIQ")
WRITE, SYNC, ACK = 1, 2, 3
NEVER = 1 << 63


@dataclass(frozen=True)
class Call:
    """One call of the traced process. Before another if it ended before the other began."""

    kind: int
    begun: int
    ended: int
    path: str
    position: int
    result: int
    data: bytes


@dataclass(frozen=True)
class TracedBatch:
    """A batch in the journal: `written` and `synced` are when the calls that did it had ended."""

    log: int
    first: int
    end: int
    written: int
    synced: int


def read_trace(path: Path) -> list[Call]:
    """In the order in which the calls began; a record cut by the death of the process is left out."""
    data = path.read_bytes()
    calls: list[Call] = []
    at = 0
    while at + _RECORD.size <= len(data):
        begun, ended, position, result, kind, path_bytes, payload_bytes = _RECORD.unpack_from(data, at)
        name_at, payload_at = at + _RECORD.size, at + _RECORD.size + path_bytes
        at = payload_at + payload_bytes
        if at <= len(data):
            payload = data[payload_at : payload_at + max(result, 0)]
            calls.append(Call(kind, begun, ended, data[name_at:payload_at].decode(), position, result, payload))
    return sorted(calls, key=lambda call: call.begun)


def batches_of(calls: list[Call]) -> list[TracedBatch]:
    """Every batch that was written to the journal."""
    writes: dict[str, list[Call]] = {}
    syncs: dict[str, list[Call]] = {}
    for call in calls:
        if call.kind == WRITE and call.result > 0:
            writes.setdefault(call.path, []).append(call)
        if call.kind == SYNC and call.result == 0:
            syncs.setdefault(call.path, []).append(call)
    return [
        batch
        for path, of_path in writes.items()
        for run in _runs(of_path)
        if run[0].data[:4] == MAGIC
        for batch in _batches_of_run(run, syncs.get(path, []))
    ]


def _runs(writes: list[Call]) -> Iterator[list[Call]]:
    """Writes that continue each other: one large write may take several calls."""
    run: list[Call] = []
    for call in writes:
        if run and call.position != run[-1].position + run[-1].result:
            yield run
            run = []
        run.append(call)
    if run:
        yield run


def _batches_of_run(run: list[Call], syncs: list[Call]) -> Iterator[TracedBatch]:
    data = memoryview(b"".join(call.data for call in run))
    ends = list(accumulate(call.result for call in run))
    position, scratch = 0, FrameScratch()
    while position < len(data) and bytes(data[position : position + 4]) == MAGIC:
        header = read_frame_header(data, position)
        written = run[bisect_left(ends, position + header.bytes)].ended
        synced = min((sync.ended for sync in syncs if sync.begun > written), default=NEVER)
        for log, kind, piece in read_entries(data, position, header, scratch):
            if kind == KIND_BATCH:
                entry = entry_of(log, kind, piece)
                yield TracedBatch(log, entry.first, entry.end, written, synced)
        position += header.bytes
