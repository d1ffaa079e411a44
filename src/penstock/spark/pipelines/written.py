"""The text of a declaration: variables of the environment put in, and places of what stands inside a value."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from penstock.core.marked_yaml import Mark, Marked
from penstock.spark.pipelines.problems import Problems

_VARIABLE = re.compile(r"\$\$(?=\{)|\$\{([^}]*)\}")
_NAMED = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(?::-(.*))?", re.DOTALL)


def with_variables(written: Marked, variables: Mapping[str, str], problems: Problems, path: str = "") -> Marked:
    """Every `${NAME}` in a text is that variable, `${NAME:-text}` the text where it is not set, `$${` a plain `${`.
    What is not set is a problem."""
    if isinstance(written.value, dict):
        below: object = {
            key: with_variables(item, variables, problems, f"{path}.{key}" if path else key)
            for key, item in written.value.items()
        }
    elif isinstance(written.value, list):
        below = [
            with_variables(item, variables, problems, f"{path}[{number}]") for number, item in enumerate(written.value)
        ]
    elif isinstance(written.value, str) and "${" in written.value:
        below = _VARIABLE.sub(lambda found: _value(found, variables, problems, path, written.at), written.value)
    else:
        return written
    return replace(written, value=below)


def _value(found: re.Match[str], variables: Mapping[str, str], problems: Problems, path: str, mark: Mark) -> str:
    if found[1] is None:
        return "$"
    named = _NAMED.fullmatch(found[1])
    if named is None:
        problems.add(path, f"{found[0]!r} names no variable: write ${{NAME}} or ${{NAME:-otherwise}}", mark)
        return ""
    if (value := variables.get(named[1], named[2])) is None:
        reason = f"the variable {named[1]} is not set: set it, or write ${{{named[1]}:-otherwise}}"
        problems.add(path, reason, mark)
        return ""
    return value


def mark_inside(text: str, value: str, at: Mark, style: str | None, offset: int) -> Mark:
    """Where that character of a value stands in the text of the file; where that cannot be told, where the value
    begins."""
    lines = text.split("\n")
    before = value[:offset].split("\n")
    if style == "|":
        number = at.line + len(before)
        if number <= len(lines):
            return Mark(number, _indent(lines[at.line :]) + len(before[-1]) + 1)
    elif at.line <= len(lines):
        begin = at.column - 1 + (style is not None)
        if lines[at.line - 1][begin:].startswith(value.split("\n")[0]) and len(before) == 1:
            return Mark(at.line, begin + offset + 1)
    return at


def _indent(lines: list[str]) -> int:
    """Of a block: that of its first line that is not empty."""
    first = next((line for line in lines if line.strip()), "")
    return len(first) - len(first.lstrip())
