"""How a user and a password are given: alike in every command."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., object])

_FILE = click.Path(dir_okay=False, exists=True, path_type=Path)


def user_option(text: str = "Log in as this user.", *names: str) -> Callable[[Command], Command]:
    """-u and --user; also --username, and alone where --user is what the command is about."""
    return click.option(*(names or ("-u", "--user", "--username")), "username", metavar="USER", help=text)


password_file_option = click.option(
    "--password-file", metavar="FILE", type=_FILE, help="Read the password from the first line of this file."
)


def password_of(file: Path | None) -> str:
    """From the file, or asked for on a terminal."""
    if file is not None:
        return first_line(file)
    if not sys.stdin.isatty():
        raise click.UsageError("give the password with --password-file")
    typed: str = click.prompt("Password", hide_input=True, err=True)
    return typed


def first_line(file: Path) -> str:
    return file.read_text(encoding="utf-8").split("\n", 1)[0].rstrip("\r")
