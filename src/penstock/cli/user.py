"""`penstock user`: who may log in."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import click

from penstock.broker.auth.describing import UserDescription, describe_user
from penstock.broker.auth.options import SCRAM_ITERATIONS
from penstock.broker.auth.passwords import MAX_PASSWORD_BYTES, Passwords, check_password, random_password
from penstock.broker.auth.store import Store, Stored, User, read_outside
from penstock.broker.auth.users import Users
from penstock.broker.broker import Broker
from penstock.cli.arguments import DIRECTORY, directory_argument
from penstock.cli.directory import DataDirectory, State
from penstock.cli.lazy import LazyCommand, LazyGroup
from penstock.cli.opened import on_broker, refuse_unless_confirmed, yes_option
from penstock.cli.output import output_option, print_json, print_table, time_text
from penstock.core.errors import DirectoryInUse, InvalidArgument, NoSuchUser, PenstockError
from penstock.queues.names import DEFAULT_NAMESPACE

COMMANDS = {
    "add": LazyCommand("user", "add", "Add a user."),
    "list": LazyCommand("user", "list_users", "List the users."),
    "passwd": LazyCommand("user", "passwd", "Set the password of a user."),
    "roles": LazyCommand("user", "roles", "Set the roles of a user."),
    "rm": LazyCommand("user", "remove", "Remove a user and the rules about it."),
    "hash": LazyCommand("user", "hash_password", "Print a password as a configuration takes it."),
}

Result = TypeVar("Result")
Command = TypeVar("Command", bound=Callable[..., object])


class UsersHeld(DirectoryInUse):
    """The same, with what helps somebody who wants to change users, keys or rules."""

    def __init__(self, directory: str, holder: str) -> None:
        PenstockError.__init__(
            self,
            f"{directory} is held by {holder}, which keeps its users, keys and rules: publish to it (`$admin/user/…` "
            f"and `$admin/acl/…`, see docs/howto/security.md), or stop it and run this again, or write them into its "
            f"configuration (auth.users, auth.acl) and send it SIGHUP",
        )
        self.directory, self.holder = directory, holder


def on_users(
    directory: Path,
    act: Callable[[Users], Awaitable[Result]],
    *,
    may_create: bool = False,
    scram_iterations: int = SCRAM_ITERATIONS,
) -> Result:
    """What `act` returns, given the users of a directory. UsersHeld if a process has it open."""

    async def open_users(broker: Broker) -> Result:
        passwords = Passwords()
        try:
            return await act(await Users.open(broker.shard, passwords, broker.clock, scram_iterations))
        finally:
            passwords.close()

    try:
        return on_broker(directory, open_users, may_create=may_create)
    except DirectoryInUse as error:
        raise UsersHeld(error.directory, error.holder) from None


def stored_in(directory: Path) -> Stored:
    """Of a directory that a server holds, what it wrote until a moment ago."""
    if DataDirectory.at(directory).state is State.LIVE:
        return read_outside(directory)

    async def read(broker: Broker) -> Stored:
        return (await Store.open(broker.shard)).read()

    return on_broker(directory, read)


def given_password() -> bytes:
    """Asked for twice on a terminal, else the first line of standard input."""
    if sys.stdin.isatty():
        typed: str = click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
        password = typed.encode()
    else:
        password = sys.stdin.buffer.readline(MAX_PASSWORD_BYTES + 3).rstrip(b"\r\n")
    if not password:
        raise InvalidArgument("no password was given: write it as a line to standard input, or use --generate")
    check_password(password)
    return password


def user_argument(command: Command) -> Command:
    return click.argument("name", metavar="NAME")(command)


def password_options(command: Command) -> Command:
    for option in (
        click.option("--generate", is_flag=True, help="Make a random password and print it, once."),
        click.option("--no-scram", is_flag=True, help="Keep no keys for SCRAM-SHA-256, only the argon2id hash."),
        click.option(
            "--scram-iterations",
            type=click.IntRange(4096, 10_000_000),
            default=SCRAM_ITERATIONS,
            show_default=True,
            help="How much work a guess is, and each login.",
        ),
    ):
        command = option(command)
    return command


@click.group(cls=LazyGroup, table=COMMANDS)
def user() -> None:
    """Who may log in. Users are kept in the data directory, passwords as argon2id hashes.

    A password is asked for on a terminal, else it is the first line of standard input. Users of a server's
    configuration (auth.users) are not shown here.

    \b
    Examples:
      penstock user add ./data alice --role staff
      penstock user add ./data pump-7 --generate
      penstock user list ./data
    """


@click.command()
@click.argument("directory", metavar="DIR", type=DIRECTORY)
@user_argument
@click.option(
    "--role", "roles", metavar="ROLE", multiple=True, help="May be repeated; `penstock acl roles` lists built-in ones."
)
@click.option("--namespace", metavar="NAME", default=DEFAULT_NAMESPACE, show_default=True, help="Where the user works.")
@click.option("--no-password", is_flag=True, help="For logins by certificate or token only.")
@password_options
def add(
    directory: Path,
    name: str,
    roles: tuple[str, ...],
    namespace: str,
    no_password: bool,
    generate: bool,
    no_scram: bool,
    scram_iterations: int,
) -> None:
    """Add a user. What it may do, its roles and rules say: see `penstock acl`.

    \b
    Examples:
      penstock user add ./data alice --role staff
      penstock user add ./data root --role admin --generate
      penstock user add ./data shop --role producer --generate
      echo secret | penstock user add ./data bob
    """
    if no_password and generate:
        raise click.UsageError("--no-password and --generate exclude each other")
    password = None if no_password else _password(generate)

    async def act(users: Users) -> User:
        return await users.add(name, password, roles, namespace, with_scram=not no_scram)

    on_users(directory, act, may_create=True, scram_iterations=scram_iterations)
    click.echo(f"user {name}: added")
    _tell(password, generate)


@click.command("list")
@directory_argument
@output_option("table", "json")
def list_users(directory: Path, output: str) -> None:
    """List the users of a directory, also of one that a server holds.

    \b
    Examples:
      penstock user list ./data
      penstock user list ./data -o json
    """
    found = sorted(stored_in(directory).users.values(), key=lambda user: user.name)
    show_users([describe_user(user) for user in found], output)


@click.command()
@directory_argument
@user_argument
@password_options
def passwd(directory: Path, name: str, generate: bool, no_scram: bool, scram_iterations: int) -> None:
    """Set the password of a user.

    \b
    Examples:
      penstock user passwd ./data alice
      penstock user passwd ./data alice --generate
    """
    if name not in stored_in(directory).users:
        raise NoSuchUser(name)
    password = _password(generate)

    async def act(users: Users) -> None:
        await users.set_password(name, password, with_scram=not no_scram)

    on_users(directory, act, scram_iterations=scram_iterations)
    click.echo(f"user {name}: password set")
    _tell(password, generate)


@click.command()
@directory_argument
@user_argument
@click.argument("roles", metavar="[ROLE]...", nargs=-1)
def roles(directory: Path, name: str, roles: tuple[str, ...]) -> None:
    """Set the roles of a user to these, or to none.

    \b
    Examples:
      penstock user roles ./data alice staff billing
      penstock user roles ./data alice
    """

    async def act(users: Users) -> None:
        await users.set_roles(name, roles)

    on_users(directory, act)
    click.echo(f"user {name}: roles {' '.join(roles) or 'none'}")


@click.command("rm")
@directory_argument
@user_argument
@yes_option
def remove(directory: Path, name: str, yes: bool) -> None:
    """Remove a user and the rules about it.

    \b
    Examples:
      penstock user rm ./data alice --yes
    """
    refuse_unless_confirmed(yes, f"Remove user {name} and the rules about it?")

    async def act(users: Users) -> int:
        return len(await users.remove(name))

    click.echo(f"user {name}: removed, and {on_users(directory, act)} rules")


@click.command("hash")
def hash_password() -> None:
    """Print a password as `auth.users[].password_hash` of a configuration takes it.

    \b
    Examples:
      echo secret | penstock user hash
    """
    password = given_password()

    async def hashed() -> str:
        passwords = Passwords()
        try:
            return await passwords.hash(password)
        finally:
            passwords.close()

    click.echo(asyncio.run(hashed()))


def _password(generate: bool) -> bytes:
    return random_password().encode() if generate else given_password()


def _tell(password: bytes | None, generate: bool) -> None:
    if generate and password is not None:
        click.echo(f"password: {password.decode()}")


def show_users(users: list[UserDescription], output: str) -> None:
    if output == "json":
        print_json({"users": users})
    elif users:
        rows = [
            (user.name, user.namespace, " ".join(user.roles), " ".join(user.login), time_text(user.changed_ms))
            for user in users
        ]
        print_table(["user", "namespace", "roles", "login", "changed"], rows)
    else:
        click.echo("no users yet")
