"""`penstock group`: the consumer groups of a queue."""

from __future__ import annotations

import click

from penstock.cli.lazy import LazyCommand, LazyGroup

COMMANDS = {
    "list": LazyCommand("group_show", "list_groups", "List groups: lag, what is in flight or waits."),
    "describe": LazyCommand("group_show", "describe", "Show a group, partition by partition."),
    "create": LazyCommand("group_change", "create", "Create a group that begins at a place."),
    "reset": LazyCommand("group_reset", "reset", "Let a group begin anew at a place."),
    "reset-offsets": LazyCommand("group_reset", "reset_offsets", "The same, by --to-earliest, --to-time, …"),
    "commit": LazyCommand("group_change", "commit", "Settle all messages of a partition below an offset."),
    "pause": LazyCommand("group_change", "pause", "Hand out no messages to a group until it is resumed."),
    "resume": LazyCommand("group_change", "resume", "Hand out messages to a group again."),
    "delete": LazyCommand("group_change", "delete", "Delete a group and what it remembers."),
}


@click.group(cls=LazyGroup, table=COMMANDS)
def group() -> None:
    """Show, create, move and delete the consumer groups of a queue.

    Every group gets every message. A group with a filter on the routing key is written `name|filter`.

    \b
    Examples:
      penstock group list
      penstock group create orders billing --start latest
      penstock group reset orders billing --to 1h
    """
