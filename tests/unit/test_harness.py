"""The promises of tests/conftest.py and tests/support: a failure beside the test's own path fails the test."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from pathlib import Path

import pytest
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
