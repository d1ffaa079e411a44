"""What a failed command says and how it ends: a line on standard error, no trace of a known error."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable

import click

from penstock.core.errors import ErrorCode, InvalidArgument, PenstockError

FAILED = 1
NOT_FOUND = 3
NOT_REACHED = 4
INTERRUPTED = 130
# What a shell reports for a program that a closed pipe ended: `penstock log cat … | head` is no failure of ours.
PIPE_CLOSED = 141
_HTTP_NOT_FOUND = 404
_HTTP_ADVICE = {401: "log in with --token or --api-key, or with a context (`penstock context set`)"}

_EXTRAS = {"pyarrow": "arrow", "duckdb": "sql", "pyspark": "spark"}
"""what brings a package that only some commands need"""

_ADVICE = {
    errno.ENOENT: "check the path",
    errno.ENOTDIR: "check the path",
    errno.EACCES: "check who owns it, or run as that user",
    errno.EPERM: "check who owns it, or run as that user",
    errno.EROFS: "the file system is read-only: give a directory that can be written",
    errno.ENOSPC: "free space on the disk, then run it again",
    errno.EDQUOT: "free space within the quota, then run it again",
    errno.EMFILE: "raise the limit of open files (ulimit -n)",
    errno.EIO: "the disk reports an error: look at the kernel's messages, and do not trust this disk",
}
# Packages that only some commands need, and the extra that brings them.


class NotThere(InvalidArgument):
    """What was asked for is not there; the command ends with NOT_FOUND."""


def exit_code_of(run: Callable[[], int]) -> int:
    """Run a command; turn what it raises into a line and an exit code."""
    try:
        return run()
    except click.exceptions.Exit as ended:
        return ended.exit_code
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        return INTERRUPTED
    except BrokenPipeError:
        _discard_output()
        return PIPE_CLOSED
    except PenstockError as error:
        return _fail(_told(error), _code_of(error))
    except OSError as error:
        return _fail(describe(error))
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in _EXTRAS:
            raise
        return _fail(f"this command needs {package}: pip install 'penstock[{_EXTRAS[package]}]'")


def describe(error: OSError) -> str:
    """What, where, what to do."""
    where = f"{os.fsdecode(error.filename)}: " if isinstance(error.filename, str | bytes) else ""
    advice = _ADVICE.get(error.errno or 0)
    return f"{where}{error.strerror or error}" + (f": {advice}" if advice else "")


def _code_of(error: PenstockError) -> int:
    """Told by what it is, not by its class: the client is not imported for a command that needs none."""
    if error.code is ErrorCode.CONNECTION_LOST:
        return NOT_REACHED
    return NOT_FOUND if isinstance(error, NotThere) or getattr(error, "status", None) == _HTTP_NOT_FOUND else FAILED


def _told(error: PenstockError) -> str:
    """What a server says is meant for people; of one that says nothing, the request and its status."""
    status, detail = getattr(error, "status", None), getattr(error, "detail", "")
    if status is None or not detail:
        return str(error)
    advice = getattr(error, "help", None) or _HTTP_ADVICE.get(status)
    return f"{detail}; {advice}" if advice else str(detail)


def _fail(text: str, code: int = FAILED) -> int:
    click.echo(f"penstock: error: {' '.join(text.split())}", err=True)
    return code


def _discard_output() -> None:
    """The interpreter flushes standard output at its end and would complain again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
