from __future__ import annotations

from array import array
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.kernels import both, builds

from penstock.queues.properties import Envelope, pack

BUILDS = pytest.mark.parametrize("kernel", builds("headers"))


def headers(kernel: ModuleType, rows: list[bytes]) -> list[list[tuple[bytes, bytes]]]:
    ends = [sum(len(row) for row in rows[:i]) for i in range(len(rows) + 1)]
    data, places, sizes = b"".join(rows), memoryview(array("i", ends)), array("q", [0, 0])
    count = kernel.measure(data, places, sizes)
    lists, name_ends, value_ends = (array("i", bytes(4 * (size + 1))) for size in (len(rows), count, count))
    names, values = bytearray(sizes[0]), bytearray(sizes[1])
    assert kernel.fill(data, places, lists, name_ends, names, value_ends, values) == count
    pairs = [
        (bytes(names[name_ends[i] : name_ends[i + 1]]), bytes(values[value_ends[i] : value_ends[i + 1]]))
        for i in range(count)
    ]
    return [pairs[lists[row] : lists[row + 1]] for row in range(len(rows))]


@BUILDS
def test_every_property_that_is_text_is_a_header(kernel: ModuleType) -> None:
    envelope = Envelope((("a", "1"), ("", "")), "json", "answers/1", b"\0\xff", others=b"\x01\x01\x02\0\0\0\x09")
    named = [(b"content-type", b"json"), (b"reply-to", b"answers/1"), (b"correlation-id", b"\0\xff")]
    assert headers(kernel, [pack(envelope), b"", pack(Envelope((("z", "y"),)))]) == [
        [*named, (b"a", b"1"), (b"", b"")],
        [],
        [(b"z", b"y")],
    ]


@BUILDS
@pytest.mark.parametrize(
    "bad", [b"\x26", b"\x26\0\x05ab", b"\x26\0\x01a\0\x09b", b"\x7f", b"\x02\0", b"\x0b\x80", b"\x03\0"]
)
def test_from_an_ill_formed_place_on_a_row_has_no_headers(kernel: ModuleType, bad: bytes) -> None:
    good = pack(Envelope((("a", "1"),)))
    assert headers(kernel, [good + bad, good]) == [[(b"a", b"1")], [(b"a", b"1")]]


@given(st.lists(st.binary(max_size=40), max_size=5))
def test_both_builds_find_the_same_in_any_bytes(rows: list[bytes]) -> None:
    pure, compiled = both("headers")
    assert headers(pure, rows) == headers(compiled, rows)
