"""Penstock installs where no compiler is, and then runs on uncompiled kernels."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
NEEDED_TO_BUILD = ("pyproject.toml", "setup.py", "README.md", "LICENSE")

IMPORT_EVERY_KERNEL = """
import importlib, json, pkgutil
import penstock.kernels
names = [found.name for found in pkgutil.iter_modules(penstock.kernels.__path__, "penstock.kernels.")]
print(json.dumps({name: importlib.import_module(name).__file__ for name in names}))
"""


def _python(*args: str, cwd: Path, env: Mapping[str, str]) -> str:
    ran = subprocess.run([sys.executable, *args], cwd=cwd, env={**env}, capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def _copy_of_the_source(to: Path) -> Path:
    """Without what was compiled in place, which a wheel built here must not pick up."""
    shutil.copytree(REPOSITORY / "src", to / "src", ignore=shutil.ignore_patterns("*.so", "*.egg-info", "__pycache__"))
    for name in NEEDED_TO_BUILD:
        shutil.copy(REPOSITORY / name, to)
    return to


@pytest.fixture(scope="module")
def installed_without_compiler(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder a wheel was installed into that was built where every call of a compiler fails."""
    source = _copy_of_the_source(tmp_path_factory.mktemp("source"))
    wheels, site = source / "wheels", source / "site"
    env = {name: value for name, value in os.environ.items() if name != "PENSTOCK_PURE"}
    env |= {"CC": "/bin/false", "CXX": "/bin/false"}
    _python("-m", "pip", "wheel", ".", "--no-deps", "--no-build-isolation", "-w", str(wheels), cwd=source, env=env)
    (wheel,) = wheels.glob("penstock-*.whl")
    _python("-m", "pip", "install", "--no-deps", "--target", str(site), str(wheel), cwd=source, env=env)
    return site


def test_without_a_compiler_every_kernel_is_there_uncompiled(installed_without_compiler: Path, tmp_path: Path) -> None:
    package = installed_without_compiler / "penstock"
    assert not [*package.rglob("*.so")]
    assert not [*package.rglob("*.c")]
    env = {**os.environ, "PYTHONPATH": str(installed_without_compiler)}
    files: dict[str, str] = json.loads(_python("-c", IMPORT_EVERY_KERNEL, cwd=tmp_path, env=env))
    assert files
    for name, file in files.items():
        assert Path(file) == package / "kernels" / f"{name.rpartition('.')[2]}.py"


def test_a_wheel_carries_licence_types_and_the_console_script(installed_without_compiler: Path) -> None:
    (metadata,) = installed_without_compiler.glob("penstock-*.dist-info")
    assert "Apache License" in (metadata / "licenses" / "LICENSE").read_text()
    assert "penstock = penstock.cli.main:main" in (metadata / "entry_points.txt").read_text()
    assert (installed_without_compiler / "penstock" / "py.typed").exists()
