"""Builds the kernels, typed Python with a .pxd beside it, and on Linux the reactor and calls of storage, by Cython.
Everything else is in pyproject.toml.

Without Cython or a C compiler the installation succeeds all the same, with the kernels left as plain Python.
PENSTOCK_PURE=1 leaves them so on purpose; PENSTOCK_SANITIZE=address builds them with AddressSanitizer."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from setuptools import Extension, setup  # type: ignore[import-untyped]  # setuptools ships no types
from setuptools.command.build_ext import build_ext  # type: ignore[import-untyped]  # as above

KERNELS = Path("src/penstock/kernels")
WIRE = Path("src/penstock/gateways/wire")
LOG = Path("src/penstock/log")
NOT_COMPILED = {"memory"}
"""kernels whose .pxd holds inline C for the others"""
SHARED = "penstock.kernels._memoryviews"
"""Cython's own code for memoryviews, once for all kernels: in each of them it is two thirds of the C"""

DIRECTIVES = {
    "language_level": 3,
    "annotation_typing": False,  # the C types are those of the .pxd; annotations are for mypy
    "boundscheck": True,  # kernels read bytes from the network
    "wraparound": False,
    "show_performance_hints": False,  # `make annotate` shows them
}


class BuildKernels(build_ext):  # type: ignore[misc]  # its base is untyped
    """Says in one line what went wrong and lets the installation go on: a kernel that is not built runs as Python."""

    def finalize_options(self) -> None:
        super().finalize_options()
        self.parallel: int | None = self.parallel or os.cpu_count()

    def run(self) -> None:
        self._compiled = 0
        try:
            self._translate()
            super().run()
        except Exception as error:
            reason = str(error).strip().partition("\n")[0]
            print(f"penstock: kernels stay uncompiled ({type(error).__name__}: {reason})", file=sys.stderr)
            self.extensions: list[Extension] = []

    def _translate(self) -> None:
        """A process for each processor. Cython names each kernel as it begins, and none that has not changed."""
        from Cython.Build import cythonize

        translated = cythonize(  # type: ignore[no-untyped-call]  # Cython ships no types
            self.extensions,
            build_dir="build/cython",
            include_path=["src"],
            compiler_directives=DIRECTIVES,
            shared_utility_qualified_name=SHARED,
            nthreads=os.cpu_count(),
        )
        for extension, with_c in zip(self.extensions, translated, strict=True):
            extension.sources = with_c.sources
        # The longest first, so that no processor waits for one of them at the end.
        self.extensions.sort(key=lambda extension: Path(extension.sources[0]).stat().st_size, reverse=True)

    def build_extension(self, extension: Extension) -> None:
        super().build_extension(extension)
        self._compiled += 1
        self._say(f"{self._compiled} of {len(self.extensions)} kernels compiled")

    def _say(self, text: str) -> None:
        """One line that changes on a terminal; elsewhere, every eighth."""
        is_last = self._compiled == len(self.extensions)
        if sys.stderr.isatty():
            print(f"\r{text}", end="\n" if is_last else "", file=sys.stderr, flush=True)
        elif is_last or not self._compiled % 8:
            print(text, file=sys.stderr, flush=True)


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
    # Who uses the declarations of another module has them compiled in.
    declared = [str(path) for path in sorted(KERNELS.glob("*.pxd"))]
    named = {f"penstock.kernels.{source.stem}": source for source in sources}
    named[SHARED] = KERNELS / "_memoryviews.c"
    built = [_extension(name, source, [*headers, *declared]) for name, source in named.items()]
    if sys.platform == "linux":
        built.append(_extension("penstock.gateways.wire.epoll", WIRE / "epoll.pyx", [str(WIRE / "wire.h"), *declared]))
        built.append(_extension("penstock.log.at_once", LOG / "at_once.pyx", declared))
    return built


def _extension(name: str, source: Path, depends: list[str]) -> Extension:
    compile_flags, link_flags = flags()
    return Extension(
        name,
        [str(source)],
        include_dirs=[str(source.parent)],
        depends=depends,
        extra_compile_args=compile_flags,
        extra_link_args=link_flags,
    )


if __name__ == "__main__":  # processes that translate import this file where they are not forked
    setup(ext_modules=kernels(), cmdclass={"build_ext": BuildKernels})
