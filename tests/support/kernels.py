"""Both builds of a kernel in one process: the module that is imported, and the same source run as plain Python."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

import penstock.kernels
from penstock.kernels import SourceOnly

_PACKAGE = penstock.kernels.__name__


def pure(name: str) -> ModuleType:
    """The kernel's source as a module of its own, with the kernels that it imports from source too, and without what
    the native kernel would give it."""
    path = Path(penstock.kernels.__file__).with_name(f"{name}.py")
    spec = spec_from_file_location(f"pure_{name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    with _source_only():
        spec.loader.exec_module(module)
    return module


@contextmanager
def _source_only() -> Iterator[None]:
    """Compiled kernels are out of sight; afterwards the package is as it was."""
    names = [module for module in sys.modules if module.startswith(f"{_PACKAGE}.") and not _is_source(module)]
    hidden = {module: sys.modules.pop(module) for module in names}
    attributes = dict(vars(penstock.kernels))
    for module in hidden:
        vars(penstock.kernels).pop(module.rpartition(".")[2], None)
    before = set(sys.modules)
    sys.meta_path.insert(0, SourceOnly)
    try:
        yield
    finally:
        sys.meta_path.remove(SourceOnly)
        for module in [name for name in sys.modules if name.startswith(f"{_PACKAGE}.") and name not in before]:
            del sys.modules[module]
        sys.modules.update(hidden)
        vars(penstock.kernels).clear()
        vars(penstock.kernels).update(attributes)


def _is_source(module: str) -> bool:
    return str(sys.modules[module].__file__).endswith(".py")


def builds(name: str) -> list[object]:
    """Parameters for a test: the compiled kernel where there is one, and the pure one always."""
    both: list[object] = [pytest.param(pure(name), id="pure")]
    if penstock.kernels.compiled():
        both.append(pytest.param(import_module(f"penstock.kernels.{name}"), id="compiled"))
    return both


def both(name: str) -> tuple[ModuleType, ModuleType]:
    """(pure, compiled); skips the test where nothing is compiled."""
    if not penstock.kernels.compiled():
        pytest.skip("the kernels are not compiled")
    return pure(name), import_module(f"penstock.kernels.{name}")
