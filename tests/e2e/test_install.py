"""Penstock from a wheel: in an environment with nothing else, on each Python that it supports, with a compiler and
without. There every command works, or says in one sentence what it needs."""

from __future__ import annotations

import json
import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.e2e.conftest import not_tested
from tests.e2e.test_every_command import SCRIPT, SHOWN_TO_PEOPLE, Script, connected_client, known_of
from tests.support.commands import Ran, leaves, options_of
from tests.support.secure_server import SecureServer

REPOSITORY = Path(__file__).parents[2]
NEEDED_TO_BUILD = ("pyproject.toml", "setup.py", "README.md", "LICENSE", "MANIFEST.in")
SUPPORTED = re.findall(r"Python :: (3\.\d+)", (REPOSITORY / "pyproject.toml").read_text())
_START_S = 60.0

IMPORT_EVERY_KERNEL = """
import importlib, json, pkgutil
import penstock.kernels
names = [found.name for found in pkgutil.iter_modules(penstock.kernels.__path__, "penstock.kernels.")]
print(json.dumps({name: importlib.import_module(name).__file__ for name in names}))
"""

FILES_OF_MODULES = """
import importlib, json, sysconfig
files = {{name: importlib.import_module(name).__file__ for name in {names}}}
print(json.dumps({{**files, "suffix": sysconfig.get_config_var("EXT_SUFFIX")}}))
"""

HELP_OF_EVERY_COMMAND = """
import sys
from penstock.cli.lazy import LazyGroup
from penstock.cli.main import penstock, run
def below(group, words):
    for name, lazy in group.table.items():
        yield [*words, name]
        if isinstance(command := lazy.load(), LazyGroup):
            yield from below(command, [*words, name])
failed = [words for words in below(penstock, []) if run([*words, "--help"]) != 0]
sys.exit(f"no help: {failed}" if failed else 0)
"""


def _python(*args: str, cwd: Path, env: Mapping[str, str], program: str = sys.executable) -> str:
    ran = subprocess.run([program, *args], cwd=cwd, env={**env}, capture_output=True, text=True, timeout=600)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def _copy_of_the_source(to: Path) -> Path:
    """Without what was compiled in place, which a wheel built here must not pick up."""
    shutil.copytree(REPOSITORY / "src", to / "src", ignore=shutil.ignore_patterns("*.so", "*.egg-info", "__pycache__"))
    for name in NEEDED_TO_BUILD:
        shutil.copy(REPOSITORY / name, to)
    return to


HERE = f"{sys.version_info[0]}.{sys.version_info[1]}"


@dataclass(frozen=True, slots=True)
class Build:
    """How a wheel is made: where a compiler is, where every call of one fails, or for any Python."""

    name: str
    variables: dict[str, str]


COMPILED = Build("compiled", {})
NO_COMPILER = Build("no compiler", {"CC": "/bin/false", "CXX": "/bin/false"})
ANY_PYTHON = Build("any Python", {"PENSTOCK_PURE": "1"})

Wheels = Callable[[Build, str], Path]
"""of a build and a version of Python"""


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Wheels:
    """Each is built once."""
    built: dict[tuple[str, str], Path] = {}

    def wheel(build: Build, version: str) -> Path:
        builder = version if build is COMPILED else HERE  # the others fit any Python
        if (build.name, builder) not in built:
            source = _copy_of_the_source(tmp_path_factory.mktemp("source"))
            built[build.name, builder] = _build(build, source, builder)
        return built[build.name, builder]

    return wheel


def _build(build: Build, source: Path, version: str) -> Path:
    env = {name: value for name, value in os.environ.items() if name != "PENSTOCK_PURE"} | build.variables
    if version != HERE:
        env |= {"CC": _quick_compiler(source)}
    elif build is COMPILED and (REPOSITORY / "build").is_dir():
        # With its times: what is compiled already is not compiled again.
        shutil.copytree(REPOSITORY / "build", source / "build")
    options = ["--no-deps", "--no-build-isolation", "-w", str(source / "wheels")]
    _python(*_pip_of(version, source), "wheel", ".", *options, cwd=source, env=env)
    [wheel] = (source / "wheels").glob("penstock-*.whl")
    return wheel


