"""The page docs/configuration.md, made from the declaration and printed: `python -m penstock.server.documentation`."""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
from collections.abc import Iterator
from itertools import pairwise

import msgspec

from penstock.core.settings.fields import REQUIRED, Field, Sections, Setting, fields_of
from penstock.core.settings.numbers import default_text
from penstock.server.config import Config

_BEGIN = """\
# Configuration

Made from the declaration in `src/penstock/server/` (`python -m penstock.server.documentation`); a test says when it
is stale.

Every key can be written in a YAML file (`penstock serve -c penstock.yaml`), as a variable of the environment
(`PENSTOCK_LISTENERS__MQTT__PORT=1884`) and as a flag (`--set listeners.mqtt.port=1884`). A flag goes over a variable,
a variable over the file, the file over the default. Values of variables and flags are JSON where they are some, else
text: `--set 'queues=[{"name": "orders"}]'`.

An unknown key, a value that will not do or a missing file stops the start with exit code 2, and names the key, where
it stands and the nearest known one. `penstock serve --check` does only that. Durations are written with their unit
(`200ms`, `30s`, `1h30m`), sizes too (`64MiB`, `1GB`) or as bytes; `none` is no limit where it is allowed.

SIGHUP reads file and environment again and changes `log`, `auth` (all but `development_mode`), `rate_limit`,
`webhooks`, `shutdown_timeout`, `durability`, `broker.templates`, `exchanges`, `queues`, of `mqtt` for clients that
connect from then on `max_session_expiry` and `max_keep_alive`, and of listeners certificates, `path` and
`allowed_origins`. If any of it will not do, nothing changes. What needs a restart is named in the log.
"""


def page() -> str:
    """The whole page, as Markdown."""
    return _BEGIN + "".join(f"\n{part}" for part in _sections(Config, "", {}))


def _sections(struct: type[msgspec.Struct], path: str, seen: dict[type[msgspec.Struct], str]) -> Iterator[str]:
    """A table for a struct, then one for each that it holds and that was not there yet."""
    seen[struct] = path
    fields, abouts = fields_of(struct), abouts_of(struct)
    rows = [_row(key, field, abouts[field.attribute], path, seen) for key, field in fields.items()]
    title = f"## `{path}`\n\n" if path else "## Top level\n\n"
    yield title + "| key | default | values | |\n|---|---|---|---|\n" + "".join(f"{row}\n" for row in rows)
    for key, field in fields.items():
        if not isinstance(field, Setting) and field.struct not in seen:
            yield from _sections(field.struct, _below(path, key, field), seen)


def _row(key: str, field: Field, about: str, path: str, seen: dict[type[msgspec.Struct], str]) -> str:
    if isinstance(field, Setting):
        shown = "required" if field.default is REQUIRED else f"`{default_text(field.kind, field.default)}`"
        return f"| `{key}` | {shown} | {field.kind.allowed()} | {about} |"
    where = seen.get(field.struct) or _below(path, key, field)
    shown = "" if field.default is not None else "`null`"
    kind = "list of objects" if isinstance(field, Sections) else "object"
    return f"| `{key}` | {'`[]`' if isinstance(field, Sections) else shown} | {kind}, see `{where}` | {about} |"


def _below(path: str, key: str, field: Field) -> str:
    return ".".join(filter(None, [path, key])) + ("[]" if isinstance(field, Sections) else "")


def abouts_of(struct: type[msgspec.Struct]) -> dict[str, str]:
    """What stands under each attribute of the struct and of those it is made from."""
    found: dict[str, str] = {}
    for part in reversed(struct.__mro__):
        if part is not msgspec.Struct and issubclass(part, msgspec.Struct):
            found |= _abouts_in(textwrap.dedent(inspect.getsource(part)))
    return found


def _abouts_in(source: str) -> dict[str, str]:
    definition = ast.parse(source).body[0]
    assert isinstance(definition, ast.ClassDef)
    found: dict[str, str] = {}
    for statement, following in pairwise(definition.body):
        match statement, following:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                found[name] = " ".join(text.split())
    return found


if __name__ == "__main__":
    sys.stdout.write(page())
