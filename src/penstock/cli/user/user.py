"""`penstock user`: who may log in."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import TypeVar

import click

from penstock.cli.connections import destructive, on_server, refuse_unless_confirmed
from penstock.cli.lazy import LazyCommand, LazyGroup
from penstock.cli.output import output_option, print_done, print_listed, time_text
from penstock.cli.target import Target, target_options
from penstock.client.http.async_client import AsyncClient
from penstock.core.descriptions import UserDescription
from penstock.core.errors import InvalidArgument

COMMANDS = {
    "add": LazyCommand("user.user", "add", "Add a user."),
    "list": LazyCommand("user.user", "list_users", "List the users."),
    "passwd": LazyCommand("user.user", "passwd", "Set the password of a user."),
    "roles": LazyCommand("user.user", "roles", "Set the roles of a user."),
    "rm": LazyCommand("user.user", "remove", "Delete a user and their rules."),
    "hash": LazyCommand("user.user", "hash_password", "Print the hash of a password for the configuration file."),
}

Command = TypeVar("Command", bound=Callable[..., object])


def given_password() -> str:
    """Asked for twice on a terminal, else the first line of standard input."""
    from penstock.broker.auth.passwords import MAX_PASSWORD_BYTES, check_password

    if sys.stdin.isatty():
        typed: str = click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
        password = typed.encode()
    else:
        password = sys.stdin.buffer.readline(MAX_PASSWORD_BYTES + 3).rstrip(b"\r\n")
    if not password:
        raise InvalidArgument("no password was given: write it as a line to standard input, or use --generate")
    check_password(password)
    try:
        return password.decode()
    except UnicodeDecodeError:
        raise InvalidArgument("a password is UTF-8 text") from None


def user_argument(command: Command) -> Command:
    return click.argument("name", metavar="NAME")(command)


def password_options(command: Command) -> Command:
    for option in (
        click.option("--generate", is_flag=True, help="Generate a password and print it once."),
        click.option("--no-scram", is_flag=True, help="Store only the argon2id hash, no SCRAM-SHA-256 keys."),
    ):
        command = option(command)
    return command


@click.group(cls=LazyGroup, table=COMMANDS)
def user() -> None:
    """Add, list and remove users; set passwords and roles. Users are stored in the data directory, passwords as
    argon2id hashes.

    On a terminal you are prompted for the password; otherwise it is read from the first line of standard input. Users
    from the server's configuration (auth.users) are not shown here.

    \b
    Examples:
      penstock user add alice --role staff
      penstock user add pump-7 --generate
      penstock user list
    """


@click.command()
@user_argument
@click.option(
    "--role",
    "roles",
    metavar="ROLE",
    multiple=True,
    help="Role of the user; `penstock acl roles` lists the built-in ones. Can be repeated.",
)
@click.option("--no-password", is_flag=True, help="No password: the user logs in by certificate or token.")
@password_options
@target_options
@output_option()
def add(
    target: Target,
    name: str,
    roles: tuple[str, ...],
    no_password: bool,
    generate: bool,
    no_scram: bool,
    output: str,
) -> None:
    """Add a user of the namespace given with --namespace. Roles and rules determine what a user may do: see `penstock
    acl`.

    \b
    Examples:
      penstock user add alice --role staff
      penstock user add root --role admin --generate
      penstock user add shop --role producer --generate
      echo secret | penstock user add bob
    """
    if no_password and generate:
        raise click.UsageError("--no-password and --generate exclude each other")
    password = None if no_password else _password(generate)

    async def act(client: AsyncClient) -> str:
        return (await client.create_user(name, password, roles, scram=not no_scram)).namespace

    namespace = on_server(target, act, may_create=True)
    generated = password if generate else None
    _print_with_password(output, f"user {name}: added", generated, user=name, roles=roles, namespace=namespace)


@click.command("list")
@target_options
@output_option()
def list_users(target: Target, output: str) -> None:
    """List the users.

    \b
    Examples:
      penstock user list
      penstock user list -o json
    """

    async def act(client: AsyncClient) -> list[UserDescription]:
        return await client.users()

    show_users(on_server(target, act), output)


@click.command()
@user_argument
@password_options
@target_options
@output_option()
def passwd(target: Target, name: str, generate: bool, no_scram: bool, output: str) -> None:
    """Set the password of a user.

    \b
    Examples:
      penstock user passwd alice
      penstock user passwd alice --generate
    """

    async def look(client: AsyncClient) -> None:
        await client.user(name)

    # Nobody types a password for a user that is not there.
    on_server(target, look)
    password = _password(generate)

    async def act(client: AsyncClient) -> None:
        await client.update_user(name, password, scram=not no_scram)

    on_server(target, act)
    _print_with_password(output, f"user {name}: password set", password if generate else None, user=name)


@click.command()
@user_argument
@click.argument("roles", metavar="[ROLE]...", nargs=-1)
@target_options
@output_option()
def roles(target: Target, name: str, roles: tuple[str, ...], output: str) -> None:
    """Replace the roles of a user. Without ROLE, all roles are removed.

    \b
    Examples:
      penstock user roles alice staff billing
      penstock user roles alice
    """

    async def act(client: AsyncClient) -> None:
        await client.update_user(name, roles=roles)

    on_server(target, act)
    print_done(output, f"user {name}: roles {' '.join(roles) or 'none'}", user=name, roles=roles)


@click.command("rm")
@user_argument
@destructive
@target_options
@output_option()
def remove(target: Target, name: str, yes: bool, dry_run: bool, output: str) -> None:
    """Delete a user and their rules.

    \b
    Examples:
      penstock user rm alice --dry-run
      penstock user rm alice --yes
    """
    if not dry_run:
        refuse_unless_confirmed(target, yes, f"Remove user {name} and the rules about it?")

    async def act(client: AsyncClient) -> int:
        await client.user(name)
        rules = await rules_about(client, name)
        if not dry_run:
            await client.delete_user(name)
        return rules

    rules = on_server(target, act)
    text = f"user {name}: {'would be removed' if dry_run else 'removed'}, and {rules} rules"
    print_done(output, text, user=name, rules=rules, dry_run=dry_run)


async def rules_about(client: AsyncClient, name: str) -> int:
    return sum([rule.get("user") == name for rule in await client.rules()])


@click.command("hash")
@output_option()
def hash_password(output: str) -> None:
    """Print the hash of a password, for `auth.users[].password_hash` in a configuration file.

    \b
    Examples:
      echo secret | penstock user hash
    """
    from penstock.broker.auth.passwords import Passwords

    password = given_password().encode()

    async def hashed() -> str:
        passwords = Passwords()
        try:
            return await passwords.hash(password)
        finally:
            passwords.close()

    text = asyncio.run(hashed())
    print_done(output, text, password_hash=text)


def _password(generate: bool) -> str:
    if not generate:
        return given_password()
    from penstock.broker.auth.passwords import random_password

    return random_password()


def _print_with_password(output: str, text: str, generated: str | None, **facts: object) -> None:
    """A password that somebody typed is not repeated."""
    if generated is None:
        print_done(output, text, **facts)
    else:
        print_done(output, f"{text}\npassword: {generated}", **facts, password=generated)


def show_users(users: list[UserDescription], output: str) -> None:
    rows = [
        (user.name, user.namespace, " ".join(user.roles), " ".join(user.login), time_text(user.changed_ms))
        for user in users
    ]
    columns = ["user", "namespace", "roles", "login", "changed"]
    print_listed(output, {"users": users}, columns, rows, "no users yet")
