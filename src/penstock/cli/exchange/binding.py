"""`penstock binding`: what is bound to exchanges."""

from __future__ import annotations

from collections.abc import Mapping

import click

from penstock.cli.completions import complete_queue
from penstock.cli.connections import destructive, on_server, refuse_unless_confirmed
from penstock.cli.exchange.arguments import arguments_option, json_text
from penstock.cli.failures import NotThere
from penstock.cli.lazy import LazyCommand, LazyGroup
from penstock.cli.output import output_option, print_done, print_listed, print_told
from penstock.cli.target import Target, target_options
from penstock.client.http.async_client import AsyncClient
from penstock.codecs.http.exchanges import BindingDescription

COMMANDS = {
    "list": LazyCommand("exchange.binding", "list_bindings", "List bindings."),
    "add": LazyCommand("exchange.binding", "add", "Bind a queue or an exchange to an exchange."),
    "remove": LazyCommand("exchange.binding", "remove", "Remove a binding."),
}
_COLUMNS = ["source", "destination", "key", "arguments"]
_ARGUMENTS = "Argument of the binding, like x-match=any or a header's value; repeatable."


@click.group(cls=LazyGroup, table=COMMANDS)
def binding() -> None:
    """List, add and remove the bindings that lead from an exchange to queues, or to other exchanges.

    \b
    Examples:
      penstock binding add amq.topic orders --key 'shop.*.order'
      penstock binding list --queue orders
      penstock binding remove amq.topic orders --key 'shop.*.order'
    """


@click.command("list")
@click.option("--source", metavar="EXCHANGE", help="Only those from this exchange.")
@click.option("--queue", metavar="QUEUE", shell_complete=complete_queue, help="Only those to this queue.")
@target_options
@output_option()
def list_bindings(target: Target, source: str | None, queue: str | None, output: str) -> None:
    """List bindings. The topics of queues are bindings of amq.topic.

    \b
    Examples:
      penstock binding list
      penstock binding list --source logs -o json
    """

    async def act(client: AsyncClient) -> list[BindingDescription]:
        return await client.bindings(source, queue=queue)

    found = on_server(target, act)
    rows = [
        [each.source, _destination(each.queue, each.exchange), each.key, json_text(each.arguments)] for each in found
    ]
    print_listed(output, {"bindings": found}, _COLUMNS, rows, "no bindings")


@click.command()
@click.argument("source", metavar="EXCHANGE")
@click.argument("queue", metavar="[QUEUE]", required=False, shell_complete=complete_queue)
@click.option("--exchange", metavar="EXCHANGE", help="Bind this exchange, instead of a queue.")
@click.option("--key", metavar="KEY", default="", help="Routing key, pattern or weight.")
@arguments_option(_ARGUMENTS)
@target_options
@output_option()
def add(
    target: Target,
    source: str,
    queue: str | None,
    exchange: str | None,
    key: str,
    arguments: Mapping[str, object],
    output: str,
) -> None:
    """Bind a queue, or with --exchange an exchange, to EXCHANGE. Succeeds if it is bound so already.

    In the key for a topic exchange, words are separated by dots; * is one word, # any number of them.

    \b
    Examples:
      penstock binding add logs orders --key 'eu.#'
      penstock binding add amq.headers orders --argument colour=red --argument x-match=any
      penstock binding add logs --exchange amq.fanout --key '#'
    """
    _refuse_both(queue, exchange)

    async def act(client: AsyncClient) -> BindingDescription:
        return await client.bind(source, queue, key, exchange=exchange, arguments=arguments)

    made = on_server(target, act)
    print_told(output, f"{_destination(queue, exchange)}: bound to exchange {source}", made)


@click.command()
@click.argument("source", metavar="EXCHANGE")
@click.argument("queue", metavar="[QUEUE]", required=False, shell_complete=complete_queue)
@click.option("--exchange", metavar="EXCHANGE", help="The exchange that is bound, instead of a queue.")
@click.option("--key", metavar="KEY", default="", help="Routing key, pattern or weight.")
@arguments_option(_ARGUMENTS)
@destructive
@target_options
@output_option()
def remove(
    target: Target,
    source: str,
    queue: str | None,
    exchange: str | None,
    key: str,
    arguments: Mapping[str, object],
    yes: bool,
    dry_run: bool,
    output: str,
) -> None:
    """Remove a binding. Messages that are in the queue stay there.

    \b
    Examples:
      penstock binding remove logs orders --key 'eu.#' --yes
    """
    _refuse_both(queue, exchange)
    what = _destination(queue, exchange)
    if not dry_run:
        refuse_unless_confirmed(target, yes, f"Remove the binding of {what} to exchange {source!r}?")

    async def act(client: AsyncClient) -> None:
        if not dry_run:
            await client.unbind(source, queue, key, exchange=exchange, arguments=arguments)
            return
        found = await client.bindings(source, queue=queue, exchange=exchange)
        if all((each.key, each.arguments) != (key, arguments) for each in found):
            raise NotThere(
                f"{what} is not bound to exchange {source!r} with that key: `penstock binding list` shows bindings"
            )

    on_server(target, act)
    text = f"{what}: {'would be' if dry_run else 'is'} no longer bound to exchange {source}"
    print_done(output, text, source=source, queue=queue, exchange=exchange, key=key, dry_run=dry_run)


def _refuse_both(queue: str | None, exchange: str | None) -> None:
    if (queue is None) == (exchange is None):
        raise click.UsageError("give QUEUE, or --exchange")


def _destination(queue: str | None, exchange: str | None) -> str:
    return f"queue {queue}" if queue is not None else f"exchange {exchange}"
