"""Objects whose keys are not declared: mappings of scalars, and lists that somebody else checks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from penstock.core.errors import InvalidArgument, InvalidSetting
from penstock.core.settings.kind import Json, Kind, shown


@dataclass(frozen=True, slots=True)
class Anything(Kind):
    """Names with values of any type."""

    def read(self, path: str, written: object) -> Mapping[str, object]:
        if not isinstance(written, Mapping):
            raise InvalidSetting(path, f"{shown(written)} is not a mapping: write `name: value`")
        return written

    def schema(self) -> Json:
        return {"type": "object"}

    def allowed(self) -> str:
        return "object"


@dataclass(frozen=True, slots=True)
class Scalars(Anything):
    """Names with texts, numbers, true or false, all kept as text."""

    def read(self, path: str, written: object) -> Mapping[str, str]:
        return {name: _scalar_text(f"{path}.{name}", item) for name, item in Anything.read(self, path, written).items()}

    def schema(self) -> Json:
        return {"type": "object", "additionalProperties": {"type": ["string", "number", "boolean"]}}

    def allowed(self) -> str:
        return "object of texts"


@dataclass(frozen=True, slots=True)
class Objects(Kind):
    """A list of objects with settings of their own, which `check` knows; kept as they were written. `show` takes out
    what is a secret."""

    check: Callable[[dict[str, object]], None]
    show: Callable[[object], object] = lambda written: written

    def read(self, path: str, written: object) -> tuple[dict[str, object], ...]:
        if written is None:
            return ()
        if not isinstance(written, list):
            raise InvalidSetting(path, f"{shown(written)} is not a list of objects")
        for number, item in enumerate(written):
            self._check(f"{path}[{number}]", item)
        return tuple(written)

    def write(self, value: object) -> object:
        return [self.show(item) for item in value] if isinstance(value, tuple) else []

    def schema(self) -> Json:
        return {"type": "array", "items": {"type": "object"}}

    def allowed(self) -> str:
        return "list of objects"

    def _check(self, path: str, item: object) -> None:
        if not isinstance(item, dict):
            raise InvalidSetting(path, f"{shown(item)} is not an object with settings in it")
        try:
            self.check(item)
        except InvalidSetting as error:
            raise InvalidSetting(f"{path}.{error.path}", error.reason, error.nearest) from None
        except InvalidArgument as error:
            raise InvalidSetting(path, str(error)) from None


def _scalar_text(path: str, item: object) -> str:
    if isinstance(item, bool):
        return str(item).lower()
    if isinstance(item, str | int | float):
        return str(item)
    raise InvalidSetting(path, f"{shown(item)} is not a text or a number")