def _quick_compiler(source: Path) -> str:
    """That all of it is compiled again for another Python takes a quarter of the time without optimising."""
    wrapper = source / "cc"
    wrapper.write_text(f'#!/bin/sh\nexec {shutil.which("cc") or "gcc"} "$@" -O0\n')
    wrapper.chmod(0o755)
    return str(wrapper)


def _pip_of(version: str, source: Path) -> list[str]:
    """The words that call pip for a Python which has what builds a wheel: this one, or one made of another version."""
    if version == HERE:
        return ["-m", "pip"]
    interpreter = _interpreter(version)
    assert interpreter is not None, "looked at before"
    _python("-m", "venv", "--without-pip", str(source / "builder"), program=interpreter, cwd=source, env=os.environ)
    pip = ["-m", "pip", "--python", str(source / "builder" / "bin" / "python")]
    requires = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["build-system"]["requires"]
    _install([*pip, "install", "--quiet", *requires], source)
    return pip


def _install(words: list[str], place: Path) -> None:
    """The test is left out, loudly, where packages cannot be had."""
    ran = subprocess.run([sys.executable, *words], cwd=place, capture_output=True, text=True, timeout=300)
    if ran.returncode != 0 and "connection" in ran.stderr.lower():
        not_tested("Penstock in an environment of its own", f"its dependencies cannot be had: {ran.stderr[-200:]}")
    assert ran.returncode == 0, ran.stderr


