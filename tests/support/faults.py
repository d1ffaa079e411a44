"""Real faults for real processes: a preloaded shim, images that are mounted and cut off, writers to be killed."""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.support.cli import ENVIRONMENT

REPOSITORY = Path(__file__).parents[2]
SHIM_SOURCE = REPOSITORY / "tests" / "crash" / "shim.c"
# Far beyond anything seen; it bounds a hang, it measures nothing.
PATIENCE_S = 120.0


class CannotDo(Exception):
    """This machine cannot make the fault; the text says why."""


def shim_library() -> Path:
    """The compiled shim; CannotDo without a C compiler or where nothing can be preloaded."""
    return compiled(SHIM_SOURCE)


@cache
def compiled(source: Path) -> Path:
    """A library to be preloaded; CannotDo as above."""
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if sys.platform != "linux" or compiler is None:
        raise CannotDo("the shim needs Linux and a C compiler (cc)")
    library = Path(tempfile.mkdtemp(prefix="penstock-shim-")) / "shim.so"
    atexit.register(shutil.rmtree, library.parent)
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-O2", "-Wall", "-Werror", "-o", library, source, "-ldl", "-lpthread"],
        check=True,
    )
    return library


def shim_environment(
    trace: Path, *, watch: str = "/journal/", acks: str = "", fail: str = "", loses: bool = False
) -> dict[str, str]:
    """What a process needs to run under the shim; see shim.c."""
    given = {"LD_PRELOAD": str(shim_library()), "SHIM_TRACE": str(trace), "SHIM_WATCH": watch}
    given |= {"SHIM_ACKS": acks} if acks else {}
    given |= {"SHIM_FAIL": fail} if fail else {}
    return given | ({"SHIM_LOSE": "1"} if loses else {})


def python(*arguments: str | Path, environment: dict[str, str] | None = None, errors: Path) -> subprocess.Popen[bytes]:
    """A Python program under way; the caller ends it. What it says on standard error is added to the file."""
    path = os.pathsep.join([str(REPOSITORY), ENVIRONMENT["PYTHONPATH"]])
    with errors.open("ab") as file:
        return subprocess.Popen(
            [sys.executable, *map(str, arguments)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=file,
            cwd=REPOSITORY,
            env={**ENVIRONMENT, "PYTHONPATH": path, **(environment or {})},
        )


def wait_until(holds: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < end, f"after {PATIENCE_S:.0f} s still not: {what}"
        time.sleep(0.002)


def kill(process: subprocess.Popen[bytes]) -> None:
    """kill -9, unless it has ended."""
    if process.poll() is None:
        process.kill()
    process.wait()


@contextlib.contextmanager
def stopped(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Every thread of it stands still; calls into the kernel that were under way have returned."""
    process.send_signal(signal.SIGSTOP)
    tasks = Path(f"/proc/{process.pid}/task")
    try:
        wait_until(lambda: all(_state(task) in "TtZX" for task in tasks.iterdir()), "stopped")
        yield
    finally:
        process.send_signal(signal.SIGCONT)


def _state(task: Path) -> str:
    return (task / "stat").read_text().rpartition(")")[2].split()[0]


@cache
def why_no_mounts() -> str:
    """Why images cannot be mounted here; empty if they can."""
    missing = [tool for tool in ("mkfs.ext4", "mount", "umount", "truncate", "cp") if shutil.which(tool) is None]
    if sys.platform != "linux" or os.geteuid() != 0 or missing:
        return f"mounting an image needs Linux, root and {', '.join(missing) or 'nothing else'}"
    with tempfile.TemporaryDirectory(prefix="penstock-mount-") as place:
        try:
            with mounted(Image.make(Path(place) / "probe", 8 << 20), Path(place) / "at"):
                return ""
        except subprocess.CalledProcessError as error:
            return f"mounting an image failed: {error.stderr.decode(errors='replace').strip()}"


@dataclass(frozen=True)
class Image:
    """A file with an ext4 file system in it."""

    path: Path

    @classmethod
    def make(cls, path: Path, size: int) -> Image:
        _call("truncate", "-s", str(size), str(path))
        _call("mkfs.ext4", "-q", "-F", "-m", "0", "-E", "lazy_itable_init=0,lazy_journal_init=0", str(path))
        return cls(path)

    def copy(self, path: Path) -> Image:
        """What the medium holds now, without what waits in the page cache of the file system in it. The writer stands
        still, the kernel may write on by itself, and a copy of several moments is no power cut (a journal file copied
        before its successor began, the successor copied after): a copy counts when the image is still equal to it."""
        for _ in range(20):
            _call("cp", "--sparse=always", str(self.path), str(path))
            if subprocess.run(["cmp", "-s", self.path, path]).returncode == 0:
                return Image(path)
        raise AssertionError("the image changed all the time although its writer was stopped")


@contextlib.contextmanager
def mounted(image: Image, at: Path) -> Iterator[Path]:
    at.mkdir(exist_ok=True)
    _call("mount", "-o", "loop", str(image.path), str(at))
    try:
        yield at
    finally:
        unmounted = subprocess.run(["umount", at], capture_output=True)
        if unmounted.returncode != 0:
            _call("umount", "--lazy", str(at))


def _call(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)
