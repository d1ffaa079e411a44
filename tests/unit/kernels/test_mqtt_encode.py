from __future__ import annotations

from array import array
from dataclasses import dataclass, replace
from itertools import accumulate
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.kernels import builds
from tests.support.mqtt_wire import acknowledgement, packet, short, string, user_property, variable

from penstock.core.errors import InvalidArgument
from penstock.kernels import mqtt_encode as compiled_encode
from penstock.log.batch import Batch, encode, seal
from penstock.log.columns import Columns

ENCODES = pytest.mark.parametrize("mqtt_encode", builds("mqtt_encode"))
PUBLISHES = pytest.mark.parametrize("mqtt_publish", builds("mqtt_publish"))
NOW = 1_700_000_000_000


@dataclass(frozen=True)
class Message:
    topic: bytes
    value: bytes
    properties: bytes = b""
    expires: int = 0
    head: int = 0x30
    alias: int = 0
    prefix: int = 0
    numbers: tuple[int, int] = (0, 0)


PREFIXES = [b"", b"\x0b\x05", b"\x0b\x80\x01\x0b\x07"]
TEMPLATE_HEADS = (b"\x26" + string(b"message-id"), b"\x26" + string(b"offset"), b"\x26" + string(b"delivery-count"))
TEMPLATE_TAIL = user_property(b"consumer-group", b"workers")


def template() -> tuple[bytes, array[int]]:
    """message-id `orders@1:3:<number 0>`, offset `<number 0>`, delivery-count `<number 1>`, and the group."""
    out, fields = b"", array("i")
    for head, text, number in zip(TEMPLATE_HEADS, (b"orders@1:3:", b"", b""), (0, 0, 1), strict=True):
        out += head
        fields.append(len(out))
        out += text
        fields.extend((len(out), number))
    return out + TEMPLATE_TAIL, fields


def added(message: Message) -> bytes:
    first, second = (b"%d" % number for number in message.numbers)
    values = (b"orders@1:3:" + first, first, second)
    return b"".join(head + string(value) for head, value in zip(TEMPLATE_HEADS, values, strict=True)) + TEMPLATE_TAIL


