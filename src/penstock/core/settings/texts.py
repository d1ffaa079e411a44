"""Texts, secrets, and lists of what another kind reads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from penstock.core.errors import InvalidArgument, InvalidSetting
from penstock.core.settings.kind import Json, Kind, any_of, checked, shown


def check_some(text: str) -> None:
    """InvalidArgument where nothing is written."""
    if not text.strip():
        raise InvalidArgument("is empty: write some text")


@dataclass(frozen=True, slots=True)
class Text(Kind):
    """`check` raises InvalidArgument for text that will not do; `pattern`, and `least` characters, describe what will.
    With `or_none`, null and "" mean: not set; with `or_empty`, "" is a text like others."""

    check: Callable[[str], None] = check_some
    or_none: bool = False
    pattern: str | None = None
    least: int = 0
    or_empty: bool = False

    def read(self, path: str, written: object) -> str | None:
        if self.or_none and (written is None or (written == "" and not self.or_empty)):
            return None
        if not isinstance(written, str):
            raise InvalidSetting(path, f"{shown(written)} is not text: write it in quotes")
        checked(path, self.check, written)
        return written

    def schema(self) -> Json:
        text: Json = {"type": "string"} if self.pattern is None else {"type": "string", "pattern": f"^{self.pattern}$"}
        if self.least or (self.pattern is None and not self.or_empty):
            text["minLength"] = self.least or 1
        unset: list[Json] = [{"const": ""}, {"type": "null"}] if self.or_none else []
        return any_of(text, *unset[self.or_empty :])


@dataclass(frozen=True, slots=True)
class Secret(Text):
    """Text that is never shown, not in errors either."""

    def read(self, path: str, written: object) -> str | None:
        if written is None:
            return None
        if not isinstance(written, str) or not written:
            raise InvalidSetting(path, "is not text: write it in quotes")
        return Text.read(self, path, written)

    def write(self, value: object) -> object:
        return None if value is None else "(secret)"

    def allowed(self) -> str:
        return "secret text"


@dataclass(frozen=True, slots=True)
class ListOf(Kind):
    """A list whose items `item` reads; `of` says in an error what they are, `like` is an example. With `or_one`, an
    item alone will do too. `null` is what null means, if it means anything."""

    item: Kind
    of: str = ""
    like: str = '["a", "b"]'
    null: tuple[object, ...] | None = ()
    most: int | None = None
    is_unique: bool = False
    or_one: bool = False
    or_empty: bool = True

    def read(self, path: str, written: object) -> tuple[object, ...]:
        if written is None and self.null is not None:
            return self.null
        if isinstance(written, list | tuple) and (written or self.or_empty):
            return self._items(path, written)
        if self.or_one:
            return (self.item.read(path, written),)
        what = f"a list of {self.of}" if self.of else "a list"
        raise InvalidSetting(path, f"{shown(written)} is not {what}: write it like {self.like}")

    def write(self, value: object) -> object:
        return list(value) if isinstance(value, tuple) else []

    def schema(self) -> Json:
        items: Json = {"type": "array", "items": self.item.schema()}
        return any_of(self.item.schema(), items) if self.or_one else items

    def allowed(self) -> str:
        of = self.item.allowed()
        return "list of texts" if of == "text" else f"list of {of}"

    def _items(self, path: str, written: list[object] | tuple[object, ...]) -> tuple[object, ...]:
        if self.most is not None and len(written) > self.most:
            reason = f"{len(written)} {self.of.rpartition(' ')[2]} are too many: at most {self.most}"
            raise InvalidSetting(path, reason)
        found = tuple(self.item.read(f"{path}[{number}]", item) for number, item in enumerate(written))
        return tuple(dict.fromkeys(found)) if self.is_unique else found
