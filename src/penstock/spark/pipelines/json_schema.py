"""The declaration as JSON Schema, for editors: `penstock pipeline check --schema`."""

from __future__ import annotations

from penstock.spark.pipelines.declaration import Declared, Pipeline, Trigger
from penstock.spark.pipelines.keys import Below, Value, is_required, keys_of
from penstock.spark.pipelines.kinds import Json
from penstock.spark.pipelines.reading import ONCE

_NAMES = {"pattern": "^[A-Za-z_][A-Za-z0-9_]*$"}


def pipeline_schema() -> Json:
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A declared pipeline of Penstock",
        **_section(Pipeline),
    }


def _section(struct: type[Declared]) -> Json:
    keys = keys_of(struct)
    schema: Json = {
        "type": "object",
        "additionalProperties": False,
        "properties": {key: {"description": known.about, **_key(known)} for key, known in keys.items()},
    }
    if required := [key for key, known in keys.items() if is_required(struct, known.attribute)]:
        schema["required"] = required
    return {"anyOf": [{"enum": list(ONCE)}, schema]} if struct is Trigger else schema


def _key(known: Value | Below) -> Json:
    if isinstance(known, Value):
        return known.kind.schema()
    if known.is_named:
        return {"type": "object", "propertyNames": _NAMES, "additionalProperties": _section(known.struct)}
    return _section(known.struct)
