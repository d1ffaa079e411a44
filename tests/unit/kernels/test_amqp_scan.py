from __future__ import annotations

from array import array
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pamqp import body as pamqp_body
from pamqp import commands
from pamqp import frame as pamqp_frame
from pamqp import header as pamqp_header
from tests.support.amqp091_wire import FRAME_MAX, Limits, Seen, frame, header, publish, read_stream, settled
from tests.support.kernels import builds

from penstock.codecs.amqp091.assembly import fault_at
from penstock.codecs.amqp091.decode import Frame, read_frame
from penstock.codecs.amqp091.encode import HEARTBEAT, method_frame
from penstock.codecs.amqp091.kinds import Field
from penstock.codecs.amqp091.methods import BasicAck, BasicNack, BasicPublish, BasicReject, ChannelOpen, TxCommit
from penstock.codecs.amqp091.properties import Properties, properties_bytes, read_properties
from penstock.codecs.amqp091.wire import plain, table_of
from penstock.core.errors import InvalidArgument
from penstock.kernels import amqp_columns as names
from penstock.kernels import mqtt_rows

BUILDS = pytest.mark.parametrize("amqp_scan", builds("amqp_scan"))
OTHER = method_frame(1, TxCommit())

texts = st.text(st.characters(codec="utf-8"), max_size=12)
values = st.recursive(
    st.one_of(st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(), texts, st.binary(max_size=9), st.none()),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(texts, inner, max_size=3)),
    max_leaves=6,
)
tables = st.dictionaries(texts, values, max_size=4).map(table_of)
maybe_texts = st.none() | texts
properties = st.builds(
    Properties,
    content_type=maybe_texts,
    content_encoding=maybe_texts,
    headers=st.none() | tables,
    delivery_mode=st.none() | st.integers(0, 255),
    priority=st.none() | st.integers(0, 255),
    correlation_id=maybe_texts,
    reply_to=maybe_texts,
    expiration=maybe_texts,
    message_id=maybe_texts,
    timestamp=st.none() | st.integers(0, 2**64 - 1),
    type=maybe_texts,
    user_id=maybe_texts,
    app_id=maybe_texts,
    cluster_id=maybe_texts,
)
channels = st.integers(1, 3)
publishes = st.builds(
    publish,
    body=st.binary(max_size=200),
    properties=properties,
    channel=channels,
    exchange=texts,
    key=texts,
    mandatory=st.booleans(),
)
tags = st.one_of(st.integers(0, 2**64 - 1), st.integers(2**31 - 2, 2**31 + 1), st.integers(2**32 - 2, 2**32 + 1))
settlements = st.one_of(
    st.builds(settled, channels, st.builds(BasicAck, tags, st.booleans())),
    st.builds(settled, channels, st.builds(BasicNack, tags, st.booleans(), st.booleans())),
    st.builds(settled, channels, st.builds(BasicReject, tags, st.booleans())),
)
frames = st.one_of(publishes, publishes, settlements, st.just(HEARTBEAT))


@st.composite
def streams(draw: st.DrawFn) -> bytes:
    """Rows, and now and then something that is none: other methods, a body in two frames, frames of two channels."""
    parts = draw(st.lists(frames, max_size=6))
    for _ in range(draw(st.integers(0, 2))):
        odd = draw(st.sampled_from(["other", "split", "mixed", "large"]))
        parts.insert(draw(st.integers(0, len(parts))), odd_frames(odd))
    return b"".join(parts)


def odd_frames(kind: str) -> bytes:
    method = method_frame(1, BasicPublish(routing_key="k"))
    if kind == "other":
        return OTHER
    if kind == "split":
        return method + header(5) + frame(3, 1, b"ab") + frame(3, 1, b"cde")
    if kind == "mixed":
        return method + publish(b"x", channel=2) + header(0)
    return publish(bytes(300), channel=3)


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    data = bytearray(draw(streams()))
    for _ in range(draw(st.integers(1, 3))):
        if data:
            place = draw(st.integers(0, len(data) - 1))
            data[place] = draw(st.sampled_from([0, 1, 2, 3, 8, 40, 60, 80, 0x41, 0x46, 0x53, 0x7F, 0xC3, 0xCE, 0xFF]))
    return bytes(data)


