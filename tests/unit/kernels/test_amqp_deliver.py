from __future__ import annotations

from array import array
from dataclasses import dataclass
from itertools import accumulate
from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.amqp091_wire import publish
from tests.support.kernels import builds

from penstock.codecs.amqp091.encode import content_frames, method_frame
from penstock.codecs.amqp091.methods import BasicAck, BasicDeliver, BasicGetOk, BasicNack, BasicReject, BasicReturn
from penstock.codecs.amqp091.properties import Properties, properties_bytes
from penstock.core.errors import InvalidArgument, TooLarge
from penstock.kernels import amqp_columns as names
from penstock.kernels import amqp_deliver as compiled
from penstock.kernels.amqp_scan import Scanner
from penstock.log.batch import Batch, encode, seal
from penstock.log.columns import Columns

BUILDS = pytest.mark.parametrize("amqp_deliver", builds("amqp_deliver"))
ROUTES = [("celery", "celery"), ("", "q"), ("größe", "a.b.c")]
FRAME_MAX = 4096


@dataclass(frozen=True)
class Message:
    body: bytes
    native: bytes | None = None
    """properties of AMQP 0.9.1; None for a message of another door"""
    route: int = 0
    redelivered: bool = False


carried = st.builds(
    Properties, content_type=st.none() | st.text(max_size=5), priority=st.none() | st.integers(0, 9)
).map(properties_bytes)
bodies = st.one_of(st.binary(max_size=50), st.sampled_from([4087, 4088, 4089, 8176, 8177, 9000]).map(bytes))
messages = st.builds(Message, bodies, st.none() | carried, st.integers(0, 2), st.booleans())


def short(text: str) -> bytes:
    return bytes([len(text.encode())]) + text.encode()


def stored(rows: list[Message], with_topics: bool = True) -> Batch:
    """Rows without properties of AMQP 0.9.1 have those of another door, where any have some."""
    topics = [b"%d" % row.route for row in rows] if with_topics else None
    native = [b"\x10foreign" if row.native is None else b"\x91" + row.native for row in rows]
    has_native = any(row.native is not None for row in rows)
    batch = encode(Columns.of([row.body for row in rows], topics=topics, native=native if has_native else None))
    seal(batch, 0, 0, 1)
    return Batch.parse(batch)


def encoded(encoder: object, amqp_deliver: ModuleType, rows: list[Message], blocks: list[bytes]) -> bytearray:
    batch = stored(rows)
    order = list(dict.fromkeys(row.route for row in rows))
    parts = [short(ROUTES[route][0]) + short(ROUTES[route][1]) for route in order]
    spans = array("q", [0]) * (amqp_deliver.SPAN_WORDS * len(rows))
    ends = array("i", accumulate(map(len, parts)))
    without = amqp_deliver.batch_spans(batch.body, batch.layout, array("i", range(len(rows))), ends, spans)
    assert without == sum(row.native is None for row in rows)
    out: bytearray = encoder.encode(  # type: ignore[attr-defined]  # of either build
        batch.body,
        spans,
        b"".join(parts),
        5,
        bytes(row.redelivered for row in rows),
        b"".join(blocks),
        array("i", accumulate(map(len, blocks))),
    )
    return out


def naive(row: Message, tag: int, block: bytes, channel: int = 3, ctag: str = "ctag") -> bytes:
    exchange, key = ROUTES[row.route]
    method = BasicDeliver(ctag, tag, row.redelivered, exchange, key)
    return content_frames(channel, method, block if row.native is None else row.native, row.body, FRAME_MAX)


@BUILDS
@given(rows=st.lists(messages, min_size=1, max_size=8), has_blocks=st.booleans())
@settings(max_examples=120, deadline=None)
def test_stored_messages_go_out_as_the_codec_encodes_them(
    amqp_deliver: ModuleType, rows: list[Message], has_blocks: bool
) -> None:
    blocks = [properties_bytes(Properties(app_id=f"n{i}")) for i, row in enumerate(rows) if row.native is None]
    left = iter(blocks)
    expected = [
        naive(row, 5 + i, next(left) if has_blocks and row.native is None else b"\0\0") for i, row in enumerate(rows)
    ]
    encoder = amqp_deliver.deliveries(3, b"ctag", FRAME_MAX)
    for _ in range(2):
        out = encoded(encoder, amqp_deliver, rows, blocks if has_blocks else [])
        assert bytes(out) == b"".join(expected)
        assert list(encoder.ends()) == list(accumulate(map(len, expected)))


