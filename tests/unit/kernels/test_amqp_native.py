from __future__ import annotations

import base64
import json
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
from penstock.kernels import amqp_view
from penstock.queues.properties import Envelope, pack, unpack

BUILDS = pytest.mark.parametrize("kernel", builds("amqp_native"))

TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=6)
FIELDS = ["content-encoding", "message-id-of-sender", "timestamp-of-sender", "type", "app-id", "cluster-id", "user-id"]
NAMES = st.one_of(TEXT, st.sampled_from(["a", "b", *FIELDS, "partition-key"]), st.just("n" * 256))
VALUES = st.one_of(TEXT, st.just("v" * 256), st.sampled_from(["1700000000", "007", "0", "9" * 20]))
ENVELOPES = st.builds(
    Envelope,
    st.lists(st.tuples(NAMES, VALUES), max_size=6).map(tuple),
    st.none() | TEXT | st.just("t" * 256),
    st.none() | TEXT | st.just("$queue/answers") | st.just("$queue/"),
    st.none() | st.binary(max_size=8) | st.just(b"\xff" * 189) | st.just(b"\xff" * 190) | st.just(b"c" * 256),
    st.sampled_from([b"", b"\x01\x00", b"\x01\x01", b"\x0b\x85\x01"]),
)
KEYS = st.sampled_from([b"", b"key", b"\xff\0"])


def natives(
    kernel: ModuleType,
    properties: list[bytes],
    keys: list[bytes] | None = None,
    came: list[bytes] | None = None,
    left_ms: list[int] | None = None,
) -> list[bytes]:
    columns: list[array[int] | None] = []
    source = b""
    for column in (properties, came, keys):
        if column is None:
            columns += [None, None]
            continue
        starts, stops = array("i"), array("i")
        for entry in column:
            starts.append(len(source))
            source += entry
            stops.append(len(source))
        columns += [starts, stops]
    ends = array("i", bytes(4 * len(properties) + 4))
    left = None if left_ms is None else array("q", left_ms)
    made = kernel.natives(source, *columns, left, ends)
    assert ends[-1] == len(made)
    return [bytes(made[ends[row] : ends[row + 1]]) for row in range(len(properties))]


def decoded(values: bytes) -> dict[str, Any]:
    """By another library, but for the timestamp, as a number, and the table, whose strings may be bytes."""
    flags = int.from_bytes(values[:2], "big")
    found = commands.Basic.Properties()
    found.unmarshal(flags, values[2:])
    said: dict[str, Any] = {name: value for name, value in dict(found).items() if value not in (None, "")}
    if "timestamp" in said:
        said["timestamp"] = int(said["timestamp"].timestamp())
    return said


def is_good(kernel: ModuleType, native: bytes) -> bool:
    return bool(kernel.wrong(native, array("i", [0]), array("i", [len(native)])) == -1)


def expected(envelope: Envelope, key: bytes) -> dict[str, Any]:
    said: dict[str, Any] = {}
    table: dict[str, Any] = {}
    fields = {"content-encoding": "content_encoding", "message-id-of-sender": "message_id", "type": "message_type"}
    fields |= {"timestamp-of-sender": "timestamp", "app-id": "app_id", "cluster-id": "cluster_id"}
    for name, value in envelope.headers:
        field = fields.get(name)
        is_number = value.isdigit() and value.isascii() and len(value) < 20 and str(int(value)) == value
        fits = len(value.encode()) <= 255 and (field != "timestamp" or is_number)
        if field is not None and field not in said and fits:
            said[field] = int(value) if field == "timestamp" else value
        elif len(name.encode()) <= 255:
            table.setdefault(name, []).append(value)
    table = {name: found[0] if len(found) == 1 else found for name, found in table.items()}
    if envelope.others.startswith(b"\x01") and "x-payload-format" not in table:
        table["x-payload-format"] = str(envelope.others[1])
    if envelope.content_type is not None:
        long = len(envelope.content_type.encode()) > 255
        (table if long else said)["content-type" if long else "content_type"] = envelope.content_type
    if (reply := envelope.reply_to) is not None:
        said["reply_to"] = reply.removeprefix("$queue/") or reply
    if key and "partition-key" not in table:
        table["partition-key"] = _text(key)
    if (correlation := envelope.correlation_id) is not None:
        text = _text(correlation)
        if isinstance(text, bytes | bytearray):
            table.setdefault("x-correlation-id-encoding", "base64")
            text = base64.b64encode(correlation).decode()
        if len(text.encode()) <= 255:
            said["correlation_id"] = text
        else:
            table["correlation-id"] = text
    if table:
        said["headers"] = table
    return {name: value for name, value in said.items() if value != ""}


def _text(data: bytes) -> str | bytes:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data


@BUILDS
@given(rows=st.lists(st.tuples(ENVELOPES, KEYS), max_size=3))
def test_another_library_reads_what_the_properties_say(kernel: ModuleType, rows: list[tuple[Envelope, bytes]]) -> None:
    made = natives(kernel, [pack(envelope) for envelope, _ in rows], [key for _, key in rows])
    assert [decoded(each) for each in made] == [expected(envelope, key) for envelope, key in rows]
    assert all(is_good(amqp_view, b"\x91" + each) for each in made)


