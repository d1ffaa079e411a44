"""Columns written as in DDL: `device string, at timestamp, place struct<x: int, y: int>`."""

from __future__ import annotations

import re

_NAME = re.compile(r"\s*(?:`((?:[^`]|``)+)`|([^\s:`]+))")


def column_names(ddl: str) -> list[str]:
    """The names of the columns, told from the text alone."""
    found = (_NAME.match(part) for part in _parts(ddl))
    return [match[1].replace("``", "`") if match[1] else match[2] for match in found if match]


def _parts(ddl: str) -> list[str]:
    """Between the commas that are in no parentheses."""
    parts, depth = [""], 0
    for character in ddl:
        depth += (character in "<(") - (character in ">)")
        if character == "," and not depth:
            parts.append("")
        else:
            parts[-1] += character
    return parts