def scanned(scanner: Any, data: bytes, limits: Limits = Limits(), start: int = 0) -> Seen:  # noqa: B008  # frozen
    """What the kernel says, in the words of the reference, with positions from `start`."""
    scanner.scan(data, start, len(data), limits.frame_max, limits.max_body, limits.assembling)
    rows = [row_of(data, scanner, row) for row in range(scanner.rows)]
    return Seen(rows, scanner.why, scanner.position - start, scanner.size, scanner.reason)


def row_of(data: bytes, scanner: Any, row: int) -> dict[str, object]:
    cells = [scanner.column(number)[row] for number in range(names.COLUMNS)]
    kind, found = cells[names.KIND], {"kind": cells[names.KIND], "channel": cells[names.CHANNEL]}
    if kind == names.HEARTBEAT:
        return found
    if kind != names.PUBLISH:
        tag = int(scanner.tags(row, row + 1)[0]) % 2**64
        assert tag == cells[names.TAG_HIGH] % 2**32 << 32 | cells[names.TAG_LOW] % 2**32
        return found | {"flags": cells[names.FLAGS], "tag": tag}
    carried = data[cells[names.PROPS_START] : cells[names.PROPS_END]]
    check_places(data, cells, read_properties(carried))
    key_at = cells[names.EXCHANGE_END]
    return found | {
        "flags": cells[names.FLAGS],
        "exchange": data[cells[names.ROUTE_START] + 1 : key_at].decode(),
        "key": data[key_at + 1 : cells[names.ROUTE_END]].decode(),
        "properties": carried,
        "read": read_properties(carried),
        "body": data[cells[names.BODY_START] : cells[names.BODY_END]],
    }


def check_places(data: bytes, cells: list[int], read: Properties) -> None:
    """The columns that point into the properties."""

    def text(at: int) -> bytes | None:
        return None if at < 0 else data[at + 1 : at + 1 + data[at]]

    assert cells[names.PRESENT] == int.from_bytes(data[cells[names.PROPS_START] : cells[names.PROPS_START] + 2], "big")
    assert cells[names.PRIORITY] == (-1 if read.priority is None else read.priority)
    assert cells[names.DELIVERY_MODE] == (-1 if read.delivery_mode is None else read.delivery_mode)
    for column, expected in (
        (names.EXPIRATION_AT, read.expiration),
        (names.REPLY_TO_AT, read.reply_to),
        (names.USER_ID_AT, read.user_id),
    ):
        found = text(cells[column])
        assert found == (None if expected is None else expected.encode("utf-8", "surrogateescape"))
    table = data[cells[names.HEADERS_START] : cells[names.HEADERS_END]]
    headers = read_properties(b"\x20\0" + len(table).to_bytes(4, "big") + table).headers
    assert repr(headers) == repr(read.headers or {})


def same(one: Seen, other: Seen) -> bool:
    """NaN in a header is not equal to itself; the bytes of the properties are."""

    def without_read(seen: Seen) -> list[dict[str, object]]:
        return [{name: row[name] for name in row if name != "read"} for row in seen.rows]

    places = [(seen.why, seen.position, seen.size, seen.reason) for seen in (one, other)]
    return places[0] == places[1] and without_read(one) == without_read(other)


@BUILDS
@given(data=streams(), max_body=st.sampled_from([100, 65_536]), assembling=st.sampled_from([0, 0, 1, 2, -1]))
@settings(max_examples=150, deadline=None)
def test_rows_are_those_that_the_codec_reads_frame_by_frame(
    amqp_scan: ModuleType, data: bytes, max_body: int, assembling: int
) -> None:
    limits = Limits(max_body=max_body, assembling=assembling)
    assert same(scanned(amqp_scan.Scanner(20), data, limits), read_stream(data, limits))


