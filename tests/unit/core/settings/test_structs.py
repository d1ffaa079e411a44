"""A struct or dataclass declares settings: they are read over what is there, written back, listed and described."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import msgspec
import pytest

from penstock.core.errors import InvalidSetting
from penstock.core.settings.fields import NamedSections, Section, Setting, fields_of, paths_of
from penstock.core.settings.json_schema import section_schema
from penstock.core.settings.numbers import Count, Duration
from penstock.core.settings.overlay import overlay, read
from penstock.core.settings.texts import Secret, Text
from penstock.core.settings.values import outside, values_of


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    max_depth: Annotated[int, Count(1, 10)] = 5
    wait_ms: Annotated[int, Duration()] = 1000


class Login(msgspec.Struct, frozen=True, kw_only=True):
    name: Annotated[str, Text()]
    password: Annotated[str | None, Secret()] = None


class Server(msgspec.Struct, frozen=True, kw_only=True):
    partitions: Annotated[int, Count(1, 10)] = 1
    limits: Limits = Limits()
    more: Limits | None = None
    logins: tuple[Login, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Part:
    from_: Annotated[str, Text(), "where it comes from"]


@dataclass(frozen=True, kw_only=True)
class Whole:
    parts: Annotated[dict[str, Part], "by name"]
    place: str = ""


def test_what_is_written_goes_over_what_is_there() -> None:
    changed = overlay(Server(partitions=3), {"limits": {"wait": "2s"}, "more": {}, "logins": [{"name": "a"}]})
    assert changed == Server(partitions=3, limits=Limits(wait_ms=2000), more=Limits(), logins=(Login(name="a"),))
    assert overlay(changed, {"more": None}).more is None


@pytest.mark.parametrize(
    ("written", "path", "said"),
    [
        ({"limit": {}}, "limit", "no such setting; did you mean limits?"),
        ({"max_depth": 3}, "max_depth", "did you mean limits.max_depth?"),
        ({"limits": {"depth": 3}}, "limits.depth", "did you mean limits.max_depth?"),
        ({"xyzzy": 3}, "xyzzy", "no such setting: the known ones are partitions, limits, more, logins"),
        ({"limits": "hidden"}, "limits", "text is not an object with settings in it: max_depth, wait"),
        ({"limits": None}, "limits", "None is not an object"),
        ({"logins": [{}]}, "logins[0].name", "is missing: write it"),
        ({"logins": {}}, "logins", "an object is not a list of objects"),
        ({"delay_max": 1}, "delay_max", "settings of delay are not available yet"),
    ],
)
def test_what_will_not_do_is_named_with_the_nearest_known(written: dict[str, object], path: str, said: str) -> None:
    with pytest.raises(InvalidSetting) as caught:
        overlay(Server(), written, later=("delay",))
    assert caught.value.path == path and said in str(caught.value) and "hidden" not in str(caught.value)


def test_a_section_of_a_file_may_have_nothing_in_it() -> None:
    assert read(Server, {"limits": None}) == Server()


def test_settings_are_written_back_nested_and_by_path() -> None:
    assert outside(Limits(wait_ms=90_000)) == {"max_depth": 5, "wait": "90s"}
    server = Server(logins=(Login(name="a", password="hidden"),))
    assert values_of(server) == {
        "partitions": 1,
        "limits.max_depth": 5,
        "limits.wait": "1s",
        "more": None,
        "logins[0].name": "a",
        "logins[0].password": "(secret)",
    }
    assert values_of(server, reveal=True)["logins[0].password"] == "hidden"


def test_structs_and_dataclasses_declare_alike() -> None:
    assert list(paths_of(Server))[:4] == ["partitions", "limits", "limits.max_depth", "limits.wait"]
    assert isinstance(fields_of(Server)["more"], Section) and isinstance(fields_of(Limits)["wait"], Setting)
    assert list(fields_of(Whole)) == ["parts"] and isinstance(fields_of(Whole)["parts"], NamedSections)
    assert fields_of(Part)["from"].about == "where it comes from"


def test_a_declaration_is_described() -> None:
    described = {"description": "where it comes from", "type": "string", "minLength": 1}
    part = {"type": "object", "properties": {"from": described}, "additionalProperties": False, "required": ["from"]}
    schema = section_schema(Whole, {Part: {"const": "none"}})
    assert schema["required"] == ["parts"]
    assert schema["properties"] == {
        "parts": {
            "description": "by name",
            "type": "object",
            "propertyNames": {"pattern": "^[A-Za-z_][A-Za-z0-9_]*$"},
            "additionalProperties": {"anyOf": [{"const": "none"}, part]},
        }
    }
