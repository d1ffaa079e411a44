"""One process per data directory, and nobody fooled about which."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from penstock.core.errors import DirectoryInUse
from penstock.log.disk import LOCK_FILE, UNNAMED_HOLDER, DirectoryLock

HOLD = """
import sys
from pathlib import Path
from penstock.log.disk import DirectoryLock
lock = DirectoryLock.acquire(Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""

# The child outlives its parent, which ends without releasing.
HOLD_AND_LEAVE_A_CHILD = """
import os, sys
from pathlib import Path
from penstock.log.disk import DirectoryLock
lock = DirectoryLock.acquire(Path(sys.argv[1]))
if os.fork() == 0:
    print("child", flush=True)
    sys.stdin.read()
    lock.release()
os._exit(0)
"""


@contextmanager
def process(script: str, root: Path) -> Iterator[subprocess.Popen[str]]:
    """Runs the script until it has said a line, and ends it afterwards."""
    command = [sys.executable, "-c", script, str(root)]
    same_imports = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=same_imports
    ) as running:
        assert running.stdout is not None
        assert running.stdout.readline()
        try:
            yield running
        finally:
            running.kill()


def test_a_directory_has_one_holder(tmp_path: Path) -> None:
    with process(HOLD, tmp_path) as other:
        with pytest.raises(DirectoryInUse, match=rf"process {other.pid} \(-c {tmp_path}\)"):
            DirectoryLock.acquire(tmp_path)
        holder = DirectoryLock.holder(tmp_path)
        assert holder is not None
        assert (holder.pid, holder.command) == (other.pid, f"-c {tmp_path}")


def test_a_killed_process_holds_nothing(tmp_path: Path) -> None:
    with process(HOLD, tmp_path) as other:
        other.kill()
        other.wait()
        assert DirectoryLock.holder(tmp_path) is None
        DirectoryLock.acquire(tmp_path).release()


def test_the_same_process_cannot_hold_a_directory_twice(tmp_path: Path) -> None:
    with DirectoryLock.acquire(tmp_path), pytest.raises(DirectoryInUse, match=f"process {os.getpid()}"):
        DirectoryLock.acquire(tmp_path)


def test_after_release_the_directory_is_free(tmp_path: Path) -> None:
    lock = DirectoryLock.acquire(tmp_path)
    lock.release()
    lock.release()
    assert DirectoryLock.holder(tmp_path) is None
    DirectoryLock.acquire(tmp_path).release()


def test_asking_for_the_holder_takes_no_lock(tmp_path: Path) -> None:
    with DirectoryLock.acquire(tmp_path) as lock:
        before = DirectoryLock.holder(tmp_path)
        assert before is not None
        assert before.pid == os.getpid()
        assert DirectoryLock.holder(tmp_path) == before
        lock.release()
        assert DirectoryLock.holder(tmp_path) is None
    with process(HOLD, tmp_path):
        assert DirectoryLock.holder(tmp_path) is not None


def test_asking_and_reading_the_lock_file_do_not_free_it(tmp_path: Path) -> None:
    # A POSIX record lock would be gone after the first close() of any descriptor of the file.
    with DirectoryLock.acquire(tmp_path):
        (tmp_path / LOCK_FILE).read_bytes()
        DirectoryLock.holder(tmp_path)
        with pytest.raises(DirectoryInUse):
            DirectoryLock.acquire(tmp_path)


def test_nobody_holds_what_was_never_locked(tmp_path: Path) -> None:
    assert DirectoryLock.holder(tmp_path) is None
    assert DirectoryLock.holder(tmp_path / "absent") is None
    assert not (tmp_path / LOCK_FILE).exists()


def test_a_holder_that_has_not_written_its_name_is_still_a_holder(tmp_path: Path) -> None:
    with DirectoryLock.acquire(tmp_path):
        os.truncate(tmp_path / LOCK_FILE, 5)
        assert DirectoryLock.holder(tmp_path) == UNNAMED_HOLDER
        with pytest.raises(DirectoryInUse, match="starting"):
            DirectoryLock.acquire(tmp_path)


def test_a_child_left_behind_does_not_keep_the_lock(tmp_path: Path) -> None:
    with process(HOLD_AND_LEAVE_A_CHILD, tmp_path) as parent:
        parent.wait()
        assert DirectoryLock.holder(tmp_path) is None
        with DirectoryLock.acquire(tmp_path):
            assert parent.stdin is not None
            assert parent.stdout is not None
            parent.stdin.close()
            assert parent.stdout.read() == ""
            assert DirectoryLock.holder(tmp_path) is not None
