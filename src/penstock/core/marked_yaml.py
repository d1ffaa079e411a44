"""YAML whose values know where they stand: an error about one can name line and column."""

from __future__ import annotations

from dataclasses import dataclass

import yaml

from penstock.core.errors import InvalidArgument

# More than anyone writes by hand, far less than memory.
_DEPTH_MAX = 32


@dataclass(frozen=True, slots=True)
class Mark:
    """A place in a text; lines and columns count from 1."""

    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Marked:
    """`value` is a scalar, a dict of Marked or a list of Marked. `key_at` is where the key of it stands, where it has
    one; `style` how a scalar is written: None is plain, else the character that begins it."""

    value: object
    at: Mark
    key_at: Mark
    style: str | None = None

    def plain(self) -> object:
        """Without the marks."""
        return plain(self.value)


def plain(value: object) -> object:
    """A tree without what its nodes say beside their `value`."""
    if isinstance(value, dict):
        return {key: plain(below.value) for key, below in value.items()}
    if isinstance(value, list):
        return [plain(item.value) for item in value]
    return value


def mark_below(marked: Marked, path: str) -> Mark:
    """Where the value stands that has that path below this one, `.name` or `[0]`; else the nearest one above it. A name
    may have dots in it."""
    if isinstance(marked.value, dict):
        for name, item in marked.value.items():
            rest = path.removeprefix(f".{name}")
            if rest != path and rest[:1] in ("", ".", "["):
                return mark_below(item, rest)
    if isinstance(marked.value, list):
        for number, item in enumerate(marked.value):
            if path.startswith(f"[{number}]"):
                return mark_below(item, path.removeprefix(f"[{number}]"))
    return marked.at


class BadYaml(InvalidArgument):
    """`path` is where in the tree, with dots; `mark` where in the text, if that is known."""

    def __init__(self, reason: str, path: str = "", mark: Mark | None = None) -> None:
        super().__init__(reason)
        self.reason, self.path, self.mark = reason, path, mark


def read_marked(name: str, data: bytes) -> Marked | None:
    """The mapping of a text; None where nothing is in it. BadYaml if it is no YAML, no mapping, or has a key twice;
    `name` is what the text is called there."""
    try:
        return _Reader(name, data).read()
    except yaml.MarkedYAMLError as error:
        mark = _mark(error.problem_mark) if error.problem_mark else None
        raise BadYaml(f"not YAML: {error.problem or error.context}", mark=mark) from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise BadYaml(f"not YAML: {error}") from None


def _mark(mark: yaml.Mark) -> Mark:
    return Mark(mark.line + 1, mark.column + 1)


class _Reader:
    """Nodes instead of values, because only nodes know their lines and show keys that come twice."""

    def __init__(self, name: str, data: bytes) -> None:
        self._name, self._loader = name, yaml.SafeLoader(data)

    def read(self) -> Marked | None:
        try:
            node = self._loader.get_single_node()
            if node is None:
                return None
            if not isinstance(node, yaml.MappingNode):
                raise BadYaml("is not a mapping of settings: write `key: value`", mark=_mark(node.start_mark))
            return self._value(node, _mark(node.start_mark), "", 0)
        finally:
            self._loader.dispose()

    def _value(self, node: yaml.Node, key_at: Mark, path: str, depth: int) -> Marked:
        at = _mark(node.start_mark)
        if depth > _DEPTH_MAX:
            raise BadYaml(f"is nested more than {_DEPTH_MAX} deep", path, at)
        if isinstance(node, yaml.MappingNode):
            return Marked(self._mapping(node, path, depth), at, key_at)
        if isinstance(node, yaml.SequenceNode):
            items = enumerate(node.value)
            below = [self._value(item, _mark(item.start_mark), f"{path}[{i}]", depth + 1) for i, item in items]
            return Marked(below, at, key_at)
        style = node.style if isinstance(node, yaml.ScalarNode) else None
        return Marked(self._loader.construct_object(node), at, key_at, style)

    def _mapping(self, node: yaml.MappingNode, path: str, depth: int) -> dict[str, Marked]:
        tree: dict[str, Marked] = {}
        for key_node, value_node in node.value:
            key, key_at = str(key_node.value), _mark(key_node.start_mark)
            below = f"{path}.{key}" if path else key
            if not isinstance(key_node, yaml.ScalarNode):
                raise BadYaml("a key is not text", path, key_at)
            if key in tree:
                reason = f"is given twice, first at {self._name}:{tree[key].key_at.line}: keep one"
                raise BadYaml(reason, below, key_at)
            tree[key] = self._value(value_node, key_at, below, depth + 1)
        return tree
