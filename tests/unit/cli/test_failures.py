"""A failed command says one line and ends with the code that fits."""

from __future__ import annotations

import errno

import click
import pytest

from penstock.cli.failures import exit_code_of
from penstock.core.errors import ErrorCode, NoSuchLog, PenstockError


def _raising(error: BaseException) -> int:
    def run() -> int:
        raise error

    return exit_code_of(run)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (NoSuchLog("a"), 1),
        (OSError(errno.EACCES, "Permission denied", "/somewhere"), 1),
        (click.UsageError("no such option"), 2),
        (click.Abort(), 130),
        (KeyboardInterrupt(), 130),
    ],
)
def test_exit_codes(error: BaseException, code: int) -> None:
    assert _raising(error) == code


def test_an_error_of_the_system_names_the_file_and_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    _raising(PermissionError(errno.EACCES, "Permission denied", "/somewhere/file"))
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "/somewhere/file: Permission denied" in said
    assert "check who owns it" in said


def test_an_error_of_ours_is_one_line_even_if_its_text_is_not(capsys: pytest.CaptureFixture[str]) -> None:
    class TwoLines(PenstockError):
        code = ErrorCode.INVALID_ARGUMENT

    _raising(TwoLines("one\n  two"))
    assert capsys.readouterr().err == "penstock: error: one two\n"


def test_what_nobody_expected_is_not_hidden() -> None:
    with pytest.raises(ZeroDivisionError):
        _raising(ZeroDivisionError())


def test_a_package_that_is_not_installed_is_named_with_what_brings_it(capsys: pytest.CaptureFixture[str]) -> None:
    def needs(package: str) -> int:
        raise ModuleNotFoundError(name=package)

    assert exit_code_of(lambda: needs("pyarrow.compute")) == 1
    assert capsys.readouterr().err == "penstock: error: this command needs pyarrow: pip install 'penstock[arrow]'\n"
    with pytest.raises(ModuleNotFoundError):
        exit_code_of(lambda: needs("penstock.nothing"))
