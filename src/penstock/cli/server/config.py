"""`penstock config`: how a running server is configured."""

from __future__ import annotations

import click

from penstock.cli.connections import on_server
from penstock.cli.lazy import LazyCommand, LazyGroup
from penstock.cli.output import DATA_FORMATS, output_option, print_data, print_done, print_listed, print_table
from penstock.cli.target import Target, target_options
from penstock.client.http.answers import Facts
from penstock.client.http.async_client import AsyncClient

COMMANDS = {
    "view": LazyCommand("server.config", "view", "Show the configuration of a server, without secrets."),
    "diff": LazyCommand("server.config", "diff", "Show what a reload would change."),
    "reload": LazyCommand("server.config", "reload", "Reload the configuration of a server."),
    "log-level": LazyCommand("server.config", "log_level", "Show or set the log level of a server."),
    "use-context": LazyCommand("context", "use", "The same as `penstock context use`."),
    "set-context": LazyCommand("context", "set_context", "The same as `penstock context set`."),
    "get-contexts": LazyCommand("context", "list_contexts", "The same as `penstock context list`."),
    "current-context": LazyCommand("context", "current", "Print the name of the current context."),
    "delete-context": LazyCommand("context", "delete", "The same as `penstock context delete`."),
}

_LEVELS = click.Choice(["debug", "info", "warning", "error", "critical"])


@click.group(cls=LazyGroup, table=COMMANDS)
def config() -> None:
    """Show and reload the configuration of a running server; also has kubectl's names for the `penstock context`
    commands.

    \b
    Examples:
      penstock config view
      penstock config diff
      penstock config reload
      penstock config use-context production
    """


@click.command()
@target_options
@output_option()
def view(target: Target, output: str) -> None:
    """Show the configuration of a server: every setting with its path. Secrets are shown as `(secret)`.

    \b
    Examples:
      penstock config view
      penstock config view -o yaml
    """

    async def act(client: AsyncClient) -> Facts:
        return await client.config()

    settings = on_server(target, act)["settings"]
    assert isinstance(settings, dict)
    if output in DATA_FORMATS:
        print_data(settings, output)
    else:
        print_table(["setting", "value"], [(path, _shown(value)) for path, value in settings.items()])


@click.command()
@target_options
@output_option()
def diff(target: Target, output: str) -> None:
    """Show what a reload would change, and which changes need a restart. Nothing is changed.

    \b
    Examples:
      penstock config diff
    """

    _show_diff(target, output)


@click.command()
@click.option("--dry-run", is_flag=True, help="The same as `penstock config diff`.")
@target_options
@output_option()
def reload(target: Target, dry_run: bool, output: str) -> None:
    """Reload the configuration of a server. It is checked first: if anything is invalid, nothing is changed.

    \b
    Examples:
      penstock config reload
    """
    if dry_run:
        _show_diff(target, output)
        return

    async def act(client: AsyncClient) -> Facts:
        return await client.reload()

    report = on_server(target, act)
    applied, waiting = report["applied"], report["waiting"]
    assert isinstance(applied, list)
    assert isinstance(waiting, list)
    _print_changes(output, report, [*applied, *waiting], "nothing changed")


@click.command("log-level")
@click.argument("level", metavar="[LEVEL]", type=_LEVELS, required=False)
@target_options
@output_option()
def log_level(target: Target, level: str | None, output: str) -> None:
    """Show or set the log level of a server. It lasts until the server restarts or a reload changes the level.

    \b
    Examples:
      penstock config log-level
      penstock config log-level debug
    """

    async def act(client: AsyncClient) -> Facts:
        return await (client.log_level() if level is None else client.set_log_level(level))

    counts = on_server(target, act)["level"]
    print_done(output, str(counts), level=counts)


def _show_diff(target: Target, output: str) -> None:
    async def act(client: AsyncClient) -> Facts:
        return await client.config_diff()

    changes = on_server(target, act)["changes"]
    assert isinstance(changes, list)
    _print_changes(output, {"changes": changes}, changes, "nothing would change")


def _print_changes(output: str, facts: Facts, changes: list[Facts], nothing: str) -> None:
    rows = [
        (change["path"], change["before"], change["after"], "a restart" if change["needs_restart"] else "-")
        for change in changes
    ]
    print_listed(output, facts, ["setting", "is", "becomes", "needs"], rows, nothing)


def _shown(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else "-" if value is None else str(value)
