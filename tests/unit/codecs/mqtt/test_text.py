from __future__ import annotations

import pytest

from penstock.codecs.mqtt.errors import MalformedPacket
from penstock.codecs.mqtt.text import SharedFilter, bytes_of, check_filter, check_topic, parse_shared, text_of
from penstock.core.errors import InvalidArgument, TooLarge


@pytest.mark.parametrize("raw", [b"", b"a", "é€😀".encode(), b"\x01\x7f", "\ufdd0\uffff".encode()])
def test_text_is_any_utf_8_without_nul(raw: bytes) -> None:
    assert bytes_of(text_of(raw, "it"), "it") == raw


@pytest.mark.parametrize("raw", [b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xf5\x80\x80\x80", b"\xe2\x82", b"a\0b"])
def test_mqtt_1_5_4_1_what_is_not_text_is_malformed(raw: bytes) -> None:
    with pytest.raises(MalformedPacket):
        text_of(raw, "it")


def test_a_string_has_65535_bytes_at_most() -> None:
    assert len(bytes_of("é" * 32_767, "it")) == 65_534
    with pytest.raises(TooLarge):
        bytes_of("é" * 32_768, "it")


@pytest.mark.parametrize("topic", ["/", "a//b", " ", "$SYS/x", "a b/ü"])
def test_mqtt_4_7_3_1_topics_have_a_character_at_least(topic: str) -> None:
    check_topic(topic)
    check_filter(topic)


@pytest.mark.parametrize("topic", ["", "#", "a/+", "a\0"])
def test_what_is_no_topic_is_refused(topic: str) -> None:
    with pytest.raises(InvalidArgument):
        check_topic(topic)


@pytest.mark.parametrize(
    ("filter", "parts"),
    [
        ("a/b", None),
        ("$share", None),
        ("$shared/g/t", None),
        ("a/$share/g/t", None),
        ("$share/g/t", SharedFilter("g", "t")),
        ("$share/g//", SharedFilter("g", "/")),
        ("$share/g/$queue/q/#", SharedFilter("g", "$queue/q/#")),
        ("$share/ö ö/+/x", SharedFilter("ö ö", "+/x")),
    ],
)
def test_mqtt_4_8_2_a_shared_filter_has_a_group_and_a_filter(filter: str, parts: SharedFilter | None) -> None:
    assert parse_shared(filter) == parts


@pytest.mark.parametrize("filter", ["$share/", "$share//t", "$share/g", "$share/g/", "$share/g+/t", "$share/#"])
def test_mqtt_4_8_2_2_what_begins_like_a_shared_filter_is_one(filter: str) -> None:
    with pytest.raises(InvalidArgument):
        parse_shared(filter)
