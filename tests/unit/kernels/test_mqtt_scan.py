from __future__ import annotations

from array import array
from collections.abc import Iterable
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.kernels import builds
from tests.support.mqtt_wire import (
    ALIAS,
    CONTENT_TYPE,
    CORRELATION,
    EXPIRY,
    FORMAT,
    REASON_STRING,
    RESPONSE_TOPIC,
    SUBSCRIPTION,
    Limits,
    Seen,
    acknowledgement,
    packet,
    publish,
    read_stream,
    short,
    string,
    user_property,
    variable,
)

from penstock.core.errors import InvalidArgument
from penstock.kernels import mqtt_columns as names

BUILDS = pytest.mark.parametrize("mqtt_scan", builds("mqtt_scan"))
PINGREQ = b"\xc0\x00"
POSITIONS = {
    EXPIRY: names.EXPIRY_AT,
    CONTENT_TYPE: names.CONTENT_TYPE_AT,
    RESPONSE_TOPIC: names.RESPONSE_TOPIC_AT,
    CORRELATION: names.CORRELATION_AT,
    ALIAS: names.ALIAS_AT,
}
TEXTS = [
    "a",
    "a/b",
    "devices/cellar/temperature",
    "größe/°C",
    "日本/🌡",
    "$SYS/x",
    "/",
    "a" * 40,
    "\u0001",
    "\ud7ff\ue000",
]
topics = st.sampled_from([text.encode() for text in TEXTS])
texts = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12).map(str.encode)
user_properties = st.builds(user_property, texts, texts)
singles = {
    FORMAT: st.sampled_from([b"\0", b"\1"]),
    EXPIRY: st.integers(0, 2**32 - 1).map(lambda value: value.to_bytes(4, "big")),
    CONTENT_TYPE: texts.map(string),
    RESPONSE_TOPIC: topics.map(string),
    CORRELATION: st.binary(max_size=9).map(string),
    ALIAS: st.integers(1, 10).map(short),
}


@st.composite
def properties(draw: st.DrawFn) -> bytes:
    kinds = draw(st.lists(st.sampled_from(sorted(singles)), unique=True, max_size=4))
    parts = [bytes([kind]) + draw(singles[kind]) for kind in kinds] + draw(st.lists(user_properties, max_size=2))
    return b"".join(draw(st.permutations(parts)))


@st.composite
def publishes(draw: st.DrawFn, version: int) -> bytes:
    qos = draw(st.integers(0, 2))
    flags = qos << 1 | draw(st.integers(0, 1)) | (draw(st.sampled_from([0, 8])) if qos else 0)
    carried = draw(properties()) if version == 5 else b""
    payload = draw(st.binary(max_size=200))
    return publish(
        version,
        draw(topics),
        payload,
        flags=flags,
        packet_id=draw(st.integers(1, 65535)),
        properties=carried,
    )


@st.composite
def acknowledgements(draw: st.DrawFn, version: int) -> bytes:
    kind, packet_id = draw(st.integers(4, 7)), draw(st.integers(1, 65535))
    if version == 4 or draw(st.booleans()):
        return acknowledgement(kind, packet_id)
    reason = draw(st.sampled_from([0, 0x10, 0x97] if kind < 6 else [0, 0x92]))
    if draw(st.booleans()):
        return acknowledgement(kind, packet_id, reason)
    parts = [*draw(st.lists(user_properties, max_size=2)), bytes([REASON_STRING]) + string(draw(texts))]
    return acknowledgement(kind, packet_id, reason, b"".join(draw(st.permutations(parts))))


@st.composite
def streams(draw: st.DrawFn) -> tuple[int, list[bytes]]:
    version = draw(st.sampled_from([4, 5]))
    one = st.one_of(publishes(version), acknowledgements(version), st.just(PINGREQ))
    return version, draw(st.lists(one, max_size=8))