@BUILDS
@given(data=mutated(), max_body=st.sampled_from([100, 65_536]))
@settings(max_examples=300, deadline=None)
def test_mutated_frames_are_judged_as_the_codec_judges_them(amqp_scan: ModuleType, data: bytes, max_body: int) -> None:
    limits = Limits(max_body=max_body)
    seen = scanned(amqp_scan.Scanner(20), data, limits)
    assert same(seen, read_stream(data, limits))
    if seen.why == names.BAD_FRAME:
        error = fault_at(data, seen.position, len(data), FRAME_MAX)
        assert (error.fault.reply, error.is_hard) == (seen.reason, True)


def as_received(scanner: Any, data: bytes, sizes: list[int]) -> tuple[list[object], int, int]:
    """As a connection reads: an incomplete tail waits for the next piece, other frames are stepped over."""
    rows: list[object] = []
    held, at = b"", 0
    while at < len(data):
        size = sizes[0] if sizes else len(data)
        sizes = sizes[1:]
        held, at = held + data[at : at + size], at + size
        start, why = 0, names.ROWS_FULL
        while why in (names.ROWS_FULL, names.OTHER_FRAME):
            seen = scanned(scanner, held, Limits(), start)
            rows += [repr(row) for row in seen.rows]
            why, start = seen.why, start + seen.position
            if why == names.OTHER_FRAME:
                other = read_frame(held, start, len(held), FRAME_MAX)
                assert isinstance(other, Frame)
                assert other.size == seen.size
                rows.append(held[start : start + seen.size])
                start += seen.size
        if why == names.BAD_FRAME:
            return rows, seen.reason, 0
        assert start + seen.size > len(held) or seen.size == 0
        held = held[start:]
    return rows, 0, len(held)


@BUILDS
@given(data=st.one_of(mutated(), streams()), sizes=st.lists(st.integers(1, 60), max_size=30), room=st.integers(1, 3))
@settings(max_examples=150, deadline=None)
def test_any_split_gives_the_same_rows_the_same_other_frames_and_the_same_reason(
    amqp_scan: ModuleType, data: bytes, sizes: list[int], room: int
) -> None:
    whole = as_received(amqp_scan.Scanner(100), data, [])
    assert as_received(amqp_scan.Scanner(room), data, sizes) == whole


def ints(values: list[int]) -> array[int]:
    return array("i", values)


@BUILDS
@given(
    streams=st.lists(st.one_of(mutated(), streams()), max_size=5),
    frame_maxima=st.lists(st.sampled_from([0, 4096, 8192]), min_size=5, max_size=5),
    assembling=st.lists(st.sampled_from([0, 1, -1]), min_size=5, max_size=5),
    gap=st.integers(0, 3),
)
@settings(max_examples=100, deadline=None)
def test_regions_of_many_connections_are_scanned_as_each_by_itself(
    amqp_scan: ModuleType, streams: list[bytes], frame_maxima: list[int], assembling: list[int], gap: int
) -> None:
    arena, starts, stops = b"", [], []
    for data in streams:
        starts.append(len(arena) + gap)
        arena += b"\xff" * gap + data
        stops.append(len(arena))
    count = len(streams)
    together, alone = amqp_scan.Scanner(100), amqp_scan.Scanner(100)
    maxima = frame_maxima[:count]
    together.scan_regions(arena, *map(ints, (starts, stops, maxima)), 65_536, ints(assembling[:count]))
    regions = list(together.column(names.REGION))
    for region in range(count):
        if not maxima[region]:
            assert (together.whys[region], together.positions[region]) == (names.NOT_SCANNED, starts[region])
            assert region not in regions
            continue
        alone.scan(arena, starts[region], stops[region], maxima[region], 65_536, assembling[region])
        first, found = regions.index(region) if region in regions else 0, regions.count(region)
        assert found == alone.rows
        for number in range(names.COLUMNS - 2):
            assert together.column(number)[first : first + found] == alone.column(number)
        assert (together.whys[region], together.positions[region]) == (alone.why, alone.position)
        assert (together.sizes[region], together.reasons[region]) == (alone.size, alone.reason)


their_messages = st.tuples(
    st.sampled_from(["", "amq.topic", "x-1"]),
    st.text(max_size=9),
    st.binary(max_size=300),
    st.integers(1, 9),
    st.dictionaries(texts, texts),
)


