"""A declaration in Python: a file with `pipeline`, a dict of the same keys or a function that returns one."""

from __future__ import annotations

import ast
import runpy
import sys
from collections.abc import Mapping
from pathlib import Path

from penstock.core.marked_yaml import Mark, Marked
from penstock.spark.pipelines.problems import BadPipeline, Problem

NAME = "pipeline"
_BEGIN = Mark(1, 1)


def read_python(file: Path, data: bytes) -> Marked:
    """Runs the file, beside which its modules are found. Places are those of the literal dict, where there is one."""
    try:
        tree = ast.parse(data, str(file))
    except SyntaxError as error:
        mark = Mark(error.lineno or 1, error.offset or 1)
        raise BadPipeline(str(file), [Problem("", f"not Python: {error.msg}", mark)]) from None
    value = _given(file)
    if not isinstance(value, Mapping):
        reason = f"gives no declaration: let {NAME} be a dict with name, sources and sinks, or a function returning one"
        raise BadPipeline(str(file), [Problem("", reason)])
    return _marked(value, _literal(tree), _BEGIN)


def _given(file: Path) -> object:
    directory = str(file.absolute().parent)
    if directory not in sys.path:
        sys.path.insert(0, directory)
    try:
        found: object = runpy.run_path(str(file), run_name=f"{NAME}_declaration").get(NAME)
        return found() if callable(found) else found
    except Exception as error:
        # Whatever the user's own program raises.
        raise BadPipeline(str(file), [Problem("", f"raised {type(error).__name__}: {error}")]) from error


def _literal(tree: ast.Module) -> ast.expr | None:
    """What `pipeline` is set to, or what a function of that name returns."""
    for statement in tree.body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if name == NAME:
                return value
            case ast.AnnAssign(target=ast.Name(id=name), value=value) if name == NAME:
                return value
            case ast.FunctionDef(name=name, body=[*_, ast.Return(value=value)]) if name == NAME:
                return value
    return None


def _marked(value: object, node: ast.expr | None, key_at: Mark) -> Marked:
    at = Mark(node.lineno, node.col_offset + 1) if node is not None else key_at
    if isinstance(value, Mapping):
        nodes = _entries(node)
        below: object = {
            str(key): _marked(item, nodes.get(key, (at, None))[1], nodes.get(key, (at, None))[0])
            for key, item in value.items()
        }
    elif isinstance(value, list | tuple):
        items = node.elts if isinstance(node, ast.List | ast.Tuple) and len(node.elts) == len(value) else None
        below = [_marked(item, items[number] if items else None, at) for number, item in enumerate(value)]
    else:
        below = value
    return Marked(below, at, key_at, "python")


def _entries(node: ast.expr | None) -> dict[object, tuple[Mark, ast.expr]]:
    if not isinstance(node, ast.Dict):
        return {}
    return {
        key.value: (Mark(key.lineno, key.col_offset + 1), value)
        for key, value in zip(node.keys, node.values, strict=True)
        if isinstance(key, ast.Constant)
    }
