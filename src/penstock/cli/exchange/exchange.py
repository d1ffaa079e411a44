"""`penstock exchange`: where messages are routed from."""

from __future__ import annotations

from collections.abc import Mapping

import click

from penstock.cli.connections import destructive, on_server, refuse_unless_confirmed
from penstock.cli.exchange.arguments import arguments_option, json_text
from penstock.cli.lazy import LazyCommand, LazyGroup
from penstock.cli.output import output_option, print_done, print_listed, print_told
from penstock.cli.target import Target, target_options
from penstock.client.http.async_client import AsyncClient
from penstock.codecs.http.exchanges import BindingDescription, ExchangeDescription, ExchangeReport

COMMANDS = {
    "list": LazyCommand("exchange.exchange", "list_exchanges", "List exchanges."),
    "declare": LazyCommand("exchange.exchange", "declare", "Declare an exchange."),
    "show": LazyCommand("exchange.exchange", "show", "Show an exchange and its bindings."),
    "publish": LazyCommand("exchange.exchange", "publish", "Publish a message to an exchange."),
    "delete": LazyCommand("exchange.exchange", "delete", "Delete an exchange with its bindings."),
}
TYPES = ("direct", "fanout", "topic", "headers", "x-consistent-hash", "x-delayed-message")
_COLUMNS = ["exchange", "type", "bindings", "alternate", "flags"]


@click.group(cls=LazyGroup, table=COMMANDS)
def exchange() -> None:
    """List, declare and delete exchanges, which pass messages on to the queues that are bound to them.

    Every namespace has amq.direct, amq.fanout, amq.topic, amq.headers, amq.match and the default exchange, amq.default
    here, which passes a message to the queue that the routing key names.

    \b
    Examples:
      penstock exchange declare logs --type topic
      penstock binding add logs orders --key 'eu.#'
      penstock exchange publish logs 'a lamp' --key eu.1
      penstock exchange list --data ./data
    """


@click.command("list")
@target_options
@output_option()
def list_exchanges(target: Target, output: str) -> None:
    """List exchanges. The topics of queues are bindings of amq.topic and are not counted here.

    \b
    Examples:
      penstock exchange list
      penstock exchange list -o json
    """

    async def act(client: AsyncClient) -> list[ExchangeDescription]:
        return await client.exchanges()

    found = on_server(target, act)
    rows = [
        [each.name or "amq.default", each.type, each.bindings, each.alternate or "-", _flags(each)] for each in found
    ]
    print_listed(output, {"exchanges": found}, _COLUMNS, rows, "no exchanges", numbers=["bindings"])


@click.command()
@click.argument("name", metavar="NAME")
@click.option("--type", "kind", type=click.Choice(TYPES), default="direct", show_default=True, help="Type.")
@click.option("--auto-delete", is_flag=True, help="Delete it together with its last binding.")
@click.option("--internal", is_flag=True, help="Nobody may publish to it: messages come from other exchanges.")
@click.option("--transient", is_flag=True, help="Forget it when the server restarts.")
@click.option("--alternate", metavar="EXCHANGE", help="Exchange for messages that no binding takes.")
@arguments_option("Argument of the exchange, like x-delayed-type=topic or hash-header=device; repeatable.")
@target_options
@output_option()
def declare(
    target: Target,
    name: str,
    kind: str,
    auto_delete: bool,
    internal: bool,
    transient: bool,
    alternate: str | None,
    arguments: Mapping[str, object],
    output: str,
) -> None:
    """Declare an exchange. Succeeds if it exists and is the same in everything.

    \b
    Examples:
      penstock exchange declare logs --type topic
      penstock exchange declare by-device --type x-consistent-hash --argument hash-header=device
      penstock exchange declare orders --alternate amq.fanout
    """

    async def act(client: AsyncClient) -> ExchangeDescription:
        return await client.declare_exchange(
            name,
            kind,
            durable=not transient,
            auto_delete=auto_delete,
            internal=internal,
            alternate=alternate,
            arguments=arguments,
        )

    made = on_server(target, act, may_create=True)
    print_told(output, f"exchange {made.name}: declared, type {made.type}", made)


@click.command()
@click.argument("name", metavar="NAME")
@target_options
@output_option()
def show(target: Target, name: str, output: str) -> None:
    """Show an exchange and the bindings from it.

    \b
    Examples:
      penstock exchange show logs
      penstock exchange show amq.topic -o yaml
    """

    async def act(client: AsyncClient) -> tuple[ExchangeDescription, list[BindingDescription]]:
        return await client.exchange(name), await client.bindings("" if name == "amq.default" else name)

    found, bindings = on_server(target, act)
    rows = [[_destination(each), each.key, json_text(each.arguments)] for each in bindings]
    facts = {"exchange": found, "bindings": bindings}
    columns = ["destination", "key", "arguments"]
    print_listed(output, facts, columns, rows, f"exchange {name}: {found.type}, no bindings")


@click.command()
@click.argument("name", metavar="NAME")
@click.argument("message", metavar="MESSAGE")
@click.option("--key", "routing_key", metavar="KEY", default="", help="Routing key.")
@click.option("--header", "headers", metavar="NAME=VALUE", multiple=True, help="Header of the message; repeatable.")
@click.option("--mandatory", is_flag=True, help="Fail if no queue takes the message.")
@target_options
@output_option()
def publish(
    target: Target, name: str, message: str, routing_key: str, headers: tuple[str, ...], mandatory: bool, output: str
) -> None:
    """Publish a message to an exchange of a server.

    \b
    Examples:
      penstock exchange publish logs 'a lamp' --key eu.1
      penstock exchange publish amq.headers 'a lamp' --header colour=red --mandatory
    """
    pairs = [text.partition("=") for text in headers]
    if not all(equals and header for header, equals, _ in pairs):
        raise click.UsageError("a header needs a name and a value: write NAME=VALUE")
    said = [(header, value) for header, _, value in pairs]

    async def act(client: AsyncClient) -> ExchangeReport:
        return await client.publish_exchange(name, message, routing_key, headers=said, mandatory=mandatory)

    told = on_server(target, act)
    print_told(output, f"exchange {name}: {'routed' if told.routed else 'taken by no queue'}", told)


@click.command()
@click.argument("name", metavar="NAME")
@click.option("--if-unused", is_flag=True, help="Fail if it has bindings.")
@destructive
@target_options
@output_option()
def delete(target: Target, name: str, if_unused: bool, yes: bool, dry_run: bool, output: str) -> None:
    """Delete an exchange with the bindings from it and to it. Queues and their messages are kept.

    \b
    Examples:
      penstock exchange delete logs --dry-run
      penstock exchange delete logs --if-unused --yes
    """
    if not dry_run:
        refuse_unless_confirmed(target, yes, f"Delete exchange {name!r} with its bindings?")

    async def act(client: AsyncClient) -> ExchangeDescription:
        found = await client.exchange(name)
        if not dry_run:
            await client.delete_exchange(name, if_unused)
        return found

    found = on_server(target, act)
    what = f"{'would be deleted' if dry_run else 'deleted'}, with {found.bindings:,} bindings"
    print_done(output, f"exchange {name}: {what}", exchange=name, bindings=found.bindings, dry_run=dry_run)


def _destination(binding: BindingDescription) -> str:
    return f"queue {binding.queue}" if binding.queue is not None else f"exchange {binding.exchange}"


def _flags(exchange: ExchangeDescription) -> str:
    flags = {
        "transient": not exchange.durable,
        "auto-delete": exchange.auto_delete,
        "internal": exchange.internal,
    }
    return " ".join([name for name, is_set in flags.items() if is_set]) or "-"
