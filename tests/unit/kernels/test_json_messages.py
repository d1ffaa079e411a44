"""Bodies of JSON as columns: what is found is what a parser of JSON finds; everything else is left to one."""

from __future__ import annotations

import json
from array import array
from types import ModuleType

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.kernels import builds

TEXTS = st.text(st.characters(codec="utf-8") | st.sampled_from('"\\/\n\t\x00\x1f {}[],:'), max_size=40)
MESSAGES = st.lists(st.tuples(TEXTS, st.none() | TEXTS), min_size=1, max_size=9)


def scanned(kernel: ModuleType, body: bytes, is_lines: bool = False, room: int = 16) -> list[tuple[str, str]] | int:
    source = bytearray(body)
    spans = array("i", [7]) * (4 * room)
    count: int = kernel.scan(source, source, is_lines, spans)
    if count < 0:
        return count
    rows = [spans[row::room] for row in range(count)]
    return [(source[a:b].decode(), source[c:d].decode()) for a, b, c, d in rows]


@pytest.mark.parametrize("kernel", builds("json_messages"))
@given(messages=MESSAGES, is_ascii=st.booleans(), indent=st.none() | st.integers(0, 2), data=st.data())
@settings(max_examples=100, deadline=None)
def test_texts_and_keys_are_those_that_a_parser_finds(
    kernel: ModuleType,
    messages: list[tuple[str, str | None]],
    is_ascii: bool,
    indent: int | None,
    data: st.DataObject,
) -> None:
    objects = [{"text": text} if key is None else {"text": text, "key": key} for text, key in messages]
    objects = [dict(reversed(each.items())) if data.draw(st.booleans()) else each for each in objects]
    wanted = [(text, key or "") for text, key in messages]
    body = json.dumps({"messages": objects}, ensure_ascii=is_ascii, indent=indent).encode()
    assert scanned(kernel, body) == wanted
    lines = "\n".join(json.dumps(each, ensure_ascii=is_ascii) for each in objects).encode()
    assert scanned(kernel, lines, is_lines=True) == wanted
    assert scanned(kernel, lines + b"\r\n", is_lines=True) == wanted


@pytest.mark.parametrize("kernel", builds("json_messages"))
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b'{"messages":[]}',
        b'{"messages":[{}]}',
        b'{"messages":[{"key":"k"}]}',
        b'{"messages":[{"text":"a","text":"b"}]}',
        b'{"messages":[{"text":"a","json":1}]}',
        b'{"messages":[{"text":null}]}',
        b'{"messages":[{"text":"a"},]}',
        b'{"messages":[{"text":"a"}]',
        b'{"messages":[{"text":"a"}]}}',
        b'{"messages":[{"text":"a"}],"producer":1}',
        b'{"messages":[{"text":"a\n"}]}',
        b'{"messages":[{"text":"\\x"}]}',
        b'{"messages":[{"text":"\\ud800"}]}',
        b'{"messages":[{"text":"\\udc00\\ud800"}]}',
        b'{"messages":[{"text":"\\ud800\\u0041"}]}',
        b'{"messages":[{"text":"\\u00g0"}]}',
        b'{"messages":[{"text":"\\',
        b'{"messages":[{"text":"\\u00',
        b'{"messages":[{"te\\u0078t":"a"}]}',
        b'{"messages":[{"text" "a"}]}',
        b'[{"text":"a"}]',
    ],
)
def test_everything_else_is_left_to_a_parser(kernel: ModuleType, body: bytes) -> None:
    assert scanned(kernel, body) == -1


class Message(msgspec.Struct, forbid_unknown_fields=True):
    text: str
    key: str = ""


class Body(msgspec.Struct, forbid_unknown_fields=True):
    messages: list[Message]


@pytest.mark.parametrize("kernel", builds("json_messages"))
@given(messages=MESSAGES, is_ascii=st.booleans(), data=st.data())
@settings(max_examples=200, deadline=None)
def test_of_a_broken_body_nothing_is_found_that_a_parser_does_not_find(
    kernel: ModuleType, messages: list[tuple[str, str | None]], is_ascii: bool, data: st.DataObject
) -> None:
    objects = [{"text": text} if key is None else {"text": text, "key": key} for text, key in messages]
    body = bytearray(json.dumps({"messages": objects}, ensure_ascii=is_ascii).encode())
    for _ in range(data.draw(st.integers(1, 3))):
        at, size = data.draw(st.integers(0, len(body))), data.draw(st.integers(0, 3))
        body[at : at + size] = data.draw(
            st.binary(max_size=2) | st.sampled_from([b'"', b"\\", b"{", b"},", b"[", b":"])
        )
    try:
        body.decode()
    except UnicodeDecodeError:
        return  # the caller looks at that
    if isinstance(found := scanned(kernel, bytes(body)), list):
        decoded = msgspec.json.decode(body, type=Body)
        assert found == [(each.text, each.key) for each in decoded.messages]


@pytest.mark.parametrize("kernel", builds("json_messages"))
def test_every_beginning_of_a_body_is_none(kernel: ModuleType) -> None:
    body = '{"messages": [{"text": "a\\u00e9\\ud83d\\ude00é", "key": "k"}, {"text": ""}]}'.encode()
    assert scanned(kernel, body) == [("aé😀é", "k"), ("", "")]
    assert {scanned(kernel, body[:size]) for size in range(len(body))} == {-1}


@pytest.mark.parametrize("kernel", builds("json_messages"))
def test_two_messages_of_a_line_are_no_lines(kernel: ModuleType) -> None:
    assert scanned(kernel, b'{"text":"a"} {"text":"b"}', is_lines=True) == -1


@pytest.mark.parametrize("kernel", builds("json_messages"))
def test_more_than_there_is_room_for_is_told(kernel: ModuleType) -> None:
    body = b'{"messages":[{"text":"a"},{"text":"b"}]}'
    assert scanned(kernel, body, room=1) == kernel.FULL
    assert scanned(kernel, body, room=2) == [("a", ""), ("b", "")]


@pytest.mark.parametrize("kernel", builds("json_messages"))
@given(
    bases=st.lists(st.sampled_from([-1, 0, 8, 9, 99, 10**9, 2**62]), min_size=1, max_size=4),
    picked=st.lists(st.integers(0, 3), max_size=20),
)
@settings(max_examples=50, deadline=None)
def test_results_are_the_json_of_what_was_stored(kernel: ModuleType, bases: list[int], picked: list[int]) -> None:
    numbers = [each % len(bases) for each in picked]
    heads, middles = [b'{"id":"q:%d:' % n for n in range(len(bases))], [b'","p":%d,"o":' % n for n in range(len(bases))]
    out = bytearray(len(numbers) * (42 + 30))
    end = kernel.encode_placed(array("i", numbers), array("q", bases), heads, middles, b"}", out)
    following, wanted = list(bases), []
    for number in numbers:
        offset = following[number]
        following[number] += offset >= 0
        wanted.append({"id": f"q:{number}:{offset}", "p": number, "o": offset})
    assert json.loads(b"[%b]" % bytes(out[:end]).rstrip(b",")) == wanted


@pytest.mark.parametrize("kernel", builds("json_messages"))
@pytest.mark.parametrize(("numbers", "room"), [([0], 10), ([1], 100), ([-1], 100)])
def test_results_without_room_or_place_are_refused(kernel: ModuleType, numbers: list[int], room: int) -> None:
    with pytest.raises(ValueError, match=r"no room|nowhere"):
        kernel.encode_placed(array("i", numbers), array("q", [5]), [b"a"], [b"b"], b"}", bytearray(room))
