"""The commands of `penstock`, all of them; and a way to run one in this process, many in the time that one takes in a
process of its own."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

import click

from penstock.cli.lazy import LazyGroup
from penstock.cli.main import penstock, run


def commands() -> dict[tuple[str, ...], click.Command]:
    """By the words that call them, groups included."""
    assert isinstance(penstock, LazyGroup)
    return dict(_below(penstock, ()))


def _below(group: LazyGroup, above: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    for name, lazy in group.table.items():
        command = lazy.load()
        yield (*above, name), command
        if isinstance(command, LazyGroup):
            yield from _below(command, (*above, name))


def leaves() -> dict[tuple[str, ...], click.Command]:
    """Those that do something."""
    return {words: command for words, command in commands().items() if not isinstance(command, LazyGroup)}


def options_of(command: click.Command) -> dict[str, click.Parameter]:
    """By each of their names."""
    return {name: parameter for parameter in command.params for name in parameter.opts}


@dataclass(frozen=True, slots=True)
class Ran:
    code: int
    out: bytes
    err: str


def run_here(*arguments: str, given: Path | None = None, variables: dict[str, str]) -> Ran:
    """`given` is standard input, without it there is none; `variables` go over the environment."""
    out, err = io.BytesIO(), io.StringIO()
    with (
        Path(given or os.devnull).open() as stdin,
        patch.object(sys, "stdin", stdin),
        patch.dict(os.environ, variables),
        redirect_stdout(io.TextIOWrapper(out, write_through=True)) as stdout,
        redirect_stderr(err),
    ):
        code = run(arguments)
        stdout.flush()
        return Ran(code, out.getvalue(), err.getvalue())
