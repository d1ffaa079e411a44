"""`penstock key`: API keys, the logins of programs."""

from __future__ import annotations

import time

import click
import msgspec

from penstock.cli.connections import destructive, on_server, refuse_unless_confirmed
from penstock.cli.failures import NotThere
from penstock.cli.lazy import LazyCommand, LazyGroup
from penstock.cli.output import output_option, print_done, print_listed, time_text
from penstock.cli.target import Target, target_options
from penstock.cli.user.user import rules_about
from penstock.client.http.async_client import AsyncClient
from penstock.codecs.http.administration import CreatedKey
from penstock.core.descriptions import KeyDescription
from penstock.core.errors import InvalidArgument
from penstock.core.units import parse_duration

KEY_USER_PREFIX = "key:"
COMMANDS = {
    "create": LazyCommand("user.key", "create", "Create an API key and print it once."),
    "list": LazyCommand("user.key", "list_keys", "List the API keys."),
    "revoke": LazyCommand("user.key", "revoke", "Revoke an API key and delete its rules."),
}


@click.group(cls=LazyGroup, table=COMMANDS)
def key() -> None:
    """Create, list and revoke API keys: logins for programs, each with its own roles.

    A key looks like psk_ID_SECRET. Only its hash is stored. In rules, a key is the user key:ID. Over MQTT, use the key
    as the password and leave the user name empty, or set it to key:ID.

    \b
    Examples:
      penstock key create --role producer --description 'web shop' --expires 90d
      penstock key list
      penstock key revoke 1f0c9a7be2d4 --yes
    """


@click.command()
@click.option(
    "--role",
    "roles",
    metavar="ROLE",
    multiple=True,
    help="Role of the key: admin, producer, consumer, read-only, or your own. Can be repeated.",
)
@click.option("--description", metavar="TEXT", default="", help="Description of the key.")
@click.option("--expires", metavar="DURATION", help="Lifetime, like 12h or 90d.  [default: until revoked]")
@target_options
@output_option()
def create(target: Target, roles: tuple[str, ...], description: str, expires: str | None, output: str) -> None:
    """Create an API key for the namespace given with --namespace, and print it. It cannot be shown again.

    \b
    Examples:
      penstock key create --role producer --description 'web shop' --expires 90d
      penstock key create --role read-only -o json
    """
    expires_in = None if expires is None else _seconds(expires)

    async def act(client: AsyncClient) -> CreatedKey:
        return await client.create_key(roles, description, expires_in=expires_in)

    made = on_server(target, act, may_create=True)
    text = f"key {made.description.id}: created; the secret is shown only now\nsecret: {made.key}"
    print_done(output, text, **_told(made.description), secret=made.key)


@click.command("list")
@target_options
@output_option()
def list_keys(target: Target, output: str) -> None:
    """List the API keys, without their secrets.

    \b
    Examples:
      penstock key list
      penstock key list -o json
    """

    async def act(client: AsyncClient) -> list[KeyDescription]:
        return await client.keys()

    keys = sorted(on_server(target, act), key=lambda key: (key.created_ms, key.id))
    rows = [
        (key.id, key.namespace, " ".join(key.roles), time_text(key.created_ms), _end(key), key.description)
        for key in keys
    ]
    columns = ["key", "namespace", "roles", "created", "expires", "description"]
    print_listed(output, {"keys": [_told(key) for key in keys]}, columns, rows, "no API keys yet")


@click.command()
@click.argument("key_id", metavar="ID")
@destructive
@target_options
@output_option()
def revoke(target: Target, key_id: str, yes: bool, dry_run: bool, output: str) -> None:
    """Revoke an API key and delete its rules. ID is the one shown by `penstock key list`, or key:ID.

    \b
    Examples:
      penstock key revoke 1f0c9a7be2d4 --dry-run
      penstock key revoke 1f0c9a7be2d4 --yes
    """
    key_id = key_id.removeprefix(KEY_USER_PREFIX)
    if not dry_run:
        refuse_unless_confirmed(target, yes, f"Revoke API key {key_id} and remove the rules about it?")

    async def act(client: AsyncClient) -> int:
        rules = await rules_about(client, KEY_USER_PREFIX + key_id)
        if not dry_run:
            await client.delete_key(key_id)
        elif all(key.id != key_id for key in await client.keys()):
            raise NotThere(f"no API key {key_id}: `penstock key list` shows them")
        return rules

    rules = on_server(target, act)
    text = f"key {key_id}: {'would be revoked' if dry_run else 'revoked'}, and {rules} rules removed"
    print_done(output, text, id=key_id, rules=rules, dry_run=dry_run)


def _told(key: KeyDescription) -> dict[str, object]:
    """With its name in rules."""
    told: dict[str, object] = msgspec.to_builtins(key)
    return {"id": key.id, "user": KEY_USER_PREFIX + key.id, **told}


def _seconds(text: str) -> float:
    try:
        return parse_duration(text)
    except InvalidArgument as error:
        raise click.BadParameter(str(error), param_hint="--expires") from error


def _end(key: KeyDescription) -> str:
    if key.expires_ms is None:
        return "never"
    return time_text(key.expires_ms) + (" (expired)" if key.expires_ms <= time.time() * 1000 else "")
