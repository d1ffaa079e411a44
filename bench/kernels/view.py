"""Messages that came by AMQP 0.9.1 as others see them, and the way back: 820 messages a call, with properties as a task
of Celery has them, five and three headers in 181 bytes."""

from __future__ import annotations

from array import array
from collections.abc import Callable

from bench.kernels.pure import compared_with_pure
from bench.measure import Benchmark, Comparison, Run, cpu_seconds, peak_bytes
from penstock.log.batch import Batch, encode, seal
from penstock.log.columns import Columns
from penstock.log.view import amqp091_of, viewed

_MESSAGES, _VALUE_BYTES = 820, 256
_ID = b"9c2d2ac9-1c2d-4f0e-9a4f-1b2c3d4e5f60"
_TABLE = b"\x04langS\0\0\0\x02py\x04taskS\0\0\0\x09tasks.add\x02idS\0\0\0\x24" + _ID
_NATIVE = (
    b"\x91\xfe\0\x10application/json\x05utf-8"
    + len(_TABLE).to_bytes(4, "big")
    + _TABLE
    + b"\x02\0\x24"
    + _ID
    + b"\x24"
    + _ID
)


def seconds_a_message(times: int, with_memory: bool) -> dict[str, tuple[float, int]]:
    """Of each loop: processor time a message, and the memory one call had allocated at most."""
    return {
        name: (cpu_seconds(call, times) / _MESSAGES, peak_bytes(call) if with_memory else 0)
        for name, call in _calls().items()
    }


def _calls() -> dict[str, Callable[[], object]]:
    came, rows = _stored([_NATIVE] * _MESSAGES), array("i", range(_MESSAGES))
    others = viewed(came)
    plain = _stored(None)
    bare = Batch.parse(_sealed(Columns.of([b"v"] * _MESSAGES, properties=_entries(others))))
    return {
        "view of a batch that came by AMQP 0.9.1": lambda: viewed(came),
        "view of a batch that did not": lambda: viewed(plain),
        "native properties, as they came": lambda: amqp091_of(came, rows),
        "native properties of others' messages": lambda: amqp091_of(bare, rows),
    }


def _stored(native: list[bytes] | None) -> Batch:
    return Batch.parse(_sealed(Columns.of([bytes(_VALUE_BYTES)] * _MESSAGES, native=native)))


def _sealed(columns: Columns) -> bytearray:
    batch = encode(columns)
    seal(batch, 0, 0, 1)
    return batch


def _entries(batch: Batch) -> list[bytes]:
    return [batch.properties(row) or b"" for row in range(len(batch))]


def run(settings: Run) -> list[Comparison]:
    return compared_with_pure(settings, seconds_a_message, "a call")


BENCHMARK = Benchmark(
    "view", "messages of AMQP 0.9.1 as others see them, processor time a message in calls of 820", run, syncs=False
)