@BUILDS
def test_answers_to_get_say_how_many_messages_are_left(amqp_deliver: ModuleType) -> None:
    row = Message(b"body", b"\0\0", 1, True)
    out = encoded(amqp_deliver.get_answers(9, 4_000_000_000, FRAME_MAX), amqp_deliver, [row], [])
    method = BasicGetOk(5, True, "", "q", 4_000_000_000)
    assert bytes(out) == content_frames(9, method, b"\0\0", b"body", FRAME_MAX)


@BUILDS
def test_returned_messages_are_rows_of_the_scanner_as_they_came(amqp_deliver: ModuleType) -> None:
    some = [
        (b"one", Properties(priority=1), "x", "a"),
        (b"", Properties(), "", "größe"),
        (bytes(5000), Properties(), "", "k"),
    ]
    data = b"".join(publish(body, read, 2, exchange, key, frame_max=1 << 16) for body, read, exchange, key in some)
    scanner = Scanner(8)
    assert scanner.scan(data, 0, len(data), 1 << 16, 1 << 16) == len(some)
    columns = scanner.pick(
        (names.ROUTE_START, names.ROUTE_END, names.PROPS_START, names.PROPS_END, names.BODY_START, names.BODY_END)
    )
    spans = array("q", [cell for row in zip(*columns, strict=True) for cell in row])
    out = amqp_deliver.returns(2, 312, b"NO_ROUTE", FRAME_MAX).encode(data, spans, data)
    expected = [
        content_frames(2, BasicReturn(312, "NO_ROUTE", exchange, key), read, body, FRAME_MAX)
        for body, read, exchange, key in some
    ]
    assert bytes(out) == b"".join(expected)


@BUILDS
def test_a_message_whose_header_is_longer_than_the_receivers_frames_is_left_out_and_keeps_its_tag(
    amqp_deliver: ModuleType,
) -> None:
    long = (
        properties_bytes(Properties(headers={}))[:2] + (4100).to_bytes(4, "big") + b"\1kx" + (4093).to_bytes(4, "big")
    )
    rows = [Message(b"a", b"\0\0"), Message(b"b", long + bytes(4093)), Message(b"c", b"\0\0")]
    encoder = amqp_deliver.deliveries(3, b"ctag", FRAME_MAX)
    out = encoded(encoder, amqp_deliver, rows, [])
    kept = [naive(rows[0], 5, b""), naive(rows[2], 7, b"")]
    assert bytes(out) == b"".join(kept)
    assert list(encoder.ends()) == [len(kept[0]), len(kept[0]), len(out)]
    with pytest.raises(TooLarge):
        naive(rows[1], 6, b"")


@BUILDS
def test_batches_without_topics_take_the_first_route(amqp_deliver: ModuleType) -> None:
    batch = stored([Message(b"a"), Message(b"b")], with_topics=False)
    spans = array("q", [0]) * 6
    amqp_deliver.batch_spans(batch.body, batch.layout, array("i", [1]), array("i", [3]), spans)
    out = amqp_deliver.deliveries(3, b"ctag", FRAME_MAX).encode(batch.body, spans, short("") + short("q"), 1)
    assert bytes(out) == naive(Message(b"b", None, 1), 1, b"\0\0")


settlements = st.lists(
    st.tuples(
        st.sampled_from([80, 90, 120]), st.integers(1, 65535), st.integers(0, 2**63 - 1), st.booleans(), st.booleans()
    ),
    max_size=8,
)