@BUILDS
def test_what_came_by_amqp_goes_out_byte_for_byte(kernel: ModuleType) -> None:
    came = Native(headers=[(b"a", Typed("I", 5))], priority=3, expiration=b"60000", user_id=b"guest")
    facts = pack(Envelope((("dlq-reason", "rejected"),)))
    made = natives(kernel, [facts, b""], [b"k", b""], [came.stored(), b""], [5, 0])
    assert made == [came.values(), b"\0\0"]


@BUILDS
def test_time_that_is_left_is_told(kernel: ModuleType) -> None:
    made = natives(kernel, [b"", pack(Envelope((), "t")), b""], left_ms=[1500, 0, -1])
    assert [decoded(each) for each in made] == [{"expiration": "1500"}, {"content_type": "t"}, {"expiration": "0"}]


@BUILDS
def test_many_headers_of_one_name_become_one_array(kernel: ModuleType) -> None:
    pairs = [(f"n{i % 7}", str(i)) for i in range(100)]
    [made] = natives(kernel, [pack(Envelope(tuple(pairs)))])
    table = decoded(made)["headers"]
    assert table == {f"n{n}": [str(i) for i in range(100) if i % 7 == n] for n in range(7)}


@BUILDS
@given(envelope=ENVELOPES)
def test_of_a_message_that_goes_from_mqtt_to_amqp_and_back_nothing_is_lost(
    kernel: ModuleType, envelope: Envelope
) -> None:
    [made] = natives(kernel, [pack(envelope)])
    stored = b"\x91" + made
    ends = array("i", [0, 0])
    back = unpack(bytes(amqp_view.view(b"", None, None, stored, array("i", [0]), array("i", [len(stored)]), ends)))
    if envelope.content_type is None or len(envelope.content_type) < 256:
        assert back.content_type == envelope.content_type
    if envelope.correlation_id is None or len(envelope.correlation_id) <= 189:
        assert back.correlation_id == envelope.correlation_id
    if envelope.reply_to == "$queue/answers":
        assert back.reply_to == envelope.reply_to
    if envelope.others.startswith(b"\x01"):
        assert back.others == envelope.others
    sent: dict[str, list[str]] = {}
    for name, value in envelope.headers:
        if len(name) < 256:
            sent.setdefault(name, []).append(value)
    came: dict[str, list[str]] = {}
    for name, value in back.headers:
        is_list = value.startswith("[") and len(sent.get(name, ())) > 1
        came.setdefault(name, []).extend(json.loads(value) if is_list else [value])
    # A name of which one is a field and others are headers has its field first, as it was.
    assert {name: sorted(came[name]) for name in sent} == {name: sorted(found) for name, found in sent.items()}


TEXTS = st.none() | TEXT.map(str.encode)
SENT = st.builds(
    Native,
    content_type=TEXTS,
    content_encoding=TEXTS,
    headers=st.dictionaries(st.sampled_from([b"a", b"b", b"lang"]), TEXT.map(str.encode), min_size=1).map(
        lambda table: [(name, Typed("S", value)) for name, value in table.items()]
    ),
    correlation_id=TEXTS,
    reply_to=st.none() | st.sampled_from([b"answers", b"$exchange/x/k"]),
    message_id=TEXTS,
    timestamp=st.none() | st.integers(0, 10**18),
    type=TEXTS,
    app_id=TEXTS,
    cluster_id=TEXTS,
)


@BUILDS
@given(native=SENT)
def test_text_that_goes_from_amqp_to_mqtt_and_back_is_the_same_bytes(kernel: ModuleType, native: Native) -> None:
    assert natives(kernel, [native.view()]) == [native.values()]


@BUILDS
@pytest.mark.parametrize("bad", [b"\x26\0\x05ab", b"\x7f", b"\x02\0"])
def test_of_ill_formed_properties_counts_what_comes_before(kernel: ModuleType, bad: bytes) -> None:
    [made] = natives(kernel, [pack(Envelope((("a", "1"),))) + bad])
    assert decoded(made) == {"headers": {"a": "1"}}


@BUILDS
def test_a_span_outside_its_source_is_refused(kernel: ModuleType) -> None:
    with pytest.raises(InvalidArgument):
        outside = array("i", [0]), array("i", [9])
        kernel.natives(b"", *outside, None, None, None, None, None, array("i", [0, 0]))


@given(st.lists(st.binary(max_size=60), max_size=4), st.lists(st.binary(max_size=9), min_size=4, max_size=4))
def test_both_builds_make_the_same_of_any_bytes(rows: list[bytes], keys: list[bytes]) -> None:
    pure, compiled = both("amqp_native")
    made = natives(pure, rows, keys[: len(rows)])
    assert made == natives(compiled, rows, keys[: len(rows)])
    for each in made:
        assert is_good(amqp_view, b"\x91" + each)
