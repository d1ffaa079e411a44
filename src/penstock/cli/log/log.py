"""`penstock log`: the logs of a data directory."""

from __future__ import annotations

import click

from penstock.cli.lazy import LazyCommand, LazyGroup

COMMANDS = {
    "append": LazyCommand("log.append", "append", "Append each line of standard input as a message."),
    "cat": LazyCommand("log.cat", "cat", "Print the messages of a log."),
    "stat": LazyCommand("log.stat", "stat", "Show the logs of a directory: offsets, records, sizes, settings."),
    "verify": LazyCommand("log.verify", "verify", "Check every batch; exit code 1 on damage."),
    "dump": LazyCommand("log.dump", "dump", "Print headers of batches or journal frames."),
    "repair": LazyCommand("log.repair", "repair", "Repair a damaged data directory that no process has open."),
}


@click.group(cls=LazyGroup, table=COMMANDS)
def log() -> None:
    """Append to, read, verify and repair the logs of a data directory.

    cat, dump, stat and verify change nothing and work while a server is running on the directory, after it has stopped,
    and after a crash.

    \b
    Examples:
      seq 1000 | penstock log append ./data --log numbers
      penstock log cat ./data --log numbers -n 10
      penstock log verify ./data
    """
