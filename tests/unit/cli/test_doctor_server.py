"""What the doctor says of packages that are not there."""

from __future__ import annotations

import importlib.metadata
import sys

import pytest

from penstock.cli.doctor import Verdict
from penstock.cli.doctor_server import event_loop, packages
from penstock.server.config import load


@pytest.fixture
def nothing_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    def version(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", version)
    monkeypatch.setitem(sys.modules, "uvloop", None)


@pytest.mark.usefixtures("nothing_installed")
def test_missing_packages_are_named_with_what_they_are_for() -> None:
    found = packages(load(None, {}, []))
    assert found.verdict is Verdict.OK
    assert found.facts["packages"] == {"pyarrow": None, "uvloop": None, "pyjwt": None, "cryptography": None}
    assert "uvloop (for loop: uvloop)" in found.text


@pytest.mark.usefixtures("nothing_installed")
def test_a_missing_package_that_the_configuration_needs_is_a_problem() -> None:
    found = packages(load(None, {}, ["auth.jwt.algorithm=HS256", "auth.jwt.secret_file=key"]))
    assert found.verdict is Verdict.PROBLEM
    assert "pyjwt and cryptography" in found.text
    found = event_loop(load(None, {}, ["loop=uvloop"]))
    assert found.verdict is Verdict.PROBLEM
    assert "pip install uvloop" in found.text


def test_asyncio_is_always_there() -> None:
    found = event_loop(load(None, {}, []))
    assert (found.verdict, found.facts["loop"]) == (Verdict.OK, "asyncio")
