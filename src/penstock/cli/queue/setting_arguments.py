"""Settings of queues on a command line: `--set limits.max_queue_depth=10`, or a JSON file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import click
import msgspec

from penstock.core.errors import InvalidArgument

Command = TypeVar("Command", bound=Callable[..., object])
Written = dict[str, object]


def settings_options(command: Command) -> Command:
    """--file and --set, as parameters `file` and `changes`."""
    file = click.Path(dir_okay=False, exists=True, path_type=Path)
    for option in (
        click.option(
            "--set",
            "changes",
            metavar="KEY=VALUE",
            multiple=True,
            help="Setting, like limits.max_queue_depth=10 or retry_policy.initial_backoff=5s. Can be repeated.",
        ),
        click.option("--file", metavar="PATH", type=file, help="JSON file with settings; --set overrides it."),
    ):
        command = option(command)
    return command


def written_settings(file: Path | None, changes: Sequence[str]) -> Written:
    """What the options say, as parse_queue() takes it."""
    written: Written = {} if file is None else _read(file)
    for change in changes:
        path, equals, value = change.partition("=")
        if not equals or not all(path.split(".")):
            raise click.BadParameter(f"{change!r}: write it like limits.max_queue_depth=10", param_hint="--set")
        _put(written, path.split("."), _value(value))
    return written


def _read(file: Path) -> Written:
    try:
        return msgspec.json.decode(file.read_bytes(), type=dict[str, object])
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidArgument(f"{file} is not a JSON object with settings: {error}") from None


def _put(written: Written, path: list[str], value: object) -> None:
    *sections, key = path
    for section in sections:
        below = written.setdefault(section, {})
        if not isinstance(below, dict):
            text = f"{section} is a single value and has no setting {key}: write {section}=VALUE"
            raise click.BadParameter(text, param_hint="--set")
        written = below
    written[key] = value


def _value(text: str) -> object:
    """JSON where it is some: a number, true, a list. Else the text."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return text
