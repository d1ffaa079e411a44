"""What people wrote about the configuration, each value with the place it stands: file and line, variable, or flag."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import msgspec

from penstock.core.errors import ErrorCode, InvalidSetting, PenstockError
from penstock.core.marked_yaml import BadYaml, Marked, plain, read_marked
from penstock.core.settings import overlay
from penstock.core.settings.fields import Field, Section, Setting, fields_of
from penstock.core.settings.kind import shown
from penstock.core.settings.texts import Text

ENVIRONMENT_PREFIX = "PENSTOCK_"
# How the package is built and run, not what a server does.
_NOT_SETTINGS = frozenset({"PENSTOCK_PURE", "PENSTOCK_SANITIZE"})
# Kubernetes puts these into every container beside a service that is named penstock.
_SERVICE_LINK = re.compile(r"PENSTOCK_(?:[A-Z0-9_]*_)?(?:SERVICE_(?:HOST|PORT)(?:_\w+)?|PORT(?:_\d+_(?:TCP|UDP)\w*)?)")
# A file is read by a process that others depend on: far more than any configuration, far less than memory.
_FILE_BYTES_MAX = 4 << 20

Struct = TypeVar("Struct", bound=msgspec.Struct)
Tree = dict[str, "Written"]


@dataclass(frozen=True, slots=True)
class Written:
    """`value` is a scalar, a Tree or a list of Written; `text` how a scalar of a variable or flag was spelled."""

    value: object
    place: str
    text: str | None = None

    def plain(self) -> object:
        """Without the places."""
        return plain(self.value)


class BadConfiguration(InvalidSetting):
    """The server does not start with it. `place` is where it is written; empty if nobody wrote it."""

    code = ErrorCode.INVALID_SETTING

    def __init__(self, path: str, reason: str, nearest: str | None = None, place: str = "") -> None:
        where = ": ".join(filter(None, [place, path]))
        PenstockError.__init__(self, f"{where}: {reason}" + (f"; did you mean {nearest}?" if nearest else ""))
        self.path, self.reason, self.nearest, self.place = path, reason, nearest, place


def from_file(file: Path) -> Tree:
    """Of a YAML file. BadConfiguration if it is not there, is no YAML, or has a key twice."""
    try:
        data = file.read_bytes()
    except OSError as error:
        raise BadConfiguration("", f"cannot be read: {error.strerror}; check the path", place=str(file)) from None
    if len(data) > _FILE_BYTES_MAX:
        raise BadConfiguration("", f"has {len(data)} bytes, the limit is {_FILE_BYTES_MAX}", place=str(file))
    try:
        marked = read_marked(str(file), data)
    except BadYaml as error:
        line = f":{error.mark.line}" if error.mark else ""
        raise BadConfiguration(error.path, error.reason, place=f"{file}{line}") from None
    return {} if marked is None else _tree(marked, str(file))


def _tree(marked: Marked, file: str) -> Tree:
    assert isinstance(marked.value, dict)
    return {key: Written(_placed(below, file), f"{file}:{below.key_at.line}") for key, below in marked.value.items()}


def _placed(marked: Marked, file: str) -> object:
    """A value with the places of what is in it."""
    if isinstance(marked.value, dict):
        return _tree(marked, file)
    if isinstance(marked.value, list):
        return [Written(_placed(item, file), f"{file}:{item.at.line}") for item in marked.value]
    return marked.value


def from_environment(variables: Mapping[str, str]) -> Tree:
    """`PENSTOCK_LISTENERS__MQTT__PORT=1884` is `listeners.mqtt.port: 1884`."""
    tree: Tree = {}
    for name, text in sorted(variables.items()):
        if not name.startswith(ENVIRONMENT_PREFIX) or name in _NOT_SETTINGS or _is_service_link(name):
            continue
        path = name.removeprefix(ENVIRONMENT_PREFIX).lower().split("__")
        _put(tree, path, _scalar(text, name), f"variable {name}")
    return tree


def from_flags(changes: Iterable[str]) -> Tree:
    """`listeners.mqtt.port=0`; of two for the same key the last one holds."""
    tree: Tree = {}
    for change in changes:
        path, equals, text = change.partition("=")
        if not equals or not all(path.split(".")):
            reason = f"{shown(change)} is not KEY=VALUE: write it like listeners.mqtt.port=0"
            raise BadConfiguration("", reason, place="--set")
        _put(tree, path.split("."), _scalar(text, f"--set {path}"), f"--set {path}")
    return tree


def over(below: Tree, above: Tree) -> Tree:
    """Both; where both say something of the same key, `above`."""
    merged = dict(below)
    for key, written in above.items():
        under = merged.get(key)
        if under is not None and isinstance(under.value, dict) and isinstance(written.value, dict):
            merged[key] = Written(over(under.value, written.value), written.place)
        else:
            merged[key] = written
    return merged


def place_of(tree: Tree, path: str) -> str:
    """Where that key stands, or the nearest section above it: `queues[0].limits.message_ttl`."""
    place, below = "", Written(tree, "")
    for step in re.findall(r"[^.\[\]]+", path):
        if isinstance(below.value, list) and step.isdigit() and int(step) < len(below.value):
            below = below.value[int(step)]
        elif isinstance(below.value, dict) and step in below.value:
            below = below.value[step]
        else:
            break
        place = below.place
    return place


def read(struct: type[Struct], tree: Tree) -> Struct:
    """The defaults with what is written over them. BadConfiguration for the first thing that will not do."""
    try:
        return overlay.read(struct, _spelled(struct, tree))
    except InvalidSetting as error:
        raise BadConfiguration(error.path, error.reason, error.nearest, place_of(tree, error.path)) from None


def _spelled(struct: type[msgspec.Struct], tree: Tree) -> dict[str, object]:
    """Without places; `--set log.level=1` is the text "1" where text is wanted."""
    fields = fields_of(struct)
    return {key: _spelled_value(fields.get(key), written) for key, written in tree.items()}


def _spelled_value(field: Field | None, written: Written) -> object:
    if isinstance(field, Section) and isinstance(written.value, dict):
        return _spelled(field.struct, written.value)
    is_other = isinstance(written.value, bool | int | float)
    is_text = isinstance(field, Setting) and isinstance(field.kind, Text)
    return written.text if is_text and is_other and written.text else written.plain()


def _is_service_link(name: str) -> bool:
    return "__" not in name and _SERVICE_LINK.fullmatch(name) is not None


def _scalar(text: str, place: str) -> Written:
    """JSON where it is some: a number, true, a list. Else the text."""
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        value = text
    return Written(_located(value, place).value, place, text)


def _located(value: object, place: str) -> Written:
    if isinstance(value, dict):
        return Written({str(key): _located(below, place) for key, below in value.items()}, place)
    if isinstance(value, list):
        return Written([_located(item, place) for item in value], place)
    return Written(value, place)


def _put(tree: Tree, path: list[str], written: Written, place: str) -> None:
    *sections, key = path
    for section in sections:
        below = tree.get(section)
        if below is None or not isinstance(below.value, dict):
            below = tree[section] = Written({}, place)
        assert isinstance(below.value, dict)
        tree = below.value
    tree[key] = written
