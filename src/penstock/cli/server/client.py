"""`penstock client`: who is connected."""

from __future__ import annotations

import click

from penstock.cli.connections import destructive, on_server, refuse_unless_confirmed
from penstock.cli.lazy import LazyCommand, LazyGroup
from penstock.cli.output import DATA_FORMATS, output_option, print_data, print_done, print_listed, print_table
from penstock.cli.target import Target, target_options
from penstock.client.http.answers import Facts
from penstock.client.http.async_client import AsyncClient

COMMANDS = {
    "list": LazyCommand("server.client", "list_clients", "List clients: connected ones and stored sessions."),
    "show": LazyCommand("server.client", "show", "Show all details of a client."),
    "disconnect": LazyCommand("server.client", "disconnect", "Disconnect a client."),
}

_FIELDS = ["user", "protocol", "peer", "subscriptions", "queued", "in_flight", "received", "sent"]
_NUMBERS = ["subscriptions", "queued", "in flight", "received", "sent"]


@click.group(cls=LazyGroup, table=COMMANDS)
def client() -> None:
    """List and disconnect the MQTT clients of a server, including stored sessions of clients that are away.

    \b
    Examples:
      penstock client list --connected
      penstock client show pump-7
      penstock client disconnect pump-7
    """


@click.command("list")
@click.option("--connected/--disconnected", default=None, help="Only connected, or only disconnected, clients.")
@target_options
@output_option()
def list_clients(target: Target, connected: bool | None, output: str) -> None:
    """List the clients.

    \b
    Examples:
      penstock client list
      penstock client list --disconnected -o json
    """

    async def act(server: AsyncClient) -> list[Facts]:
        return await server.clients(connected)

    found = on_server(target, act)
    columns = ["client", "state", *(name.replace("_", " ") for name in _FIELDS)]
    print_listed(output, {"clients": found}, columns, [_row(each) for each in found], "no clients", numbers=_NUMBERS)


@click.command()
@click.argument("client_id", metavar="ID")
@target_options
@output_option()
def show(target: Target, client_id: str, output: str) -> None:
    """Show all details of a client.

    \b
    Examples:
      penstock client show pump-7
    """

    async def act(server: AsyncClient) -> Facts:
        return await server.client(client_id)

    found = on_server(target, act)
    if output in DATA_FORMATS:
        print_data(found, output)
    else:
        print_table(["field", "value"], [(name, "-" if value is None else value) for name, value in found.items()])


@click.command()
@click.argument("client_id", metavar="ID")
@destructive
@target_options
@output_option()
def disconnect(target: Target, client_id: str, yes: bool, dry_run: bool, output: str) -> None:
    """Disconnect a client. Its session is kept, and it can connect again.

    \b
    Examples:
      penstock client disconnect pump-7 --dry-run
      penstock client disconnect pump-7 --yes
    """
    if not dry_run:
        refuse_unless_confirmed(target, yes, f"Disconnect client {client_id!r}?")

    async def act(server: AsyncClient) -> None:
        if dry_run:
            await server.client(client_id)
        else:
            await server.disconnect_client(client_id)

    on_server(target, act)
    text = f"client {client_id}: {'would be disconnected' if dry_run else 'disconnected'}"
    print_done(output, text, client_id=client_id, dry_run=dry_run)


def _row(found: Facts) -> list[object]:
    state = "connected" if found.get("is_connected") else "session"
    return [found.get("client_id"), state, *("-" if found.get(name) is None else found[name] for name in _FIELDS)]
