"""`penstock group`: the consumer groups of a queue."""

from __future__ import annotations

import click

from penstock.cli.lazy import LazyCommand, LazyGroup

COMMANDS = {
    "list": LazyCommand("group.show", "list_groups", "List groups with lag and messages in flight."),
    "describe": LazyCommand("group.show", "describe", "Show a group by partition."),
    "create": LazyCommand("group.change", "create", "Create a group at a position."),
    "reset": LazyCommand("group.reset", "reset", "Reset a group to a position."),
    "reset-offsets": LazyCommand(
        "group.reset", "reset_offsets", "Reset a group, with Kafka's options: --to-earliest, --to-time, …"
    ),
    "commit": LazyCommand("group.change", "commit", "Acknowledge all messages of a partition below an offset."),
    "pause": LazyCommand("group.change", "pause", "Stop delivering to a group until it is resumed."),
    "resume": LazyCommand("group.change", "resume", "Resume delivery to a group."),
    "delete": LazyCommand("group.change", "delete", "Delete a group and its position."),
}


@click.group(cls=LazyGroup, table=COMMANDS)
def group() -> None:
    """List, create, reset and delete the consumer groups of a queue.

    Every group gets every message. A group with a filter on the routing key is written `name|filter`.

    \b
    Examples:
      penstock group list
      penstock group create orders billing --start latest
      penstock group reset orders billing --to 1h
    """