def naive_publish(message: Message, version: int, packet_id: int, default: bytes, with_template: bool) -> bytes:
    topic = b"" if version == 5 and message.alias > 0 else message.topic or default
    body = string(topic) + (short(packet_id) if message.head & 6 else b"")
    if version == 5:
        left = min(-(-max(message.expires - NOW, 0) // 1000), 2**32 - 1)
        parts = PREFIXES[message.prefix]
        parts += b"\x02" + left.to_bytes(4, "big") if message.expires else b""
        parts += b"\x23" + short(abs(message.alias)) if message.alias else b""
        parts += added(message) if with_template else b""
        parts += message.properties
        body += variable(len(parts)) + parts
    return packet(message.head, body + message.value)


messages = st.builds(
    Message,
    topic=st.sampled_from([b"", b"a", b"devices/7/temp", b"x" * 300]),
    value=st.binary(max_size=40) | st.integers(100, 20_000).map(bytes),
    properties=st.sampled_from([b"", user_property(b"k", b"v"), user_property(b"long", b"w" * 200)]),
    expires=st.sampled_from([0, 0, 1, NOW, NOW + 1, NOW + 60_000, NOW + 60_001, 2**62]),
    head=st.sampled_from([0x30, 0x31, 0x32, 0x33, 0x34, 0x3A, 0x3D]),
    alias=st.sampled_from([0, 0, 5, -5, 65535, -1]),
    prefix=st.integers(0, 2),
    numbers=st.tuples(
        st.sampled_from([0, 9, 10, 41, 42, 99, 100, 12345, 10**18 - 1, 10**18, 2**63 - 1]) | st.integers(0, 200),
        st.integers(1, 12),
    ),
)


def stored(rows: list[Message]) -> Batch:
    batch = encode(
        Columns.of(
            [row.value for row in rows],
            topics=[row.topic for row in rows] if any(row.topic for row in rows) else None,
            properties=[row.properties for row in rows] if any(row.properties for row in rows) else None,
            expiry=[row.expires for row in rows] if any(row.expires for row in rows) else None,
        )
    )
    seal(batch, 0, 0, NOW)
    return Batch.parse(batch)


def spans_of(mqtt_encode: ModuleType, batch: Batch, picked: list[int]) -> array[int]:
    spans = array("q", [0]) * (compiled_encode.SPAN_WORDS * len(picked))
    mqtt_encode.batch_spans(batch.body, batch.layout, array("i", picked), spans)
    return spans


def encoded(encoder: Any, rows: list[Message], ids: array[int] | None) -> bytearray:
    batch = stored(rows)
    ends = array("i", accumulate(map(len, PREFIXES)))
    numbers = array("q", [row.numbers[0] for row in rows] + [row.numbers[1] for row in rows])
    out: bytearray = encoder.encode(
        batch.body,
        spans_of(compiled_encode, batch, list(range(len(rows)))),
        bytes(row.head for row in rows),
        NOW,
        ids,
        numbers,
        array("i", [row.alias for row in rows]),
        b"".join(PREFIXES),
        ends,
        array("i", [row.prefix for row in rows]),
    )
    return out


@PUBLISHES
@given(rows=st.lists(messages, min_size=1, max_size=8), version=st.sampled_from([4, 5]), with_template=st.booleans())
@settings(max_examples=150, deadline=None)
def test_stored_messages_go_out_as_the_reference_encodes_them(
    mqtt_publish: ModuleType, rows: list[Message], version: int, with_template: bool
) -> None:
    text, fields = template() if with_template else (b"", None)
    encoder = mqtt_publish.PublishEncoder(version, 1 << 20, mqtt_publish.Template(b"$queue/orders", text, fields))
    ids = array("i", [65535 - number for number in range(sum(row.head & 6 != 0 for row in rows))])
    left = iter(ids)
    expected = [
        naive_publish(row, version, next(left) if row.head & 6 else 0, b"$queue/orders", with_template) for row in rows
    ]
    out = encoded(encoder, rows, ids)
    assert bytes(out) == b"".join(expected)
    assert list(encoder.ends()) == list(accumulate(map(len, expected)))
    assert [int.from_bytes(out[at : at + 2], "big") for at in encoder.id_positions()] == list(ids)


@PUBLISHES
@pytest.mark.parametrize("step", [1, 3, 9, 10, -1, 0])
def test_numbers_that_rise_row_by_row_carry_over_into_the_next_digit(mqtt_publish: ModuleType, step: int) -> None:
    rows = [Message(b"t", b"", numbers=(995 + step * number, 1 + number // 4)) for number in range(60)]
    out = encoded(mqtt_publish.PublishEncoder(5, 1 << 20, mqtt_publish.Template(b"", *template())), rows, None)
    assert bytes(out) == b"".join(naive_publish(row, 5, 0, b"", True) for row in rows)


@PUBLISHES
@given(rows=st.lists(messages, min_size=1, max_size=8), version=st.sampled_from([4, 5]), limit=st.integers(2, 400))
@settings(max_examples=100, deadline=None)
def test_packets_longer_than_the_receiver_takes_are_left_out_and_the_others_are_whole(
    mqtt_publish: ModuleType, rows: list[Message], version: int, limit: int
) -> None:
    encoder = mqtt_publish.PublishEncoder(version, limit, mqtt_publish.Template(b"d"))
    whole = [naive_publish(row, version, 0, b"d", False) for row in rows]
    kept = [one if len(one) <= limit else b"" for one in whole]
    out = encoded(encoder, rows, None)
    assert bytes(out) == b"".join(kept)
    assert list(encoder.ends()) == list(accumulate(map(len, kept)))
    with_id = [one for row, one in zip(rows, kept, strict=True) if row.head & 6]
    assert [at == 0 for at in encoder.id_positions()] == [not one for one in with_id]


@PUBLISHES
def test_one_encoding_serves_many_receivers_with_ids_of_their_own(mqtt_publish: ModuleType) -> None:
    rows = [Message(b"t", b"%d" % number, head=0x30 if number == 1 else 0x32) for number in range(4)]
    encoder = mqtt_publish.PublishEncoder(5, 1 << 20)
    shared = encoded(encoder, rows, None)
    for first in (1, 300, 65533):
        mine = bytearray(shared)
        ids = array("i", [first, first + 1, first + 2])
        compiled_encode.patch_packet_ids(mine, encoder.id_positions(), ids)
        assert mine == encoded(mqtt_publish.PublishEncoder(5, 1 << 20), rows, ids)


@ENCODES
@given(rows=st.lists(messages, min_size=1, max_size=8), data=st.data())
@settings(max_examples=60, deadline=None)
def test_spans_of_a_batch_and_of_columns_lead_to_the_same_bytes(
    mqtt_encode: ModuleType, rows: list[Message], data: st.DataObject
) -> None:
    batch = stored(rows)
    picked = data.draw(st.lists(st.integers(0, len(rows) - 1), max_size=8))
    spans = spans_of(mqtt_encode, batch, picked)
    columns, others = batch.columns(), array("q", [0]) * len(spans)
    topics, properties = columns.topics, columns.properties
    mqtt_encode.column_spans(
        columns.topic_index,
        None if topics is None else topics.starts,
        None if topics is None else topics.ends,
        None if properties is None else properties.starts,
        None if properties is None else properties.ends,
        columns.value.starts,
        columns.value.ends,
        columns.expiry,
        array("i", picked),
        others,
    )
    for found in (spans, others):
        for place, row in enumerate(picked):
            words = found[7 * place : 7 * place + 7]
            fields = [bytes(batch.body[words[i] : words[i + 1]]) for i in (0, 2, 4)]
            assert fields == [rows[row].topic, rows[row].properties, rows[row].value]
            assert words[6] == rows[row].expires


@ENCODES
@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize("kind", [4, 5, 6, 7])
def test_acknowledgements_take_four_bytes_each(mqtt_encode: ModuleType, kind: int, version: int) -> None:
    ids = [1, 255, 256, 65535]
    out = mqtt_encode.encode_acks(kind, array("i", ids), None, version)
    assert out == b"".join(acknowledgement(kind, packet_id) for packet_id in ids)
    assert mqtt_encode.encode_acks(kind, array("i", ids), array("i", [0] * 4), version) == out


@ENCODES
@given(rows=st.lists(st.tuples(st.integers(1, 65535), st.sampled_from([0, 0, 0x10, 0x87, 0x99])), max_size=20))
@settings(max_examples=50, deadline=None)
def test_acknowledgements_with_a_reason_take_one_byte_more(
    mqtt_encode: ModuleType, rows: list[tuple[int, int]]
) -> None:
    ids, reasons = array("i", [row[0] for row in rows]), array("i", [row[1] for row in rows])
    out = mqtt_encode.encode_acks(4, ids, reasons, 5)
    assert out == b"".join(acknowledgement(4, packet_id, reason or None) for packet_id, reason in rows)


@ENCODES
def test_a_refusal_is_never_sent_as_an_acknowledgement_of_3_1_1(mqtt_encode: ModuleType) -> None:
    with pytest.raises(InvalidArgument):
        mqtt_encode.encode_acks(4, array("i", [1, 2]), array("i", [0, 0x87]), 4)


@ENCODES
@pytest.mark.parametrize(("kind", "packet_id"), [(3, 1), (8, 1), (4, 0), (4, 65536), (4, -1)])
def test_acknowledgements_of_no_kind_or_id_are_refused(mqtt_encode: ModuleType, kind: int, packet_id: int) -> None:
    with pytest.raises(InvalidArgument):
        mqtt_encode.encode_acks(kind, array("i", [packet_id]), None, 5)


@ENCODES
def test_a_new_alias_is_told_once_and_a_known_one_goes_alone(mqtt_encode: ModuleType) -> None:
    topic_aliases, out = array("i", [0, 7, -8]), array("i", [0]) * 6
    told = mqtt_encode.mark_aliases(array("i", [0, 1, 2, 2, 1, 2]), array("i", [0, 1, 2, 3, 4, 5]), topic_aliases, out)
    assert (told, list(out), list(topic_aliases)) == (1, [0, 7, -8, 8, 7, 8], [0, 7, 8])


@ENCODES
def test_ids_are_patched_only_inside_the_packets(mqtt_encode: ModuleType) -> None:
    for positions, ids in (([3], [1]), ([-1], [1]), ([1], [0]), ([1], [65536]), ([1], [])):
        with pytest.raises((InvalidArgument, IndexError)):
            mqtt_encode.patch_packet_ids(bytearray(4), array("i", positions), array("i", ids))
    skipped = bytearray(4)
    mqtt_encode.patch_packet_ids(skipped, array("i", [0]), array("i", [5]))
    assert skipped == bytes(4)


def one_span(**words: int) -> array[int]:
    order = ("topic", "topic_end", "properties", "properties_end", "value", "value_end", "expires")
    return array("q", [words.get(word, 0) for word in order])


@PUBLISHES
@pytest.mark.parametrize(
    "words",
    [
        {"topic": -1, "topic_end": 1},
        {"topic": 2, "topic_end": 1},
        {"topic_end": 11},
        {"topic_end": 1, "value": 11, "value_end": 12},
        {"topic_end": 1, "value": 5, "value_end": 4},
        {"topic_end": 1, "properties_end": 2**40},
        {},
    ],
)
def test_spans_outside_the_source_and_messages_without_a_topic_are_refused(
    mqtt_publish: ModuleType, words: dict[str, int]
) -> None:
    with pytest.raises(InvalidArgument):
        mqtt_publish.PublishEncoder(5, 100).encode(b"0123456789", one_span(**words), b"\x30", NOW)


@PUBLISHES
def test_a_receive_buffer_can_grow_again_after_encoding_from_it(mqtt_publish: ModuleType) -> None:
    source, spans, ids = bytearray(b"topic"), one_span(topic_end=5), array("i", [1])
    encoder = mqtt_publish.PublishEncoder(5, 100)
    out = encoder.encode(source, spans, b"\x32", NOW, ids)
    for buffer in (source, out):
        buffer += b"more"
    spans.append(1)
    ids.append(2)
    with pytest.raises(InvalidArgument):
        encoder.encode(source, spans, b"\x36", NOW)
    source += b"more"


@PUBLISHES
def test_what_cannot_be_sent_is_refused(mqtt_publish: ModuleType) -> None:
    spans, encoder = one_span(topic_end=1), mqtt_publish.PublishEncoder(5, 1000)
    for head in (0x20, 0x36, 0x00):
        with pytest.raises(InvalidArgument):
            encoder.encode(b"a", spans, bytes([head]), NOW)
    for bad in ({"packet_ids": array("i", [0])}, {"packet_ids": array("i", [65536])}, {"aliases": array("i", [65536])}):
        with pytest.raises(InvalidArgument):
            encoder.encode(b"a", spans, b"\x32", NOW, **bad)
    prefix = {"prefixes": b"\x0b\x01", "prefix_ends": array("i", [2])}
    for number in (-1, 1):
        with pytest.raises((InvalidArgument, IndexError)):
            encoder.encode(b"a", spans, b"\x30", NOW, prefix_of=array("i", [number]), **prefix)
    with pytest.raises(InvalidArgument):
        encoder.encode(bytes(70_000), one_span(topic_end=65_536), b"\x30", NOW)
    with pytest.raises(InvalidArgument):
        mqtt_publish.PublishEncoder(3, 1000)


@PUBLISHES
def test_a_template_and_its_numbers_are_checked(mqtt_publish: ModuleType) -> None:
    for fields in ([0, 9, 0], [2, 1, 0], [-1, 1, 0], [0, 1, -1], [0, 2, 0, 1, 3, 0]):
        with pytest.raises(InvalidArgument):
            mqtt_publish.Template(b"", b"12345", array("i", fields))
    encoder = mqtt_publish.PublishEncoder(5, 1000, mqtt_publish.Template(b"", b"12345", array("i", [1, 2, 0])))
    with pytest.raises(InvalidArgument):
        encoder.encode(b"a", one_span(topic_end=1), b"\x30", NOW, numbers=array("q", [-1]))
    with pytest.raises(IndexError):
        encoder.encode(b"a", one_span(topic_end=1), b"\x30", NOW)


@PUBLISHES
def test_no_messages_are_no_bytes(mqtt_publish: ModuleType) -> None:
    encoder = mqtt_publish.PublishEncoder(5, 1000)
    assert encoder.encode(b"", array("q"), b"", NOW) == b""
    assert (list(encoder.ends()), list(encoder.id_positions())) == ([], [])


def naive_frame(payload: bytes) -> bytes:
    size = len(payload)
    if size < 126:
        return bytes([0x82, size]) + payload
    if size < 1 << 16:
        return b"\x82\x7e" + size.to_bytes(2, "big") + payload
    return b"\x82\x7f" + size.to_bytes(8, "big") + payload


BODY_BYTES = st.sampled_from(
    [0, 1, 2, 118, 119, 120, 121, 122, 123, 124, 127, 128, 16_383, 16_384, 65_530, 65_535, 70_000]
)


@ENCODES
@given(sizes=st.lists(BODY_BYTES, max_size=6), rest=st.sampled_from([b"", b"\x30", b"\x30\x05abc", b"\x30\xff\xff"]))
def test_every_packet_is_a_websocket_message_of_its_own(mqtt_encode: Any, sizes: list[int], rest: bytes) -> None:
    packets = [packet(0x30, bytes(size)) for size in sizes]
    framed = mqtt_encode.frame_packets(b"".join([*packets, rest]))
    assert framed == b"".join(map(naive_frame, [*packets, rest] if rest else packets))


@dataclass(frozen=True)
class Piece:
    """Rows of one source, and what they have in common."""

    rows: list[Message]
    kind: int


pieces = st.lists(
    st.builds(
        Piece, st.lists(messages.map(lambda row: replace(row, alias=0, prefix=0)), max_size=4), st.integers(0, 1)
    ),
    min_size=1,
    max_size=5,
)


@PUBLISHES
@given(some=pieces, version=st.sampled_from([4, 5]), limit=st.sampled_from([60, 300, 1 << 20]))
@settings(max_examples=150, deadline=None)
def test_rows_of_many_sources_go_out_as_those_of_each(
    mqtt_publish: ModuleType, some: list[Piece], version: int, limit: int
) -> None:
    templates = [mqtt_publish.Template(b"$queue/orders", *template()), mqtt_publish.Template(b"d")]
    some = [piece for piece in some if piece.rows] or [Piece([Message(b"t", b"v")], 0)]
    every = [row for piece in some for row in piece.rows]
    batches = [stored(piece.rows) for piece in some]
    spans, ids = array("q"), array("i", range(1, sum(row.head & 6 != 0 for row in every) + 1))
    for piece, batch in zip(some, batches, strict=True):
        spans += spans_of(compiled_encode, batch, list(range(len(piece.rows))))
    encoder = mqtt_publish.PublishEncoder(version, limit)
    out = encoder.encode_each(
        [batch.body for batch in batches],
        [templates[piece.kind] for piece in some],
        array("i", accumulate([len(piece.rows) for piece in some])),
        spans,
        bytes(row.head for row in every),
        NOW,
        ids,
        array("q", [row.numbers[0] for row in every] + [row.numbers[1] for row in every]),
    )
    left, expected = iter(ids), []
    for piece in some:
        for row in piece.rows:
            default = b"d" if piece.kind else b"$queue/orders"
            one = naive_publish(row, version, next(left) if row.head & 6 else 0, default, not piece.kind)
            expected.append(one if len(one) <= limit else b"")
    assert bytes(out) == b"".join(expected)
    assert list(encoder.ends()) == list(accumulate(map(len, expected)))


@PUBLISHES
@pytest.mark.parametrize("stops", [[], [1], [3, 2], [-1, 2], [2, 3]])
def test_every_row_is_of_a_source(mqtt_publish: ModuleType, stops: list[int]) -> None:
    spans = one_span(topic_end=1) * 2
    kinds = [mqtt_publish.Template()] * len(stops)
    with pytest.raises((InvalidArgument, IndexError)):
        mqtt_publish.PublishEncoder(5, 1000).encode_each(
            [b"a"] * len(stops), kinds, array("i", stops), spans, b"\x30\x30", NOW
        )


@ENCODES
@given(some=st.lists(st.lists(messages.map(lambda row: replace(row, expires=0)), min_size=1, max_size=4), max_size=4))
@settings(max_examples=80, deadline=None)
def test_whole_batches_are_found_as_their_rows_are(mqtt_encode: ModuleType, some: list[list[Message]]) -> None:
    batches, starts, count = [], array("i"), 1
    expected = array("q", [0]) * compiled_encode.SPAN_WORDS
    offsets, times = array("q", [0]), array("q", [0])
    for i, rows in enumerate(some):
        data = bytearray(stored(rows).body)
        seal(data, 100 * i, 0, NOW + i)
        batches.append(data)
        starts.append(count)
        count += len(rows)
        expected += spans_of(compiled_encode, Batch.parse(data), list(range(len(rows))))
        offsets.extend(range(100 * i, 100 * i + len(rows)))
        times.extend([NOW + i] * len(rows))
    spans, numbers = array("q", bytes(8 * len(expected))), array("q", bytes(24 * count))
    mqtt_encode.whole_spans(batches, starts, spans, numbers)
    assert spans == expected
    ones = array("q", [0]) + array("q", [1]) * (count - 1)
    assert numbers == offsets + ones + times
    if batches:
        with pytest.raises(InvalidArgument):
            mqtt_encode.whole_spans(batches, array("i", [count] * len(batches)), spans, numbers)
