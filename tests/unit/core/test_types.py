from __future__ import annotations

from penstock.core.clock import SystemClock
from penstock.core.ports import Clock
from penstock.core.types import Compression, Durability


def test_a_stronger_durability_is_greater() -> None:
    assert Durability.MEMORY < Durability.INTERVAL < Durability.COMMIT
    assert max(Durability.MEMORY, Durability.COMMIT) is Durability.COMMIT


def test_compression_numbers_are_those_on_disk() -> None:
    assert {kind.name: kind.value for kind in Compression} == {"NONE": 0, "LZ4": 1, "ZSTD": 2}


def test_the_system_clock_counts_milliseconds_since_1970() -> None:
    clock: Clock = SystemClock()
    year_2020_ms, year_2200_ms = 1_577_836_800_000, 7_258_118_400_000
    assert year_2020_ms < clock.now_ms() < year_2200_ms
    assert clock.monotonic() <= clock.monotonic()
