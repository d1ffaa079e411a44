"""`penstock`: the root command."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import click

from penstock.cli.failures import exit_code_of
from penstock.cli.lazy import LazyCommand, LazyGroup
from penstock.version import VERSION

COMPLETION_VARIABLE = "_PENSTOCK_COMPLETE"
"""how a shell asks for completions, as click has it"""
CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 110}

COMMANDS = {
    "serve": LazyCommand("server.serve", "serve", "Run the server."),
    "publish": LazyCommand("message.publish", "publish", "Publish messages to a topic over MQTT."),
    "subscribe": LazyCommand(
        "message.subscribe", "subscribe", "Subscribe to topics or queues over MQTT and print messages."
    ),
    "produce": LazyCommand("message.produce", "produce", "Publish messages to a queue over HTTP."),
    "consume": LazyCommand("message.consume", "consume", "Print messages of a queue; with --group, consume them."),
    "queue": LazyCommand("queue.queue", "queue", "Create, list, browse, change and delete queues."),
    "exchange": LazyCommand("exchange.exchange", "exchange", "List, declare, publish to and delete exchanges."),
    "binding": LazyCommand("exchange.binding", "binding", "List, add and remove bindings of exchanges."),
    "policy": LazyCommand("policy.policy", "policy", "List, put and remove policies of queues."),
    "import": LazyCommand("policy.importing", "import_", "Import what another broker had declared."),
    "group": LazyCommand("group.group", "group", "Create, list, reset and delete consumer groups."),
    "dlq": LazyCommand("dlq.dlq", "dlq", "List, redrive and drop dead letters."),
    "client": LazyCommand("server.client", "client", "List and disconnect clients."),
    "user": LazyCommand("user.user", "user", "Add, list and remove users; set passwords and roles."),
    "key": LazyCommand("user.key", "key", "Create, list and revoke API keys."),
    "acl": LazyCommand("user.acl", "acl", "List, add and remove access rules."),
    "config": LazyCommand("server.config", "config", "Show and reload the configuration of a server."),
    "context": LazyCommand("context", "context", "Manage contexts: servers and logins that commands use."),
    "sql": LazyCommand("sql.sql", "sql", "Query queues with SQL."),
    "log": LazyCommand("log.log", "log", "Read, verify and repair the logs of a data directory."),
    "backup": LazyCommand("server.backup", "backup", "Back up a data directory, also while the server runs."),
    "restore": LazyCommand("server.backup", "restore", "Restore a data directory from a backup and verify it."),
    "pipeline": LazyCommand(
        "pipeline.pipeline", "pipeline", "Run pipelines; audit, archive, replay and report on queues."
    ),
    "top": LazyCommand("server.top", "top", "Watch queues, rates, lag and clients of a server live."),
    "bench": LazyCommand("bench.bench", "bench", "Measure the throughput of a server."),
    "doctor": LazyCommand(
        "doctor.doctor", "doctor", "Check this machine: disk, limits, ports, certificates, configuration."
    ),
    "completion": LazyCommand("completion", "completion", "Print the shell completion script."),
    "version": LazyCommand("version", "version", "Print the version."),
}


@click.group(cls=LazyGroup, table=COMMANDS, context_settings=CONTEXT)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error", "critical"]),
    default="warning",
    show_default=True,
    help="Log lines of this level and above go to standard error.",
)
@click.option(
    "--log-format",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Format of Penstock's own log lines.",
)
@click.version_option(VERSION, "--version", message="%(version)s", help="Print the version and exit.")
def penstock(log_level: str, log_format: str) -> None:
    """Penstock is a durable message broker: a server for MQTT, HTTP and Arrow Flight, and commands to use it.

    Exit codes: 0 success; 1 failed or refused; 2 wrong usage; 3 not found; 4 server not reachable; 130 interrupted.

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
