"""`penstock queue template`: settings for queues whose name matches a pattern."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec

from penstock.cli.failures import NotThere
from penstock.cli.lazy import LazyCommand, LazyGroup
from penstock.cli.output import DATA_FORMATS, output_option, print_data, print_done, print_table
from penstock.cli.setting_arguments import settings_options, written_settings
from penstock.cli.talking import destructive, on_server, refuse_unless_confirmed
from penstock.cli.target import Target, target_options
from penstock.client.http.answers import TemplateInfo
from penstock.client.http.async_client import AsyncClient

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
      penstock queue template add 'mail-*' --set retry_policy.max_retries=3
      penstock queue template list --data ./data
    """


@click.command()
@click.argument("pattern", metavar="PATTERN")
@settings_options
@target_options
@output_option()
def add(target: Target, pattern: str, file: Path | None, changes: tuple[str, ...], output: str) -> None:
    """Add a template, or replace the one of that pattern. `*` stands for any text, `?` for one character.

    \b
    Examples:
      penstock queue template add 'mail-*' --set retry_policy.max_retries=3
    """
    written = written_settings(file, changes)
    if not written:
        raise click.UsageError("a template without settings does nothing: give --set or --file")

    async def act(client: AsyncClient) -> TemplateInfo:
        return await client.put_template(pattern, written)

    added = on_server(target, act, may_create=True)
    print_done(output, f"template {pattern}: added", match=added.match, settings=added.settings)


@click.command("list")
@target_options
@output_option()
def list_templates(target: Target, output: str) -> None:
    """List the templates, in the order in which they apply.

    \b
    Examples:
      penstock queue template list -o json
    """

    async def act(client: AsyncClient) -> list[TemplateInfo]:
        return await client.templates()

    found = on_server(target, act)
    if output in DATA_FORMATS:
        print_data({"templates": found}, output)
    elif found:
        rows = [(each.match, msgspec.json.encode(each.settings).decode()) for each in found]
        print_table(["pattern", "settings"], rows)
    else:
        click.echo("no templates yet")


@click.command()
@click.argument("pattern", metavar="PATTERN")
@destructive
@target_options
@output_option()
def drop(target: Target, pattern: str, yes: bool, dry_run: bool, output: str) -> None:
    """Drop a template; queues that were made from it stay as they are.

    \b
    Examples:
      penstock queue template drop 'mail-*'
    """
    if not dry_run:
        refuse_unless_confirmed(target, yes, f"Drop the template for {pattern!r}?")

    async def act(client: AsyncClient) -> None:
        if not dry_run:
            await client.drop_template(pattern)
        elif all(each.match != pattern for each in await client.templates()):
            raise NotThere(f"no template {pattern!r}: `penstock queue template list` shows them")

    on_server(target, act)
    text = f"template {pattern}: {'would be dropped' if dry_run else 'dropped'}"
    print_done(output, text, match=pattern, dry_run=dry_run)
