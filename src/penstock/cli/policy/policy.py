"""`penstock policy`: settings that are laid over queues by their names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import get_args

import click

from penstock.cli.connections import destructive, on_server, refuse_unless_confirmed
from penstock.cli.exchange.arguments import arguments_option, json_text
from penstock.cli.lazy import LazyCommand, LazyGroup
from penstock.cli.output import output_option, print_done, print_listed, print_told
from penstock.cli.target import Target, target_options
from penstock.client.http.async_client import AsyncClient
from penstock.codecs.http.policies import ApplyTo, PolicyDescription

COMMANDS = {
    "list": LazyCommand("policy.policy", "list_policies", "List policies."),
    "put": LazyCommand("policy.policy", "put", "Create or replace a policy."),
    "remove": LazyCommand("policy.policy", "remove", "Remove a policy."),
}
_COLUMNS = ["name", "pattern", "apply to", "priority", "definition"]


@click.group(cls=LazyGroup, table=COMMANDS)
def policy() -> None:
    """List, put and remove policies: settings that queues follow while their names match, as RabbitMQ's.

    \b
    Examples:
      penstock policy put short-lived '^tmp' --set message-ttl=60000 --set max-length=1000
      penstock policy list
      penstock policy remove short-lived
    """


@click.command("list")
@target_options
@output_option()
def list_policies(target: Target, output: str) -> None:
    """List policies.

    \b
    Examples:
      penstock policy list
    """

    async def act(client: AsyncClient) -> list[PolicyDescription]:
        return await client.policies()

    found = on_server(target, act)
    rows = [[each.name, each.pattern, each.apply_to, str(each.priority), json_text(each.definition)] for each in found]
    print_listed(output, {"policies": found}, _COLUMNS, rows, "no policies")


@click.command()
@click.argument("name", metavar="NAME")
@click.argument("pattern", metavar="PATTERN")
@arguments_option("Setting, like message-ttl=60000 or dead-letter-exchange=dlx; repeatable.", name="--set")
@click.option("--apply-to", type=click.Choice(get_args(ApplyTo)), default="queues", show_default=True, help="For what.")
@click.option("--priority", type=int, default=0, show_default=True, help="The highest of those that match counts.")
@target_options
@output_option()
def put(
    target: Target,
    name: str,
    pattern: str,
    arguments: Mapping[str, object],
    apply_to: ApplyTo,
    priority: int,
    output: str,
) -> None:
    """Create policy NAME for queues whose names match PATTERN, a regular expression, or replace it.

    Queues follow it at once. What a queue was declared with goes before it, but of numbers the lesser counts.

    \b
    Examples:
      penstock policy put short-lived '^tmp' --set message-ttl=60000
      penstock policy put bounded '.*' --set max-length=1000 --set overflow=reject-publish --priority 10
    """

    async def act(client: AsyncClient) -> PolicyDescription:
        return await client.put_policy(name, pattern, arguments, apply_to=apply_to, priority=priority)

    print_told(output, f"{name}: put", on_server(target, act))


@click.command()
@click.argument("name", metavar="NAME")
@destructive
@target_options
@output_option()
def remove(target: Target, name: str, yes: bool, dry_run: bool, output: str) -> None:
    """Remove policy NAME. Queues go back to their own settings, or follow another policy.

    \b
    Examples:
      penstock policy remove short-lived --yes
    """
    if not dry_run:
        refuse_unless_confirmed(target, yes, f"Remove policy {name!r}?")

    async def act(client: AsyncClient) -> None:
        await (client.policy(name) if dry_run else client.remove_policy(name))

    on_server(target, act)
    text = f"{name}: {'would be removed' if dry_run else 'removed'}"
    print_done(output, text, policy=name, dry_run=dry_run)
