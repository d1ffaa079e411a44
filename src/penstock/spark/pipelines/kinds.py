"""How the values of a declaration are written: each kind reads one, and describes itself as JSON Schema."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from penstock.core.errors import InvalidArgument
from penstock.core.marked_yaml import Mark, Marked
from penstock.core.units import parse_duration
from penstock.queues.settings_text import shown

Json = dict[str, object]

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
# A file lies beside the declaration, where the workers of a local session look too.
_FUNCTION = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
_DURATION = r"^\s*([0-9.]+\s*(ms|s|m|h|d|w)\s*)+$"
# Beyond a year a pause, a window or a delay is a mistake.
_LONGEST_MS = 366 * 86_400_000


class BadValue(Exception):
    """`below` is the path from the value to what is wrong in it, `mark` its place where that is another one."""

    def __init__(self, reason: str, nearest: str | None = None, below: str = "", mark: Mark | None = None) -> None:
        super().__init__(reason)
        self.reason, self.nearest, self.below, self.mark = reason, nearest, below, mark


class Kind(Protocol):
    def read(self, written: Marked) -> object:
        """The value in memory. BadValue says what is allowed."""
        ...

    def schema(self) -> Json: ...


def nearest_of(word: str, words: Iterable[str]) -> str | None:
    found = difflib.get_close_matches(word, list(words), n=1, cutoff=0.5)
    return found[0] if found else None


@dataclass(frozen=True, slots=True)
class Text:
    """`check` raises InvalidArgument for text that will not do. A secret is not shown in errors either."""

    check: Callable[[str], None] | None = None
    is_secret: bool = False

    def read(self, written: Marked) -> str:
        if not isinstance(written.value, str) or not written.value.strip():
            what = "it" if self.is_secret else shown(written.plain())
            raise BadValue(f"{what} is not text: write some, in quotes if it looks like something else")
        if self.check is not None:
            try:
                self.check(written.value)
            except InvalidArgument as error:
                raise BadValue(str(error)) from None
        return written.value

    def schema(self) -> Json:
        return {"type": "string", "minLength": 1}


@dataclass(frozen=True, slots=True)
class Word:
    words: tuple[str, ...]

    def read(self, written: Marked) -> str:
        if isinstance(written.value, str) and written.value in self.words:
            return written.value
        near = nearest_of(str(written.value), self.words)
        raise BadValue(f"{shown(written.plain())} is not one of {', '.join(self.words)}", near)

    def schema(self) -> Json:
        return {"enum": list(self.words)}


@dataclass(frozen=True, slots=True)
class Duration:
    """Milliseconds in memory."""

    least_ms: int = 1

    def read(self, written: Marked) -> int:
        if not isinstance(written.value, str):
            raise BadValue(f"{shown(written.plain())} is not a duration: write it with its unit, like 200ms, 30s or 5m")
        try:
            duration_ms = round(parse_duration(written.value) * 1000)
        except InvalidArgument as error:
            raise BadValue(str(error)) from None
        if not self.least_ms <= duration_ms <= _LONGEST_MS:
            raise BadValue(f"{shown(written.value)} is out of range: {self.least_ms}ms to 366d")
        return duration_ms

    def schema(self) -> Json:
        return {"type": "string", "pattern": _DURATION}


@dataclass(frozen=True, slots=True)
class Count:
    least: int
    most: int

    def read(self, written: Marked) -> int:
        value = written.value
        if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 19:
            # What a variable of the environment gave is text.
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            raise BadValue(f"{shown(value)} is not a whole number: write it without quotes, like 10")
        if not self.least <= value <= self.most:
            raise BadValue(f"{value} is out of range: {self.least} to {self.most}")
        return value

    def schema(self) -> Json:
        return {"type": "integer", "minimum": self.least, "maximum": self.most}


@dataclass(frozen=True, slots=True)
class Flag:
    def read(self, written: Marked) -> bool:
        if not isinstance(written.value, bool):
            raise BadValue(f"{shown(written.plain())} is not one of true, false")
        return written.value

    def schema(self) -> Json:
        return {"type": "boolean"}


@dataclass(frozen=True, slots=True)
class Texts:
    """One text, or a list of them."""

    words: tuple[str, ...] = ()

    def read(self, written: Marked) -> tuple[str, ...]:
        items = written.value if isinstance(written.value, list) else [written]
        found = []
        for number, item in enumerate(items):
            try:
                found.append((Word(self.words) if self.words else Text()).read(item))
            except BadValue as error:
                below = f"[{number}]" if isinstance(written.value, list) else ""
                raise BadValue(error.reason, error.nearest, below, item.at) from None
        return tuple(found)

    def schema(self) -> Json:
        item = Word(self.words).schema() if self.words else Text().schema()
        return {"anyOf": [item, {"type": "array", "items": item}]}


@dataclass(frozen=True, slots=True)
class Settings:
    """Names with scalars, as text: Spark's own settings and options."""

    def read(self, written: Marked) -> dict[str, str]:
        return {name: _scalar_text(name, item) for name, item in _mapping(written).items()}

    def schema(self) -> Json:
        return {"type": "object", "additionalProperties": {"type": ["string", "number", "boolean"]}}


@dataclass(frozen=True, slots=True)
class Arguments:
    """Names with values of any type, for a Python function."""

    def read(self, written: Marked) -> dict[str, object]:
        return {name: item.plain() for name, item in _mapping(written).items()}

    def schema(self) -> Json:
        return {"type": "object"}


@dataclass(frozen=True, slots=True)
class Expressions:
    """Names of columns with SQL expressions."""

    def read(self, written: Marked) -> dict[str, str]:
        found = {name: _scalar_text(name, item) for name, item in _mapping(written).items()}
        if not found:
            raise BadValue("has no column: write it like {average: avg(celsius)}")
        return found

    def schema(self) -> Json:
        return {"type": "object", "minProperties": 1, "additionalProperties": {"type": ["string", "number"]}}


@dataclass(frozen=True, slots=True)
class Function:
    """`module:function` or `file.py:function`; a declaration in Python may give the function itself."""

    def read(self, written: Marked) -> object:
        if callable(written.value):
            return written.value
        if not isinstance(written.value, str) or _FUNCTION.fullmatch(written.value) is None:
            raise BadValue(
                f"{shown(written.plain())} is no function: write it like module:function or steps.py:function"
            )
        return written.value

    def schema(self) -> Json:
        return {"type": "string", "pattern": f"^{_FUNCTION.pattern}$"}


def check_name(name: str) -> None:
    """InvalidArgument unless SQL can call something so without quotes."""
    if _NAME.fullmatch(name) is None:
        raise InvalidArgument(f"{shown(name)} is no name for SQL: letters, digits and _, not first a digit")


def _mapping(written: Marked) -> dict[str, Marked]:
    if not isinstance(written.value, dict):
        raise BadValue(f"{shown(written.plain())} is not a mapping: write `name: value`")
    return written.value


def _scalar_text(name: str, item: Marked) -> str:
    if isinstance(item.value, bool):
        return str(item.value).lower()
    if isinstance(item.value, str | int | float):
        return str(item.value)
    raise BadValue(f"{shown(item.plain())} is not a text or a number", None, f".{name}", item.at)
