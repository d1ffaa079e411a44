"""`penstock queue`: the queues of a server."""

from __future__ import annotations

import click

from penstock.cli.lazy import LazyCommand, LazyGroup

COMMANDS = {
    "create": LazyCommand("queue.declare", "create", "Create a queue."),
    "list": LazyCommand("queue.show", "list_queues", "List queues with messages, depth and groups."),
    "describe": LazyCommand("queue.show", "describe", "Show partitions, groups and settings of a queue."),
    "update": LazyCommand("queue.declare", "update", "Change settings of a queue."),
    "put": LazyCommand("message.produce", "put", "Publish each line of standard input as a message."),
    "browse": LazyCommand("queue.browse", "browse", "Print messages without consuming them."),
    "pause": LazyCommand("queue.empty", "pause", "Stop delivery until the queue is resumed."),
    "resume": LazyCommand("queue.empty", "resume", "Resume delivery."),
    "purge": LazyCommand("queue.empty", "purge", "Delete all messages of a queue."),
    "delete": LazyCommand("queue.empty", "delete", "Delete a queue with its messages and groups."),
    "template": LazyCommand("queue.template", "template", "Manage default settings for queues by name pattern."),
}


@click.group(cls=LazyGroup, table=COMMANDS)
def queue() -> None:
    """Create, list, browse, change and delete the queues of a server or, with --data, of a data directory.

    \b
    Examples:
      penstock queue create orders --partitions 4
      seq 100 | penstock queue put orders
      penstock queue list
      penstock queue list --data ./data
    """
