"""The settings that a struct declares: read over what there is, written back, and the nearest to an unknown one."""

from __future__ import annotations

import difflib
import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, TypeVar, get_args, get_origin, get_type_hints

import msgspec

from penstock.core.errors import InvalidSetting
from penstock.queues.settings_text import Kind, shown

Settings = TypeVar("Settings", bound=msgspec.Struct)

# Settings of capabilities that come later, refused by name so that nobody takes them for working.
_LATER = ("delay", "priority", "schema")
_SHOWN_CHARACTERS = 80


@dataclass(frozen=True, slots=True)
class Setting:
    """One value: where the struct keeps it, and how it is written."""

    attribute: str
    kind: Kind


@dataclass(frozen=True, slots=True)
class Section:
    """A struct of its own; in JSON an object."""

    attribute: str
    struct: type[msgspec.Struct]


@functools.cache
def settings_of(struct: type[msgspec.Struct]) -> dict[str, Setting | Section]:
    """By the name people write. A value is declared as `Annotated[type, kind]`, a section by its struct."""
    found: dict[str, Setting | Section] = {}
    for attribute, hint in get_type_hints(struct, include_extras=True).items():
        if get_origin(hint) is Annotated:
            kind: Kind = get_args(hint)[1]
            found[attribute.removesuffix(kind.suffix)] = Setting(attribute, kind)
        else:
            found[attribute] = Section(attribute, hint)
    return found


def overlay(base: Settings, written: Mapping[str, object]) -> Settings:
    """`base` with what is written put over it, section by section. InvalidSetting for the first thing that will not do;
    rules that concern several settings are the caller's."""
    return _overlay(base, written, "", type(base))


def outside(settings: msgspec.Struct) -> dict[str, object]:
    """All settings as people write them; overlay() of it over anything gives the same settings."""
    return {key: _outside(settings, setting) for key, setting in settings_of(type(settings)).items()}


def _outside(settings: msgspec.Struct, setting: Setting | Section) -> object:
    value = getattr(settings, setting.attribute)
    return setting.kind.write(value) if isinstance(setting, Setting) else outside(value)


def _overlay(base: Settings, written: Mapping[str, object], prefix: str, root: type[msgspec.Struct]) -> Settings:
    changes: dict[str, object] = {}
    for key, value in written.items():
        setting = settings_of(type(base)).get(key)
        if setting is None:
            raise _unknown(str(key)[:_SHOWN_CHARACTERS], prefix, type(base), root)
        if isinstance(setting, Setting):
            changes[setting.attribute] = setting.kind.read(prefix + key, value)
        else:
            below = _object(prefix + key, value, setting.struct)
            changes[setting.attribute] = _overlay(getattr(base, setting.attribute), below, f"{prefix}{key}.", root)
    return msgspec.structs.replace(base, **changes)


def _object(path: str, written: object, struct: type[msgspec.Struct]) -> Mapping[str, object]:
    if isinstance(written, Mapping):
        return written
    raise InvalidSetting(
        path, f"{shown(written)} is not an object with settings in it: {', '.join(settings_of(struct))}"
    )


def _unknown(key: str, prefix: str, struct: type[msgspec.Struct], root: type[msgspec.Struct]) -> InvalidSetting:
    path = f"{prefix}{key}"
    later = next((word for word in _LATER if key.startswith(word)), None)
    if later is not None:
        return InvalidSetting(path, f"settings of {later} are not available yet: leave it out")
    near = _nearest(key, prefix, struct, root)
    known = "" if near else f": the known ones are {', '.join(settings_of(struct))}"
    return InvalidSetting(path, f"no such setting{known}", near)


def _nearest(key: str, prefix: str, struct: type[msgspec.Struct], root: type[msgspec.Struct]) -> str | None:
    """The path of the most similar name, in this section or any other, else of one that has the key as a word in it."""
    paths = {path.rpartition(".")[2]: path for path in _paths(root)}
    paths |= {name: prefix + name for name in settings_of(struct)}
    similar = difflib.get_close_matches(key, paths, n=1) or [name for name in paths if key in name.split("_")]
    return paths[similar[0]] if similar else None


def _paths(struct: type[msgspec.Struct], prefix: str = "") -> Iterator[str]:
    for key, setting in settings_of(struct).items():
        yield prefix + key
        if isinstance(setting, Section):
            yield from _paths(setting.struct, f"{prefix}{key}.")
