"""The values of settings: as people write them, nested or by their paths."""

from __future__ import annotations

import msgspec

from penstock.core.settings.fields import Section, Setting, fields_of


def outside(settings: msgspec.Struct) -> dict[str, object]:
    """All settings as people write them; overlay() of it over anything gives the same settings."""
    found: dict[str, object] = {}
    for key, field in fields_of(type(settings)).items():
        value = getattr(settings, field.attribute)
        found[key] = field.kind.write(value) if isinstance(field, Setting) else outside(value)
    return found


def values_of(settings: msgspec.Struct, prefix: str = "", *, reveal: bool = False) -> dict[str, object]:
    """Every value by its path, as people write it; a section that is off is None. With `reveal`, values as they are in
    memory, secrets too: to be compared, never to be shown."""
    found: dict[str, object] = {}
    for key, field in fields_of(type(settings)).items():
        value = getattr(settings, field.attribute)
        if isinstance(field, Setting):
            found[prefix + key] = value if reveal else field.kind.write(value)
        elif isinstance(field, Section):
            below = f"{prefix}{key}."
            found |= {prefix + key: None} if value is None else values_of(value, below, reveal=reveal)
        else:
            for number, item in enumerate(value):
                found |= values_of(item, f"{prefix}{key}[{number}].", reveal=reveal)
    return found
