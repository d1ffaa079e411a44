from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.errors import InvalidArgument
from penstock.core.types import LogNumber
from penstock.log.disk import relative_parts
from penstock.log.names import directory_of, log_name, parse_log_name

PARTS = st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=400), min_size=1, max_size=4)


@given(PARTS)
def test_no_name_leaves_its_directory_or_makes_a_component_too_long(parts: list[str]) -> None:
    components = relative_parts(directory_of(log_name(*parts), LogNumber(7)))
    assert components[0] == "logs"
    assert len(components) == 1 + len(parts)
    assert all(0 < len(component.encode()) <= 255 and component not in (".", "..") for component in components)


@given(PARTS)
def test_different_parts_give_different_names(parts: list[str]) -> None:
    assert log_name(*parts) != log_name("/".join([*parts, "x"]))
    assert log_name("a/b") != log_name("a", "b")


def test_a_name_as_typed_is_the_name_as_built() -> None:
    assert parse_log_name("default/orders/3") == log_name("default", "orders", "3")
    assert parse_log_name("default/a%2Fb") == log_name("default", "a/b")
    assert parse_log_name("grün") == log_name("grün")


@pytest.mark.parametrize("parts", [(), ("",), ("a", "")])
def test_empty_parts_are_refused(parts: tuple[str, ...]) -> None:
    with pytest.raises(InvalidArgument):
        log_name(*parts)
