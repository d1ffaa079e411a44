"""`penstock queue template`: settings for queues whose name matches a pattern."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec

from penstock.cli.connections import destructive, on_server, refuse_unless_confirmed
from penstock.cli.failures import NotThere
from penstock.cli.lazy import LazyCommand, LazyGroup
from penstock.cli.output import output_option, print_done, print_listed
from penstock.cli.queue.setting_arguments import settings_options, written_settings
from penstock.cli.target import Target, target_options
from penstock.client.http.async_client import AsyncClient
from penstock.codecs.http.administration import TemplateDescription

COMMANDS = {
    "add": LazyCommand("queue.template", "add", "Add or replace a template."),
    "list": LazyCommand("queue.template", "list_templates", "List templates in the order they apply."),
    "drop": LazyCommand("queue.template", "drop", "Delete a template; existing queues do not change."),
}


@click.group(cls=LazyGroup, table=COMMANDS)
def template() -> None:
    """Manage default settings for queues by name pattern.

    Templates apply whenever a queue is created, by a command or automatically: first the defaults, then all matching
    templates in the order they were added, then the settings given for the queue.

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
    """Add or replace a template. In PATTERN, `*` matches any text and `?` one character.

    \b
    Examples:
      penstock queue template add 'mail-*' --set retry_policy.max_retries=3
    """
    written = written_settings(file, changes)
    if not written:
        raise click.UsageError("a template without settings does nothing: give --set or --file")

    async def act(client: AsyncClient) -> TemplateDescription:
        return await client.put_template(pattern, written)

    added = on_server(target, act, may_create=True)
    print_done(output, f"template {pattern}: added", match=added.match, settings=added.settings)


@click.command("list")
@target_options
@output_option()
def list_templates(target: Target, output: str) -> None:
    """List templates in the order they apply.

    \b
    Examples:
      penstock queue template list -o json
    """

    async def act(client: AsyncClient) -> list[TemplateDescription]:
        return await client.templates()

    found = on_server(target, act)
    rows = [(each.match, msgspec.json.encode(each.settings).decode()) for each in found]
    print_listed(output, {"templates": found}, ["pattern", "settings"], rows, "no templates yet")


@click.command()
@click.argument("pattern", metavar="PATTERN")
@destructive
@target_options
@output_option()
def drop(target: Target, pattern: str, yes: bool, dry_run: bool, output: str) -> None:
    """Delete a template; existing queues do not change.

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
