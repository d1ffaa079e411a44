"""`penstock dlq`: messages that groups have given up on."""

from __future__ import annotations

import click

from penstock.cli.lazy import LazyCommand, LazyGroup

COMMANDS = {
    "list": LazyCommand("dlq.show", "list_letters", "List dead letters with their origin and reason."),
    "show": LazyCommand("dlq.show", "show", "Show all of a dead letter."),
    "redrive": LazyCommand("dlq.redrive", "redrive", "Publish dead letters again."),
    "drop": LazyCommand("dlq.redrive", "drop", "Discard dead letters."),
}


@click.group(cls=LazyGroup, table=COMMANDS)
def dlq() -> None:
    """List, redrive and drop dead letters: messages that a consumer group has given up on.

    QUEUE is the queue the messages were published to, or the dead-letter queue itself (`$dlq/orders`).

    \b
    Examples:
      penstock dlq list
      penstock dlq list orders
      penstock dlq redrive orders
    """
