from __future__ import annotations

import struct
from array import array
from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.batches import padded
from tests.support.kernels import both, builds

from penstock.core.errors import CorruptFrame

ENTRY = st.tuples(st.integers(0, 2**63 - 1), st.sampled_from([1, 2]), st.binary(max_size=30))


def plain_entries(entries: list[tuple[int, int, bytes]]) -> bytes:
    return b"".join(struct.pack("<QIB3x", log, len(data), kind) + padded(data) for log, kind, data in entries)


def rows_of(frames: ModuleType, data: bytes, start: int, stop: int, room: int) -> list[int] | tuple[str, int]:
    """What the kernel says of some bytes: the rows it found, or the fault and its place."""
    out = array("q", bytes(32 * room))
    try:
        return list(out[: 4 * frames.entries(data, start, stop, out)])
    except CorruptFrame as fault:
        return fault.reason, fault.position


@pytest.mark.parametrize("frames", builds("frames"))
@given(entries=st.lists(ENTRY, max_size=8), before=st.binary(max_size=24))
@settings(max_examples=100, deadline=None)
def test_entries_are_found_where_they_lie(
    frames: ModuleType, entries: list[tuple[int, int, bytes]], before: bytes
) -> None:
    data = before + plain_entries(entries)
    out = array("q", bytes(32 * len(entries)))
    assert frames.entries(data, len(before), len(data), out) == len(entries)
    found = [(out[i], out[i + 1], data[out[i + 2] : out[i + 3]]) for i in range(0, len(out), 4)]
    assert found == entries


@pytest.mark.parametrize("frames", builds("frames"))
@pytest.mark.parametrize(
    ("data", "room"),
    [
        pytest.param(plain_entries([(1, 1, b"a"), (2, 1, b"b")]), 1, id="more entries than said"),
        pytest.param(plain_entries([(1, 1, b"a")])[:-8], 1, id="cut inside the data"),
        pytest.param(plain_entries([(1, 1, b"")])[:-1], 1, id="cut inside the head"),
        pytest.param(plain_entries([(1, 3, b"a")]), 1, id="kind 3"),
        pytest.param(plain_entries([(1, 0, b"a")]), 1, id="kind 0"),
        pytest.param(plain_entries([(2**63, 1, b"a")]), 1, id="log number beyond int64"),
        pytest.param(struct.pack("<QIB3x", 1, 0xFFFFFFFF, 1), 1, id="length of 4 GiB"),
        pytest.param(struct.pack("<QIBBBB", 1, 0, 1, 0, 0, 1), 1, id="bits in the padding of the head"),
    ],
)
def test_a_bad_entry_is_refused(frames: ModuleType, data: bytes, room: int) -> None:
    with pytest.raises(CorruptFrame):
        frames.entries(data, 0, len(data), array("q", bytes(32 * room)))


@pytest.mark.parametrize("frames", builds("frames"))
@pytest.mark.parametrize(("start", "stop"), [(-1, 8), (0, 25), (16, 8)])
def test_a_range_outside_the_data_is_refused(frames: ModuleType, start: int, stop: int) -> None:
    with pytest.raises(CorruptFrame):
        frames.entries(bytes(24), start, stop, array("q", bytes(32)))


@given(
    entries=st.lists(ENTRY, min_size=1, max_size=4),
    place=st.integers(0, 200),
    byte=st.integers(0, 255),
    room=st.integers(0, 5),
)
@settings(max_examples=200, deadline=None)
def test_both_builds_say_the_same_of_changed_bytes(
    entries: list[tuple[int, int, bytes]], place: int, byte: int, room: int
) -> None:
    pure, compiled = both("frames")
    data = bytearray(plain_entries(entries))
    data[place % len(data)] = byte
    assert rows_of(pure, bytes(data), 0, len(data), room) == rows_of(compiled, bytes(data), 0, len(data), room)
