"""Each kernel alone, compiled and as plain Python."""

from __future__ import annotations

from array import array
from collections.abc import Callable

from bench.kernels.pure import compared_with_pure
from bench.measure import Benchmark, Comparison, Run, cpu_seconds, peak_bytes
from bench.path.load import BATCH_MESSAGES, full_columns
from penstock.kernels import hashing
from penstock.log import batch as batches

_PARTITIONS = 16
_LOOPS = (
    "build a batch of all columns",
    "murmur3 + partition",
    "murmur3 + scatter into columns of 16 partitions",
    "validate a batch, checksum left out",
    "validate a batch with its checksum",
    "slice the second half of a batch",
)


def seconds_a_message(times: int, with_memory: bool) -> dict[str, tuple[float, int]]:
    """Of each loop: processor time a message, and the memory one call had allocated at most."""
    return {
        name: (cpu_seconds(call, times) / BATCH_MESSAGES, peak_bytes(call) if with_memory else 0)
        for name, call in zip(_LOOPS, _calls(), strict=True)
    }


def _calls() -> list[Callable[[], object]]:
    columns = full_columns()
    batch = batches.encode(columns)
    batches.seal(batch, 0, 0, 1)
    key, numbers = columns.key, array("i", bytes(4 * columns.count))
    assert key is not None
    return [
        lambda: batches.encode(columns),
        lambda: hashing.partitions(columns.source, key.starts, key.ends, _PARTITIONS, numbers),
        lambda: columns.scatter(_PARTITIONS),
        lambda: batches.Batch.parse(batch, verify=False),
        lambda: batches.check(batch),
        lambda: batches.from_offset(batch, BATCH_MESSAGES // 2),
    ]


def run(settings: Run) -> list[Comparison]:
    return compared_with_pure(settings, seconds_a_message, "a batch")


BENCHMARK = Benchmark("kernels", "loops over messages, processor time a message in batches of 500", run, syncs=False)
