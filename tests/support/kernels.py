"""Both builds of a kernel in one process: the module that is imported, and the same source run as plain Python."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

import penstock.kernels

_NATIVE = "penstock.kernels._native"


def pure(name: str) -> ModuleType:
    """The kernel's source as a module of its own, without what the native kernel would give it."""
    spec = spec_from_file_location(f"pure_{name}", Path(penstock.kernels.__file__).with_name(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    native = sys.modules.pop(_NATIVE, None)
    sys.modules[_NATIVE] = None  # type: ignore[assignment]  # None makes the import fail
    try:
        spec.loader.exec_module(module)
    finally:
        del sys.modules[_NATIVE]
        if native is not None:
            sys.modules[_NATIVE] = native
    return module


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
