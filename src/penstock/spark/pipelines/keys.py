"""The keys of a section, from its struct."""

from __future__ import annotations

import types
from dataclasses import MISSING, dataclass, fields
from typing import Annotated, Union, cast, get_args, get_origin, get_type_hints

from penstock.spark.pipelines.declaration import Declared
from penstock.spark.pipelines.kinds import Kind

_UNIT = "_ms"


@dataclass(frozen=True, slots=True)
class Value:
    """A scalar, or what its kind makes of it."""

    attribute: str
    about: str
    kind: Kind


@dataclass(frozen=True, slots=True)
class Below:
    """A section of its own, or with `is_named` many of them by name."""

    attribute: str
    about: str
    struct: type[Declared]
    is_named: bool = False


def keys_of(struct: type[Declared]) -> dict[str, Value | Below]:
    """What may be written in a section, by the names people write."""
    found: dict[str, Value | Below] = {}
    for attribute, hint in get_type_hints(struct, include_extras=True).items():
        if get_origin(hint) is Annotated:
            key = attribute.removesuffix(_UNIT).removesuffix("_")
            kind, *about = get_args(hint)[1:]
            found[key] = Value(attribute, about[0], kind) if about else _below(attribute, get_args(hint)[0], kind)
    return found


def _below(attribute: str, hint: object, about: str) -> Below:
    if get_origin(hint) is dict:
        return Below(attribute, about, get_args(hint)[1], is_named=True)
    if get_origin(hint) in (Union, types.UnionType):
        hint = get_args(hint)[0]
    return Below(attribute, about, cast(type[Declared], hint))


def is_required(struct: type[Declared], attribute: str) -> bool:
    found = next(field for field in fields(struct) if field.name == attribute)
    return found.default is MISSING and found.default_factory is MISSING
