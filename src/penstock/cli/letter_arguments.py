"""Choosing dead letters on a command line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import click

from penstock.broker.letters import Selection
from penstock.core.errors import InvalidArgument
from penstock.queues.deadletter import Reason
from penstock.queues.names import parse_message_id

Command = TypeVar("Command", bound=Callable[..., object])


def selection_options(command: Command) -> Command:
    """--id, --group, --reason, --source and -n, as parameters ids, groups, reasons, sources, limit."""
    for option in (
        click.option("-n", "--limit", metavar="N", type=click.IntRange(min=0), help="At most N letters."),
        click.option("--source", "sources", metavar="QUEUE", multiple=True, help="Only those of this queue."),
        click.option(
            "--reason",
            "reasons",
            type=click.Choice([reason.value for reason in Reason]),
            multiple=True,
            help="Only those given up on for this reason.",
        ),
        click.option("--group", "groups", metavar="GROUP", multiple=True, help="Only those of this group."),
        click.option(
            "--id",
            "ids",
            metavar="ID",
            multiple=True,
            help="Only this one: its own id, or that of the message it was. Options may be repeated.",
        ),
    ):
        command = option(command)
    return command


def selection(ids: Sequence[str], groups: Sequence[str], reasons: Sequence[str], sources: Sequence[str]) -> Selection:
    for text in ids:
        try:
            parse_message_id(text)
        except InvalidArgument as error:
            raise click.BadParameter(str(error), param_hint="--id") from error
    return Selection(frozenset(ids), frozenset(groups), frozenset(map(Reason, reasons)), frozenset(sources))
