from __future__ import annotations

from array import array

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.letters import columns_for_move, dead_letter, to_properties

from penstock.log.batch import Batch, Row, encode, seal
from penstock.log.columns import Columns
from penstock.log.properties import user_property
from penstock.queues.deadletter import (
    MAX_ADDED_BYTES,
    MAX_DETAIL_BYTES,
    DeadLetter,
    Reason,
    from_properties,
    redrive_columns,
    without,
)
from penstock.queues.names import GroupName, MessageId
from penstock.queues.properties import decode_user_properties, encode_user_properties

SOURCE = MessageId("shop/orders", 3, 7, 42)
FACTS = DeadLetter(
    SOURCE, GroupName("billing"), Reason.MAX_RETRIES, 2_000, "no such account", 11, 11, first_failed_ms=1_000
)
REJECTED = DeadLetter(MessageId("q@1:2", 1, 0, 0), GroupName("g", "eu/+/#"), Reason.REJECTED, 5)
OWN = b"\x03\x00\x04json" + encode_user_properties([("a", "1"), ("traceparent", "00-x")])
ROW = Row(42, 900, b"k", b"v", b"$queue/shop/orders/eu", OWN, b"native", 12_345)
BARE = Row(43, 901, None, b"", None, None, None, 0)


def stored(columns: Columns) -> list[Row]:
    batch = encode(columns)
    seal(batch, 0, 0, 0)
    return list(Batch.parse(batch))


@pytest.mark.parametrize("facts", [FACTS, REJECTED])
def test_the_facts_come_back_and_so_do_the_messages_own_properties(facts: DeadLetter) -> None:
    properties = to_properties(facts, OWN)
    assert from_properties(properties) == facts
    assert without(properties) == OWN


def test_a_consumer_reads_the_facts_as_user_properties() -> None:
    headers = dict(decode_user_properties(to_properties(FACTS, b"")))
    assert headers == {
        "dlq-queue": "shop/orders",
        "dlq-partition": "7",
        "dlq-offset": "42",
        "dlq-message-id": "shop/orders@3:7:42",
        "dlq-group": "billing",
        "dlq-reason": "max-retries",
        "dlq-detail": "no such account",
        "dlq-delivery-count": "11",
        "dlq-failures": "11",
        "dlq-first-failed": "1000",
        "dlq-time": "2000",
    }


def test_the_facts_of_an_earlier_move_are_replaced_whole() -> None:
    again = to_properties(REJECTED, to_properties(FACTS, OWN))
    assert from_properties(again) == REJECTED
    assert not {"dlq-detail", "dlq-first-failed"} & dict(decode_user_properties(again)).keys()
    assert without(again) == OWN


@pytest.mark.parametrize("ill", [b"\xff\x00", b"\x26\x00\x05ab", b"\x11\x00"])
def test_a_message_with_ill_formed_properties_is_moved_and_redriven_with_them(ill: bytes) -> None:
    properties = to_properties(FACTS, OWN + ill)
    assert from_properties(properties) == FACTS
    assert without(properties) == OWN + ill


