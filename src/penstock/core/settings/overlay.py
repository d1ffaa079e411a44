"""What people wrote, put over settings that are there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from penstock.core.errors import InvalidSetting
from penstock.core.settings.fields import REQUIRED, Declared, Field, Section, Sections, Setting, fields_of, paths_of
from penstock.core.settings.kind import nearest_of, shown

Struct = TypeVar("Struct", bound=msgspec.Struct)

_SHOWN_CHARACTERS = 80


def overlay(base: Struct, written: Mapping[str, object], later: tuple[str, ...] = ()) -> Struct:
    """`base` with what is written put over it, section by section. InvalidSetting for the first thing that will not do;
    rules that concern several settings are the caller's. Keys that begin with a word of `later` are refused as not
    there yet."""
    return _Overlay(type(base), later).section(base, written, "")


def read(struct: type[Struct], written: Mapping[str, object]) -> Struct:
    """The defaults with what is written over them. Null is a section with nothing in it, as where all of it is
    commented out."""
    return _Overlay(struct, (), has_empty=True).section(_begun(struct), written, "")


def _begun(struct: type[Struct]) -> Struct:
    """With defaults everywhere; what must be written is None until it is."""
    return struct(**{field.attribute: None for field in fields_of(struct).values() if field.default is REQUIRED})


@dataclass(frozen=True, slots=True)
class _Overlay:
    root: Declared
    later: tuple[str, ...]
    has_empty: bool = False

    def section(self, base: Struct, written: Mapping[str, object], prefix: str) -> Struct:
        changes: dict[str, object] = {}
        for key, value in written.items():
            field = fields_of(type(base)).get(key)
            if field is None:
                raise self._unknown(str(key), prefix, type(base))
            changes[field.attribute] = self._value(base, field, value, prefix + key)
        result = msgspec.structs.replace(base, **changes)
        for key, field in fields_of(type(base)).items():
            if field.default is REQUIRED and getattr(result, field.attribute) is None:
                raise InvalidSetting(prefix + key, "is missing: write it")
        return result

    def _value(self, base: msgspec.Struct, field: Field, written: object, path: str) -> object:
        if isinstance(field, Setting):
            return field.kind.read(path, written)
        if isinstance(field, Sections):
            return self._list(field, written, path)
        found = getattr(base, field.attribute)
        if written is None and isinstance(field, Section) and field.is_optional:
            return None
        if written is None and self.has_empty:
            return found
        below = _object(path, written, field.struct)
        return self.section(_begun(field.struct) if found is None else found, below, f"{path}.")

    def _list(self, field: Sections, written: object, path: str) -> tuple[msgspec.Struct, ...]:
        if written is None:
            return ()
        if not isinstance(written, list):
            raise InvalidSetting(path, f"{_kind_of(written)} is not a list of objects")
        return tuple(
            self.section(_begun(field.struct), _object(f"{path}[{i}]", item, field.struct), f"{path}[{i}].")
            for i, item in enumerate(written)
        )

    def _unknown(self, key: str, prefix: str, struct: Declared) -> InvalidSetting:
        path = f"{prefix}{key[:_SHOWN_CHARACTERS]}"
        later = next((word for word in self.later if key.startswith(word)), None)
        if later is not None:
            return InvalidSetting(path, f"settings of {later} are not available yet: leave it out")
        near = self._nearest(key, prefix, struct)
        known = "" if near else f": the known ones are {', '.join(fields_of(struct))}"
        return InvalidSetting(path, f"no such setting{known}", near)

    def _nearest(self, key: str, prefix: str, struct: Declared) -> str | None:
        """A name that is much the same, here or anywhere; else one here that is similar, or has the key as a word."""
        paths = {path.rpartition(".")[2]: path for path in reversed(list(paths_of(self.root)))}
        paths |= {name: prefix + name for name in fields_of(struct)}
        similar = nearest_of(key, paths, 0.75) or nearest_of(key, fields_of(struct), 0.6)
        similar = similar or next((name for name in paths if key in name.split("_")), None)
        return paths[similar] if similar else None


def _object(path: str, written: object, struct: Declared) -> Mapping[str, object]:
    if isinstance(written, Mapping):
        return written
    known = ", ".join(fields_of(struct))
    raise InvalidSetting(path, f"{_kind_of(written)} is not an object with settings in it: {known}")


def _kind_of(written: object) -> str:
    """Of what stands for a section: text may be the address or the secret that belongs into it."""
    return "text" if isinstance(written, str) else shown(written)