@st.composite
def mutated(draw: st.DrawFn) -> tuple[int, bytes]:
    version, packets = draw(streams())
    data = bytearray(b"".join(packets))
    for _ in range(draw(st.integers(1, 3))):
        if data:
            place = draw(st.integers(0, len(data) - 1))
            data[place] = draw(st.sampled_from([0, 1, 2, 0x23, 0x26, 0x2B, 0x7F, 0x80, 0xC3, 0xED, 0xFF]))
    return version, bytes(data)


def scanned(scanner: Any, data: bytes, limits: Limits, start: int = 0, stop: int | None = None) -> Seen:
    """What the kernel says of data[start:stop], in the words of the reference."""
    end = len(data) if stop is None else stop
    scanner.scan(data, start, end, limits.version, limits.packet_bytes, limits.alias, limits.qos, limits.retain)
    columns = [scanner.column(number) for number in range(names.COLUMNS)]
    rows = [row_of(data, columns, row) for row in range(scanner.rows)]
    return Seen(rows, scanner.why, scanner.position, scanner.size, scanner.reason)


def row_of(data: bytes, columns: list[array[int]], row: int) -> dict[str, object]:
    cells = [column[row] for column in columns]
    found = {kind: value_at(data, kind, cells[column]) for kind, column in POSITIONS.items() if has(cells, kind)}
    return {
        "head": cells[names.HEAD],
        "packet_id": cells[names.PACKET_ID],
        "reason": cells[names.REASON],
        "topic": data[cells[names.TOPIC_START] : cells[names.TOPIC_END]],
        "alias": cells[names.ALIAS],
        "properties": data[cells[names.PROPERTIES_START] : cells[names.PROPERTIES_END]],
        "payload": data[cells[names.PAYLOAD_START] : cells[names.PAYLOAD_END]],
        "present": cells[names.PRESENT],
        "found": found,
    }


def has(cells: list[int], kind: int) -> bool:
    return bool(cells[names.PRESENT] & (names.HAS_ALIAS if kind == ALIAS else 1 << kind))


def value_at(data: bytes, kind: int, at: int) -> bytes:
    if kind in (EXPIRY, ALIAS):
        return data[at : at + (4 if kind == EXPIRY else 2)]
    return data[at + 2 : at + 2 + int.from_bytes(data[at : at + 2], "big")]


def verdict(mqtt_scan: ModuleType, data: bytes, limits: Limits) -> tuple[int, int]:
    seen = scanned(mqtt_scan.Scanner(8), data, limits)
    assert seen == read_stream(data, limits)
    return seen.why, seen.reason


@BUILDS
@given(stream=streams(), padding=st.integers(0, 9))
@settings(max_examples=150, deadline=None)
def test_good_packets_become_rows_up_to_one_of_another_kind(
    mqtt_scan: ModuleType, stream: tuple[int, list[bytes]], padding: int
) -> None:
    version, packets = stream
    data = b"".join(packets)
    seen = scanned(mqtt_scan.Scanner(8), data + bytes(padding), Limits(version), stop=len(data))
    assert seen == read_stream(data, Limits(version))
    assert seen.why in (names.NEEDS_BYTES, names.OTHER_PACKET)
    assert len(seen.rows) == (packets.index(PINGREQ) if PINGREQ in packets else len(packets))


@BUILDS
@given(mutant=mutated(), max_bytes=st.sampled_from([60, 1 << 20]), alias=st.integers(0, 10), qos=st.integers(0, 2))
@settings(max_examples=200, deadline=None)
def test_mutated_packets_are_judged_as_the_reference_judges_them(
    mqtt_scan: ModuleType, mutant: tuple[int, bytes], max_bytes: int, alias: int, qos: int
) -> None:
    version, data = mutant
    limits = Limits(version, max_bytes, alias, qos, retain=alias > 3)
    assert scanned(mqtt_scan.Scanner(8), data, limits) == read_stream(data, limits)


