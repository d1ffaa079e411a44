"""Held against pamqp, in both directions. Where the two differ, we follow RabbitMQ:

- pamqp has no class `access`, which old clients still send and RabbitMQ answers.
- pamqp takes a field of type 0x00 for V; there is no such type.
- Of two fields of one name pamqp keeps the last; RabbitMQ looks up the first.
- pamqp gives long strings as text where they are UTF-8; here those of methods are bytes, those of tables text.
- pamqp writes floats as f, whole numbers as narrow as can be, and `bytes` not at all; here d, I or l, and x.
- pamqp reads a delivery tag of 2**63 or more, and a decimal, as signed; RabbitMQ has them without a sign.
- pamqp gives a timestamp as a datetime; here it is a number.
- pamqp takes a timestamp of 2**32 or more for milliseconds.
- pamqp refuses some values that the specification forbids and RabbitMQ takes (tickets, names longer than 127)."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pamqp import body as pamqp_body
from pamqp import commands
from pamqp import frame as pamqp_frame
from pamqp import header as pamqp_header
from pamqp import heartbeat as pamqp_heartbeat

from penstock.codecs.amqp091.decode import (
    DOMAINS,
    ContentHeader,
    Frame,
    decode_header,
    decode_method,
    decode_properties,
    read_frame,
)
from penstock.codecs.amqp091.encode import HEARTBEAT, content_frames, frame_bytes, method_frame
from penstock.codecs.amqp091.kinds import Domain, Field, FrameType
from penstock.codecs.amqp091.methods import METHODS, BasicPublish, Method
from penstock.codecs.amqp091.properties import Properties, properties_bytes
from penstock.codecs.amqp091.wire import plain, table_of

pytestmark = pytest.mark.filterwarnings("ignore:This command is deprecated")  # recover-async: clients send it

FRAME_MAX = 131_072
NAMES = {"kind": "exchange_type", "failing_class": "class_id", "failing_method": "method_id", "is_global": "global_"}
NOT_IN_PAMQP = {(30, 10), (30, 11)}
BOTH_KNOW = [kind for number, kind in METHODS.items() if number not in NOT_IN_PAMQP]

texts = st.text(st.characters(codec="utf-8"), max_size=20)
tables = st.dictionaries(
    texts,
    st.one_of(
        st.booleans(),
        st.integers(-(2**63), 2**63 - 1),
        texts,
        st.none(),
        st.sampled_from([0.5, -2.0]),
        st.just(Decimal("1.25")),
        st.lists(st.integers(-5, 5), max_size=3),
        st.dictionaries(texts, st.booleans(), max_size=2),
    ),
    max_size=4,
)
VALUES: dict[Domain, st.SearchStrategy[object]] = {
    Domain.OCTET: st.integers(0, 255),
    Domain.SHORT: st.integers(0, 2**16 - 1),
    Domain.LONG: st.integers(0, 2**32 - 1),
    Domain.LONGLONG: st.integers(0, 2**63 - 1),
    Domain.BIT: st.booleans(),
    Domain.SHORTSTR: texts,
    Domain.LONGSTR: texts.map(str.encode),
    Domain.TABLE: tables,
}


def pamqp_class(kind: type[Method]) -> Any:
    words = kind.name.replace("-", " ").replace(".", " ").split()
    group, method = words[0].capitalize(), "".join(word.capitalize() for word in words[1:])
    return getattr(getattr(commands, group), method)


def theirs(kind: type[Method], values: dict[str, object]) -> Any:
    """pamqp's object, past its own opinion on what may be said."""
    unchecked = type("Unchecked", (pamqp_class(kind),), {"validate": lambda self: None})
    made = unchecked()
    for name, domain in DOMAINS[kind]:
        value = values[name]
        if domain is Domain.LONGSTR:
            assert isinstance(value, bytes)
            value = value.decode()
        setattr(made, NAMES.get(name, name), value)
    return made


def ours(kind: type[Method], values: dict[str, object]) -> Method:
    made = {name: table_of(value) if isinstance(value, dict) else value for name, value in values.items()}
    return kind(**made)


def as_plain(method: Method) -> dict[str, object]:
    """Its values as pamqp says them."""
    found = {}
    for name, domain in DOMAINS[type(method)]:
        value = getattr(method, name)
        if domain is Domain.TABLE:
            value = plain(Field("F", value))
        found[name] = value
    return found


def values_of(kind: type[Method]) -> st.SearchStrategy[dict[str, object]]:
    return st.fixed_dictionaries({name: VALUES[domain] for name, domain in DOMAINS[kind]})


@pytest.mark.parametrize("kind", BOTH_KNOW, ids=lambda kind: kind.name)
@given(data=st.data())
@settings(max_examples=25, deadline=None)
def test_every_method_of_ours_is_read_by_pamqp(kind: type[Method], data: st.DataObject) -> None:
    values = data.draw(values_of(kind))
    whole = method_frame(7, ours(kind, values))
    consumed, channel, read = pamqp_frame.unmarshal(whole)
    assert (consumed, channel, type(read)) == (len(whole), 7, pamqp_class(kind))
    for name, domain in DOMAINS[kind]:
        found = getattr(read, NAMES.get(name, name))
        found = found.encode() if domain is Domain.LONGSTR and isinstance(found, str) else found
        assert found == values[name]