@pytest.fixture(scope="module")
def installed_without_compiler(wheels: Wheels, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder a wheel was installed into that was built where every call of a compiler fails."""
    site = tmp_path_factory.mktemp("site")
    options = ["--no-deps", "--target", str(site), str(wheels(NO_COMPILER, HERE))]
    _python("-m", "pip", "install", *options, cwd=site, env=os.environ)
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


def _interpreter(version: str) -> str | None:
    """On the PATH, or beside the one that runs here, where pyenv and others install them."""
    beside = sorted(Path(sys.base_prefix).parent.glob(f"*{version}*/bin/python{version}"))
    for candidate in filter(None, [shutil.which(f"python{version}"), *map(str, beside)]):
        ran = subprocess.run([candidate, "-c", "import sys, venv; print(sys.version)"], capture_output=True, text=True)
        if ran.returncode == 0 and ran.stdout.startswith(f"{version}."):
            return candidate
    return None


@dataclass(frozen=True, slots=True)
class Installed:
    """A virtual environment with Penstock and what it cannot do without."""

    folder: Path
    home: Path

    @property
    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PENSTOCK_", "PYTHON"))}
        return kept | {"HOME": str(self.home), "XDG_CONFIG_HOME": str(self.home / "config"), "NO_COLOR": "1"}

    @property
    def command(self) -> str:
        return str(self.folder / "bin" / "penstock")

    def run(self, *words: str, given: str = "", code: int | None = 0) -> str:
        """What it said. `code` None: the doctor ends with 1 on a machine where Penstock cannot run well."""
        ran = subprocess.run(
            [self.command, *words],
            input=given, cwd=self.home, env=self.environment, capture_output=True, text=True, timeout=120,
        )  # fmt: skip
        assert code in (None, ran.returncode), (words, ran.returncode, ran.stdout[-2000:], ran.stderr[-4000:])
        assert "Traceback" not in ran.stderr
        return ran.stdout or ran.stderr

    def python(self, program: str) -> str:
        ran = subprocess.run(
            [str(self.folder / "bin" / "python"), "-c", program],
            cwd=self.home, env=self.environment, capture_output=True, text=True, timeout=120,
        )  # fmt: skip
        assert ran.returncode == 0, ran.stdout[-1000:] + ran.stderr[-4000:]
        return ran.stdout


@contextmanager
def _serving(installed: Installed, place: Path) -> Iterator[dict[str, int]]:
    """The ports of `penstock serve --dev`."""
    ready = place / "ready.json"
    command = [installed.command, "serve", "--dev", "--data", str(place / "data"), "--ready-file", str(ready)]
    for setting in ("mqtt.port=0", "mqtt_ws.port=0", "http.port=0"):
        command += ["--set", f"listeners.{setting}"]
    with (place / "output").open("wb") as output:
        process = subprocess.Popen(command, cwd=place, env=installed.environment, stdout=output, stderr=output)
    with process:
        try:
            end = time.monotonic() + _START_S
            while not ready.exists():
                assert process.poll() is None and time.monotonic() < end, (place / "output").read_text()[-4000:]
                time.sleep(0.05)
            listeners = json.loads(ready.read_text())["listeners"]
            yield {name: int(facts["port"]) for name, facts in listeners.items()}
        finally:
            process.terminate()
    assert process.returncode == 0


def _id(installation: tuple[str, Build]) -> str:
    version, build = installation
    return f"{version}, {build.name}"


_PYTHONS = [*((version, ANY_PYTHON) for version in SUPPORTED), (HERE, COMPILED)]
_OTHERS_COMPILED = [(version, COMPILED) for version in SUPPORTED if version != HERE]
_on_each_python = pytest.mark.parametrize("installed", _PYTHONS, indirect=True, ids=_id, scope="module")
"""What one build without compiled kernels does on this Python, the other does: they differ in how they were made."""


@pytest.fixture(scope="module", params=[*_PYTHONS, (HERE, NO_COMPILER), *_OTHERS_COMPILED], ids=_id)
def installed(request: pytest.FixtureRequest, wheels: Wheels, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    version, build = request.param
    found = sys.executable if version == HERE else _interpreter(version)
    if found is None:
        not_tested(
            f"Penstock on Python {version}, {build.name}", f"there is no python{version} with venv on this machine"
        )
    if build is COMPILED and not (Path(_headers_of(found)) / "Python.h").exists():
        not_tested(f"Penstock on Python {version}, {build.name}", "the headers of this interpreter are not there")
    place = tmp_path_factory.mktemp("installed")
    _python("-m", "venv", "--without-pip", str(place / "venv"), program=found, cwd=place, env=os.environ)
    python = str(place / "venv" / "bin" / "python")
    _install(["-m", "pip", "--python", python, "install", "--quiet", str(wheels(build, version))], place)
    (place / "home").mkdir()
    return Installed(place / "venv", place / "home")


def _headers_of(interpreter: str) -> str:
    """Where its headers are."""
    said = subprocess.check_output(
        [interpreter, "-c", "import sysconfig; print(sysconfig.get_path('include'))"], text=True
    )
    return said.strip()


@pytest.mark.parametrize("installed", [(HERE, COMPILED), *_OTHERS_COMPILED], indirect=True, ids=_id, scope="module")
def test_with_a_compiler_every_kernel_is_compiled_for_that_python(
    installed: Installed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(REPOSITORY)
    wanted = {extension.name for extension in runpy.run_path("setup.py")["kernels"]()}
    said: dict[str, str] = json.loads(installed.python(FILES_OF_MODULES.format(names=sorted(wanted))))
    suffix = said.pop("suffix")
    assert wanted == said.keys()
    assert not {name: file for name, file in said.items() if not file.endswith(suffix)}
    checks = json.loads(installed.run("doctor", str(installed.home), "-o", "json", code=None))["checks"]
    assert checks["kernels"]["compiled"], checks["kernels"]


@_on_each_python
def test_every_command_has_help_where_nothing_else_is_installed(installed: Installed) -> None:
    installed.python(HELP_OF_EVERY_COMMAND)


def test_a_plain_installation_serves_and_the_commands_work(installed: Installed, tmp_path: Path) -> None:
    checks = json.loads(installed.run("doctor", str(tmp_path), "-o", "json", code=None))["checks"]
    assert checks["packages"]["verdict"] == "ok", checks
    with _serving(installed, tmp_path) as ports:
        url, mqtt = ["--url", f"http://127.0.0.1:{ports['http']}"], ["--port", str(ports["mqtt"])]
        installed.run("queue", "create", "orders", "--partitions", "1", *url)
        installed.run("produce", "orders", "a lamp", *url)
        installed.run("publish", "$queue/orders", "a chair", *mqtt)
        assert "orders" in installed.run("queue", "list", *url)
        assert "a lamp" in installed.run("consume", "orders", "--group", "shipping", "--max", "2", *url)
        assert "shipping" in installed.run("group", "list", *url)
        installed.run("publish", "news", "good", "--retain", *mqtt)
        assert "good" in installed.run("subscribe", "news", "--count", "1", *mqtt)
        assert "orders" in installed.run("top", "--once", "--interval", "0.1", *url)
        installed.run("bench", "http-publish", "--messages", "20", "--connections", "1", *url)
    data = str(tmp_path / "data")
    assert "orders" in installed.run("queue", "list", "--data", data)
    installed.run("log", "verify", data)
    installed.run("pipeline", "audit", "--data", data)


NEEDS_AN_EXTRA = {
    ("sql",), ("pipeline", "archive"), ("pipeline", "snapshot"), ("pipeline", "report"), ("pipeline", "replay"),
}  # fmt: skip


@dataclass(kw_only=True)
class BareScript(Script):
    """The commands of the catalogue as a bare environment runs them: done, or refused with what to install."""

    installed: Installed

    def run(self, line: str) -> None:
        words = shlex.split(line.format(**self.known))
        path, command = next((path, found) for path, found in leaves().items() if tuple(words[: len(path)]) == path)
        if path in NEEDS_AN_EXTRA:
            ran = self.type(*words, "-o", self.output)
            assert (ran.code, len(ran.err.splitlines())) == (1, 1) and "pip install 'penstock[" in ran.err, (words, ran)
        else:
            yes = ["--yes"] if "--yes" in options_of(command) else []
            self._learn(path, self._said(path, [*words, *yes]))
        self.was_run.append(path)

    def type(self, *words: str) -> Ran:
        environment = self.installed.environment | {"XDG_CONFIG_HOME": str(self.place / "config")}
        ran = subprocess.run(
            [self.installed.command, *words],
            input=b"one\ntwo\nthree\n", cwd=self.place, env=environment, capture_output=True, timeout=120,
        )  # fmt: skip
        assert b"Traceback" not in ran.stderr, (words, ran.stderr[-4000:])
        return Ran(ran.returncode, ran.stdout, ran.stderr.decode())


@_on_each_python
def test_every_command_works_or_says_what_to_install(
    installed: Installed, secured: SecureServer, tmp_path: Path
) -> None:
    script = BareScript(tmp_path, "json", {**known_of(secured, tmp_path)}, installed=installed)
    with connected_client(secured, tmp_path):
        for line in SCRIPT.strip().splitlines():
            script.run(line)
    assert set(script.was_run) == set(leaves()) - set(SHOWN_TO_PEOPLE)


@_on_each_python
def test_what_needs_an_extra_says_so_in_one_sentence(installed: Installed, tmp_path: Path) -> None:
    for settings, extra in {
        ("auth.jwt.algorithm=HS256", "auth.jwt.secret_file=key"): "jwt",
        ("listeners.flight.port=0",): "arrow",
        ("otlp.endpoint=http://127.0.0.1:4318/v1/metrics",): "otlp",
        ("loop=uvloop",): "uvloop",
    }.items():
        words = [word for setting in settings for word in ("--set", setting)]
        for checking in (["--check"], ["--data", str(tmp_path / "data")]):
            said = installed.run("serve", *checking, *words, code=2).strip()
            assert f"pip install 'penstock[{extra}]'" in said and len(said.splitlines()) == 1
    assert not (tmp_path / "data").exists()
    installed.run("queue", "create", "things", "--data", str(tmp_path / "data"))
    for asked in (
        ["sql", "select 1"],
        ["pipeline", "archive", "things", "--to", str(tmp_path / "archive")],
        ["pipeline", "snapshot", "things", "--to", str(tmp_path / "snapshot")],
        ["pipeline", "report", "--to", str(tmp_path / "report.html")],
        ["pipeline", "replay", "--from", "things", "--to", "things"],
    ):
        said = installed.run(*asked, "--data", str(tmp_path / "data"), code=1).strip()
        assert "pip install 'penstock[" in said and len(said.splitlines()) == 1, said
