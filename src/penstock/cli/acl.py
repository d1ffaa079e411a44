"""`penstock acl`: who may do what."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import click
import msgspec

from penstock.broker.auth.identity import ADMIN_ROLE
from penstock.broker.auth.permissions import ADMIN_VERDICTS, Caches, Permissions, Verdicts
from penstock.broker.auth.rules import Action, Effect, Rule, RuleBook, rule
from penstock.broker.auth.store import Stored
from penstock.broker.auth.users import Users
from penstock.cli.arguments import DIRECTORY, directory_argument
from penstock.cli.failures import FAILED
from penstock.cli.lazy import LazyCommand, LazyGroup
from penstock.cli.output import output_option, print_json, print_table
from penstock.cli.user import on_users, stored_in
from penstock.core.errors import InvalidArgument, NoSuchUser
from penstock.queues.names import DEFAULT_NAMESPACE

COMMANDS = {
    "add": LazyCommand("acl", "add", "Add a rule."),
    "list": LazyCommand("acl", "list_rules", "List the rules."),
    "rm": LazyCommand("acl", "remove", "Remove a rule."),
    "check": LazyCommand("acl", "check", "Say whether a user may do something."),
}

Command = TypeVar("Command", bound=Callable[..., object])

_ASKED: dict[str, Callable[[Permissions, str], bool]] = {
    "publish": lambda permissions, what: permissions.may_publish(what.encode()),
    "subscribe": lambda permissions, what: permissions.may_subscribe(what),
    "receive": lambda permissions, what: permissions.may_receive(what.encode()),
    "consume": lambda permissions, what: permissions.may_consume(what),
}


def rule_arguments(command: Command) -> Command:
    """EFFECT ACTION PATTERN and whom it is about."""
    for option in (
        click.option("--namespace", metavar="NAME", default=DEFAULT_NAMESPACE, show_default=True, help="`*` is all."),
        click.option("--role", metavar="ROLE", help="The rule is about everyone who has this role."),
        click.option("--user", metavar="NAME", help="The rule is about this user. Without it and --role: everyone."),
        click.argument("pattern", metavar="PATTERN"),
        click.argument("action", metavar="ACTION", type=click.Choice([action.value for action in Action])),
        click.argument("effect", metavar="EFFECT", type=click.Choice([effect.value for effect in Effect])),
    ):
        command = option(command)
    return command


@click.group(cls=LazyGroup, table=COMMANDS)
def acl() -> None:
    """Rules: who may publish, subscribe, consume and administer what.

    A rule allows or denies an action (publish, subscribe, consume, admin, all) on topics that match a pattern: + is
    one level, # the rest, %c the client id, %u the user's name. A deny always wins, and what no rule allows is denied.
    Who has the role `admin` may do everything. Rules of a server's configuration (auth.acl) are not shown here.

    \b
    Examples:
      penstock acl add ./data allow publish 'devices/%c/#' --role device
      penstock acl add ./data allow consume orders --user billing
      penstock acl list ./data
    """


@click.command()
@click.argument("directory", metavar="DIR", type=DIRECTORY)
@rule_arguments
def add(
    directory: Path, effect: str, action: str, pattern: str, user: str | None, role: str | None, namespace: str
) -> None:
    """Add a rule. EFFECT is allow or deny; ACTION is publish, subscribe, consume, admin or all.

    To consume, the pattern is the name of a queue. Wildcards in the first level do not reach topics that begin with $:
    write $SYS/#, $queue/#, $dlq/# or $admin/# for those.

    \b
    Examples:
      penstock acl add ./data allow publish 'devices/%c/#' --role device
      penstock acl add ./data allow consume orders --user billing
      penstock acl add ./data deny subscribe 'secret/#'
    """
    added = rule(Effect(effect), Action(action), pattern, user=user, role=role, namespace=namespace)

    async def act(users: Users) -> bool:
        return await users.add_rule(added)

    is_new = on_users(directory, act, may_create=True)
    click.echo(f"rule {added}: {'added' if is_new else 'was there already'}")


@click.command("rm")
@directory_argument
@rule_arguments
def remove(
    directory: Path, effect: str, action: str, pattern: str, user: str | None, role: str | None, namespace: str
) -> None:
    """Remove a rule, named as it was added.

    \b
    Examples:
      penstock acl rm ./data allow consume orders --user billing
    """
    gone = rule(Effect(effect), Action(action), pattern, user=user, role=role, namespace=namespace)

    async def act(users: Users) -> bool:
        return await users.remove_rule(gone)

    if not on_users(directory, act):
        raise InvalidArgument(f"there is no rule {gone}: see those there are with `penstock acl list {directory}`")
    click.echo(f"rule {gone}: removed")


@click.command("list")
@directory_argument
@output_option("table", "json")
def list_rules(directory: Path, output: str) -> None:
    """List the rules of a directory, also of one that a server holds.

    \b
    Examples:
      penstock acl list ./data
      penstock acl list ./data -o json
    """
    found = list(stored_in(directory).rules.values())
    if output == "json":
        print_json({"rules": [msgspec.to_builtins(rule) for rule in found]})
    elif found:
        rows = [(rule.effect.value, rule.action.value, rule.pattern, _whom(rule), rule.namespace) for rule in found]
        print_table(["effect", "action", "pattern", "whom", "namespace"], rows)
    else:
        click.echo("no rules yet")


@click.command()
@directory_argument
@click.argument("user", metavar="USER")
@click.argument("action", metavar="ACTION", type=click.Choice(list(_ASKED)))
@click.argument("topic", metavar="TOPIC")
@click.option("--client-id", metavar="ID", default="", help="What %c stands for.")
def check(directory: Path, user: str, action: str, topic: str, client_id: str) -> None:
    """Say whether a user may do something, by the rules of the directory; ends with 1 if not.

    ACTION is publish (to a topic), subscribe (to a filter), receive (a message of a topic) or consume (a queue).

    \b
    Examples:
      penstock acl check ./data alice publish devices/pump-7/up --client-id pump-7
      penstock acl check ./data billing consume orders
    """
    if not _ASKED[action](_permissions(stored_in(directory), user, client_id), topic):
        click.echo("denied")
        raise click.exceptions.Exit(FAILED)
    click.echo("allowed")


def _permissions(stored: Stored, name: str, client_id: str) -> Permissions:
    if (user := stored.users.get(name)) is None:
        raise NoSuchUser(name)
    rules = RuleBook.of(stored.rules.values()).about(name, user.roles, user.namespace)
    verdicts = ADMIN_VERDICTS if ADMIN_ROLE in user.roles else Verdicts.of(rules, client_id, name)
    return Permissions(Caches(), lambda: verdicts)


def _whom(rule: Rule) -> str:
    return f"user {rule.user}" if rule.user else f"role {rule.role}" if rule.role else "everyone"
