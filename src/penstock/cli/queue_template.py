"""`penstock queue template`: settings for queues whose name matches a pattern."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec

from penstock.broker.broker import Broker
from penstock.cli.arguments import DIRECTORY, directory_argument
from penstock.cli.lazy import LazyCommand, LazyGroup
from penstock.cli.opened import on_broker
from penstock.cli.output import output_option, print_json, print_table
from penstock.cli.setting_arguments import settings_options, written_settings

COMMANDS = {
    "add": LazyCommand("queue_template", "add", "Add a template, or replace the one of that pattern."),
    "list": LazyCommand("queue_template", "list_templates", "List the templates, in the order in which they apply."),
    "drop": LazyCommand("queue_template", "drop", "Drop a template; queues that were made from it stay as they are."),
}


@click.group(cls=LazyGroup, table=COMMANDS)
def template() -> None:
    """Settings for queues whose name matches a pattern.

    They count when a queue is declared, by hand or by itself: defaults first, then the templates that match in the
    order in which they were added, then what is said of the queue.

    \b
    Examples:
      penstock queue template add ./data 'mail-*' --set retry_policy.max_retries=3
      penstock queue template list ./data
    """


@click.command()
@click.argument("directory", metavar="DIR", type=DIRECTORY)
@click.argument("pattern", metavar="PATTERN")
@settings_options
def add(directory: Path, pattern: str, file: Path | None, changes: tuple[str, ...]) -> None:
    """Add a template, or replace the one of that pattern. `*` stands for any text, `?` for one character.

    \b
    Examples:
      penstock queue template add ./data 'mail-*' --set retry_policy.max_retries=3
    """
    written = written_settings(file, changes)
    if not written:
        raise click.UsageError("a template without settings does nothing: give --set or --file")

    async def act(broker: Broker) -> None:
        await broker.declaring.put_template(pattern, written)

    on_broker(directory, act, may_create=True)
    click.echo(f"template {pattern}: added")


@click.command("list")
@directory_argument
@output_option("table", "json")
def list_templates(directory: Path, output: str) -> None:
    """List the templates, in the order in which they apply.

    \b
    Examples:
      penstock queue template list ./data -o json
    """

    async def act(broker: Broker) -> dict[str, object]:
        return {match: dict(template.settings) for match, template in broker.declaring.templates.items()}

    found = on_broker(directory, act)
    if output == "json":
        print_json({"templates": [{"match": match, "settings": settings} for match, settings in found.items()]})
    elif found:
        rows = [(match, msgspec.json.encode(settings).decode()) for match, settings in found.items()]
        print_table(["pattern", "settings"], rows)
    else:
        click.echo("no templates yet")


@click.command()
@directory_argument
@click.argument("pattern", metavar="PATTERN")
def drop(directory: Path, pattern: str) -> None:
    """Drop a template; queues that were made from it stay as they are.

    \b
    Examples:
      penstock queue template drop ./data 'mail-*'
    """

    async def act(broker: Broker) -> None:
        await broker.declaring.drop_template(pattern)

    on_broker(directory, act)
    click.echo(f"template {pattern}: dropped")
