"""Python functions that steps name: `module:function`, or `file.py:function` beside the declaration."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path

from penstock.core.errors import InvalidArgument

Function = Callable[..., object]


def find_function(name: str, directory: Path) -> None:
    """InvalidArgument if there is no such module; the module is not imported for that."""
    module, _, _ = name.rpartition(":")
    if module.endswith(".py"):
        if not (directory / module).is_file():
            raise InvalidArgument(f"there is no file {module} in {directory}")
        return
    _beside(directory)
    try:
        is_there = importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):
        is_there = False
    if not is_there:
        raise InvalidArgument(f"there is no module {module}, not in {directory} either: check the name, or install it")


def load_function(name: str, directory: Path) -> Function:
    """InvalidArgument if it cannot be imported, or is no function."""
    module_name, _, attribute = name.rpartition(":")
    _beside(directory)
    try:
        module = importlib.import_module(Path(module_name).stem if module_name.endswith(".py") else module_name)
    except Exception as error:
        # Whatever the user's own module raises.
        raise InvalidArgument(f"{module_name} cannot be imported: {type(error).__name__}: {error}") from error
    found: object = getattr(module, attribute, None)
    if not callable(found):
        raise InvalidArgument(f"{module_name} has no function {attribute}")
    return found


def _beside(directory: Path) -> None:
    if str(directory) not in sys.path:
        sys.path.insert(0, str(directory))
        importlib.invalidate_caches()
