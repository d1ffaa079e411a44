"""`penstock dlq list` and `penstock dlq show`."""

from __future__ import annotations

import click

from penstock.cli.connections import on_server
from penstock.cli.dlq.letter_arguments import Letters, letter_options
from penstock.cli.failures import NotThere
from penstock.cli.message.text import letter_json, second_text, short_text
from penstock.cli.output import DATA_FORMATS, output_option, print_data, print_listed, print_table
from penstock.cli.target import Target, target_options
from penstock.client.http.answers import DeadLetter
from penstock.client.http.async_client import AsyncClient
from penstock.codecs.http.dead_letters import DeadLetterQueue

_COLUMNS = ["id", "message", "group", "reason", "failures", "given up", "detail", "value"]
_MOST = 1000


@click.command("list")
@click.argument("queue", metavar="[QUEUE]", required=False)
@letter_options
@target_options
@output_option()
def list_letters(target: Target, queue: str | None, letters: Letters, output: str) -> None:
    """List the dead letters of a queue that were neither redriven nor dropped, at most the oldest thousand. Without
    QUEUE, show how many dead letters each queue has.

    \b
    Examples:
      penstock dlq list
      penstock dlq list orders --reason rejected -n 20
      penstock dlq list orders --group billing -o json
    """
    if queue is None:
        if letters.limit is not None or not letters.is_everything:
            raise click.UsageError("give QUEUE, the queue whose dead letters to list")
        _print_queues(target, output)
        return

    async def act(client: AsyncClient) -> list[DeadLetter]:
        return await find_letters(client, queue, letters)

    found = on_server(target, act)
    facts, rows = {"letters": [letter_json(letter) for letter in found]}, [_row(letter) for letter in found]
    print_listed(output, facts, _COLUMNS, rows, "no dead letters", numbers=["failures"])


@click.command()
@click.argument("identity", metavar="ID")
@target_options
@output_option()
def show(target: Target, identity: str, output: str) -> None:
    """Show all details of a dead letter. ID is the id of the dead letter or of the original message.

    \b
    Examples:
      penstock dlq show '$dlq/orders@2:3:0'
      penstock dlq show orders@1:3:42 -o json
    """
    queue, at, _ = identity.rpartition("@")
    if not at:
        raise click.BadParameter(f"{identity!r} is not the id of a message, like orders@1:3:42", param_hint="ID")

    async def act(client: AsyncClient) -> list[DeadLetter]:
        return (await client.dead_letters(queue, id=identity)).items

    found = on_server(target, act)
    if not found:
        raise NotThere(f"no dead letter {identity}: it was redriven or dropped, or never existed")
    if output in DATA_FORMATS:
        print_data({"letters": [letter_json(letter) for letter in found]}, output)
    else:
        for letter in found:
            _print(letter)


async def find_letters(client: AsyncClient, queue: str, letters: Letters) -> list[DeadLetter]:
    limit = min(letters.limit or _MOST, _MOST)
    if not letters.ids:
        return (await client.dead_letters(queue, limit=limit, **letters.which)).items
    found: list[DeadLetter] = []
    for identity in letters.ids:
        found += (await client.dead_letters(queue, id=identity, **letters.which)).items
    return found[:limit]


def _print_queues(target: Target, output: str) -> None:
    async def act(client: AsyncClient) -> list[DeadLetterQueue]:
        return await client.dead_letter_queues()

    found = on_server(target, act)
    facts = {"queues": [{"name": queue.name, "letters": queue.waiting} for queue in found]}
    rows = [(queue.name, f"{queue.waiting:,}") for queue in found]
    print_listed(output, facts, ["dead-letter queue", "letters"], rows, "no dead letters", numbers=["letters"])


def _row(letter: DeadLetter) -> list[object]:
    value = short_text(letter.message.value)
    if letter.source is None:
        return [letter.message.id, "-", "-", "-", "-", "-", "-", value]
    when = second_text(letter.moved_ms) if letter.moved_ms else "-"
    why = letter.reason, letter.failures, when, short_text((letter.detail or "").encode()) or "-"
    return [letter.message.id, letter.source, letter.group, *why, value]


def _print(letter: DeadLetter) -> None:
    told = letter_json(letter)
    facts = told.pop("dead_letter")
    rows = [*told.items(), *(facts.items() if isinstance(facts, dict) else ())]
    print_table(["field", "value"], [(name, "-" if value is None else value) for name, value in rows])
