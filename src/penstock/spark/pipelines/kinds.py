"""Kinds of values that only pipelines have."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from penstock.core.errors import InvalidArgument, InvalidSetting
from penstock.core.settings.kind import Json, Kind, shown
from penstock.core.settings.numbers import Duration
from penstock.core.settings.objects import Scalars

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
# As editors show it, with what people write too seldom for a stricter one.
_DURATION = r"^\s*([0-9.]+\s*(ms|s|m|h|d|w)\s*)+$"
# A file lies beside the declaration, where the workers of a local session look too.
_FUNCTION = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


@dataclass(frozen=True, slots=True)
class Span(Duration):
    """Beyond a year a pause, a window or a delay is a mistake."""

    most_ms: int = 366 * 86_400_000

    def schema(self) -> Json:
        return {"type": "string", "pattern": _DURATION}


@dataclass(frozen=True, slots=True)
class Expressions(Scalars):
    """Names of columns with SQL expressions."""

    def read(self, path: str, written: object) -> Mapping[str, str]:
        found = Scalars.read(self, path, written)
        if not found:
            raise InvalidSetting(path, "has no column: write it like {average: avg(celsius)}")
        return found

    def schema(self) -> Json:
        return {"type": "object", "minProperties": 1, "additionalProperties": {"type": ["string", "number"]}}


@dataclass(frozen=True, slots=True)
class Function(Kind):
    """`module:function` or `file.py:function`; a declaration in Python may give the function itself."""

    def read(self, path: str, written: object) -> object:
        if callable(written):
            return written
        if not isinstance(written, str) or _FUNCTION.fullmatch(written) is None:
            advice = "write it like module:function or steps.py:function"
            raise InvalidSetting(path, f"{shown(written)} is not a function: {advice}")
        return written

    def schema(self) -> Json:
        return {"type": "string", "pattern": f"^{_FUNCTION.pattern}$"}


def check_name(name: str) -> None:
    """InvalidArgument unless SQL can call something so without quotes."""
    if _NAME.fullmatch(name) is None:
        raise InvalidArgument(
            f"{shown(name)} is not a name for SQL: use letters, digits and _, and begin with no digit"
        )
