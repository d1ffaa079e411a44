from __future__ import annotations

import datetime
import math
from array import array
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pamqp import commands
from tests.support.amqp091 import Native, Typed
from tests.support.kernels import both, builds

from penstock.core.errors import InvalidArgument
from penstock.queues.properties import Envelope, pack, unpack

BUILDS = pytest.mark.parametrize("kernel", builds("amqp_view"))

SHORT = st.one_of(st.binary(max_size=12), st.text(max_size=6).map(str.encode), st.binary(min_size=200, max_size=255))
NAMES = st.one_of(
    st.sampled_from([b"a", b"b", b"type", b"x-payload-format", b"x-correlation-id-encoding", b"content-encoding"]),
    SHORT,
)
SCALARS = st.one_of(
    st.just(Typed("V")),
    st.builds(Typed, st.just("t"), st.booleans()),
    st.builds(Typed, st.just("b"), st.integers(-128, 127)),
    st.builds(Typed, st.just("B"), st.integers(0, 255)),
    st.builds(Typed, st.sampled_from("sU"), st.integers(-(1 << 15), (1 << 15) - 1)),
    st.builds(Typed, st.just("u"), st.integers(0, (1 << 16) - 1)),
    st.builds(Typed, st.just("I"), st.integers(-(1 << 31), (1 << 31) - 1)),
    st.builds(Typed, st.just("i"), st.integers(0, (1 << 32) - 1)),
    st.builds(Typed, st.sampled_from("lL"), st.integers(-(1 << 63), (1 << 63) - 1)),
    st.builds(Typed, st.just("T"), st.integers(0, (1 << 64) - 1)),
    st.builds(Typed, st.just("f"), st.floats(width=32)),
    st.builds(Typed, st.just("d"), st.floats()),
    st.builds(Typed, st.just("D"), st.tuples(st.integers(0, 255), st.integers(-(1 << 31), (1 << 31) - 1))),
    st.builds(Typed, st.sampled_from("Sx"), st.one_of(SHORT, st.sampled_from([b"1", b"0", b"base64", b'"\\\n\t\x7f']))),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.builds(Typed, st.just("A"), st.lists(inner, max_size=4)),
        st.builds(Typed, st.just("F"), st.lists(st.tuples(NAMES, inner), max_size=4)),
    ),
    max_leaves=12,
)
OPTIONAL = st.none() | SHORT
NATIVES = st.builds(
    Native,
    OPTIONAL,
    OPTIONAL,
    st.none() | st.lists(st.tuples(NAMES, VALUES), max_size=6),
    st.none() | st.integers(0, 255),
    st.none() | st.integers(0, 255),
    OPTIONAL | st.just(b"/w=="),
    OPTIONAL,
    OPTIONAL,
    OPTIONAL,
    st.none() | st.integers(0, (1 << 64) - 1),
    OPTIONAL,
    OPTIONAL,
    OPTIONAL,
    OPTIONAL,
)


def places_of(rows: list[bytes]) -> memoryview:
    ends, end = [0], 0
    for row in rows:
        end += len(row)
        ends.append(end)
    return memoryview(array("i", ends))


def view(kernel: ModuleType, natives: list[bytes], properties: list[bytes] | None = None) -> list[bytes]:
    places, ends = places_of(natives), array("i", bytes(4 * len(natives) + 4))
    own = None if properties is None else places_of(properties)
    starts, stops = (None, None) if own is None else (own[:-1], own[1:])
    made = kernel.view(b"".join(properties or ()), starts, stops, b"".join(natives), places[:-1], places[1:], ends)
    assert ends[-1] == len(made)
    return [bytes(made[ends[row] : ends[row + 1]]) for row in range(len(natives))]


def is_good(kernel: ModuleType, native: bytes) -> bool:
    places = places_of([native, b""])
    return bool(kernel.wrong(native, places[:-1], places[1:]) == -1)


@BUILDS
@given(natives=st.lists(NATIVES, max_size=4))
def test_the_view_is_what_the_reference_makes_of_the_values(kernel: ModuleType, natives: list[Native]) -> None:
    assert view(kernel, [native.stored() for native in natives]) == [native.view() for native in natives]
    assert all(is_good(kernel, native.stored()) for native in natives)


@BUILDS
@given(native=NATIVES)
def test_whatever_came_every_reader_can_take_the_view_apart(kernel: ModuleType, native: Native) -> None:
    [made] = view(kernel, [native.stored()])
    unpack(made)


@BUILDS
@given(native=NATIVES)
def test_what_properties_say_is_not_said_again_by_the_view(kernel: ModuleType, native: Native) -> None:
    envelope = Envelope((("a", "mine"), ("type", "t"), ("a", "too")), "own/type", "own/reply", b"own", b"\x01\x00")
    own = pack(envelope)
    [made] = view(kernel, [native.stored()], [own])
    assert made == native.view(own, (b"a", b"type"), (1, 3, 8, 9))
    assert view(kernel, [native.stored()], [made]) == [made]


@BUILDS
def test_rows_without_amqp_properties_are_shown_as_they_are_stored(kernel: ModuleType) -> None:
    own = [pack(Envelope((("a", "1"),))), b"", b"", pack(Envelope((), "text"))]
    natives = [b"\x01", b"", b"\x91\0\0", b"\x10\0\x53"]
    assert view(kernel, natives, own) == own
    places = places_of(natives)
    assert kernel.count(b"".join(natives), places[:-1], places[1:]) == 1


