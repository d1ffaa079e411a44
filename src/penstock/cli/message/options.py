"""What commands that publish or subscribe are asked with."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., object])

qos_option = click.option(
    "-q",
    "--qos",
    type=click.IntRange(0, 2),
    default=1,
    show_default=True,
    help="QoS: 0 at most once, 1 at least once, 2 exactly once.",
)


def value_options(command: Command) -> Command:
    """--file and --stdin, beside a message that is an argument."""
    for option in (
        click.option("--stdin", "is_stdin", is_flag=True, help="Publish each line of standard input as a message."),
        click.option(
            "--file",
            metavar="FILE",
            type=click.Path(dir_okay=False, exists=True, path_type=Path),
            help="Publish the content of this file as one message.",
        ),
    ):
        command = option(command)
    return command


def value_of(
    argument: str, said: str | None, file: Path | None, is_stdin: bool, *, is_twice: bool = False
) -> bytes | None:
    """None for lines of standard input."""
    if is_twice or [said is not None, file is not None, is_stdin].count(True) != 1:
        raise click.UsageError(f"give one of {argument}, --file and --stdin; an empty message is ''")
    if file is not None:
        return file.read_bytes()
    return None if said is None else said.encode(errors="surrogateescape")
