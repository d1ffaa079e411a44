"""`penstock`: the root command."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import click

from penstock.cli.failures import exit_code_of
from penstock.cli.lazy import LazyCommand, LazyGroup

COMPLETION_VARIABLE = "_PENSTOCK_COMPLETE"
"""how a shell asks for completions, as click has it"""
CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 110}

COMMANDS = {
    "serve": LazyCommand("serve", "serve", "Run the server: MQTT and HTTP on queues and topics."),
    "publish": LazyCommand("publish", "publish", "Publish messages to a topic over MQTT."),
    "subscribe": LazyCommand("subscribe", "subscribe", "Print the messages of topics and queues, over MQTT."),
    "produce": LazyCommand("produce", "produce", "Put messages into a queue."),
    "consume": LazyCommand("consume", "consume", "Print messages of a queue: looked at, or taken by a group."),
    "queue": LazyCommand("queue", "queue", "Declare, show, fill, browse and change queues."),
    "group": LazyCommand("group", "group", "Show, create, move and delete consumer groups."),
    "dlq": LazyCommand("dlq", "dlq", "Look at dead letters, redrive or drop them."),
    "client": LazyCommand("client", "client", "See who is connected, and disconnect them."),
    "user": LazyCommand("user", "user", "Add, list and remove users; set passwords and roles."),
    "key": LazyCommand("key", "key", "Make, list and revoke API keys."),
    "acl": LazyCommand("acl", "acl", "Rules: who may publish, subscribe, consume and administer what."),
    "config": LazyCommand("config", "config", "See how a server is configured, and let it read that again."),
    "context": LazyCommand("context", "context", "The servers that commands talk to, and as whom."),
    "sql": LazyCommand("sql", "sql", "Answer a question about queues in SQL."),
    "log": LazyCommand("log", "log", "Append to, read, check and mend the logs of a data directory."),
    "backup": LazyCommand("backup", "backup", "Copy a data directory while its broker goes on."),
    "restore": LazyCommand("backup", "restore", "Make a data directory from a backup, and check all of it."),
    "pipeline": LazyCommand("pipeline", "pipeline", "Run declared pipelines; audit, archive and snapshot queues."),
    "top": LazyCommand("top", "top", "Watch a server: queues, rates, lag, clients."),
    "bench": LazyCommand("bench", "bench", "Load a server, and say how fast it was."),
    "demo": LazyCommand("scene", "demo", "Watch a server at work: orders, devices, workers, a dead letter."),
    "scene": LazyCommand("scene", "scene", "The same as demo, with data that stays."),
    "tour": LazyCommand("tour", "tour", "Show on this machine what a log promises."),
    "doctor": LazyCommand("doctor", "doctor", "Look at kernels, disk, limits, ports, certificates, configuration."),
    "completion": LazyCommand("completion", "completion", "Print what makes a shell complete commands."),
    "version": LazyCommand("version", "version", "Print the version."),
}


@click.group(cls=LazyGroup, table=COMMANDS, context_settings=CONTEXT)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error", "critical"]),
    default="warning",
    show_default=True,
    help="Which of Penstock's own log lines go to standard error.",
)
@click.option("--log-format", type=click.Choice(["text", "json"]), default="text", show_default=True)
def penstock(log_level: str, log_format: str) -> None:
    """Penstock is a durable message broker: a server for MQTT and HTTP, and commands for it and for its data.

    Exit codes: 0; 1 it failed or was refused; 2 wrong usage; 3 what was named is not there; 4 the server cannot be
    reached; 130 interrupted.

    \b
    Examples:
      penstock serve --dev
      penstock publish sensors/1 21.5
      penstock queue create orders
      seq 1000 | penstock produce orders --stdin
      penstock consume orders --max 10
      penstock queue list --data ./data
      seq 1000 | penstock log append ./data --log numbers
      penstock log stat ./data
      penstock log cat ./data --log numbers --from 990
    """
    from penstock.core.logs import configure_logs

    configure_logs(log_level, "json" if log_format == "json" else "text")


def run(arguments: Sequence[str]) -> int:
    """The exit code of `penstock` with these arguments."""
    return exit_code_of(lambda: _invoke(list(arguments)))


def _invoke(arguments: list[str]) -> int:
    """Not through click's main(), which takes a closed pipe for a failure."""
    with penstock.make_context("penstock", arguments) as context:
        code = penstock.invoke(context)
    return code if isinstance(code, int) else 0


def main() -> None:
    if (asked := os.environ.get(COMPLETION_VARIABLE)) is not None:
        sys.exit(_complete(asked))
    sys.exit(run(sys.argv[1:]))


def _complete(asked: str) -> int:
    from click.shell_completion import shell_complete

    return shell_complete(penstock, {}, "penstock", COMPLETION_VARIABLE, asked)


if __name__ == "__main__":
    main()
