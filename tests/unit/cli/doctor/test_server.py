"""What the doctor says of packages that are not there."""

from __future__ import annotations

import importlib.metadata
import sys

import pytest

from penstock.cli.doctor.finding import Verdict
from penstock.cli.doctor.server import event_loop, packages
from penstock.server.config import load
from penstock.server.server import check_files
from penstock.server.written import BadConfiguration


@pytest.fixture
def nothing_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    def version(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", version)
    for module in ("uvloop", "pyarrow", "jwt", "cryptography", "opentelemetry.sdk", "opentelemetry.exporter"):
        monkeypatch.setitem(sys.modules, module, None)


@pytest.mark.usefixtures("nothing_installed")
def test_missing_packages_are_named_with_what_they_are_for() -> None:
    found = packages(load(None, {}, []))
    assert found.verdict is Verdict.OK
    assert found.facts["packages"] == dict.fromkeys(
        [
            "pyarrow", "uvloop", "pyjwt", "cryptography", "opentelemetry-sdk",
            "opentelemetry-exporter-otlp-proto-http",
        ]
    )  # fmt: skip
    assert "uvloop (for loop: uvloop)" in found.text


@pytest.mark.usefixtures("nothing_installed")
def test_a_missing_package_that_the_configuration_needs_is_a_problem() -> None:
    found = packages(load(None, {}, ["auth.jwt.algorithm=HS256", "auth.jwt.secret_file=key"]))
    assert found.verdict is Verdict.PROBLEM
    assert found.text.endswith("auth.jwt needs pyjwt and cryptography: pip install 'penstock[jwt]', or leave it out")
    found = event_loop(load(None, {}, ["loop=uvloop"]))
    assert found.verdict is Verdict.PROBLEM
    assert "pip install 'penstock[uvloop]'" in found.text


def test_asyncio_is_always_there() -> None:
    found = event_loop(load(None, {}, []))
    assert (found.verdict, found.facts["loop"]) == (Verdict.OK, "asyncio")


@pytest.mark.usefixtures("nothing_installed")
@pytest.mark.parametrize(
    ("setting", "path", "extra"),
    [
        ("loop=uvloop", "loop", "uvloop"),
        ("listeners.flight.port=0", "listeners.flight", "arrow"),
        ("auth.jwt.secret_file=key", "auth.jwt", "jwt"),
        ("otlp.endpoint=http://127.0.0.1:4318/v1/metrics", "otlp", "otlp"),
    ],
)
def test_a_setting_that_needs_an_extra_is_refused_at_the_start_with_the_command_that_brings_it(
    setting: str, path: str, extra: str
) -> None:
    with pytest.raises(BadConfiguration, match=rf"^{path}: needs .*: pip install 'penstock\[{extra}\]', or "):
        check_files(load(None, {}, [setting]))
