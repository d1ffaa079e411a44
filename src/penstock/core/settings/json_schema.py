"""Declared settings as JSON Schema."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.core.settings.fields import (
    REQUIRED,
    Declared,
    Field,
    NamedSections,
    Sections,
    Setting,
    fields_of,
)
from penstock.core.settings.kind import Json, any_of

_NAMES = {"pattern": "^[A-Za-z_][A-Za-z0-9_]*$"}


def section_schema(struct: Declared, instead: Mapping[Declared, Json] | None = None) -> Json:
    """Of an object with the settings of a struct. `instead` has what may stand in place of the object of one."""
    others = instead or {}
    fields = fields_of(struct)
    schema: Json = {
        "type": "object",
        "properties": {key: _described(field, _field(field, others)) for key, field in fields.items()},
        "additionalProperties": False,
    }
    if required := [key for key, field in fields.items() if field.default is REQUIRED]:
        schema["required"] = required
    return any_of(others[struct], schema) if struct in others else schema


def _field(field: Field, instead: Mapping[Declared, Json]) -> Json:
    if isinstance(field, Setting):
        return field.kind.schema()
    below = section_schema(field.struct, instead)
    if isinstance(field, Sections):
        return {"type": "array", "items": below}
    if isinstance(field, NamedSections):
        return {"type": "object", "propertyNames": _NAMES, "additionalProperties": below}
    return below


def _described(field: Field, schema: Json) -> Json:
    return {"description": field.about, **schema} if field.about else schema
