"""How the values of settings are written: durations, sizes, counts, choices. Each kind reads one and writes it back."""

from __future__ import annotations

import difflib
import enum
import math
import reprlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Protocol, TypeVar

from penstock.core.errors import InvalidArgument, InvalidSetting
from penstock.core.units import parse_duration, parse_size
from penstock.queues.names import QUEUE_PREFIX, check_filter

Read = TypeVar("Read")
Value = str | int | float | bool | enum.Enum | tuple[str, ...] | None

_UNITS_MS = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1000, "ms": 1}
# Beyond a century a duration is a mistake; "none" says what is meant.
_LONGEST_MS = 36_500 * _UNITS_MS["d"]
_MOST_FILTERS = 1000
_SHOWN = reprlib.Repr()
_SHOWN.maxstring = _SHOWN.maxother = 80


class Kind(Protocol):
    """`suffix` is the unit that the attribute's name carries and the setting's name does not."""

    suffix: ClassVar[str]

    def read(self, path: str, written: object) -> Value:
        """The value in memory. InvalidSetting names the path and what is allowed."""
        ...

    def write(self, value: Value) -> object:
        """The value as JSON; read() of it gives the same one."""
        ...


def shown(written: object) -> str:
    """For an error's text: whoever wrote it, it does not fill the line. Of what has parts only the kind: one may be a
    secret."""
    if isinstance(written, Mapping):
        return "an object"
    if isinstance(written, list | tuple | set | frozenset):
        return "a list"
    return _SHOWN.repr(written)


def duration_text(duration_ms: int) -> str:
    """In the largest unit that divides it: 90000 is `90s`, 7200000 is `2h`."""
    unit = next((unit for unit, size_ms in _UNITS_MS.items() if duration_ms and duration_ms % size_ms == 0), "s")
    return f"{duration_ms // _UNITS_MS[unit]}{unit}"


@dataclass(frozen=True, slots=True)
class Duration:
    """Milliseconds in memory. With `or_none`, 0, null and "none" mean no limit, which is None in memory."""

    suffix: ClassVar[str] = "_ms"
    least_ms: int = 1
    or_none: bool = False

    def read(self, path: str, written: object) -> Value:
        duration_ms = _or_none(self.or_none, written, lambda: _duration_ms(path, written))
        if duration_ms is not None and not self.least_ms <= duration_ms <= _LONGEST_MS:
            least, most = duration_text(self.least_ms), duration_text(_LONGEST_MS)
            raise InvalidSetting(
                path, f"{shown(written)} is out of range: {least} to {most}{_or_none_text(self.or_none)}"
            )
        return duration_ms

    def write(self, value: Value) -> object:
        return duration_text(value) if isinstance(value, int) else None


@dataclass(frozen=True, slots=True)
class Size:
    """Bytes in memory and in JSON; read also as `1MiB`."""

    suffix: ClassVar[str] = "_bytes"
    least: int
    most: int
    or_none: bool = False

    def read(self, path: str, written: object) -> Value:
        size = _or_none(self.or_none, written, lambda: _size(path, written))
        return _in_range(path, size, self.least, self.most, self.or_none)

    def write(self, value: Value) -> object:
        return value


@dataclass(frozen=True, slots=True)
class Count:
    suffix: ClassVar[str] = ""
    least: int
    most: int
    or_none: bool = False

    def read(self, path: str, written: object) -> Value:
        count = _or_none(self.or_none, written, lambda: _whole(path, written))
        return _in_range(path, count, self.least, self.most, self.or_none)

    def write(self, value: Value) -> object:
        return value


@dataclass(frozen=True, slots=True)
class Factor:
    suffix: ClassVar[str] = ""
    least: float
    most: float

    def read(self, path: str, written: object) -> Value:
        if isinstance(written, bool) or not isinstance(written, int | float) or not math.isfinite(written):
            raise InvalidSetting(path, f"{shown(written)} is not a number: write it like 2.0")
        if not self.least <= written <= self.most:
            raise InvalidSetting(path, f"{written} is out of range: {self.least} to {self.most}")
        return float(written)

    def write(self, value: Value) -> object:
        return value


@dataclass(frozen=True, slots=True)
class Flag:
    suffix: ClassVar[str] = ""

    def read(self, path: str, written: object) -> Value:
        if not isinstance(written, bool):
            raise InvalidSetting(path, f"{shown(written)} is not one of true, false")
        return written

    def write(self, value: Value) -> object:
        return value


