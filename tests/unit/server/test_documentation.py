"""docs/configuration.md says what can be set, all of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from penstock.core.settings.fields import Setting, fields_of
from penstock.server.config import Config
from penstock.server.documentation import abouts_of, page

PAGE = Path(__file__).parents[3] / "docs" / "configuration.md"


def _structs(struct: type[msgspec.Struct]) -> Iterator[type[msgspec.Struct]]:
    yield struct
    for field in fields_of(struct).values():
        if not isinstance(field, Setting):
            yield from _structs(field.struct)


def test_the_page_is_what_the_declaration_makes() -> None:
    stale = "it is stale: python -m penstock.server.documentation > docs/configuration.md"
    assert PAGE.read_text() == page(), stale


def test_every_setting_says_what_it_is_for() -> None:
    for struct in _structs(Config):
        assert abouts_of(struct).keys() == {field.attribute for field in fields_of(struct).values()}, struct


def test_nothing_in_a_table_breaks_it() -> None:
    rows = [line for line in page().splitlines() if line.startswith("|")]
    assert {line.count("|") for line in rows} == {5}
