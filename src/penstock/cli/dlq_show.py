"""`penstock dlq list` and `penstock dlq show`."""

from __future__ import annotations

from pathlib import Path

import click

from penstock.broker.broker import Broker
from penstock.broker.letters import Letter, Selection, dead_letter_queue_of, dead_letter_queues, letters, waiting
from penstock.cli.arguments import directory_argument
from penstock.cli.letter_arguments import selection, selection_options
from penstock.cli.message_text import letter_json, second_text, short_text
from penstock.cli.opened import namespace_option, on_broker
from penstock.cli.output import output_option, print_json, print_table
from penstock.core.errors import InvalidArgument
from penstock.queues.names import parse_message_id

_COLUMNS = ["id", "message", "group", "reason", "failures", "given up", "detail", "value"]


@click.command("list")
@directory_argument
@click.argument("queue", metavar="[QUEUE]", required=False)
@namespace_option
@selection_options
@output_option("table", "json")
def list_letters(
    directory: Path,
    queue: str | None,
    namespace: str,
    ids: tuple[str, ...],
    groups: tuple[str, ...],
    reasons: tuple[str, ...],
    sources: tuple[str, ...],
    limit: int | None,
    output: str,
) -> None:
    """List the dead letters of a queue that were neither redriven nor dropped; without QUEUE, how many each
    dead-letter queue has.

    \b
    Examples:
      penstock dlq list ./data
      penstock dlq list ./data orders --reason rejected -n 20
      penstock dlq list ./data orders --group billing -o json
    """
    chosen = selection(ids, groups, reasons, sources)
    if queue is None:
        if limit is not None or not chosen.is_everything:
            raise click.UsageError("name the QUEUE of which letters are asked for")
        _print_queues(directory, namespace, output)
        return

    async def act(broker: Broker) -> list[Letter]:
        return await _waiting(broker, queue, namespace, chosen, limit)

    found = on_broker(directory, act)
    if output == "json":
        print_json({"letters": [letter_json(letter) for letter in found]})
    elif found:
        print_table(_COLUMNS, [_row(letter) for letter in found], numbers=["failures"])
    else:
        click.echo("no dead letters")


@click.command()
@directory_argument
@click.argument("identity", metavar="ID")
@namespace_option
@output_option("text", "json")
def show(directory: Path, identity: str, namespace: str, output: str) -> None:
    """Show a dead letter whole. ID is its own, or that of the message it was.

    \b
    Examples:
      penstock dlq show ./data '$dlq/orders@2:3:0'
      penstock dlq show ./data orders@1:3:42 -o json
    """

    async def act(broker: Broker) -> list[Letter]:
        queue = parse_message_id(identity).queue
        return await _waiting(broker, queue, namespace, Selection(ids=frozenset((identity,))))

    found = on_broker(directory, act)
    if not found:
        raise InvalidArgument(f"no dead letter {identity} waits: it was redriven or dropped, or there never was one")
    if output == "json":
        print_json({"letters": [letter_json(letter) for letter in found]})
    else:
        for letter in found:
            _print(letter)


async def _waiting(
    broker: Broker, queue: str, namespace: str, chosen: Selection, limit: int | None = None
) -> list[Letter]:
    found = dead_letter_queue_of(broker, queue, namespace)
    return [] if found is None else [letter async for letter in letters(broker, found, chosen, limit)]


def _print_queues(directory: Path, namespace: str, output: str) -> None:
    async def act(broker: Broker) -> list[tuple[str, int]]:
        queues = [queue for queue in dead_letter_queues(broker) if queue.namespace == namespace]
        return [(queue.name, waiting(queue)) for queue in queues]

    found = on_broker(directory, act)
    if output == "json":
        print_json({"queues": [{"name": name, "letters": count} for name, count in found]})
    elif found:
        print_table(
            ["dead-letter queue", "letters"], [(name, f"{count:,}") for name, count in found], numbers=["letters"]
        )
    else:
        click.echo("no dead letters")


def _row(letter: Letter) -> list[object]:
    facts, value = letter.facts, short_text(letter.message.row.value)
    if facts is None:
        return [letter.message.id, "-", "-", "-", "-", "-", "-", value]
    why = facts.reason.value, facts.failures, second_text(facts.moved_ms), short_text(facts.detail.encode()) or "-"
    return [letter.message.id, facts.source, facts.group, *why, value]


def _print(letter: Letter) -> None:
    told = letter_json(letter)
    facts = told.pop("dead_letter")
    rows = [*told.items(), *(facts.items() if isinstance(facts, dict) else ())]
    print_table(["field", "value"], [(name, "-" if value is None else value) for name, value in rows])
