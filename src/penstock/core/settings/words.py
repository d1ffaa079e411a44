"""Words of a fixed choice, and true or false."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from penstock.core.errors import InvalidSetting
from penstock.core.settings.kind import Json, Kind, nearest_of, shown


@dataclass(frozen=True, slots=True)
class Flag(Kind):
    def read(self, path: str, written: object) -> bool:
        if not isinstance(written, bool):
            raise InvalidSetting(path, f"{shown(written)} is not one of true, false")
        return written

    def schema(self) -> Json:
        return {"type": "boolean"}

    def allowed(self) -> str:
        return "`true`, `false`"


@dataclass(frozen=True, slots=True)
class OneOf(Kind):
    """One of these words, kept as it is."""

    words: tuple[str, ...]

    def read(self, path: str, written: object) -> str:
        if isinstance(written, str) and written in self.words:
            return written
        reason = f"{shown(written)} is not one of {', '.join(self.words)}"
        raise InvalidSetting(path, reason, nearest_of(written, self.words))

    def schema(self) -> Json:
        return {"enum": list(self.words)}

    def allowed(self) -> str:
        return ", ".join(f"`{word}`" for word in self.words)


@dataclass(frozen=True, slots=True)
class Choice(Kind):
    """A member of an enum, written as its name in lower case with hyphens."""

    members: type[enum.Enum]

    def read(self, path: str, written: object) -> enum.Enum:
        return self._by_word()[self._words().read(path, written)]

    def write(self, value: object) -> object:
        return _word(value) if isinstance(value, enum.Enum) else None

    def schema(self) -> Json:
        return self._words().schema()

    def allowed(self) -> str:
        return self._words().allowed()

    def _by_word(self) -> dict[str, enum.Enum]:
        return {_word(member): member for member in self.members}

    def _words(self) -> OneOf:
        return OneOf(tuple(self._by_word()))


def _word(member: enum.Enum) -> str:
    return member.name.lower().replace("_", "-")
