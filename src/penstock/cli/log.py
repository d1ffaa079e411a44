"""`penstock log`: the logs of a data directory."""

from __future__ import annotations

import click

from penstock.cli.lazy import LazyCommand, LazyGroup

COMMANDS = {
    "append": LazyCommand("log_append", "append", "Append a message a line from standard input."),
    "cat": LazyCommand("log_cat", "cat", "Print the messages of a log."),
    "stat": LazyCommand("log_stat", "stat", "Show the logs of a directory: offsets, records, sizes, settings."),
    "verify": LazyCommand("log_verify", "verify", "Check every batch; exit code 1 on damage."),
    "dump": LazyCommand("log_dump", "dump", "Print batches or journal frames by their headers."),
    "repair": LazyCommand("log_repair", "repair", "Mend a damaged directory that no process has open."),
}


@click.group(cls=LazyGroup, table=COMMANDS)
def log() -> None:
    """Append to, read, check and mend the logs of a data directory.

    cat, dump, stat and verify change nothing and work while a broker has the directory open, after it was closed, and
    after a crash.

    \b
    Examples:
      seq 1000 | penstock log append ./data --log numbers
      penstock log cat ./data --log numbers -n 10
      penstock log verify ./data
    """