def in_pieces(scanner: Any, data: bytes, sizes: list[int], limits: Limits) -> tuple[list[dict[str, object]], int, int]:
    """As a connection reads: an incomplete tail waits for the next piece, other packets are stepped over."""
    rows: list[dict[str, object]] = []
    held, at = b"", 0
    while at < len(data):
        size = sizes[0] if sizes else len(data)
        sizes = sizes[1:]
        held, at = held + data[at : at + size], at + size
        start, why = 0, names.ROWS_FULL
        while why in (names.ROWS_FULL, names.OTHER_PACKET):
            seen = scanned(scanner, held, limits, start)
            rows, why = rows + seen.rows, seen.why
            start = seen.position + (seen.size if why == names.OTHER_PACKET else 0)
        if why == names.BAD_PACKET:
            return rows, seen.reason, len(rows)
        held = held[start:]
    return rows, 0, len(held)


@BUILDS
@given(
    mutant=st.one_of(mutated(), streams().map(lambda stream: (stream[0], b"".join(stream[1])))),
    sizes=st.lists(st.integers(1, 40), max_size=30),
    room=st.integers(1, 3),
)
@settings(max_examples=150, deadline=None)
def test_any_chunking_gives_the_same_rows_and_the_same_reason(
    mqtt_scan: ModuleType, mutant: tuple[int, bytes], sizes: list[int], room: int
) -> None:
    version, data = mutant
    whole = in_pieces(mqtt_scan.Scanner(100), data, [], Limits(version))
    assert in_pieces(mqtt_scan.Scanner(room), data, sizes, Limits(version)) == whole


@BUILDS
def test_an_incomplete_packet_tells_how_many_bytes_it_needs_once_that_is_known(mqtt_scan: ModuleType) -> None:
    whole = publish(5, b"a", bytes(300))
    scanner = mqtt_scan.Scanner(4)
    needs = [scanned(scanner, whole[:size], Limits()).size for size in range(len(whole))]
    assert needs == [0, 0, 0] + [len(whole)] * (len(whole) - 3)
    behind = acknowledgement(4, 7) + whole[:5]
    seen = scanned(scanner, behind, Limits())
    assert (len(seen.rows), seen.why, seen.position, seen.size) == (1, names.NEEDS_BYTES, 4, len(whole))


@BUILDS
def test_a_packet_that_is_too_large_is_refused_before_its_bytes_have_come(mqtt_scan: ModuleType) -> None:
    whole = publish(4, b"a", bytes(300))
    assert verdict(mqtt_scan, whole[:3], Limits(4, packet_bytes=len(whole))) == (names.NEEDS_BYTES, 0)
    assert verdict(mqtt_scan, whole[:3], Limits(4, packet_bytes=len(whole) - 1)) == (
        names.BAD_PACKET,
        names.PACKET_TOO_LARGE,
    )
    assert verdict(mqtt_scan, b"\x10\xff\xff\xff\x7f", Limits(4)) == (names.BAD_PACKET, names.PACKET_TOO_LARGE)


@BUILDS
def test_another_packet_is_left_to_the_codec_whole_and_scanning_goes_on_behind_it(mqtt_scan: ModuleType) -> None:
    subscribe = packet(0x82, b"\0\1\0\0\1a\0")
    data = publish(5, b"a", b"1") + subscribe + publish(5, b"a", b"2")
    scanner = mqtt_scan.Scanner(4)
    seen = scanned(scanner, data, Limits())
    assert (seen.why, data[seen.position : seen.position + seen.size]) == (names.OTHER_PACKET, subscribe)
    rest = scanned(scanner, data, Limits(), seen.position + seen.size)
    assert [row["payload"] for row in seen.rows + rest.rows] == [b"1", b"2"]
    assert scanned(scanner, data[: seen.position + 5], Limits()).why == names.NEEDS_BYTES


