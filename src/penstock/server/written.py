"""What people wrote about the configuration, each value with the place it stands: file and line, variable, or flag."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec
import yaml

from penstock.core.errors import ErrorCode, InvalidSetting, PenstockError
from penstock.queues.settings_text import shown

ENVIRONMENT_PREFIX = "PENSTOCK_"
# How the package is built and run, not what a server does.
_NOT_SETTINGS = frozenset({"PENSTOCK_PURE", "PENSTOCK_SANITIZE"})
# Kubernetes puts these into every container beside a service that is named penstock.
_SERVICE_LINK = re.compile(r"PENSTOCK_(?:[A-Z0-9_]*_)?(?:SERVICE_(?:HOST|PORT)(?:_\w+)?|PORT(?:_\d+_(?:TCP|UDP)\w*)?)")
# A file is read by a process that others depend on: far more than any configuration, far less than memory.
_FILE_BYTES_MAX = 4 << 20
_DEPTH_MAX = 32

Tree = dict[str, "Written"]


@dataclass(frozen=True, slots=True)
class Written:
    """`value` is a scalar, a Tree or a list of Written; `text` how a scalar of a variable or flag was spelled."""

    value: object
    place: str
    text: str | None = None

    def plain(self) -> object:
        """Without the places."""
        if isinstance(self.value, dict):
            return {key: below.plain() for key, below in self.value.items()}
        if isinstance(self.value, list):
            return [item.plain() for item in self.value]
        return self.value


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
        return _YamlReader(str(file), data).read()
    except yaml.MarkedYAMLError as error:
        line = f":{error.problem_mark.line + 1}" if error.problem_mark else ""
        reason = f"not YAML: {error.problem or error.context}"
        raise BadConfiguration("", reason, place=f"{file}{line}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise BadConfiguration("", f"not YAML: {error}", place=str(file)) from None


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


class _YamlReader:
    """Nodes instead of values, because only nodes know their lines and show keys that come twice."""

    def __init__(self, file: str, data: bytes) -> None:
        self._file, self._loader = file, yaml.SafeLoader(data)

    def read(self) -> Tree:
        try:
            node = self._loader.get_single_node()
            if node is None:
                return {}
            if not isinstance(node, yaml.MappingNode):
                raise BadConfiguration("", "is not a mapping of settings: write `key: value`", place=self._place(node))
            return self._mapping(node, "", 0)
        finally:
            self._loader.dispose()

    def _mapping(self, node: yaml.MappingNode, path: str, depth: int) -> Tree:
        tree: Tree = {}
        for key_node, value_node in node.value:
            key, place = str(key_node.value), self._place(key_node)
            below = f"{path}.{key}" if path else key
            if not isinstance(key_node, yaml.ScalarNode):
                raise BadConfiguration(path, "a key is not text", place=place)
            if key in tree:
                reason = f"is there twice, first at {tree[key].place}: keep one"
                raise BadConfiguration(below, reason, place=place)
            tree[key] = Written(self._value(value_node, below, depth + 1), place)
        return tree

    def _value(self, node: yaml.Node, path: str, depth: int) -> object:
        if depth > _DEPTH_MAX:
            raise BadConfiguration(path, f"is nested more than {_DEPTH_MAX} deep", place=self._place(node))
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path, depth)
        if isinstance(node, yaml.SequenceNode):
            items = enumerate(node.value)
            return [Written(self._value(item, f"{path}[{i}]", depth + 1), self._place(item)) for i, item in items]
        return self._loader.construct_object(node)

    def _place(self, node: yaml.Node) -> str:
        return f"{self._file}:{node.start_mark.line + 1}"