@BUILDS
@given(messages=st.lists(st.tuples(st.integers(1, 65535), their_messages), max_size=5), cut=st.integers(0, 4000))
@settings(max_examples=80, deadline=None)
def test_what_pamqp_sends_becomes_rows_with_what_it_said(
    amqp_scan: ModuleType, messages: list[tuple[int, Any]], cut: int
) -> None:
    data = b""
    for channel, (exchange, key, body, priority, headers) in messages:
        method = commands.Basic.Publish(exchange=exchange, routing_key=key)
        read = commands.Basic.Properties(priority=priority, headers=headers)
        data += pamqp_frame.marshal(method, channel)
        data += pamqp_frame.marshal(pamqp_header.ContentHeader(0, len(body), read), channel)
        data += pamqp_frame.marshal(pamqp_body.ContentBody(body), channel) if body else b""
        data += pamqp_frame.marshal(commands.Basic.Ack(priority, True), channel)
    scanner, found, start = amqp_scan.Scanner(20), list[dict[str, object]](), 0
    for stop in (min(cut, len(data)), len(data)):
        seen = scanned(scanner, data[:stop], Limits(), start)
        found, start = found + seen.rows, start + seen.position
    assert len(found) == 2 * len(messages)
    for published, acked, (channel, (exchange, key, body, priority, headers)) in zip(
        found[::2], found[1::2], messages, strict=True
    ):
        said = [published[name] for name in ("kind", "channel", "exchange", "key", "body")]
        assert said == [names.PUBLISH, channel, exchange, key, body]
        read_here = published["read"]
        assert isinstance(read_here, Properties)
        assert (read_here.priority, plain(Field("F", read_here.headers or {}))) == (priority, headers)
        assert acked == {"kind": names.ACK, "channel": channel, "flags": names.MULTIPLE, "tag": priority}


METHOD = method_frame(1, BasicPublish(routing_key="k"))
PUBLISH_PAYLOAD = METHOD[7:-1]


def with_headers(table: bytes) -> bytes:
    return METHOD + header(0, b"\x20\0" + len(table).to_bytes(4, "big") + table)


def nested(depth: int, kind: bytes = b"F") -> bytes:
    """So many tables, or arrays in a table, one in the other."""
    name, inner = b"\1n" if kind == b"F" else b"", b""
    for _ in range(depth - 1):
        inner = name + kind + len(inner).to_bytes(4, "big") + inner
    return inner if name else b"\1n" + inner


