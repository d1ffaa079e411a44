"""The settings of a queue as the description has them."""

from __future__ import annotations

from penstock.core.patterns import NEW_NAME, PLAIN
from penstock.core.settings.json_schema import section_schema
from penstock.core.settings.kind import Json
from penstock.queues.settings import QueueSettings

_MAX_NAME = 255
_STRICT: Json = {
    "if": {"properties": {"ordering": {"const": "strict"}}, "required": ["ordering"]},
    "then": {"properties": {"partitions": {"const": 1}}},
}
_NAMES: Json = {
    "name": {"type": "string", "pattern": f"^{NEW_NAME}$", "maxLength": _MAX_NAME},
    "namespace": {"type": "string", "pattern": rf"^{PLAIN}$", "maxLength": _MAX_NAME},
}


def settings_schema(*, is_new: bool) -> Json:
    """Of a queue's settings, as they are written. Name and namespace are said of a new queue, and never change."""
    schema = section_schema(QueueSettings)
    properties = schema["properties"]
    assert isinstance(properties, dict)
    rest = {name: each for name, each in properties.items() if name not in _NAMES}
    if is_new:
        return {**schema, "properties": {**_NAMES, **rest}, **_STRICT}
    return {"type": "object", "properties": rest, "additionalProperties": False, **_STRICT}
