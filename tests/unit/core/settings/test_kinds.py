"""Each kind reads what people write, refuses the rest with a path and advice, writes it back and describes itself."""

from __future__ import annotations

import enum

import jsonschema_rs
import pytest

from penstock.core.errors import InvalidArgument, InvalidSetting
from penstock.core.settings.kind import Kind
from penstock.core.settings.numbers import Auto, Count, Duration, Factor, Size, default_text
from penstock.core.settings.objects import Anything, Objects, Scalars
from penstock.core.settings.texts import ListOf, Secret, Text
from penstock.core.settings.words import Choice, Flag, OneOf


class Colour(enum.Enum):
    DARK_RED = 1
    BLUE = 2


KINDS: list[tuple[Kind, object, object]] = [
    (Duration(), "90s", 90_000),
    (Duration(0), 0, 0),
    (Duration(or_none=True), "none", None),
    (Size(0, 1 << 30), "1MiB", 1 << 20),
    (Size(1, 1 << 30, or_none=True), None, None),
    (Count(1, 10), 10, 10),
    (Count(1, 10), 10.0, 10),
    (Count(1, 10, or_none=True), 0, None),
    (Auto(Count(1, 10)), "auto", None),
    (Auto(Count(1, 10)), 3, 3),
    (Factor(1.0, 3.0), 2, 2.0),
    (Flag(), False, False),
    (OneOf(("a", "b")), "a", "a"),
    (Choice(Colour), "dark-red", Colour.DARK_RED),
    (Text(), "x", "x"),
    (Text(or_none=True), "", None),
    (ListOf(Text()), ["a", "a"], ("a", "a")),
    (ListOf(Text(), is_unique=True), ["a", "a"], ("a",)),
    (ListOf(OneOf(("a", "b")), or_one=True), "b", ("b",)),
    (Scalars(), {"a": True, "b": 1, "c": "x"}, {"a": "true", "b": "1", "c": "x"}),
    (Anything(), {"a": [1]}, {"a": [1]}),
]


@pytest.mark.parametrize(("kind", "written", "value"), KINDS)
def test_a_value_is_read_and_written_back_and_described(kind: Kind, written: object, value: object) -> None:
    assert kind.read("here", written) == value
    assert kind.read("here", kind.write(value)) == value
    assert jsonschema_rs.validator_for(kind.schema()).is_valid(written)


@pytest.mark.parametrize(
    ("kind", "written", "said"),
    [
        (Duration(), 30, "30 is not a duration: write it with its unit"),
        (Duration(), "0.5ms", "is less than 1ms"),
        (Duration(1000, or_none=True), "1ms", "'1ms' is out of range: 1s to 36500d, or \"none\""),
        (Duration(), True, "True is not a duration"),
        (Size(1, 10), "11B", "11 is out of range: 1 to 10"),
        (Size(1, 10), [1], "a list is not a size"),
        (Count(1, 10), "3", "'3' is not a whole number"),
        (Count(1, 10), 1.5, "1.5 is not a whole number"),
        (Factor(1.0, 2.0), float("nan"), "nan is not a number"),
        (Flag(), "yes", "'yes' is not one of true, false"),
        (OneOf(("red", "blue")), "bleu", "'bleu' is not one of red, blue; did you mean blue?"),
        (Choice(Colour), "dark_red", "is not one of dark-red, blue; did you mean dark-red?"),
        (Text(), 1, "1 is not text: write it in quotes"),
        (Text(), " ", "is empty: write some text"),
        (ListOf(Text()), "a", "'a' is not a list: write it like"),
        (ListOf(Text(), null=None), None, "None is not a list"),
        (ListOf(Text(), of="fine words", most=1), ["a", "b"], "2 words are too many: at most 1"),
        (Scalars(), {"a": [1]}, "here.a: a list is not a text or a number"),
        (Anything(), 1, "1 is not a mapping: write `name: value`"),
    ],
)
def test_what_will_not_do_is_refused_with_its_path(kind: Kind, written: object, said: str) -> None:
    with pytest.raises(InvalidSetting) as caught:
        kind.read("here", written)
    assert str(caught.value).startswith("setting here") and said in str(caught.value)


def test_the_item_of_a_list_that_will_not_do_is_named() -> None:
    with pytest.raises(InvalidSetting) as caught:
        ListOf(Text()).read("here", ["a", 1])
    assert caught.value.path == "here[1]"


def test_digits_are_a_number_only_where_text_may_be_one() -> None:
    assert Count(1, 10, or_text=True).read("here", "7") == 7


def test_a_secret_is_shown_by_no_error_and_no_page() -> None:
    def check(text: str) -> None:
        raise InvalidArgument("will not do")

    for written in (12345, "", "hidden"):
        with pytest.raises(InvalidSetting) as caught:
            Secret(check).read("here", written)
        assert "12345" not in str(caught.value) and "hidden" not in str(caught.value)
    assert Secret().write("hidden") == "(secret)"


def test_objects_are_checked_by_who_knows_them_and_shown_without_secrets() -> None:
    def check(item: dict[str, object]) -> None:
        raise InvalidSetting("size", "is too large", "sizes")

    with pytest.raises(InvalidSetting) as caught:
        Objects(check).read("here", [{"size": 1}])
    assert (caught.value.path, caught.value.nearest) == ("here[0].size", "sizes")
    shown = Objects(lambda item: None, lambda item: "hidden")
    assert shown.write(shown.read("here", [{"a": 1}])) == ["hidden"]


@pytest.mark.parametrize(
    ("kind", "default", "text"),
    [
        (Size(0, 1 << 30), 64 << 20, "64MiB"),
        (Size(0, 1 << 30), None, "none"),
        (Duration(), 90_000, "90s"),
        (Auto(Size(0, 1 << 30)), None, "auto"),
        (Auto(Size(0, 1 << 30)), 1 << 30, "1GiB"),
        (Count(1, 10), 5, "5"),
        (Text(), None, "null"),
        (Flag(), True, "true"),
        (Choice(Colour), Colour.DARK_RED, "dark-red"),
    ],
)
def test_a_default_reads_as_people_write_it(kind: Kind, default: object, text: str) -> None:
    assert default_text(kind, default) == text
