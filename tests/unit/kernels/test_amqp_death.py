"""`x-death` as RabbitMQ 3.10 writes it, held against its rules written down again over decoded tables."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from types import ModuleType
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.kernels import both, builds

from penstock.codecs.amqp091.kinds import Field
from penstock.codecs.amqp091.properties import Properties, properties_bytes, read_properties

BUILDS = pytest.mark.parametrize("kernel", builds("amqp_death"))
QUEUES, REASONS = ("q", "r", "s"), ("rejected", "expired", "maxlen", "delivery_limit")
NOW = 1_700_000_000


def text(value: str) -> Field:
    return Field("S", value)


def texts(*values: str) -> Field:
    return Field("A", tuple(map(text, values)))


def died(
    kernel: ModuleType,
    properties: list[Properties | bytes],
    queue: str = "q",
    reason: str = "expired",
    *,
    drops_cc: bool = False,
    exchange: str = "x",
    key: str = "k",
) -> tuple[list[bytes], Any]:
    rows = [each if isinstance(each, bytes) else properties_bytes(each) for each in properties]
    source, starts, ends = b"", array("i"), array("i")
    for row in rows:
        starts.append(len(source))
        source += row
        ends.append(len(source))
    deaths = kernel.Deaths(queue.encode(), reason.encode(), NOW, drops_cc)
    deaths.add(source, starts, ends, array("i", [0]) * len(rows), [exchange.encode()], [key.encode()])
    places, made = deaths.places, deaths.whole()
    return [bytes(made[places[row] : places[row + 1]]) for row in range(len(rows))], deaths


def read(row: bytes) -> Properties:
    assert row[0] == 0x91
    return read_properties(row[1:])


@BUILDS
def test_the_first_death_says_where_why_and_from_where(kernel: ModuleType) -> None:
    before = Properties(
        headers={"a": Field("I", 1), "CC": texts("k2")}, expiration="250", content_type="t/x", priority=3
    )
    [made], deaths = died(kernel, [before])
    entry = {
        "count": Field("l", 1),
        "exchange": text("x"),
        "original-expiration": text("250"),
        "queue": text("q"),
        "reason": text("expired"),
        "routing-keys": texts("k", "k2"),
        "time": Field("T", NOW),
    }
    first = {
        f"x-first-death-{what}": text(of) for what, of in (("exchange", "x"), ("queue", "q"), ("reason", "expired"))
    }
    headers = {**(before.headers or {}), **first, "x-death": Field("A", (Field("F", entry),))}
    assert read(made) == msgspec.structs.replace(before, headers=headers, expiration=None)
    assert deaths.copies == [(0, [b"k2"])]


@BUILDS
def test_a_routing_key_of_the_queue_takes_the_publishers_others_away(kernel: ModuleType) -> None:
    [made], deaths = died(kernel, [Properties(headers={"CC": texts("k2"), "cc": text("mine")})], drops_cc=True)
    headers = read(made).headers
    assert headers is not None
    assert "CC" not in headers
    assert headers["cc"] == text("mine")
    assert deaths.copies == []


@BUILDS
def test_what_cannot_be_read_stays_as_it_is(kernel: ModuleType) -> None:
    for ill in (b"", b"\x20", b"\x20\0\0\0\0\x09S", b"\x80\0\x05ab", b"\x20\0\0\0\0\x04\x01az\x01"):
        [made], _ = died(kernel, [ill])
        assert made == b"\x91" + ill


@BUILDS
def test_headers_that_would_be_too_long_stay_as_they_are(kernel: ModuleType) -> None:
    long = properties_bytes(Properties(headers={"a": text("v" * 65_500)}))
    [made], _ = died(kernel, [long])
    assert made == b"\x91" + long


ENTRIES = st.builds(
    lambda queue, reason, count: Field(
        "F",
        {
            **({"count": Field("l", count)} if count else {}),
            "queue": text(queue),
            "reason": text(reason),
            "time": Field("T", 5),
        },
    ),
    st.sampled_from(QUEUES),
    st.sampled_from(REASONS),
    st.integers(0, 3),
)
DEATHS = st.lists(ENTRIES, max_size=5).map(lambda found: Field("A", tuple(found))) | st.just(text("not an array"))
HEADERS = st.fixed_dictionaries(
    {},
    optional={
        "x-death": DEATHS,
        "CC": st.lists(st.sampled_from(["a", "b"]), max_size=2).map(lambda keys: texts(*keys)),
        "x-first-death-queue": st.just(text("forged")),
        "other": st.just(Field("F", {"x-death": text("inner")})),
    },
)
MESSAGES = st.builds(
    Properties,
    headers=st.none() | HEADERS,
    expiration=st.none() | st.just("5"),
    correlation_id=st.none() | st.just("c"),
    delivery_mode=st.none() | st.just(2),
    message_id=st.none() | st.just("m"),
)


def by_the_book(before: Properties, queue: str, reason: str) -> Properties:
    """rabbit_dead_letter:make_msg, in words."""
    headers = dict(before.headers or {})
    copies = [field.value for field in as_tuple(headers.get("CC"))]
    entry: dict[str, Field] = {
        "count": Field("l", 1),
        "reason": text(reason),
        "queue": text(queue),
        "time": Field("T", NOW),
        "exchange": text("x"),
        "routing-keys": texts("k", *map(str, copies)),
    }
    if before.expiration is not None:
        entry["original-expiration"] = text(before.expiration)
    found = headers.get("x-death")
    if found is None:
        for what, value in (("reason", reason), ("queue", queue), ("exchange", "x")):
            headers[f"x-first-death-{what}"] = text(value)
    tables = [table_of(field) for field in as_tuple(found)]
    grouped = [tables[0]] if len(tables) == 1 else group(tables)
    mine = [each for each in grouped if (each["queue"], each["reason"]) == (text(queue), text(reason))]
    others = [each for each in grouped if each not in mine]
    if mine:
        count = mine[0].get("count")
        entry = {**mine[0], "count": Field("l", 1 if count is None else int(str(count.value)) + 1)}
    headers["x-death"] = Field("A", tuple(Field("F", each) for each in (entry, *others)))
    return msgspec.structs.replace(before, headers=headers, expiration=None)


def group(tables: list[dict[str, Field]]) -> list[dict[str, Field]]:
    """Each queue and reason once, the last one first."""
    found: list[dict[str, Field]] = []
    for each in tables:
        same = [other for other in tables if (other["queue"], other["reason"]) == (each["queue"], each["reason"])]
        first = {"count": Field("l", len(same)), **same[0]}
        if first not in found:
            found.insert(0, first)
    return found


def as_tuple(field: Field | None) -> tuple[Field, ...]:
    return field.value if field is not None and isinstance(field.value, tuple) else ()


def table_of(field: Field) -> dict[str, Field]:
    assert isinstance(field.value, Mapping)
    return dict(field.value)


def counted(properties: Properties, message: Properties) -> Properties:
    """Entries that nobody but a client can have written, without a count, are left as they are here, and how often the
    newest one is counted beside them says nothing."""
    headers = dict(properties.headers or {})
    entries = [{"count": Field("l", 0), **table_of(field)} for field in as_tuple(headers.get("x-death"))]
    headers["x-death"] = Field("A", tuple(Field("F", each) for each in entries[1:]))
    for each in entries[1:]:
        each["count"] = Field("l", 0)
    before = [table_of(field) for field in as_tuple((message.headers or {}).get("x-death"))]
    if any("count" not in each for each in before):
        entries[0]["count"] = Field("l", 0)
    return msgspec.structs.replace(properties, headers={**headers, "newest": Field("F", entries[0])})


@settings(deadline=None)
@given(MESSAGES, st.sampled_from(QUEUES), st.sampled_from(REASONS))
def test_deaths_are_written_by_the_book(message: Properties, queue: str, reason: str) -> None:
    for kernel in both("amqp_death"):
        [made], _ = died(kernel, [message], queue, reason)
        assert counted(read(made), message) == counted(by_the_book(message, queue, reason), message)


def is_cycle(message: Properties, queue: str) -> bool:
    """rabbit_dead_letter:is_cycle, in words."""
    deaths = [table_of(field) for field in as_tuple((message.headers or {}).get("x-death"))]
    for number, each in enumerate(deaths):
        if each["queue"] == text(queue):
            return all(other["reason"] != text("rejected") for other in deaths[: number + 1])
    return False


@settings(deadline=None)
@given(st.lists(MESSAGES, max_size=4), st.sampled_from(QUEUES))
def test_cycles_are_found_by_the_book(messages: list[Properties], queue: str) -> None:
    for kernel in both("amqp_death"):
        source, starts, ends = b"", array("i"), array("i")
        for message in messages:
            starts.append(len(source))
            source += b"\x91" + properties_bytes(message)
            ends.append(len(source))
        marks = bytearray(len(messages))
        found = kernel.Deaths(b"q", b"expired", 0, False).mark_cycles(source, starts, ends, queue.encode(), marks)
        assert [bool(mark) for mark in marks] == [is_cycle(message, queue) for message in messages]
        assert found == sum(marks)