@BUILDS
def test_full_columns_end_a_scan_and_the_next_one_goes_on(mqtt_scan: ModuleType) -> None:
    data = b"".join(acknowledgement(4, number) for number in range(1, 8))
    scanner, found, at = mqtt_scan.Scanner(3), [], 0
    for why in (names.ROWS_FULL, names.ROWS_FULL, names.NEEDS_BYTES):
        seen = scanned(scanner, data, Limits(), at)
        assert seen.why == why
        found += [row["packet_id"] for row in seen.rows]
        at = seen.position
    assert (found, at) == (list(range(1, 8)), len(data))


def topic_packet(topic: bytes, version: int = 4) -> bytes:
    return publish(version, topic, b"")


def with_properties(*parts: bytes, topic: bytes = b"a") -> bytes:
    return publish(5, topic, b"", properties=b"".join(parts))


BAD_PACKETS: dict[str, tuple[int, bytes, int]] = {
    "kind 0": (4, b"\x00", names.MALFORMED_PACKET),
    "qos 3": (4, b"\x36", names.MALFORMED_PACKET),
    "dup with qos 0": (4, b"\x38", names.MALFORMED_PACKET),
    "flags of a PUBACK": (5, b"\x41", names.MALFORMED_PACKET),
    "flags of a PUBREL": (5, b"\x60", names.MALFORMED_PACKET),
    "length of five bytes": (4, b"\x30\xff\xff\xff\xff", names.MALFORMED_PACKET),
    "length longer than need be": (5, b"\x40\x82\x00\x00\x01", names.MALFORMED_PACKET),
    "no topic length": (4, b"\x30\x01\x00", names.MALFORMED_PACKET),
    "topic behind the end": (4, packet(0x30, b"\0\2a"), names.MALFORMED_PACKET),
    "empty topic": (4, topic_packet(b""), names.MALFORMED_PACKET),
    "empty topic without alias": (5, topic_packet(b"", 5), names.PROTOCOL_ERROR),
    "no packet id": (4, packet(0x32, string(b"a") + b"\0"), names.MALFORMED_PACKET),
    "packet id 0": (4, packet(0x32, string(b"a") + b"\0\0"), names.PROTOCOL_ERROR),
    "plus": (4, topic_packet(b"a/+/b"), names.TOPIC_NAME_INVALID),
    "hash": (4, topic_packet(b"a-topic-of-nine/#"), names.TOPIC_NAME_INVALID),
    "plus behind letters of two bytes": (4, topic_packet("größe/+".encode()), names.TOPIC_NAME_INVALID),
    "NUL": (4, topic_packet(b"a\0b"), names.MALFORMED_PACKET),
    "NUL at the end of a word": (4, topic_packet(b"seven/7\0"), names.MALFORMED_PACKET),
    "surrogate": (4, topic_packet(b"\xed\xa0\x80"), names.MALFORMED_PACKET),
    "overlong slash": (4, topic_packet(b"\xc0\xaf"), names.MALFORMED_PACKET),
    "overlong of three bytes": (4, topic_packet(b"\xe0\x9f\xbf"), names.MALFORMED_PACKET),
    "overlong of four bytes": (4, topic_packet(b"\xf0\x8f\xbf\xbf"), names.MALFORMED_PACKET),
    "behind the last character": (4, topic_packet(b"\xf4\x90\x80\x80"), names.MALFORMED_PACKET),
    "cut character": (4, topic_packet(b"\xe2\x82"), names.MALFORMED_PACKET),
    "lone continuation": (4, topic_packet(b"abc\x80"), names.MALFORMED_PACKET),
    "no property length": (5, packet(0x30, string(b"a")), names.MALFORMED_PACKET),
    "properties behind the end": (5, packet(0x30, string(b"a") + b"\x05\x01\0"), names.MALFORMED_PACKET),
    "property length longer than need be": (5, packet(0x30, string(b"a") + b"\x80\0"), names.MALFORMED_PACKET),
    "unknown property": (5, with_properties(b"\x7f\0"), names.MALFORMED_PACKET),
    "property of another packet": (5, with_properties(b"\x11\0\0\0\1"), names.MALFORMED_PACKET),
    "subscription identifier": (5, with_properties(bytes([SUBSCRIPTION, 1])), names.PROTOCOL_ERROR),
    "format twice": (5, with_properties(b"\1\0", b"\1\0"), names.PROTOCOL_ERROR),
    "format 2": (5, with_properties(b"\1\2"), names.PROTOCOL_ERROR),
    "expiry cut": (5, with_properties(b"\2\0\0\0"), names.MALFORMED_PACKET),
    "expiry twice": (5, with_properties(b"\2\0\0\0\1", b"\2\0\0\0\1"), names.PROTOCOL_ERROR),
    "content type not UTF-8": (5, with_properties(b"\3" + string(b"\xff")), names.MALFORMED_PACKET),
    "response topic with a wildcard": (5, with_properties(b"\x08" + string(b"r/#")), names.TOPIC_NAME_INVALID),
    "response topic empty": (5, with_properties(b"\x08\0\0"), names.TOPIC_NAME_INVALID),
    "correlation behind the end": (5, with_properties(b"\x09\0\5abc"), names.MALFORMED_PACKET),
    "user property without value": (5, with_properties(b"\x26" + string(b"name")), names.MALFORMED_PACKET),
    "user property with NUL": (5, with_properties(user_property(b"n", b"\0")), names.MALFORMED_PACKET),
    "alias 0": (5, with_properties(b"\x23\0\0"), names.TOPIC_ALIAS_INVALID),
    "alias over the limit": (5, with_properties(b"\x23\0\x0b"), names.TOPIC_ALIAS_INVALID),
    "alias twice": (5, with_properties(b"\x23\0\1", b"\x23\0\1"), names.PROTOCOL_ERROR),
    "acknowledgement of one byte": (4, b"\x40\x01\x00", names.MALFORMED_PACKET),
    "acknowledgement of id 0": (4, b"\x40\x02\x00\x00", names.PROTOCOL_ERROR),
    "reason in 3.1.1": (4, acknowledgement(4, 1, 0), names.MALFORMED_PACKET),
    "unknown reason": (5, acknowledgement(4, 1, 0x92), names.PROTOCOL_ERROR),
    "unknown reason of a PUBREL": (5, acknowledgement(6, 1, 0x10), names.PROTOCOL_ERROR),
    "bytes behind properties": (5, packet(0x40, b"\0\1\0\0\0"), names.MALFORMED_PACKET),
    "reason string twice": (5, acknowledgement(4, 1, 0, 2 * (b"\x1f" + string(b"x"))), names.PROTOCOL_ERROR),
    "other property in an acknowledgement": (5, acknowledgement(4, 1, 0, b"\1\0"), names.MALFORMED_PACKET),
}


