"""Regular expressions of others: ordinary ones are taken, those that may take long are not."""

from __future__ import annotations

import pytest

from penstock.core.errors import InvalidArgument
from penstock.core.regexes import regex_of


@pytest.mark.parametrize(
    "text",
    [".*", "^celery", r"^(orders|bills)\..*$", "^[a-z]+-[0-9]+$", r"^(?!amq\.).*", "a{3}", "", "x?y?z?", r"\d{1,9}"],
)
def test_ordinary_ones_are_taken(text: str) -> None:
    assert regex_of(text).pattern == text


@pytest.mark.parametrize(
    "text",
    [
        *("(a+)+$", "(a*)*b", "(a|aa)+$", "(.*a){20}", ".*.*.*x", r"(a)\1", "(", "x" * 513, "a?" * 40 + "a" * 40),
        *("(a|ab)" * 20, "(?:(?:a{1,9}){1,9})x", "(" * 200 + ")" * 200 + "("),
    ],
)
def test_what_may_take_long_or_is_none_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument):
        regex_of(text)
