"""What holds for every test: a home of its own, hypothesis profiles, and no failure that only a log line would tell
of."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator

import pytest
from hypothesis import settings

from tests.support.descriptors import open_descriptors
from tests.support.loop import LoopErrors, watched_loops
from tests.support.order import place_of
from tests.support.own_place import move_in

# Before any module of tests takes a copy of the environment.
move_in(os.environ)
sys.dont_write_bytecode = False

settings.register_profile("dev", max_examples=50, deadline=None)
settings.register_profile("ci", max_examples=300, deadline=None, print_blob=True)
settings.register_profile("nightly", max_examples=20_000, deadline=None, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci" if os.environ.get("CI") else "dev"))

# A process with a Spark, and a server of each kind that tests of a session share, has some 330.
_MOST_OPEN_FILES = 500


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: place_of(item.path))


@pytest.fixture(autouse=True)
def loop_errors() -> Iterator[LoopErrors]:
    """Fails the test on an unhandled loop exception. Threads and finalizers need nothing here: pytest warns of
    them, and warnings are errors."""
    with watched_loops() as errors:
        yield errors
        errors.check()


@pytest.fixture(autouse=True, scope="module")
def young_objects() -> Iterator[None]:
    """A collection after a test looks at what its file made, and not again at every module and test of the process,
    which takes 70 ms a test. What a file leaves in cycles is found at its end."""
    gc.freeze()
    yield
    gc.collect()


def pytest_sessionfinish() -> None:
    gc.unfreeze()  # pytest collects once more and reports what fails then


@pytest.fixture(autouse=True, scope="module")
def open_files() -> Iterator[None]:
    """One process runs thousands of tests, and select(), which some clients use, knows no descriptor above 1023."""
    yield
    if open_descriptors() > _MOST_OPEN_FILES:
        gc.unfreeze()
        gc.collect()
        assert open_descriptors() <= _MOST_OPEN_FILES, "tests of this file left files or sockets open"