@BUILDS
@pytest.mark.parametrize(("version", "data", "reason"), BAD_PACKETS.values(), ids=BAD_PACKETS)
def test_a_bad_packet_ends_the_scan_with_its_reason_and_rows_before_it_stay(
    mqtt_scan: ModuleType, version: int, data: bytes, reason: int
) -> None:
    before = publish(version, b"good", b"payload")
    seen = scanned(mqtt_scan.Scanner(8), before + data + before, Limits(version))
    assert (seen.why, seen.reason, seen.position, len(seen.rows)) == (names.BAD_PACKET, reason, len(before), 1)
    assert verdict(mqtt_scan, data, Limits(version)) == (names.BAD_PACKET, reason)


@BUILDS
def test_what_the_sender_was_not_offered_is_refused(mqtt_scan: ModuleType) -> None:
    asked = publish(5, b"a", b"", flags=4, packet_id=1)
    assert verdict(mqtt_scan, asked, Limits(qos=1)) == (names.BAD_PACKET, names.QOS_NOT_SUPPORTED)
    assert verdict(mqtt_scan, asked, Limits(qos=2)) == (names.NEEDS_BYTES, 0)
    kept = publish(5, b"a", b"", flags=1)
    assert verdict(mqtt_scan, kept, Limits(retain=False)) == (names.BAD_PACKET, names.RETAIN_NOT_SUPPORTED)
    assert verdict(mqtt_scan, kept, Limits(retain=True)) == (names.NEEDS_BYTES, 0)