@BUILDS
@given(rows=settlements)
@settings(max_examples=60, deadline=None)
def test_settlements_of_many_channels_are_one_buffer(
    amqp_deliver: ModuleType, rows: list[tuple[int, int, int, bool, bool]]
) -> None:
    bits, expected = bytearray(), b""
    for method, channel, tag, one, two in rows:
        made = {80: BasicAck(tag, one), 90: BasicReject(tag, one), 120: BasicNack(tag, one, two)}[method]
        bits.append(one | two << 1 if method == 120 else one)
        expected += method_frame(channel, made)
    methods, tags = bytes(row[0] for row in rows), array("q", [row[2] for row in rows])
    channels = array("i", [row[1] for row in rows])
    assert amqp_deliver.encode_settlements(methods, channels, tags, bits) == expected


@BUILDS
@pytest.mark.parametrize(("method", "channel", "tag"), [(81, 1, 1), (80, 0, 1), (80, 65536, 1), (80, 1, -1)])
def test_settlements_that_are_none_are_refused(amqp_deliver: ModuleType, method: int, channel: int, tag: int) -> None:
    with pytest.raises(InvalidArgument):
        amqp_deliver.encode_settlements(bytes([method]), array("i", [channel]), array("q", [tag]), b"\0")
    with pytest.raises(InvalidArgument):
        amqp_deliver.encode_settlements(b"\x50", array("i"), array("q", [1]), b"\0")


@BUILDS
@pytest.mark.parametrize(
    "words",
    [
        [-1, 2, 0, 2, 0, 1],
        [0, 21, 0, 2, 0, 1],
        [2, 0, 0, 2, 0, 1],
        [0, 1, 0, 2, 0, 1],
        [0, 2, 0, 1, 0, 1],
        [0, 2, 0, 99, 0, 1],
        [0, 2, 3, 2, 0, 1],
        [0, 2, 0, 2, -1, 1],
        [0, 2, 0, 2, 0, 2**40],
        [0, 2, 0, 2, 0],
    ],
)
def test_spans_outside_their_buffers_are_refused(amqp_deliver: ModuleType, words: list[int]) -> None:
    with pytest.raises(InvalidArgument):
        amqp_deliver.deliveries(1, b"c", FRAME_MAX).encode(bytes(20), array("q", words), bytes(20), 1)


@BUILDS
def test_what_cannot_be_sent_is_refused(amqp_deliver: ModuleType) -> None:
    for channel, frame_max in ((0, 4096), (65536, 4096), (1, 4095), (1, 2**31)):
        with pytest.raises(InvalidArgument):
            amqp_deliver.deliveries(channel, b"c", frame_max)
    with pytest.raises(InvalidArgument):
        amqp_deliver.deliveries(1, bytes(256), FRAME_MAX)
    encoder = amqp_deliver.deliveries(1, b"c", FRAME_MAX)
    row = array("q", [0, 2, -1, -1, 0, 1])
    with pytest.raises(InvalidArgument):
        encoder.encode(bytes(4), row + row, bytes(4), 1, b"\0")
    for ends in ([5], [-1], []):
        with pytest.raises((InvalidArgument, IndexError)):
            encoder.encode(bytes(4), row, bytes(4), 1, b"", bytes(4), array("i", ends))


@BUILDS
def test_buffers_can_grow_again_after_encoding_from_them(amqp_deliver: ModuleType) -> None:
    source, spans = bytearray(8), array("q", [0, 2, -1, -1, 0, 1])
    encoder = amqp_deliver.deliveries(1, b"c", FRAME_MAX)
    out = encoder.encode(source, spans, source, 1)
    for buffer in (source, out):
        buffer += b"more"
    spans.append(1)
    with pytest.raises(InvalidArgument):
        encoder.encode(source, spans, source, 1)
    source += b"more"


@BUILDS
def test_no_messages_are_no_bytes(amqp_deliver: ModuleType) -> None:
    encoder = amqp_deliver.deliveries(1, b"c", FRAME_MAX)
    assert (encoder.encode(b"", array("q"), b""), list(encoder.ends())) == (b"", [])
    assert compiled.SPAN_WORDS == amqp_deliver.SPAN_WORDS
