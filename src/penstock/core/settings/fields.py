"""The settings that a struct or dataclass declares, by the names people write."""

from __future__ import annotations

import dataclasses
import functools
import types
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Union, cast, get_args, get_origin, get_type_hints

import msgspec

from penstock.core.settings.kind import Kind

Declared = type[Any]
"""a msgspec struct or a dataclass"""
REQUIRED: object = msgspec.NODEFAULT


@dataclass(frozen=True, slots=True)
class Setting:
    """One value: where the struct keeps it, what it is if nobody writes it, and how it is written."""

    attribute: str
    default: object
    kind: Kind
    about: str = ""


@dataclass(frozen=True, slots=True)
class Section:
    """A struct of its own; in JSON an object. `is_optional`: null switches it off, and naming anything in it switches
    it on."""

    attribute: str
    default: object
    struct: Declared
    about: str = ""
    is_optional: bool = False


@dataclass(frozen=True, slots=True)
class Sections:
    """A list of objects of one struct."""

    attribute: str
    default: object
    struct: Declared
    about: str = ""


@dataclass(frozen=True, slots=True)
class NamedSections:
    """Objects of one struct, each with a name that people give it."""

    attribute: str
    default: object
    struct: Declared
    about: str = ""


Field = Setting | Section | Sections | NamedSections


def fields_of(struct: Declared) -> dict[str, Field]:
    """`Annotated[type, kind]` is a value; a struct, one or none, a tuple or a dict of it are sections. The last word of
    Annotated may say what it is for. A key is called like its attribute, without the unit and without an underscore at
    the end."""
    return _fields_of(cast(Any, struct))


@functools.cache
def _fields_of(struct: Any) -> dict[str, Field]:
    found: dict[str, Field] = {}
    defaults = _defaults(struct)
    for attribute, hint in get_type_hints(struct, include_extras=True).items():
        field = _field(attribute, hint, defaults.get(attribute, REQUIRED))
        if field is not None:
            suffix = field.kind.suffix if isinstance(field, Setting) else ""
            found[attribute.removesuffix(suffix).removesuffix("_")] = field
    return found


def paths_of(struct: Declared, prefix: str = "") -> Iterator[str]:
    """Every key there is, with dots."""
    for key, field in fields_of(struct).items():
        yield prefix + key
        if isinstance(field, Section):
            yield from paths_of(field.struct, f"{prefix}{key}.")


def _field(attribute: str, hint: object, default: object) -> Field | None:
    said = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
    about = next((word for word in said if isinstance(word, str)), "")
    if said and isinstance(said[0], Kind):
        return Setting(attribute, default, said[0], about)
    below = get_args(hint)[0] if said else hint
    origin = get_origin(below)
    if origin is tuple:
        return Sections(attribute, default, get_args(below)[0], about)
    if origin is dict and said:
        return NamedSections(attribute, default, get_args(below)[1], about)
    if origin in (Union, types.UnionType):
        return Section(attribute, default, get_args(below)[0], about, is_optional=True)
    if said or (isinstance(below, type) and issubclass(below, msgspec.Struct)):
        assert isinstance(below, type)
        return Section(attribute, default, below, about)
    return None


def _defaults(struct: Declared) -> dict[str, object]:
    if dataclasses.is_dataclass(struct):
        return {field.name: _default(field.default, field.default_factory) for field in dataclasses.fields(struct)}
    return {field.name: _default(field.default, field.default_factory) for field in msgspec.structs.fields(struct)}


def _default(default: object, factory: object) -> object:
    if default is not dataclasses.MISSING and default is not msgspec.NODEFAULT:
        return default
    return factory() if callable(factory) else REQUIRED