@BUILDS
def test_a_length_that_could_be_shorter_is_taken_from_3_1_1_clients(mqtt_scan: ModuleType) -> None:
    assert verdict(mqtt_scan, b"\x40\x82\x00\x00\x01", Limits(4)) == (names.NEEDS_BYTES, 0)


@BUILDS
def test_the_largest_packet_of_mqtt_is_only_asked_for(mqtt_scan: ModuleType) -> None:
    seen = scanned(mqtt_scan.Scanner(1), b"\x30" + variable(268_435_455), Limits(4, packet_bytes=2**31 - 1))
    assert (seen.why, seen.size) == (names.NEEDS_BYTES, 268_435_460)


@BUILDS
@given(text=st.binary(max_size=30), before=st.integers(0, 9), behind=st.integers(0, 9))
@settings(max_examples=200, deadline=None)
def test_topics_are_strings_of_mqtt_or_refused(mqtt_scan: ModuleType, text: bytes, before: int, behind: int) -> None:
    for topic in (text, bytes(before * b"x") + text[:3] + behind * b"y"):
        data = publish(4, topic or b"x", b"")
        assert scanned(mqtt_scan.Scanner(1), data, Limits(4)) == read_stream(data, Limits(4))


@BUILDS
@pytest.mark.parametrize(("start", "stop"), [(-1, 2), (0, 5), (3, 2)])
def test_a_part_outside_the_buffer_is_refused(mqtt_scan: ModuleType, start: int, stop: int) -> None:
    with pytest.raises(InvalidArgument):
        mqtt_scan.Scanner(1).scan(bytes(4), start, stop, 4, 100, 0, 2, True)


@BUILDS
def test_a_scanner_takes_two_versions_known_columns_and_room_that_makes_sense(mqtt_scan: ModuleType) -> None:
    scanner = mqtt_scan.Scanner(1)
    with pytest.raises(InvalidArgument):
        scanner.scan(b"", 0, 0, 3, 100, 0, 2, True)
    for column in (-1, names.COLUMNS):
        with pytest.raises(InvalidArgument):
            scanner.column(column)
    for room in (0, -1, 2**24 + 1):
        with pytest.raises(InvalidArgument):
            mqtt_scan.Scanner(room)


@BUILDS
def test_a_scanned_buffer_is_let_go(mqtt_scan: ModuleType) -> None:
    data = bytearray(publish(4, b"a", b"1"))
    mqtt_scan.Scanner(4).scan(data, 0, len(data), 4, 100, 0, 2, True)
    data += b"a view of it would make this fail"


@st.composite
def some_regions(draw: st.DrawFn) -> tuple[bytes, list[int], list[int], list[int]]:
    """One buffer with the bytes of several connections and gaps between them; starts, stops and versions."""
    parts, starts, stops, versions = [b""], list[int](), list[int](), list[int]()
    at = 0
    for version, data in draw(
        st.lists(st.one_of(mutated(), streams().map(lambda found: (found[0], b"".join(found[1])))), max_size=6)
    ):
        gap, cut = draw(st.integers(0, 3)), draw(st.integers(0, 3))
        parts += [bytes(gap), data]
        starts.append(at + gap)
        at += gap + len(data)
        stops.append(max(at - cut, starts[-1]))
        versions.append(draw(st.sampled_from([0, version, version, version])))
    return b"".join(parts), starts, stops, versions


