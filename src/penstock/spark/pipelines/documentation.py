"""The tables of keys in docs/howto/pipelines_declared.md, made from the declaration and printed:
`python -m penstock.spark.pipelines.documentation`."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from penstock.core.settings.fields import REQUIRED, Field, NamedSections, Setting, fields_of
from penstock.core.units import duration_text
from penstock.spark.pipelines.declaration import Connection, Declared, Pipeline, Trigger


def key_tables() -> str:
    return "\n".join(_tables(Pipeline, "", set()))


def _tables(struct: type[Declared], path: str, seen: set[type[Declared]]) -> Iterator[str]:
    """A table for a section, then one for each that it holds and that was not there yet."""
    seen.add(struct)
    own = {key: known for key, known in fields_of(struct).items() if not _is_connection(struct, key)}
    rows = [f"| `{key}` | {_default(known)} | {known.about} |\n" for key, known in own.items()]
    more = "" if len(own) == len(fields_of(struct)) else "\nAnd the keys of `broker`.\n"
    yield (f"### `{path}`\n\n" if path else "") + "| key | default | |\n|---|---|---|\n" + "".join(rows) + more
    for key, known in own.items():
        if not isinstance(known, Setting) and known.struct not in seen and known.struct is not Trigger:
            yield from _tables(known.struct, _join(path, key, known), seen)


def _is_connection(struct: type[Declared], key: str) -> bool:
    return struct is not Connection and issubclass(struct, Connection) and key in fields_of(Connection)


def _join(path: str, key: str, known: Field) -> str:
    return ".".join(filter(None, [path, key])) + (".NAME" if isinstance(known, NamedSections) else "")


def _default(known: Field) -> str:
    default = known.default
    if default is REQUIRED:
        return "required"
    if isinstance(default, bool) or default in (None, (), {}) or isinstance(default, Declared):
        return ""
    if known.attribute.endswith("_ms") and isinstance(default, int):
        return f"`{duration_text(default)}`"
    return f"`{', '.join(default)}`" if isinstance(default, tuple) else f"`{default}`"


if __name__ == "__main__":
    sys.stdout.write(key_tables())
