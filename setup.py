"""Builds the kernels: typed Python with a .pxd beside it, compiled by Cython. Everything else is in pyproject.toml.

Without Cython or a C compiler the installation succeeds all the same, with the kernels left as plain Python.
PENSTOCK_PURE=1 leaves them so on purpose; PENSTOCK_SANITIZE=address builds them with AddressSanitizer."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from setuptools import Extension, setup  # type: ignore[import-untyped]  # setuptools ships no types
from setuptools.command.build_ext import build_ext  # type: ignore[import-untyped]  # as above

KERNELS = Path("src/penstock/kernels")
NOT_COMPILED = {"memory"}
"""kernels whose .pxd holds inline C for the others"""

DIRECTIVES = {
    "language_level": 3,
    "annotation_typing": False,  # the C types are those of the .pxd; annotations are for mypy
    "boundscheck": True,  # kernels read bytes from the network
    "wraparound": False,
}


class BuildKernels(build_ext):  # type: ignore[misc]  # its base is untyped
    """Says in one line what went wrong and lets the installation go on: a kernel that is not built runs as Python."""

    def finalize_options(self) -> None:
        super().finalize_options()
        self.parallel: int | None = self.parallel or os.cpu_count()

    def run(self) -> None:
        try:
            self._translate()
            super().run()
        except Exception as error:
            reason = str(error).strip().partition("\n")[0]
            print(f"penstock: kernels stay uncompiled ({type(error).__name__}: {reason})", file=sys.stderr)
            self.extensions: list[Extension] = []

    def _translate(self) -> None:
        from Cython.Build import cythonize

        translated = cythonize(  # type: ignore[no-untyped-call]  # Cython ships no types
            self.extensions,
            build_dir="build/cython",
            include_path=["src"],
            compiler_directives=DIRECTIVES,
            quiet=True,
        )
        for extension, with_c in zip(self.extensions, translated, strict=True):
            extension.sources = with_c.sources


def flags() -> tuple[list[str], list[str]]:
    """For the compiler and for the linker."""
    if sanitizer := os.environ.get("PENSTOCK_SANITIZE"):
        return ["-O1", "-g", f"-fsanitize={sanitizer}"], [f"-fsanitize={sanitizer}"]
    return ["-O3", "-g0"], []


def kernels() -> list[Extension]:
    if os.environ.get("PENSTOCK_PURE") == "1":
        return []
    typed = [KERNELS / f"{path.stem}.py" for path in sorted(KERNELS.glob("*.pxd")) if path.stem not in NOT_COMPILED]
    sources = [*sorted(KERNELS.glob("*.pyx")), *(path for path in typed if path.exists())]
    headers = [str(path) for path in sorted(KERNELS.glob("*.h"))]
    compile_flags, link_flags = flags()
    return [
        Extension(
            f"penstock.kernels.{source.stem}",
            [str(source)],
            include_dirs=[str(KERNELS)],
            depends=[*headers, str(KERNELS / "memory.pxd")],
            extra_compile_args=compile_flags,
            extra_link_args=link_flags,
        )
        for source in sources
    ]


setup(ext_modules=kernels(), cmdclass={"build_ext": BuildKernels})
