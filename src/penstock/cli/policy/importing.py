"""`penstock import`: what another broker had declared."""

from __future__ import annotations

import sys
from pathlib import Path

import click
import msgspec

from penstock.cli.connections import on_server
from penstock.cli.failures import NotThere
from penstock.cli.lazy import LazyCommand, LazyGroup
from penstock.cli.output import output_option, print_data
from penstock.cli.target import Target, target_options
from penstock.client.http.async_client import AsyncClient
from penstock.codecs.http.policies import ImportReport

COMMANDS = {"rabbitmq": LazyCommand("policy.importing", "rabbitmq", "Import the definitions of a RabbitMQ.")}


@click.group("import", cls=LazyGroup, table=COMMANDS)
def import_() -> None:
    """Import what another broker had declared: users, queues, exchanges, bindings, policies. No messages.

    \b
    Examples:
      penstock import rabbitmq defs.json
    """


@click.command()
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path, dir_okay=False))
@target_options
@output_option()
def rabbitmq(target: Target, file: Path, output: str) -> None:
    """Import FILE, which `rabbitmqctl export_definitions FILE` wrote on a RabbitMQ. All of it is imported, or nothing.

    Passwords keep working. What has no meaning here is listed.

    \b
    Examples:
      penstock import rabbitmq defs.json
      penstock import rabbitmq defs.json --data ./data
    """
    try:
        definitions = msgspec.json.decode(file.read_bytes(), type=dict[str, object])
    except OSError as error:
        raise NotThere(f"{file}: {error.strerror}") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise click.UsageError(
            f"{file} is not a JSON object ({error}): export it with `rabbitmqctl export_definitions`"
        ) from None

    async def act(client: AsyncClient) -> ImportReport:
        return await client.import_rabbitmq(definitions)

    report = on_server(target, act)
    if output != "table":
        print_data(report, output)
        return
    click.echo("imported: " + ", ".join(f"{count} {kind}" for kind, count in report.imported.items()))
    for note in report.notes:
        click.echo(f"note: {note}", file=sys.stderr)
