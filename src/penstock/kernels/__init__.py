"""Hot loops over messages: typed Python with C types beside it, compiled by Cython where a compiler is found.

PENSTOCK_PURE=1 in the environment makes a process run the kernels as plain Python, even where they are compiled."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType

from penstock.core.errors import UnsupportedPlatform

if sys.byteorder != "little":
    raise UnsupportedPlatform(
        "Penstock needs a little-endian processor, as its files are little-endian: use x86-64 or ARM64"
    )


class SourceOnly:
    """Finds the .py of a kernel where the import system would take the compiled module beside it."""

    @staticmethod
    def find_spec(
        fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        package, _, name = fullname.rpartition(".")
        if package != __name__:
            return None
        source = Path(__file__).with_name(f"{name}.py")
        if not source.exists():
            raise ModuleNotFoundError(f"{fullname} is native and PENSTOCK_PURE is set", name=fullname)
        return spec_from_file_location(fullname, source)


def compiled() -> bool:
    """Whether this process runs the compiled kernels, all of them."""
    return all(_is_compiled(path.stem) for path in Path(__file__).parent.glob("*.pxd") if path.stem != "memory")


def _is_compiled(name: str) -> bool:
    return not str(import_module(f"{__name__}.{name}").__file__).endswith(".py")


if os.environ.get("PENSTOCK_PURE") == "1":
    sys.meta_path.insert(0, SourceOnly)
