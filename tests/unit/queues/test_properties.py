from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.errors import InvalidArgument
from penstock.log.properties import user_property
from penstock.queues.properties import (
    Envelope,
    decode_user_properties,
    encode_user_properties,
    pack,
    unpack,
    with_properties,
)

# Payload format, message expiry, subscription identifier of two bytes, topic alias.
OTHERS = b"\x01\x01" + b"\x02\x00\x00\x00\x3c" + b"\x0b\xff\x7f" + b"\x23\x00\x07"
FIELDS = b"\x03\x00\x04json" + b"\x08\x00\x05reply" + b"\x09\x00\x02\xff\x26"
ILL_FORMED = [
    b"\x26",
    b"\x26\x00\x01",
    b"\x26\x00\x05ab",
    b"\x26\x00\x01a\x00\x09b",
    b"\x26\x00\x01a\x00",
    b"\x03\x00\x04jso",
    b"\x01",
    b"\x02\x00\x00\x00",
    b"\x0b\xff\xff\xff\xff\x01",
    b"\x0b\x80",
    b"\xff\x00",
    b"\x11\x00\x00\x00\x01",
]

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12)
pair_lists = st.lists(st.tuples(texts, texts), max_size=6)


@given(pair_lists)
@settings(max_examples=100, deadline=None)
def test_user_properties_come_back_in_order_with_repeated_names(pairs: list[tuple[str, str]]) -> None:
    assert decode_user_properties(encode_user_properties(pairs)) == pairs


def test_the_encoding_is_that_of_mqtt_5() -> None:
    assert encode_user_properties([("a", "é"), (b"bc", b"")]) == b"\x26\x00\x01a\x00\x02\xc3\xa9\x26\x00\x02bc\x00\x00"


def test_what_is_encoded_is_found_by_the_lookup_of_the_log() -> None:
    data = OTHERS + FIELDS + encode_user_properties([("a", "1"), ("id", "x"), ("id", "y")])
    assert user_property(data, b"id") == b"x"


def test_other_properties_are_passed_over() -> None:
    pairs = encode_user_properties([("a", "1")])
    assert decode_user_properties(OTHERS + pairs + FIELDS + pairs) == [("a", "1"), ("a", "1")]


@pytest.mark.parametrize("read", [decode_user_properties, unpack])
@pytest.mark.parametrize("ill", [*ILL_FORMED, b"\x26\x00\x01\xff\x00\x00", b"\x26\x00\x00\x00\x01\x00"])
def test_ill_formed_properties_are_refused(read: Callable[[bytes], object], ill: bytes) -> None:
    with pytest.raises(InvalidArgument):
        read(OTHERS + ill)


@pytest.mark.parametrize("name", ["\0", "\ud800", "x" * 65536, b"\xff", b"a\0b", b"x" * 65536])
def test_what_mqtt_cannot_carry_is_not_encoded(name: str | bytes) -> None:
    with pytest.raises(InvalidArgument):
        encode_user_properties([(name, "")])
    with pytest.raises(InvalidArgument):
        encode_user_properties([("", name)])


def test_the_longest_string_fits() -> None:
    assert decode_user_properties(encode_user_properties([("x" * 65535, "y" * 65535)])) == [("x" * 65535, "y" * 65535)]


def test_replacing_properties_keeps_all_others_byte_for_byte() -> None:
    kept = encode_user_properties([("b", "2"), ("c", "3")])
    data = OTHERS + encode_user_properties([("a", "1")]) + FIELDS + kept + encode_user_properties([("a", "4")])
    assert (
        with_properties(data, [("a", "9")], drop=["a"]) == encode_user_properties([("a", "9")]) + OTHERS + FIELDS + kept
    )


def test_adding_without_dropping_puts_the_new_ones_first() -> None:
    data = encode_user_properties([("a", "1")])
    assert decode_user_properties(with_properties(data, [("a", "9")])) == [("a", "9"), ("a", "1")]


@pytest.mark.parametrize("ill", ILL_FORMED)
def test_properties_can_be_added_to_ill_formed_ones_and_nothing_is_lost(ill: bytes) -> None:
    added, kept = encode_user_properties([("n", "1")]), encode_user_properties([("b", "2")])
    data = kept + encode_user_properties([("a", "1")]) + ill
    assert with_properties(data, [("n", "1")], drop=["a"]) == added + kept + ill


@given(st.binary(max_size=60))
@settings(max_examples=200, deadline=None)
def test_any_bytes_are_kept_whole_when_nothing_is_dropped(data: bytes) -> None:
    assert with_properties(data, ()) == data


envelopes = st.builds(
    Envelope,
    pair_lists.map(tuple),
    st.none() | texts,
    st.none() | texts,
    st.none() | st.binary(max_size=9),
    st.sampled_from([b"", b"\x01\x01", OTHERS]),
)


@given(envelopes)
@settings(max_examples=100, deadline=None)
def test_an_envelope_survives_packing(envelope: Envelope) -> None:
    assert unpack(pack(envelope)) == envelope


def test_an_envelope_reads_the_protocols_own_fields() -> None:
    envelope = unpack(FIELDS + encode_user_properties([("a", "1"), ("a", "2")]))
    assert envelope == Envelope((("a", "1"), ("a", "2")), "json", "reply", b"\xff\x26")
    assert (envelope.header("a"), envelope.header("b")) == ("1", None)


def test_a_field_may_not_occur_twice() -> None:
    with pytest.raises(InvalidArgument, match="0x03 occurs twice"):
        unpack(FIELDS + b"\x03\x00\x04json")


@given(st.binary(max_size=60))
@settings(max_examples=200, deadline=None)
def test_any_bytes_are_unpacked_or_refused(data: bytes) -> None:
    try:
        envelope = unpack(data)
    except InvalidArgument:
        return
    assert unpack(pack(envelope)) == envelope