@pytest.mark.parametrize("kind", BOTH_KNOW, ids=lambda kind: kind.name)
@given(data=st.data())
@settings(max_examples=25, deadline=None)
def test_every_method_of_pamqp_is_read_by_us(kind: type[Method], data: st.DataObject) -> None:
    values = data.draw(values_of(kind))
    whole = pamqp_frame.marshal(theirs(kind, values), 7)
    frame = read_frame(whole, 0, len(whole), FRAME_MAX)
    assert isinstance(frame, Frame)
    assert (frame.type, frame.channel, frame.size) == (FrameType.METHOD, 7, len(whole))
    assert as_plain(decode_method(frame.payload)) == values


@pytest.mark.parametrize("kind", METHODS.values(), ids=lambda kind: kind.name)
@given(data=st.data())
@settings(max_examples=15, deadline=None)
def test_every_method_comes_back_as_it_was(kind: type[Method], data: st.DataObject) -> None:
    method = ours(kind, data.draw(values_of(kind)))
    frame = read_frame(method_frame(1, method), 0, 1 << 20, 1 << 20)
    assert not isinstance(frame, Frame) or decode_method(frame.payload) == method


PROPERTIES = st.fixed_dictionaries(
    {},
    optional={
        "content_type": texts,
        "content_encoding": texts,
        "headers": tables,
        "delivery_mode": st.integers(1, 2),
        "priority": st.integers(0, 255),
        "correlation_id": texts,
        "reply_to": texts,
        "expiration": texts,
        "message_id": texts,
        "timestamp": st.integers(0, 2**32 - 1),
        "type": texts,
        "user_id": texts,
        "app_id": texts,
        "cluster_id": texts,
    },
)


def their_properties(values: dict[str, Any]) -> commands.Basic.Properties:
    named: dict[str, Any] = {("message_type" if name == "type" else name): value for name, value in values.items()}
    named.pop("cluster_id", None)
    if "timestamp" in named:
        named["timestamp"] = datetime.datetime.fromtimestamp(named["timestamp"], datetime.timezone.utc)  # noqa: UP017
    made = commands.Basic.Properties(**named)
    made.cluster_id = values.get("cluster_id", "")
    return made


def our_properties(values: dict[str, Any]) -> Properties:
    return Properties(**(values | ({"headers": table_of(values["headers"])} if "headers" in values else {})))


@given(values=PROPERTIES, size=st.integers(0, 2**40))
@settings(max_examples=150, deadline=None)
def test_properties_are_read_by_the_other(values: dict[str, Any], size: int) -> None:
    # To pamqp an empty string, an empty table or a priority of 0 is no property.
    values = {name: value for name, value in values.items() if value}
    read = our_properties(values)
    header = (60).to_bytes(2, "big") + bytes(2) + size.to_bytes(8, "big") + properties_bytes(read)
    whole = frame_bytes(Frame(FrameType.HEADER, 3, header))
    _, channel, found = pamqp_frame.unmarshal(whole)
    assert isinstance(found, pamqp_header.ContentHeader)
    assert (channel, found.body_size) == (3, size)
    for name, value in values.items():
        theirs_is = getattr(found.properties, "message_type" if name == "type" else name)
        expected = datetime.datetime.fromtimestamp(value, datetime.timezone.utc) if name == "timestamp" else value  # noqa: UP017
        assert theirs_is == expected
    written = pamqp_frame.marshal(pamqp_header.ContentHeader(0, size, their_properties(values)), 3)
    back = decode_header(written[7:-1])
    assert back == ContentHeader(60, size, back.properties)
    found_here = decode_properties(back.properties)
    for name, value in values.items():
        got = getattr(found_here, name)
        assert (plain(Field("F", got)) if name == "headers" else got) == value


@given(body=st.binary(max_size=20_000), frame_max=st.sampled_from([4096, 5000, FRAME_MAX]))
@settings(max_examples=40, deadline=None)
def test_bodies_are_cut_into_frames_that_pamqp_puts_together(body: bytes, frame_max: int) -> None:
    data = content_frames(2, BasicPublish(routing_key="q"), Properties(), body, frame_max)
    found, sizes = b"", []
    while data:
        consumed, channel, part = pamqp_frame.unmarshal(data)
        assert channel == 2
        assert consumed <= frame_max
        sizes.append(consumed)
        if isinstance(part, pamqp_body.ContentBody):
            found += part.value or b""
        data = data[consumed:]
    assert found == body
    assert len(sizes) == 2 + -(-len(body) // (frame_max - 8))


def test_heartbeats_are_the_same() -> None:
    assert pamqp_frame.marshal(pamqp_heartbeat.Heartbeat(), 0) == HEARTBEAT