@pytest.mark.parametrize(
    ("detail", "kept"),
    [
        ("a\0b", "a b"),
        ("bad \ud800 half", "bad ? half"),
        ("x" * 5_000, "x" * MAX_DETAIL_BYTES),
        ("é" * 5_000, "é" * (MAX_DETAIL_BYTES // 2)),
        ("x" + "é" * 5_000, "x" + "é" * (MAX_DETAIL_BYTES // 2 - 1)),
    ],
)
def test_whatever_the_consumer_said_the_move_goes_on(detail: str, kept: str) -> None:
    found = from_properties(to_properties(DeadLetter(SOURCE, GroupName("g"), Reason.REJECTED, 1, detail), b""))
    assert found is not None
    assert found.detail == kept


def test_a_move_adds_no_more_than_it_says() -> None:
    large = DeadLetter(
        MessageId("$dlq/" + "q" * 255, 10**17, 10**8, 10**17),
        GroupName("g" * 255, "f" * 65_535),
        Reason.MAX_DELIVERIES,
        10**17,
        "d" * 5_000,
        10**9,
        10**9,
        10**17,
    )
    assert len(to_properties(large, OWN)) <= len(OWN) + MAX_ADDED_BYTES


@pytest.mark.parametrize(
    "pairs",
    [
        [],
        [("dlq-queue", "orders")],
        [("dlq-message-id", "orders"), ("dlq-group", "g"), ("dlq-reason", "rejected")],
        [("dlq-message-id", "q@1:2:3"), ("dlq-group", ""), ("dlq-reason", "rejected")],
        [("dlq-message-id", "q@1:2:3"), ("dlq-group", "g"), ("dlq-reason", "bored")],
        [("dlq-message-id", "q@1:2:3"), ("dlq-group", "g"), ("dlq-reason", "rejected"), ("dlq-time", "soon")],
        [("dlq-message-id", "q@1:2:3"), ("dlq-group", "g"), ("dlq-reason", "rejected"), ("dlq-time", "9" * 5_000)],
        [("dlq-message-id", "q@1:2:3"), ("dlq-group", "g"), ("dlq-reason", "rejected"), ("dlq-time", "٣")],
    ],
)
def test_a_message_without_good_facts_is_no_dead_letter(pairs: list[tuple[str, str]]) -> None:
    assert from_properties(encode_user_properties(pairs)) is None


@given(st.binary(max_size=80))
@settings(max_examples=100, deadline=None)
def test_any_properties_can_be_moved(original: bytes) -> None:
    assert from_properties(to_properties(FACTS, original)) == FACTS


def test_a_move_keeps_everything_but_the_expiry() -> None:
    moved, bare = stored(columns_for_move([dead_letter(ROW, FACTS), dead_letter(BARE, REJECTED)]))
    assert (moved.key, moved.value, moved.topic, moved.native, moved.expiry) == (b"k", b"v", ROW.topic, b"native", 0)
    assert from_properties(moved.properties or b"") == FACTS
    assert without(moved.properties or b"") == OWN
    assert (bare.key, bare.value, bare.topic, bare.native) == (None, b"", None, None)
    assert from_properties(bare.properties or b"") == REJECTED


def test_columns_that_no_message_needs_are_not_stored() -> None:
    columns = columns_for_move([dead_letter(BARE, FACTS)])
    assert (columns.key, columns.topics, columns.native, columns.expiry) == (None, None, None, None)


def test_redriven_messages_are_as_they_were_and_name_their_group_and_source() -> None:
    moved = stored(columns_for_move([dead_letter(ROW, FACTS), dead_letter(BARE, REJECTED)]))
    again, bare = stored(redrive_columns(moved))
    assert (again.key, again.value, again.topic, again.native) == (ROW.key, ROW.value, ROW.topic, ROW.native)
    assert without(again.properties or b"") == OWN
    assert user_property(again.properties or b"", b"redriven-from") == b"shop/orders@3:7:42"
    assert user_property(again.properties or b"", b"redrive-group") == b"billing"
    assert user_property(bare.properties or b"", b"redrive-group") == b"g|eu/+/#"
    assert from_properties(again.properties or b"") is None


def test_a_redrive_to_all_groups_names_none_even_after_one_to_a_single_group() -> None:
    once = stored(redrive_columns(stored(columns_for_move([dead_letter(ROW, FACTS)]))))[0]
    later = DeadLetter(MessageId("shop/orders", 3, 7, 99), GroupName("audit"), Reason.REJECTED, 9)
    again = stored(redrive_columns(stored(columns_for_move([dead_letter(once, later)])), to_all_groups=True))[0]
    assert decode_user_properties(again.properties or b"") == [
        ("redriven-from", "shop/orders@3:7:99"),
        ("a", "1"),
        ("traceparent", "00-x"),
    ]


def test_an_edit_sees_the_dead_letter_and_cannot_lose_where_it_goes() -> None:
    seen: list[DeadLetter | None] = []

    def mend(letter: Row) -> Row:
        seen.append(from_properties(letter.properties or b""))
        return letter._replace(value=b"mended", key=b"other", properties=None, native=None)

    again = stored(redrive_columns(stored(columns_for_move([dead_letter(ROW, FACTS)])), mend))[0]
    assert seen == [FACTS]
    assert (again.key, again.value, again.native) == (b"other", b"mended", None)
    assert user_property(again.properties or b"", b"redrive-group") == b"billing"


def test_what_was_published_to_the_dead_letters_is_redriven_as_it_is() -> None:
    row = stored(redrive_columns([ROW]))[0]
    assert (row.properties, row.key, row.value) == (OWN, b"k", b"v")


def test_thinned_batches_can_be_moved_row_by_row() -> None:
    source = encode(Columns.of([b"a", b"b", b"c"], keys=[b"1", b"", b"3"]).select(array("i", [0, 2])))
    seal(source, 10, 0, 5)
    rows = stored(columns_for_move([dead_letter(row, FACTS) for row in Batch.parse(source)]))
    assert [(row.key, row.value) for row in rows] == [(b"1", b"a"), (b"3", b"c")]
