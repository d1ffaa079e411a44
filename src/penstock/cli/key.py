"""`penstock key`: API keys, the logins of programs."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import click
import msgspec

from penstock.broker.auth.describing import KeyDescription, describe_key
from penstock.broker.auth.keys import KEY_USER_PREFIX
from penstock.broker.auth.roles import BUILT_IN_ROLES
from penstock.broker.auth.users import Users
from penstock.cli.arguments import DIRECTORY, directory_argument
from penstock.cli.lazy import LazyCommand, LazyGroup
from penstock.cli.opened import refuse_unless_confirmed, yes_option
from penstock.cli.output import output_option, print_json, print_table, time_text
from penstock.cli.user import on_users, stored_in
from penstock.core.clock import SystemClock
from penstock.core.errors import InvalidArgument
from penstock.core.units import parse_duration
from penstock.queues.names import DEFAULT_NAMESPACE

COMMANDS = {
    "create": LazyCommand("key", "create", "Make an API key and print it, once."),
    "list": LazyCommand("key", "list_keys", "List the API keys."),
    "revoke": LazyCommand("key", "revoke", "Take an API key back, and the rules about it."),
}


class CreatedKey(msgspec.Struct, frozen=True):
    """A key that was made; `secret` is the whole text that logs in with it."""

    key: KeyDescription
    secret: str

    def __repr__(self) -> str:
        return f"CreatedKey({self.key!r})"


@click.group(cls=LazyGroup, table=COMMANDS)
def key() -> None:
    """API keys: logins of programs, each with roles of its own.

    A key is a text, psk_ID_SECRET. Only a hash of it is kept in the data directory. Rules call a key by the name
    key:ID. Over MQTT the key is the password, and the user name is empty or key:ID.

    \b
    Examples:
      penstock key create ./data --role producer --description 'web shop' --expires 90d
      penstock key list ./data
      penstock key revoke ./data 1f0c9a7be2d4 --yes
    """


@click.command()
@click.argument("directory", metavar="DIR", type=DIRECTORY)
@click.option(
    "--role",
    "roles",
    metavar="ROLE",
    multiple=True,
    help=f"May be repeated: {', '.join(role.name for role in BUILT_IN_ROLES)}, or one that rules name.",
)
@click.option("--namespace", metavar="NAME", default=DEFAULT_NAMESPACE, show_default=True, help="Where it works.")
@click.option("--description", metavar="TEXT", default="", help="What it is for.")
@click.option("--expires", metavar="DURATION", help="How long it is good, like 12h or 90d. Without it: until revoked.")
@output_option("table", "json")
def create(
    directory: Path, roles: tuple[str, ...], namespace: str, description: str, expires: str | None, output: str
) -> None:
    """Make an API key and print it. It cannot be shown again.

    \b
    Examples:
      penstock key create ./data --role producer --description 'web shop' --expires 90d
      penstock key create ./data --role read-only -o json
    """
    expires_ms = None if expires is None else _moment_ms(expires)
    show_created(create_key(directory, roles, namespace, description, expires_ms), output)


@click.command("list")
@directory_argument
@output_option("table", "json")
def list_keys(directory: Path, output: str) -> None:
    """List the API keys of a directory, also of one that a server holds. No secret is shown.

    \b
    Examples:
      penstock key list ./data
      penstock key list ./data -o json
    """
    show_keys(keys_in(directory), output, SystemClock().now_ms())


@click.command()
@directory_argument
@click.argument("key_id", metavar="ID")
@yes_option
@output_option("table", "json")
def revoke(directory: Path, key_id: str, yes: bool, output: str) -> None:
    """Take an API key back, and the rules about it. ID is as `penstock key list` shows it, or key:ID.

    \b
    Examples:
      penstock key revoke ./data 1f0c9a7be2d4 --yes
    """
    key_id = key_id.removeprefix(KEY_USER_PREFIX)
    refuse_unless_confirmed(yes, f"Revoke API key {key_id} and remove the rules about it?")
    show_revoked(key_id, revoke_key(directory, key_id), output)


def create_key(
    directory: Path, roles: Iterable[str], namespace: str, description: str, expires_ms: int | None
) -> CreatedKey:
    async def act(users: Users) -> CreatedKey:
        made, secret = await users.add_key(roles, namespace, description, expires_ms=expires_ms)
        return CreatedKey(describe_key(made), secret)

    return on_users(directory, act, may_create=True)


def keys_in(directory: Path) -> list[KeyDescription]:
    """The oldest first."""
    found = sorted(stored_in(directory).keys.values(), key=lambda key: (key.created_ms, key.id))
    return [describe_key(key) for key in found]


def revoke_key(directory: Path, key_id: str) -> int:
    """How many rules went with it. NoSuchKey."""

    async def act(users: Users) -> int:
        return len(await users.remove_key(key_id))

    return on_users(directory, act)


def show_created(created: CreatedKey, output: str) -> None:
    if output == "json":
        print_json({**msgspec.to_builtins(created.key), "secret": created.secret})
        return
    click.echo(f"key {created.key.id}: created, shown this once")
    click.echo(f"secret: {created.secret}")


def show_keys(keys: list[KeyDescription], output: str, now_ms: int) -> None:
    if output == "json":
        print_json({"keys": keys})
    elif keys:
        rows = [
            (key.id, key.namespace, " ".join(key.roles), time_text(key.created_ms), _end(key, now_ms), key.description)
            for key in keys
        ]
        print_table(["key", "namespace", "roles", "created", "expires", "description"], rows)
    else:
        click.echo("no API keys yet")


def show_revoked(key_id: str, rules_count: int, output: str) -> None:
    if output == "json":
        print_json({"id": key_id, "revoked": True, "rules_removed": rules_count})
    else:
        click.echo(f"key {key_id}: revoked, and {rules_count} rules removed")


def _moment_ms(text: str) -> int:
    try:
        return SystemClock().now_ms() + round(parse_duration(text) * 1000)
    except InvalidArgument as error:
        raise click.BadParameter(str(error), param_hint="--expires") from error


def _end(key: KeyDescription, now_ms: int) -> str:
    if key.expires_ms is None:
        return "never"
    return time_text(key.expires_ms) + (" (expired)" if key.expires_ms <= now_ms else "")