def one_by_one(
    mqtt_scan: ModuleType, found: tuple[bytes, list[int], list[int], list[int]], room: int, aliases: list[int]
) -> tuple[list[list[int]], list[tuple[int, int, int, int]]]:
    """Rows and ends as scan() gives them, region for region."""
    rows, ends = list[list[int]](), list[tuple[int, int, int, int]]()
    data, starts, stops, versions = found
    for region, (start, stop, version, alias) in enumerate(zip(starts, stops, versions, aliases, strict=True)):
        left = room - len(rows)
        if not version:
            ends.append((names.NOT_SCANNED, start, 0, 0))
        elif not left:
            ends.append((names.ROWS_FULL if start < stop else names.NEEDS_BYTES, start, 0, 0))
        else:
            scanner = mqtt_scan.Scanner(left)
            scanner.scan(data, start, stop, version, 150, alias, 2, True)
            columns = [scanner.column(number) for number in range(names.REGION)]
            rows += [[*told(column[row] for column in columns), region] for row in range(scanner.rows)]
            ends.append((scanner.why, scanner.position, scanner.size, scanner.reason))
    return rows, ends


def told(cells: Iterable[int]) -> list[int]:
    """Without the positions of properties that are not there, which say nothing."""
    row = list(cells)
    absent = [column for kind, column in POSITIONS.items() if not has(row, kind)]
    return [0 if column in absent else cell for column, cell in enumerate(row)]


@BUILDS
@given(found=some_regions(), room=st.integers(1, 30), data=st.data())
@settings(max_examples=200, deadline=None)
def test_regions_are_scanned_together_as_one_by_one(
    mqtt_scan: ModuleType,
    found: tuple[bytes, list[int], list[int], list[int]],
    room: int,
    data: st.DataObject,
) -> None:
    stream, starts, stops, versions = found
    aliases = data.draw(st.lists(st.integers(0, 10), min_size=len(starts), max_size=len(starts)))
    scanner = mqtt_scan.Scanner(room)
    count = scanner.scan_regions(stream, *map(ints, (starts, stops, versions)), 150, ints(aliases), 2, True)
    columns = [scanner.column(number) for number in range(names.COLUMNS)]
    rows, ends = one_by_one(mqtt_scan, found, room, aliases)
    assert [[*told(column[row] for column in columns[:-1]), columns[-1][row]] for row in range(count)] == rows
    assert list(zip(scanner.whys, scanner.positions, scanner.sizes, scanner.reasons, strict=True)) == ends


def ints(values: Iterable[int]) -> array[int]:
    return array("i", values)


@BUILDS
def test_a_bad_region_ends_nobody_else(mqtt_scan: ModuleType) -> None:
    good, bad = publish(4, b"a", b"1"), topic_packet(b"a/+")
    data = good + bad + PINGREQ + good
    stops = ints([len(good), len(good + bad), len(data)])
    starts = ints([0, *stops[:-1]])
    scanner = mqtt_scan.Scanner(8)
    assert scanner.scan_regions(data, starts, stops, ints([4, 4, 4]), 100, ints([0, 0, 0]), 2, True) == 1
    assert list(scanner.whys) == [names.NEEDS_BYTES, names.BAD_PACKET, names.OTHER_PACKET]
    assert list(scanner.reasons) == [0, names.TOPIC_NAME_INVALID, 0]
    kept = scanner.whys
    scanner.scan_regions(data, ints([]), ints([]), ints([]), 100, ints([]), 2, True)
    assert (scanner.rows, len(scanner.whys), len(kept)) == (0, 0, 3)


@BUILDS
@pytest.mark.parametrize(
    ("starts", "stops", "versions", "aliases"),
    [
        ([-1], [2], [4], [0]),
        ([0], [5], [4], [0]),
        ([3], [2], [4], [0]),
        ([0], [4], [3], [0]),
        ([0, 1], [4], [4], [0]),
        ([0], [4], [4, 4], [0]),
        ([0], [4], [4], []),
    ],
)
def test_regions_that_leave_the_buffer_or_have_no_version_are_refused(
    mqtt_scan: ModuleType, starts: list[int], stops: list[int], versions: list[int], aliases: list[int]
) -> None:
    scanner = mqtt_scan.Scanner(1)
    with pytest.raises(InvalidArgument):
        scanner.scan_regions(bytes(4), ints(starts), ints(stops), ints(versions), 100, ints(aliases), 2, True)
