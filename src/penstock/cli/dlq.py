"""`penstock dlq`: messages that groups have given up on."""

from __future__ import annotations

import click

from penstock.cli.lazy import LazyCommand, LazyGroup

COMMANDS = {
    "list": LazyCommand("dlq_show", "list_letters", "List the dead letters that wait, with whence and why."),
    "show": LazyCommand("dlq_show", "show", "Show a dead letter whole."),
    "redrive": LazyCommand("dlq_redrive", "redrive", "Publish dead letters again."),
    "drop": LazyCommand("dlq_redrive", "drop", "Settle dead letters without redriving them."),
}


@click.group(cls=LazyGroup, table=COMMANDS)
def dlq() -> None:
    """Look at messages that groups have given up on, send them back, or drop them.

    QUEUE is the queue that the messages were published to, or the dead-letter queue itself (`$dlq/orders`).

    \b
    Examples:
      penstock dlq list
      penstock dlq list orders
      penstock dlq redrive orders
    """
