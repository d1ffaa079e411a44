from __future__ import annotations

from array import array
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.kernels import both, builds

from penstock.core.errors import InvalidArgument
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


def packed(kernel: ModuleType, rows: list[list[tuple[bytes, bytes]]]) -> list[bytes]:
    pairs = [pair for row in rows for pair in row]
    lists = array("i", [sum(len(row) for row in rows[:i]) for i in range(len(rows) + 1)])
    places = [
        array("i", [sum(len(pair[side]) for pair in pairs[:i]) for i in range(len(pairs) + 1)]) for side in (0, 1)
    ]
    names, values = (b"".join(pair[side] for pair in pairs) for side in (0, 1))
    ends, out = array("i", bytes(4 * len(lists))), bytearray(5 * len(pairs) + len(names) + len(values))
    arguments = memoryview(lists), memoryview(places[0]), names, memoryview(places[1]), values, ends, out
    assert kernel.pack(*arguments) == len(out)
    return [bytes(out[ends[row] : ends[row + 1]]) for row in range(len(rows))]


TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=5)


@BUILDS
@given(rows=st.lists(st.lists(st.tuples(TEXT, TEXT), max_size=3), max_size=4))
def test_headers_are_packed_as_user_properties(kernel: ModuleType, rows: list[list[tuple[str, str]]]) -> None:
    encoded = [[(name.encode(), value.encode()) for name, value in row] for row in rows]
    assert packed(kernel, encoded) == [pack(Envelope(tuple(row))) for row in rows]
    assert headers(kernel, packed(kernel, encoded)) == encoded


@BUILDS
@pytest.mark.parametrize("bad", [(b"a" * 65536, b""), (b"", b"v" * 65536), (b"a\0", b""), (b"", b"\0")])
def test_headers_that_mqtt_could_not_carry_are_refused(kernel: ModuleType, bad: tuple[bytes, bytes]) -> None:
    with pytest.raises(InvalidArgument):
        packed(kernel, [[(b"good", b"one")], [bad]])
    assert len(packed(kernel, [[(b"a" * 65535, b"v" * 65535)]])[0]) == 5 + 2 * 65535
