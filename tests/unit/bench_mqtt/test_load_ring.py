"""The ring of the load generator: what is sent again is another message."""

from __future__ import annotations

import struct

import pytest
from bench.mqtt.ring import PAYLOAD_BYTES, Ring, payload

_FIRST = 5 << 17


def _ring(slots: int, trailer: bytes = b"") -> Ring:
    return Ring([b"head" + payload(_FIRST + place) + trailer for place in range(slots)], _FIRST, len(trailer))


def _heads(ring: Ring, data: memoryview, trailer_bytes: int = 0) -> list[tuple[int, int]]:
    """Number and stamp of each message."""
    at = ring.frame_bytes - trailer_bytes - PAYLOAD_BYTES
    return [struct.unpack_from(">QQ", data, start + at) for start in range(0, len(data), ring.frame_bytes)]


def test_a_payload_has_the_size_of_the_workload() -> None:
    assert len(payload(7)) == PAYLOAD_BYTES == 256


def test_no_number_comes_twice_however_often_the_ring_went_round() -> None:
    ring = _ring(7)
    numbers = [number for _ in range(30) for number, _ in _heads(ring, ring.take(3, 1))]
    assert len(set(numbers)) == len(numbers) > 3 * 7


def test_the_ring_knows_the_sum_of_the_numbers_it_gave() -> None:
    ring = _ring(10)
    numbers = [number for count in (1, 4, 9, 10, 2) for number, _ in _heads(ring, ring.take(count, 1))]
    assert ring.sum_of_numbers == sum(numbers)


@pytest.mark.parametrize("count", [1, 2, 5])
def test_what_is_taken_has_the_stamp_and_the_rest_has_not(count: int) -> None:
    ring = _ring(5, b"\r\n")
    ring.take(5, 1)
    taken = _heads(ring, ring.take(count, 0x0102030405060708), 2)
    rest = _heads(ring, ring._view[count * ring.frame_bytes :], 2)
    assert {stamp for _, stamp in taken} == {0x0102030405060708}
    assert {stamp for _, stamp in rest} <= {1}


def test_nothing_but_number_and_stamp_changes() -> None:
    ring = _ring(3, b"\r\n")
    data = bytes(ring.take(3, 9))
    assert data.startswith(b"head")
    assert data.endswith(payload(0)[16:] + b"\r\n")


def test_a_take_ends_with_the_ring() -> None:
    ring = _ring(4)
    ring.take(3, 1)
    assert len(ring.take(3, 1)) == ring.frame_bytes


def test_messages_of_different_sizes_are_refused() -> None:
    with pytest.raises(ValueError, match="one size"):
        Ring([b"a" + payload(0), payload(1)], 0)
