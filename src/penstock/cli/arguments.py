"""Arguments as people write them: sizes, points in time, names of logs."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import TypeVar

import click

from penstock.core.clock import SystemClock
from penstock.core.errors import InvalidArgument
from penstock.core.types import TimestampMs
from penstock.core.units import parse_duration, parse_size
from penstock.log.names import parse_log_name

Value = TypeVar("Value")
Command = TypeVar("Command", bound=Callable[..., object])

DIRECTORY = click.Path(file_okay=False, path_type=Path)
EXISTING_DIRECTORY = click.Path(file_okay=False, exists=True, path_type=Path)


def parse_time(text: str, now_ms: int) -> TimestampMs:
    """Milliseconds since 1970 (digits), ISO 8601 (local time unless it names a zone), or a duration back from now."""
    if text.isdecimal():
        return TimestampMs(int(text))
    try:
        return TimestampMs(round(datetime.fromisoformat(text).timestamp() * 1000))
    except ValueError:
        return _back_from(now_ms, text)


def _back_from(now_ms: int, text: str) -> TimestampMs:
    try:
        return TimestampMs(now_ms - round(parse_duration(text) * 1000))
    except InvalidArgument:
        raise InvalidArgument(
            f"{text!r} is not a time: write 2026-11-15T08:00:00Z, ms since 1970, or 2h for two hours ago"
        ) from None


def directory_argument(command: Command) -> Command:
    return click.argument("directory", metavar="DIR", type=EXISTING_DIRECTORY)(command)


def log_option(text: str, *, required: bool = False) -> Callable[[Command], Command]:
    parse = _parsed(parse_log_name)
    return click.option("--log", "name", metavar="NAME", required=required, callback=parse, help=text)


def size_option(flag: str, text: str) -> Callable[[Command], Command]:
    return click.option(flag, metavar="SIZE", callback=_parsed(parse_size), help=text)


def time_option(flag: str, parameter: str, text: str) -> Callable[[Command], Command]:
    parse = _parsed(lambda written: parse_time(written, SystemClock().now_ms()))
    return click.option(flag, parameter, metavar="TIME", callback=parse, help=text)


def _parsed(parse: Callable[[str], Value]) -> Callable[[click.Context, click.Parameter, str | None], Value | None]:
    """A callback of an option: a text that cannot be parsed is wrong usage."""

    def convert(context: click.Context, parameter: click.Parameter, text: str | None) -> Value | None:
        try:
            return None if text is None else parse(text)
        except InvalidArgument as error:
            raise click.BadParameter(str(error), context, parameter) from error

    return convert