@BUILDS
@pytest.mark.parametrize(
    "bad",
    [
        b"\x91",
        b"\x91\x80",
        b"\x91\0\x02",  # a flag that no property has
        b"\x91\0\x01",  # more flags, which are not there
        b"\x91\0\x01\x80\0",  # properties that are not known
        b"\x91\0\0\0",  # bytes that belong to nothing
        b"\x91\x80\0\x05abc",
        b"\x91\x20\0\0\0\0\x05\x01a",
        b"\x91\x20\0\xff\xff\xff\xff\x01aV",
        b"\x91\x20\0\0\0\0\x03\x01aS",
        b"\x91\x20\0\0\0\0\x02\x01a",
        b"\x91\x20\0\0\0\0\x03\x01a?",
        b"\x91\x20\0\0\0\0\x07\x01aS\0\0\0\x01",
        b"\x91\x20\0\0\0\0\x09\x01aF\0\0\0\x02\x01b",
        b"\x91\x10\0",
        b"\x91\0\x40\0\0\0",
        Native(headers=[(b"deep", Typed("V"))]).stored()[:-1] + b"A\0\0\0\0"[:1],
    ],
)
def test_a_row_with_ill_formed_native_bytes_keeps_its_properties(kernel: ModuleType, bad: bytes) -> None:
    own, good = pack(Envelope((("a", "1"),))), Native(content_type=b"text/plain")
    assert view(kernel, [bad, good.stored()], [own, b""]) == [own, good.view()]
    assert not is_good(kernel, bad)


@BUILDS
def test_tables_may_be_thirty_two_deep(kernel: ModuleType) -> None:
    value = Typed("V")
    for _ in range(32):
        value = Typed("A", [value])
    deep = Native(headers=[(b"deep", value)])
    assert view(kernel, [deep.stored()]) == [deep.view()]
    deeper = Native(headers=[(b"deep", Typed("A", [value]))])
    assert not is_good(kernel, deeper.stored())
    assert view(kernel, [deeper.stored()]) == [b""]


@BUILDS
def test_a_value_that_mqtt_cannot_carry_is_left_out(kernel: ModuleType) -> None:
    long, longest = Typed("S", b"v" * 65536), Typed("S", b"v" * 65535)
    escaped = Typed("F", [(b"a", Typed("S", b"\0" * 60_000))])
    native = Native(headers=[(b"a", Typed("I", 1)), (b"long", long), (b"z", longest), (b"escaped", escaped)])
    assert [name for name, _ in unpack(view(kernel, [native.stored()])[0]).headers] == ["a", "z"]


@BUILDS
def test_properties_that_cannot_be_read_are_shown_alone(kernel: ModuleType) -> None:
    bad = pack(Envelope((("a", "1"),))) + b"\x26\0\x09"
    assert view(kernel, [Native(content_type=b"t").stored()], [bad]) == [bad]


@BUILDS
@pytest.mark.parametrize("spans", [([0], [99]), ([-1], [2]), ([3], [2])])
def test_a_span_outside_its_source_is_refused(kernel: ModuleType, spans: tuple[list[int], list[int]]) -> None:
    starts, stops = (array("i", each) for each in spans)
    with pytest.raises(InvalidArgument):
        kernel.view(b"", None, None, b"\x91\0\0", starts, stops, array("i", [0, 0]))


@given(st.lists(st.binary(max_size=60).map(lambda data: b"\x91" + data), max_size=4))
def test_both_builds_make_the_same_of_any_bytes(rows: list[bytes]) -> None:
    pure, compiled = both("amqp_view")
    assert view(pure, rows) == view(compiled, rows)


@given(NATIVES, st.data())
def test_both_builds_make_the_same_of_damaged_bytes(native: Native, data: st.DataObject) -> None:
    pure, compiled = both("amqp_view")
    damaged = bytearray(native.stored())
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    rows = [bytes(damaged), native.stored()]
    assert view(pure, rows) == view(compiled, rows)
    unpack(view(compiled, rows)[0])


def _pamqp_values() -> st.SearchStrategy[Any]:
    return st.recursive(
        st.none() | st.booleans() | st.integers(-(1 << 63), (1 << 63) - 1) | st.text(max_size=8),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", max_size=3), inner, max_size=3),
        max_leaves=8,
    )


@given(st.dictionaries(st.text("xyz", min_size=1, max_size=4), _pamqp_values(), max_size=4), st.integers(0, 1 << 31))
def test_what_another_library_encodes_is_read_as_it_was_meant(headers: dict[str, Any], seconds: int) -> None:
    import json

    kernel = both("amqp_view")[1]
    said = commands.Basic.Properties(
        content_type="application/json",
        headers=headers or None,
        delivery_mode=2,
        timestamp=datetime.datetime.fromtimestamp(seconds, datetime.UTC),
        app_id="tests",
    )
    envelope = unpack(view(kernel, [b"\x91" + said.marshal()])[0])
    found = dict(envelope.headers)
    assert envelope.content_type == "application/json"
    assert found.pop("timestamp-of-sender") == str(seconds)
    assert found.pop("app-id") == "tests"
    for name, value in headers.items():
        if isinstance(value, str) and "\0" not in value:
            assert found[name] == value
        elif not isinstance(value, str) and value is not None:
            assert json.loads(found[name]) == value


@BUILDS
def test_numbers_that_json_does_not_have_are_strings_in_it(kernel: ModuleType) -> None:
    odd = [Typed("d", math.nan), Typed("d", math.inf), Typed("f", -math.inf)]
    native = Native(headers=[(b"list", Typed("A", odd)), (b"alone", Typed("d", math.inf))])
    headers = dict(unpack(view(kernel, [native.stored()])[0]).headers)
    assert headers == {"list": '["nan","inf","-inf"]', "alone": "inf"}
