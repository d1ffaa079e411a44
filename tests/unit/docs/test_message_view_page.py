"""docs/howto/message_view.md shows the table of the code, and the kernels do what it says."""

from __future__ import annotations

from array import array
from pathlib import Path

import pytest
from tests.support.amqp091 import Native

from penstock.log.batch import Batch, encode
from penstock.log.columns import Columns
from penstock.log.view import amqp091_of, viewed_properties
from penstock.queues.message_view import NOT_SHOWN, VIEW, Part, type_table, view_table
from penstock.queues.properties import Envelope, pack, unpack

PAGE = (Path(__file__).parents[3] / "docs" / "howto" / "message_view.md").read_text(encoding="utf-8")
HEADERS = [part for part in VIEW if part.header is not None]


def test_the_page_has_the_tables_of_the_code() -> None:
    assert view_table() in PAGE
    assert type_table() in PAGE


def test_every_property_of_amqp_is_in_the_table_or_said_not_to_be_shown() -> None:
    named = [part.amqp_property for part in VIEW if part.amqp_property is not None]
    assert sorted([*named, *NOT_SHOWN]) == sorted(Native.__dataclass_fields__)


def _sample(part: Part) -> tuple[object, str]:
    return (1_700_000_000, "1700000000") if part.amqp_property == "timestamp" else (b"said", "said")


@pytest.mark.parametrize("part", HEADERS, ids=lambda part: part.header)
def test_a_property_is_the_header_that_the_table_says(part: Part) -> None:
    value, text = _sample(part)
    assert part.amqp_property is not None
    native = Native(**{part.amqp_property: value})  # type: ignore[arg-type]  # names and values of the table
    assert unpack(viewed_properties(None, native.stored()) or b"").headers == ((part.header, text),)


@pytest.mark.parametrize("part", HEADERS, ids=lambda part: part.header)
def test_a_header_is_the_property_that_the_table_says(part: Part) -> None:
    value, text = _sample(part)
    assert part.header is not None and part.amqp_property is not None
    columns = Columns.of([b"v"], properties=[pack(Envelope(((part.header, text),)))])
    source, spans = amqp091_of(Batch.parse(encode(columns), verify=False), array("i", [0]))
    made = bytes(source[spans.starts[0] : spans.ends[0]])
    expected = Native(**{part.amqp_property: value}).values()  # type: ignore[arg-type]  # names and values of the table
    assert (made == expected) is (part.amqp_property != "user_id")
