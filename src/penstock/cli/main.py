"""`penstock`: the root command."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from penstock.cli.failures import exit_code_of
from penstock.cli.lazy import LazyCommand, LazyGroup

CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 110}

COMMANDS = {
    "serve": LazyCommand("serve", "serve", "Run the server: MQTT on queues and topics."),
    "publish": LazyCommand("publish", "publish", "Publish messages to a topic or a queue of a server."),
    "subscribe": LazyCommand("subscribe", "subscribe", "Print the messages of topics and queues of a server."),
    "queue": LazyCommand("queue", "queue", "Declare, show, fill, browse and change queues."),
    "group": LazyCommand("group", "group", "Show, create, move and delete consumer groups."),
    "dlq": LazyCommand("dlq", "dlq", "Look at dead letters, redrive or drop them."),
    "user": LazyCommand("user", "user", "Add, list and remove users; set passwords and roles."),
    "key": LazyCommand("key", "key", "Make, list and revoke API keys."),
    "acl": LazyCommand("acl", "acl", "Rules: who may publish, subscribe, consume and administer what."),
    "log": LazyCommand("log", "log", "Append to, read, check and mend the logs of a data directory."),
    "backup": LazyCommand("backup", "backup", "Copy a data directory while its broker goes on."),
    "restore": LazyCommand("backup", "restore", "Make a data directory from a backup, and check all of it."),
    "scene": LazyCommand("scene", "scene", "Watch a server at work: devices, workers, a dead letter."),
    "tour": LazyCommand("tour", "tour", "Show on this machine what a log promises."),
    "doctor": LazyCommand("doctor", "doctor", "Look at kernels, disk, limits, clock and configuration."),
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
    """Penstock is a durable message broker: a server for MQTT, and commands for its data.

    \b
    Examples:
      penstock serve --dev
      penstock publish sensors/1 21.5
      penstock queue create ./data orders
      seq 1000 | penstock queue put ./data orders
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
    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
