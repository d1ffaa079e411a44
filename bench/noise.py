"""The noise of the machine: the same measured as subject and as baseline. A ratio inside this spread says nothing."""

from __future__ import annotations

from functools import partial

from bench.measure import Benchmark, Comparison, Run, Series, interleaved, seconds
from bench.path.raw import RawFile

_COPIED_BYTES = 64 << 20
_SYNCED_BYTES = 64 << 10


def run(settings: Run) -> list[Comparison]:
    copies, syncs = settings.size(16), settings.size(400, 10)
    raw = RawFile(settings.directory / "raw", syncs * _SYNCED_BYTES)
    room, source = memoryview(bytearray(_COPIED_BYTES)), memoryview(bytes(_COPIED_BYTES))

    def copy() -> None:
        for _ in range(copies):
            room[:] = source

    sync = partial(raw.write_synced, [bytes(_SYNCED_BYTES)], syncs)
    copied = interleaved(settings.rounds, {name: lambda: seconds(copy) for name in ("one", "other")})
    synced = interleaved(settings.rounds, {name: lambda: seconds(sync) for name in ("one", "other")})
    raw.close()
    return [
        _against_itself("memcpy", copied, copies * _COPIED_BYTES),
        _against_itself("raw writev + fdatasync of 64 KiB", synced, syncs * _SYNCED_BYTES),
    ]


def _against_itself(name: str, samples: dict[str, tuple[float, ...]], size: int) -> Comparison:
    return Comparison(Series(name, samples["one"], bytes=size), Series("itself", samples["other"], bytes=size))


BENCHMARK = Benchmark("noise", "the same against itself: the spread below is the noise of this machine now", run)