BAD = {
    "unknown frame type": (frame(4, 1, b""), names.FRAME_ERROR),
    "frame type 0": (frame(0, 1, b""), names.FRAME_ERROR),
    "bad end octet of a method": (frame(1, 1, PUBLISH_PAYLOAD, b"\xcd"), names.FRAME_ERROR),
    "bad end octet of a header": (METHOD + header(0)[:-1] + b"\0", names.FRAME_ERROR),
    "bad end octet of a body": (METHOD + header(2) + frame(3, 1, b"ab", b"\0"), names.FRAME_ERROR),
    "bad end octet of another frame": (frame(3, 1, b"", b"\0"), names.FRAME_ERROR),
    "over frame_max": (b"\1\0\1" + (FRAME_MAX + 1).to_bytes(4, "big") + b"\0", names.FRAME_ERROR),
    "header over frame_max": (METHOD + b"\2\0\1\xff\xff\xff\xff\0", names.FRAME_ERROR),
    "method of three bytes": (frame(1, 1, b"\0\x3c\0"), names.FRAME_ERROR),
    "header of eleven bytes": (METHOD + frame(2, 1, b"\0\x3c" + bytes(9)), names.FRAME_ERROR),
    "heartbeat with a payload": (frame(8, 0, b"x"), names.FRAME_ERROR),
    "heartbeat on a channel": (frame(8, 1, b""), names.UNEXPECTED_FRAME),
    "body longer than announced": (METHOD + header(2) + frame(3, 1, b"abc"), names.FRAME_ERROR),
    "key that is no UTF-8": (frame(1, 1, PUBLISH_PAYLOAD[:-3] + b"\2\xc3\x28\0"), names.FRAME_ERROR),
    "exchange that is no UTF-8": (frame(1, 1, b"\0\x3c\0\x28\0\0\1\xff\0\0"), names.FRAME_ERROR),
    "exchange leaves the frame": (frame(1, 1, b"\0\x3c\0\x28\0\0\x09abc"), names.FRAME_ERROR),
    "key leaves the frame": (frame(1, 1, b"\0\x3c\0\x28\0\0\1a\x09bc\0"), names.FRAME_ERROR),
    "no bits": (frame(1, 1, PUBLISH_PAYLOAD[:-1]), names.FRAME_ERROR),
    "bytes behind the bits": (frame(1, 1, PUBLISH_PAYLOAD + b"\0"), names.FRAME_ERROR),
    "publish without fields": (frame(1, 1, b"\0\x3c\0\x28"), names.FRAME_ERROR),
    "ack too short": (frame(1, 1, b"\0\x3c\0\x50" + bytes(8)), names.FRAME_ERROR),
    "ack too long": (frame(1, 1, b"\0\x3c\0\x50" + bytes(10)), names.FRAME_ERROR),
    "no property flags": (METHOD + header(0, b"\0"), names.SYNTAX_ERROR),
    "more property flags": (METHOD + header(0, b"\0\1\0\0"), names.SYNTAX_ERROR),
    "a bit of no property": (METHOD + header(0, b"\0\2"), names.SYNTAX_ERROR),
    "string leaves the header": (METHOD + header(0, b"\x80\0\x05abc"), names.SYNTAX_ERROR),
    "no string at all": (METHOD + header(0, b"\0\4"), names.SYNTAX_ERROR),
    "timestamp cut": (METHOD + header(0, b"\0\x40" + bytes(7)), names.SYNTAX_ERROR),
    "no delivery mode": (METHOD + header(0, b"\x10\0"), names.SYNTAX_ERROR),
    "bytes behind the properties": (METHOD + header(0, b"\0\0\0"), names.SYNTAX_ERROR),
    "table leaves the header": (METHOD + header(0, b"\x20\0\0\0\0\5\1k"), names.SYNTAX_ERROR),
    "table without a length": (METHOD + header(0, b"\x20\0\0\0"), names.SYNTAX_ERROR),
    "table of a name alone": (with_headers(b"\1k"), names.SYNTAX_ERROR),
    "table whose name leaves it": (with_headers(b"\x09k"), names.SYNTAX_ERROR),
    "unknown field type": (with_headers(b"\1kZ\0"), names.SYNTAX_ERROR),
    "long string leaves its table": (with_headers(b"\1kS\0\0\0\x09abc"), names.SYNTAX_ERROR),
    "long string without a length": (with_headers(b"\1kS\0\0"), names.SYNTAX_ERROR),
    "int leaves its table": (with_headers(b"\1kI\0\0\0"), names.SYNTAX_ERROR),
    "table in an array in a table leaves it": (with_headers(b"\1kA\0\0\0\5F\0\0\0\1"), names.SYNTAX_ERROR),
    "33 tables deep": (with_headers(nested(33)), names.SYNTAX_ERROR),
    "33 arrays deep": (with_headers(nested(33, b"A")), names.SYNTAX_ERROR),
    "header of another class": (METHOD + header(0, class_id=50), names.UNEXPECTED_FRAME),
    "header with a weight": (METHOD + header(0, weight=1), names.UNEXPECTED_FRAME),
    "method where a header must be": (METHOD + METHOD, names.UNEXPECTED_FRAME),
    "body where a header must be": (METHOD + frame(3, 1, b"ab"), names.UNEXPECTED_FRAME),
    "header where a body must be": (METHOD + header(2) + header(2), names.UNEXPECTED_FRAME),
    "method where a body must be": (METHOD + header(2) + METHOD, names.UNEXPECTED_FRAME),
}


@BUILDS
@pytest.mark.parametrize("data, reason", BAD.values(), ids=BAD)
def test_what_is_wrong_ends_the_scan_with_its_reply_code_and_rows_before_it_count(
    amqp_scan: ModuleType, data: bytes, reason: int
) -> None:
    good = publish(b"good", key="q")
    seen = scanned(amqp_scan.Scanner(8), good + data)
    assert (len(seen.rows), seen.why, seen.reason, seen.position) == (1, names.BAD_FRAME, reason, len(good))
    assert read_stream(good + data, Limits()).reason == reason
    assert fault_at(good + data, len(good), len(good + data), FRAME_MAX).fault.reply == reason


