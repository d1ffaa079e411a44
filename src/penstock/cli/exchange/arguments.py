"""`--argument NAME=VALUE`, of exchanges and bindings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

import click
import msgspec

Command = TypeVar("Command", bound=Callable[..., object])


def arguments_option(help: str, name: str = "--argument") -> Callable[[Command], Command]:
    """A value that is JSON is what it says, anything else is text."""
    return click.option(name, "arguments", metavar="NAME=VALUE", multiple=True, callback=_read_all, help=help)


def json_text(arguments: Mapping[str, object]) -> str:
    return msgspec.json.encode(arguments).decode() if arguments else "-"


def _read_all(context: click.Context, parameter: click.Parameter, written: tuple[str, ...]) -> dict[str, object]:
    found: dict[str, object] = {}
    for text in written:
        name, equals, value = text.partition("=")
        if not (name and equals):
            raise click.BadParameter(f"{text!r} is not an argument: write NAME=VALUE")
        found[name] = _read(value)
    return found


def _read(text: str) -> object:
    try:
        value: object = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text
    return value
