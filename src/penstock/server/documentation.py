"""The page docs/configuration.md, made from the declaration and printed: `python -m penstock.server.documentation`."""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
from collections.abc import Iterator
from itertools import pairwise

import msgspec

from penstock.queues.settings_text import Choice, Count, Duration, Factor, Flag, Size
from penstock.server.config import Config
from penstock.server.config_listeners import AutoCount, NotInThisVersion
from penstock.server.config_storage import ReserveSize
from penstock.server.config_webhooks import Address, Headers, Words
from penstock.server.schema import Field, Kind, Objects, OneOf, Secret, Section, Sections, Setting, Texts, fields_of

_UNITS = {1 << 40: "TiB", 1 << 30: "GiB", 1 << 20: "MiB", 1 << 10: "KiB"}
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
`webhooks`, `shutdown_timeout`, `durability`, `broker.templates`, `queues`, of `mqtt` for clients that connect from then
on `max_session_expiry` and `max_keep_alive`, and of listeners certificates, `path` and `allowed_origins`. If any of it
will not do, nothing changes. What needs a restart is named in the log.
"""


def page() -> str:
    """The whole page, as Markdown."""
    return _BEGIN + "".join(f"\n{part}" for part in _sections(Config, "", {}))


def _sections(struct: type[msgspec.Struct], path: str, seen: dict[type[msgspec.Struct], str]) -> Iterator[str]:
    """A table for a struct, then one for each that it holds and that was not there yet."""
    seen[struct] = path
    fields, abouts = fields_of(struct), abouts_of(struct)
    rows = [_row(key, field, abouts[field.attribute], path, struct, seen) for key, field in fields.items()]
    title = f"## `{path}`\n\n" if path else "## Top level\n\n"
    yield title + "| key | default | values | |\n|---|---|---|---|\n" + "".join(f"{row}\n" for row in rows)
    for key, field in fields.items():
        if not isinstance(field, Setting) and field.struct not in seen:
            yield from _sections(field.struct, _below(path, key, field), seen)


def _row(
    key: str, field: Field, about: str, path: str, struct: type[msgspec.Struct], seen: dict[type[msgspec.Struct], str]
) -> str:
    default = {item.name: item.default for item in msgspec.structs.fields(struct)}[field.attribute]
    if isinstance(field, Setting):
        shown = "required" if default is msgspec.NODEFAULT else f"`{_default_text(field.kind, default)}`"
        return f"| `{key}` | {shown} | {_values_text(field.kind)} | {about} |"
    where = seen.get(field.struct) or _below(path, key, field)
    shown = "" if default is not None else "`null`"
    kind = "list of objects" if isinstance(field, Sections) else "object"
    return f"| `{key}` | {'`[]`' if isinstance(field, Sections) else shown} | {kind}, see `{where}` | {about} |"


def _below(path: str, key: str, field: Section | Sections) -> str:
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


def _default_text(kind: Kind, default: object) -> str:
    if default is None:
        return (
            "auto"
            if isinstance(kind, ReserveSize | AutoCount)
            else "none"
            if isinstance(kind, Duration | Size)
            else "null"
        )
    written = kind.write(default)
    if isinstance(kind, Size | ReserveSize) and isinstance(written, int):
        return _size_text(written)
    return str(written).lower() if isinstance(written, bool) else str(written)


def _size_text(size_bytes: int) -> str:
    unit = next((unit for unit in _UNITS if size_bytes and size_bytes % unit == 0), 1)
    return f"{size_bytes // unit}{_UNITS.get(unit, '')}"


def _values_text(kind: Kind) -> str:
    match kind:
        case Duration() | Size():
            return ("duration" if isinstance(kind, Duration) else "size") + (", or `none`" if kind.or_none else "")
        case Count():
            return f"{kind.least} to {kind.most}" if kind.most < 1 << 20 else f"{kind.least} and more"
        case Factor():
            return f"{kind.least} to {kind.most}"
        case Flag():
            return "`true`, `false`"
        case Choice():
            return ", ".join(f"`{kind.write(member)}`" for member in kind.members)
        case OneOf():
            return ", ".join(f"`{word}`" for word in kind.words)
        case Objects():
            return "list of objects"
        case Texts():
            return "list of texts"
        case Words():
            return "list of " + ", ".join(f"`{word}`" for word in kind.words)
    others = {
        Secret: "secret text",
        ReserveSize: "size, or `auto`",
        AutoCount: "1 and more, or `auto`",
        NotInThisVersion: "`null`",
    }
    return (others | {Headers: "object of texts", Address: "address, http or https"}).get(type(kind), "text")


if __name__ == "__main__":
    sys.stdout.write(page())