@BUILDS
def test_tables_may_be_32_deep_and_64_kib_long(amqp_scan: ModuleType) -> None:
    scanner = amqp_scan.Scanner(8)
    assert scanned(scanner, with_headers(nested(32))).why == names.NEEDS_BYTES
    assert scanned(scanner, with_headers(nested(32, b"A"))).why == names.NEEDS_BYTES
    limits = Limits(frame_max=1 << 17)
    for size, why in ((65_536, names.NEEDS_BYTES), (65_537, names.BAD_FRAME)):
        table = b"\1kx" + (size - 7).to_bytes(4, "big") + bytes(size - 7)
        data = METHOD + header(0, b"\x20\0" + size.to_bytes(4, "big") + table)
        assert scanned(scanner, data, limits).why == why
        assert same(scanned(scanner, data, limits), read_stream(data, limits))


@BUILDS
def test_a_content_that_is_not_whole_in_one_frame_is_the_codecs_from_its_method_on(amqp_scan: ModuleType) -> None:
    scanner = amqp_scan.Scanner(8)
    for content in (
        header(5) + frame(3, 1, b"ab") + frame(3, 1, b"cde"),
        header(5) + frame(3, 1, b"") + frame(3, 1, b"abcde"),
        header(5) + HEARTBEAT + frame(3, 1, b"abcde"),
        publish(b"x", channel=2),
        HEARTBEAT,
        header(70_000),
        header(2**63 + 1),
    ):
        seen = scanned(scanner, METHOD + content)
        assert (seen.rows, seen.why, seen.position, seen.size) == ([], names.OTHER_FRAME, 0, len(METHOD))
    for lonely in (header(5), frame(3, 1, b"ab"), method_frame(1, ChannelOpen()), frame(1, 0, PUBLISH_PAYLOAD)):
        seen = scanned(scanner, lonely + publish())
        assert (seen.rows, seen.why, seen.size) == ([], names.OTHER_FRAME, len(lonely))


@BUILDS
def test_frames_of_a_channel_that_is_being_assembled_are_the_codecs_and_those_of_others_go_on(
    amqp_scan: ModuleType,
) -> None:
    scanner = amqp_scan.Scanner(8)
    data = publish(b"a", channel=2) + HEARTBEAT + settled(2, BasicAck(7)) + publish(b"b", channel=1)
    assert len(scanned(scanner, data).rows) == 4
    seen = scanned(scanner, data, Limits(assembling=1))
    assert (len(seen.rows), seen.why, data[seen.position + 2]) == (3, names.OTHER_FRAME, 1)
    seen = scanned(scanner, data, Limits(assembling=-1))
    assert (len(seen.rows), seen.why) == (0, names.OTHER_FRAME)


@BUILDS
def test_a_publish_that_is_not_there_whole_says_how_many_bytes_it_needs_at_least(amqp_scan: ModuleType) -> None:
    whole, scanner = publish(bytes(300)), amqp_scan.Scanner(4)
    seen = [scanned(scanner, whole[:size]) for size in range(1, len(whole))]
    assert {one.why for one in seen} == {names.NEEDS_BYTES}
    needs = [one.size for one in seen]
    assert needs == sorted(needs)
    assert all(size < need <= len(whole) for size, need in enumerate(needs, 1))
    assert needs[-1] == len(whole)


@BUILDS
def test_full_columns_end_a_scan_and_the_next_one_goes_on(amqp_scan: ModuleType) -> None:
    data = b"".join(settled(1, BasicAck(number)) for number in range(1, 8))
    scanner, found, at = amqp_scan.Scanner(3), [], 0
    for why in (names.ROWS_FULL, names.ROWS_FULL, names.NEEDS_BYTES):
        seen = scanned(scanner, data, Limits(), at)
        assert seen.why == why
        found += [row["tag"] for row in seen.rows]
        at += seen.position
    assert (found, at) == (list(range(1, 8)), len(data))


