"""crc32c against memcpy: the checksum should cost less than touching the bytes once more would."""

from __future__ import annotations

import os
from functools import partial

from bench.measure import Benchmark, Comparison, Run, Series, interleaved, seconds
from penstock.kernels.crc import crc32c

_SIZES = {"256 bytes": 256, "64 KiB": 64 << 10, "a batch of 128 KB": 128_000, "16 MiB": 16 << 20}
_TOTAL_BYTES = 4 << 30


def run(settings: Run) -> list[Comparison]:
    return [_at_size(settings, name, size) for name, size in _SIZES.items()]


def _at_size(settings: Run, name: str, size: int) -> Comparison:
    total = settings.size(_TOTAL_BYTES)
    times = max(min(total // size, 400_000), 1)
    data = os.urandom(size)
    samples = interleaved(
        settings.rounds,
        {
            "crc": lambda: seconds(lambda: _repeat_crc(data, times)),
            "memcpy": partial(_memcpy_seconds, data, times),
        },
    )
    return Comparison(
        Series(f"crc32c, {name} at a time", samples["crc"], bytes=size * times),
        Series("memcpy", samples["memcpy"], bytes=size * times),
    )


def _repeat_crc(data: bytes, times: int) -> None:
    for _ in range(times):
        crc32c(data)


def _memcpy_seconds(data: bytes, times: int) -> float:
    room, source = memoryview(bytearray(len(data))), memoryview(data)

    def copy() -> None:
        for _ in range(times):
            room[:] = source

    return seconds(copy)


BENCHMARK = Benchmark("checksum", "crc32c against memcpy", run, syncs=False)
