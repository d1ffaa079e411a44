"""Durations, sizes, counts and factors."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from penstock.core.errors import InvalidSetting
from penstock.core.patterns import DURATION, WHOLE_SECONDS, size_pattern
from penstock.core.settings.kind import Json, Kind, any_of, checked, shown
from penstock.core.units import duration_text, parse_duration, parse_size, size_text

_SECOND_MS = 1000
# Beyond a century a duration is a mistake; "none" says what is meant.
_LONGEST_MS = 36_500 * 86_400_000
_MANY = 1 << 20


class _OrNone(Kind):
    """A number. With `or_none`, null and "none" mean no limit, which is None in memory, and so does 0 where it is no
    number that counts."""

    __slots__ = ()
    or_none: bool

    @property
    def is_zero_none(self) -> bool:
        return True

    def _number(self, written: object, read: Callable[[], int]) -> int | None:
        says_none = written is None or (isinstance(written, str) and written.strip().lower() == "none")
        if self.or_none and says_none:
            return None
        number = read()
        return None if self.or_none and self.is_zero_none and number == 0 else number

    def _none_text(self) -> str:
        return ', or "none"' if self.or_none else ""

    def _none_schemas(self) -> list[Json]:
        return [{"type": "null"}, {"const": "none"}] if self.or_none else []


@dataclass(frozen=True, slots=True)
class Duration(_OrNone):
    """Milliseconds in memory."""

    least_ms: int = 1
    most_ms: int = _LONGEST_MS
    or_none: bool = False

    @property
    def suffix(self) -> str:
        return "_ms"

    @property
    def unset(self) -> str:
        return "none"

    def read(self, path: str, written: object) -> int | None:
        duration_ms = self._number(written, lambda: _duration_ms(path, written))
        if duration_ms is not None and not self.least_ms <= duration_ms <= self.most_ms:
            bounds = f"{duration_text(self.least_ms)} to {duration_text(self.most_ms)}{self._none_text()}"
            raise InvalidSetting(path, f"{shown(written)} is out of range: {bounds}")
        return duration_ms

    def write(self, value: object) -> object:
        return duration_text(value) if isinstance(value, int) else None

    def schema(self) -> Json:
        pattern = DURATION if self.least_ms < _SECOND_MS else WHOLE_SECONDS
        zero: list[Json] = [{"const": 0}, {"const": "0s"}] if self.or_none or not self.least_ms else []
        return any_of({"type": "string", "pattern": f"^{pattern}$"}, *zero, *self._none_schemas())

    def allowed(self) -> str:
        return "duration" + (", or `none`" if self.or_none else "")


@dataclass(frozen=True, slots=True)
class Count(_OrNone):
    """A whole number. With `or_text` digits too: what a variable of the environment gave is text. With `has_zero`, 0 is
    a number beside "none"."""

    least: int
    most: int
    or_none: bool = False
    or_text: bool = False
    has_zero: bool = False

    @property
    def is_zero_none(self) -> bool:
        return not self.has_zero

    def read(self, path: str, written: object) -> int | None:
        number = self._number(written, lambda: self._whole(path, written))
        if number is not None and not self.least <= number <= self.most:
            raise InvalidSetting(path, f"{number} is out of range: {self.least} to {self.most}{self._none_text()}")
        return number

    def schema(self) -> Json:
        return any_of(self._bounds(), *self._none_schemas())

    def allowed(self) -> str:
        bounds = f"{self.least} to {self.most}" if self.most < _MANY else f"{self.least} and more"
        return bounds + (", or `none`" if self.or_none and self.has_zero else "")

    def _whole(self, path: str, written: object) -> int:
        if self.or_text and isinstance(written, str) and written.isascii() and written.isdigit() and len(written) < 19:
            return int(written)
        if (number := _as_whole(written)) is None:
            raise InvalidSetting(path, f"{shown(written)} is not a whole number: write it without quotes, like 10")
        return number

    def _bounds(self) -> Json:
        least = 0 if self.or_none and self.is_zero_none else self.least
        return {"type": "integer", "minimum": least, "maximum": self.most}


@dataclass(frozen=True, slots=True)
class Size(Count):
    """Bytes in memory and in JSON; read also as `1MiB`."""

    @property
    def suffix(self) -> str:
        return "_bytes"

    @property
    def unset(self) -> str:
        return "none"

    def schema(self) -> Json:
        written: Json = {"type": "string", "pattern": f"^({size_pattern(self.most)})$"}
        return any_of(self._bounds(), written, *self._none_schemas())

    def allowed(self) -> str:
        return "size" + (", or `none`" if self.or_none else "")

    def _whole(self, path: str, written: object) -> int:
        if isinstance(written, str):
            return checked(path, parse_size, written)
        if (size := _as_whole(written)) is None:
            reason = f"{shown(written)} is not a size: write bytes, or with a unit like 512KiB or 1MiB"
            raise InvalidSetting(path, reason)
        return size


@dataclass(frozen=True, slots=True)
class Factor(Kind):
    least: float
    most: float

    def read(self, path: str, written: object) -> float:
        if isinstance(written, bool) or not isinstance(written, int | float) or not math.isfinite(written):
            raise InvalidSetting(path, f"{shown(written)} is not a number: write it like 2.0")
        if not self.least <= written <= self.most:
            raise InvalidSetting(path, f"{written} is out of range: {self.least} to {self.most}")
        return float(written)

    def schema(self) -> Json:
        return {"type": "number", "minimum": self.least, "maximum": self.most}

    def allowed(self) -> str:
        return f"{self.least} to {self.most}"


@dataclass(frozen=True, slots=True)
class Auto(Kind):
    """A number, or `auto`, which is None in memory."""

    number: Count

    @property
    def suffix(self) -> str:
        return self.number.suffix

    @property
    def unset(self) -> str:
        return "auto"

    def read(self, path: str, written: object) -> object:
        return None if written is None or written == "auto" else self.number.read(path, written)

    def write(self, value: object) -> object:
        return "auto" if value is None else self.number.write(value)

    def schema(self) -> Json:
        return any_of(self.number.schema(), {"type": "null"}, {"const": "auto"})

    def allowed(self) -> str:
        return f"{self.number.allowed()}, or `auto`"


def default_text(kind: Kind, default: object) -> str:
    """For a page: a default as people write it."""
    if default is None:
        return kind.unset
    written = kind.write(default)
    if isinstance(written, bool):
        return str(written).lower()
    return size_text(written) if kind.suffix == "_bytes" and isinstance(written, int) else str(written)


def _duration_ms(path: str, written: object) -> int:
    if written == 0 and isinstance(written, int) and not isinstance(written, bool):
        return 0
    if not isinstance(written, str):
        advice = "write it with its unit, like 200ms, 30s, 5m or 168h"
        raise InvalidSetting(path, f"{shown(written)} is not a duration: {advice}")
    seconds = checked(path, parse_duration, written)
    if 0 < seconds < 0.001:
        raise InvalidSetting(path, f"{shown(written)} is less than 1ms")
    return round(seconds * 1000)


def _as_whole(written: object) -> int | None:
    """JSON has one kind of number: 10.0 is what some programs write for 10."""
    if isinstance(written, float) and written.is_integer():
        return int(written)
    return written if isinstance(written, int) and not isinstance(written, bool) else None