@BUILDS
def test_the_kind_of_native_properties_is_written_in_front_of_them(amqp_scan: ModuleType) -> None:
    carried = properties_bytes(Properties(priority=3, expiration="60"))
    data = bytearray(publish(b"one", carried) + settled(1, BasicAck(1)) + publish(b"two"))
    scanner = amqp_scan.Scanner(8)
    scanner.scan(data, 0, len(data), FRAME_MAX, 1000)
    kinds, starts, stops = scanner.pick((names.KIND, names.PROPS_START, names.PROPS_END))
    assert amqp_scan.mark_native(data, kinds, starts) == 2
    assert [data[starts[row] : stops[row]] for row in (0, 2)] == [b"\x91" + carried, b"\x91\0\0"]
    data += b"a buffer that is let go of can grow"
    with pytest.raises(InvalidArgument):
        amqp_scan.mark_native(bytearray(4), ints([names.PUBLISH]), ints([0]))


@BUILDS
def test_picked_rows_are_those_of_the_columns(amqp_scan: ModuleType) -> None:
    data = b"".join(publish(b"%d" % number, key=f"k{number}") for number in range(4))
    scanner = amqp_scan.Scanner(8)
    scanner.scan(data, 0, len(data), FRAME_MAX, 1000)
    wanted = (names.BODY_START, names.BODY_END)
    assert scanner.pick(wanted) == [scanner.column(number) for number in wanted]
    assert scanner.pick_part(wanted, 1, 3) == [scanner.column(number)[1:3] for number in wanted]
    assert scanner.pick_rows(wanted, ints([3, 1])) == [ints([column[3], column[1]]) for column in scanner.pick(wanted)]
    assert list(scanner.tags(0, 4)) == [0] * 4
    with pytest.raises(InvalidArgument):
        scanner.column(names.COLUMNS)
    with pytest.raises(InvalidArgument):
        scanner.tags(0, 5)
    for numbers, rows in ((wanted, [4]), ([names.COLUMNS], [0])):
        with pytest.raises(InvalidArgument):
            scanner.pick_rows(numbers, ints(rows))


@BUILDS
def test_parts_outside_the_buffer_and_senseless_limits_are_refused(amqp_scan: ModuleType) -> None:
    scanner = amqp_scan.Scanner(4)
    for start, stop in ((-1, 2), (3, 2), (0, 5)):
        with pytest.raises(InvalidArgument):
            scanner.scan(bytes(4), start, stop, FRAME_MAX, 1000)
        with pytest.raises(InvalidArgument):
            scanner.scan_regions(bytes(4), ints([start]), ints([stop]), ints([FRAME_MAX]), 1000, ints([0]))
    for frame_max, max_body in ((4095, 10), (-1, 10), (4096, -1)):
        with pytest.raises(InvalidArgument):
            scanner.scan(bytes(4), 0, 4, frame_max, max_body)
        with pytest.raises(InvalidArgument):
            scanner.scan_regions(bytes(4), ints([0]), ints([4]), ints([frame_max]), max_body, ints([0]))
    with pytest.raises(InvalidArgument):
        scanner.scan_regions(bytes(4), ints([0]), ints([]), ints([]), 10, ints([]))
    for room in (0, (1 << 24) + 1):
        with pytest.raises(InvalidArgument):
            amqp_scan.Scanner(room)


@BUILDS
def test_routes_are_numbered_by_the_kernel_that_numbers_topics(amqp_scan: ModuleType) -> None:
    wanted = [("", "q"), ("x", "k"), ("", "q"), ("xk", ""), ("x", "k")]
    data = b"".join(publish(b"", exchange=exchange, key=key) for exchange, key in wanted)
    scanner = amqp_scan.Scanner(8)
    count = scanner.scan(data, 0, len(data), FRAME_MAX, 1000)
    starts, ends = scanner.pick((names.ROUTE_START, names.ROUTE_END))
    table, numbers, firsts = ints([0] * 6 * count), ints([0] * count), ints([0] * count)
    found = mqtt_rows.group_topics(data, starts, ends, None, None, 1, table, numbers, firsts)
    assert (found, list(numbers)) == (3, [0, 1, 0, 2, 1])
