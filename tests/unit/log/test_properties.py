from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.log.properties import user_property


def pair(name: bytes, value: bytes) -> bytes:
    return b"\x26" + len(name).to_bytes(2, "big") + name + len(value).to_bytes(2, "big") + value


def test_the_first_user_property_of_the_name_is_found() -> None:
    properties = pair(b"a", b"1") + pair(b"b", b"2") + pair(b"b", b"3")
    assert user_property(properties, b"b") == b"2"
    assert user_property(properties, b"c") is None


@pytest.mark.parametrize(
    "before",
    [
        b"\x01\x01",
        b"\x02\x00\x00\x00\x3c",
        b"\x03\x00\x04json",
        b"\x08\x00\x05reply",
        b"\x09\x00\x02\xff\x26",
        b"\x0b\xff\x7f",
        b"\x23\x00\x07",
    ],
)
def test_other_properties_before_it_are_stepped_over(before: bytes) -> None:
    assert user_property(before + pair(b"id", b"x"), b"id") == b"x"


@pytest.mark.parametrize(
    "ill",
    [b"\x26\x00", b"\x26\x00\x05ab", b"\x26\x00\x01a\x00\x09b", b"\xff\x00", b"\x0b\xff\xff\xff\xff\x01", b"\x01"],
)
def test_ill_formed_properties_have_none(ill: bytes) -> None:
    assert user_property(ill + pair(b"id", b"x"), b"id") in (None, b"x")
    assert user_property(ill, b"id") is None


@given(st.binary(max_size=60), st.binary(max_size=4))
@settings(max_examples=200, deadline=None)
def test_any_bytes_give_an_answer(properties: bytes, name: bytes) -> None:
    found = user_property(properties, name)
    assert found is None or found in properties
