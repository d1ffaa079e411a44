"""The promises of tests/conftest.py and tests/support: a failure beside the test's own path fails the test."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from tests.support.cli import ENVIRONMENT
from tests.support.loop import LoopErrors, UnhandledInLoop, run

REPOSITORY = Path(__file__).parents[2]

SILENT_FAILURES = """
import asyncio, threading

async def fail():
    raise RuntimeError("lost")

class FailsWhenFreed:
    def __del__(self):
        raise RuntimeError("lost")

def test_in_a_task():
    async def main():
        asyncio.ensure_future(fail())
        await asyncio.sleep(0)
    asyncio.run(main())

def test_in_a_callback():
    async def main():
        asyncio.get_running_loop().call_soon(lambda: 1 / 0)
        await asyncio.sleep(0)
    asyncio.run(main())

def test_in_a_thread():
    thread = threading.Thread(target=lambda: 1 / 0)
    thread.start()
    thread.join()

def test_in_a_loop_of_a_thread():
    async def main():
        asyncio.get_running_loop().call_soon(lambda: 1 / 0)
        await asyncio.sleep(0)
    thread = threading.Thread(target=asyncio.run, args=[main()])
    thread.start()
    thread.join()

def test_in_a_finalizer():
    FailsWhenFreed()

def test_in_a_forgotten_coroutine():
    fail()

def test_that_is_sound():
    asyncio.run(asyncio.sleep(0))
"""


async def _fail() -> None:
    raise LookupError("lost")


async def _forget_a_failing_task() -> None:
    task = asyncio.ensure_future(_fail())
    await asyncio.sleep(0)
    del task


def test_every_silent_failure_fails_its_test(tmp_path: Path) -> None:
    module = tmp_path / "test_silent.py"
    module.write_text(SILENT_FAILURES)
    command = [sys.executable, "-m", "pytest", "-c", str(REPOSITORY / "pyproject.toml"), "-p", "tests.conftest", "-rA"]
    ran = subprocess.run([*command, str(module)], cwd=REPOSITORY, capture_output=True, text=True, timeout=120)
    outcomes = [*re.findall(r"^(PASSED|FAILED|ERROR) .*::(\w+)", ran.stdout, re.MULTILINE)]
    unsound = {test for outcome, test in outcomes if outcome != "PASSED"}
    assert unsound == {*re.findall(r"def (test_in_\w+)", SILENT_FAILURES)}, ran.stdout + ran.stderr
    assert {test for _, test in outcomes} - unsound == {"test_that_is_sound"}


USED_BEFORE = {
    "PENSTOCK_URL": "https://broker.example",
    "PENSTOCK_TOKEN": "secret",
    "PENSTOCK_DATA_DIR": "/nowhere",
    "PENSTOCK_DATA": "/nowhere",
    "PENSTOCK_CONTEXT": "work",
}


@pytest.mark.parametrize("where", ["unit/cli/test_imports.py", "unit/cli/test_main.py", "unit/cli/test_target.py"])
def test_what_a_user_has_set_up_reaches_no_test(tmp_path: Path, where: str) -> None:
    (tmp_path / ".config" / "penstock").mkdir(parents=True)
    (tmp_path / ".config" / "penstock" / "config.yaml").write_text("current_context: [what no command can read\n")
    homes = {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path / ".config"), "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-m", "pytest", "-q", f"tests/{where}"]
    environment = os.environ | homes | USED_BEFORE
    ran = subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stdout[-4000:] + ran.stderr[-2000:]


def test_a_test_and_what_it_starts_have_a_home_of_their_own() -> None:
    program = "import os, tempfile; print(os.path.expanduser('~'), tempfile.gettempdir())"
    [home, temporary] = subprocess.check_output([sys.executable, "-c", program], text=True).split()
    assert Path(home).parent == Path(temporary).parent and Path(home).parent.name.startswith("penstock-tests-")
    assert tempfile.gettempdir() == temporary
    assert ENVIRONMENT["HOME"] == home


def test_run_returns_the_result() -> None:
    assert run(asyncio.sleep(0, "result")) == "result"


def test_run_raises_what_failed_beside_main() -> None:
    with pytest.raises(UnhandledInLoop, match="lost") as raised:
        run(_forget_a_failing_task())
    assert isinstance(raised.value.__cause__, LookupError)


def test_run_raises_the_error_of_main_and_notes_the_others() -> None:
    async def main() -> None:
        await _forget_a_failing_task()
        raise KeyError("main")

    with pytest.raises(KeyError, match="main") as raised:
        run(main())
    assert "lost" in raised.value.__notes__[0]


def test_a_test_may_provoke_an_unhandled_exception_and_clear_it(loop_errors: LoopErrors) -> None:
    asyncio.run(_forget_a_failing_task())
    assert isinstance(loop_errors.contexts[0]["exception"], LookupError)
    loop_errors.clear()