@dataclass(frozen=True, slots=True)
class Choice:
    """A member of an enum, written as its name in lower case with hyphens."""

    suffix: ClassVar[str] = ""
    members: type[enum.Enum]

    def read(self, path: str, written: object) -> Value:
        allowed = {_choice_text(member): member for member in self.members}
        if isinstance(written, str) and written in allowed:
            return allowed[written]
        near = difflib.get_close_matches(written, allowed, n=1) if isinstance(written, str) else []
        raise InvalidSetting(path, f"{shown(written)} is not one of {', '.join(allowed)}", near[0] if near else None)

    def write(self, value: Value) -> object:
        return _choice_text(value) if isinstance(value, enum.Enum) else None


@dataclass(frozen=True, slots=True)
class Text:
    """`check` raises InvalidArgument for text that will not do. With `or_none`, null and "" mean: not set."""

    suffix: ClassVar[str] = ""
    check: Callable[[str], None]
    or_none: bool = False

    def read(self, path: str, written: object) -> Value:
        if self.or_none and (written is None or written == ""):
            return None
        if not isinstance(written, str):
            raise InvalidSetting(path, f"{shown(written)} is not text: write it in quotes")
        _checked(path, self.check, written)
        return written

    def write(self, value: Value) -> object:
        return value


@dataclass(frozen=True, slots=True)
class Filters:
    """A list of topic filters that bind; one given twice counts once."""

    suffix: ClassVar[str] = ""

    def read(self, path: str, written: object) -> Value:
        if not isinstance(written, list | tuple):
            raise InvalidSetting(path, f'{shown(written)} is not a list of topic filters: write it like ["orders/#"]')
        if len(written) > _MOST_FILTERS:
            raise InvalidSetting(path, f"{len(written)} filters are too many: at most {_MOST_FILTERS}")
        text = Text(_check_binding)
        return tuple(dict.fromkeys(str(text.read(f"{path}[{i}]", item)) for i, item in enumerate(written)))

    def write(self, value: Value) -> object:
        return list(value) if isinstance(value, tuple) else []


def _checked(path: str, read: Callable[[str], Read], written: str) -> Read:
    try:
        return read(written)
    except InvalidArgument as error:
        raise InvalidSetting(path, str(error)) from None


def _or_none(allowed: bool, written: object, read: Callable[[], int]) -> int | None:
    says_none = written is None or (isinstance(written, str) and written.strip().lower() == "none")
    if allowed and says_none:
        return None
    number = read()
    return None if allowed and number == 0 else number


def _or_none_text(allowed: bool) -> str:
    return ', or "none"' if allowed else ""


def _duration_ms(path: str, written: object) -> int:
    if written == 0 and isinstance(written, int) and not isinstance(written, bool):
        return 0
    if not isinstance(written, str):
        raise InvalidSetting(
            path, f"{shown(written)} is not a duration: write it with its unit, like 200ms, 30s, 5m or 168h"
        )
    seconds = _checked(path, parse_duration, written)
    if 0 < seconds < 0.001:
        raise InvalidSetting(path, f"{shown(written)} is less than 1ms")
    return round(seconds * 1000)


def _size(path: str, written: object) -> int:
    if isinstance(written, str):
        return _checked(path, parse_size, written)
    if (size := _as_whole(written)) is None:
        raise InvalidSetting(path, f"{shown(written)} is not a size: write bytes, or with a unit like 512KiB or 1MiB")
    return size


def _whole(path: str, written: object) -> int:
    if (number := _as_whole(written)) is None:
        raise InvalidSetting(path, f"{shown(written)} is not a whole number: write it without quotes, like 10")
    return number


def _as_whole(written: object) -> int | None:
    """JSON has one kind of number: 10.0 is what some programs write for 10."""
    if isinstance(written, float) and written.is_integer():
        return int(written)
    return written if isinstance(written, int) and not isinstance(written, bool) else None


def _in_range(path: str, number: int | None, least: int, most: int, or_none: bool) -> int | None:
    if number is not None and not least <= number <= most:
        raise InvalidSetting(path, f"{number} is out of range: {least} to {most}{_or_none_text(or_none)}")
    return number


def _choice_text(member: enum.Enum) -> str:
    return member.name.lower().replace("_", "-")


def _check_binding(text: str) -> None:
    check_filter(text)
    if text.startswith("$") and not text.startswith(QUEUE_PREFIX):
        raise InvalidArgument(f"{text!r} begins with $: bind ordinary topics, or such that begin with {QUEUE_PREFIX}")
