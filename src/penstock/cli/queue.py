"""`penstock queue`: the queues of a server."""

from __future__ import annotations

import click

from penstock.cli.lazy import LazyCommand, LazyGroup

COMMANDS = {
    "create": LazyCommand("queue_declare", "create", "Declare a queue."),
    "list": LazyCommand("queue_show", "list_queues", "List the queues: messages, depth, groups."),
    "describe": LazyCommand("queue_show", "describe", "Show a queue: partitions, groups, settings."),
    "update": LazyCommand("queue_declare", "update", "Change settings of a queue."),
    "put": LazyCommand("produce", "put", "Publish a message a line from standard input."),
    "browse": LazyCommand("queue_browse", "browse", "Print messages without consuming them."),
    "pause": LazyCommand("queue_empty", "pause", "Hand out no messages until it is resumed."),
    "resume": LazyCommand("queue_empty", "resume", "Hand out messages again."),
    "purge": LazyCommand("queue_empty", "purge", "Throw all messages of a queue away."),
    "delete": LazyCommand("queue_empty", "delete", "Delete a queue with its messages and groups."),
    "template": LazyCommand("queue_template", "template", "Settings for queues whose name matches a pattern."),
}


@click.group(cls=LazyGroup, table=COMMANDS)
def queue() -> None:
    """Declare, show, fill, browse and change the queues of a server, or with --data of a directory.

    \b
    Examples:
      penstock queue create orders --partitions 4
      seq 100 | penstock queue put orders
      penstock queue list
      penstock queue list --data ./data
    """
