"""`penstock acl`: who may do what."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar, get_args

import click
import msgspec

from penstock.broker.auth.explaining import AskedAction, Question, Verdict, find_subject
from penstock.broker.auth.roles import BUILT_IN_ROLES, book_of
from penstock.broker.auth.rules import Action, Effect, Rule, rule
from penstock.broker.auth.store import Stored
from penstock.broker.auth.users import Users
from penstock.cli.arguments import DIRECTORY, directory_argument
from penstock.cli.failures import FAILED
from penstock.cli.lazy import LazyCommand, LazyGroup
from penstock.cli.output import output_option, print_json, print_table
from penstock.cli.user import on_users, stored_in
from penstock.core.clock import SystemClock
from penstock.core.errors import InvalidArgument
from penstock.queues.names import DEFAULT_NAMESPACE

COMMANDS = {
    "add": LazyCommand("acl", "add", "Add a rule."),
    "list": LazyCommand("acl", "list_rules", "List the rules."),
    "rm": LazyCommand("acl", "remove", "Remove a rule."),
    "check": LazyCommand("acl", "check", "Say whether a user may do something, and why."),
    "roles": LazyCommand("acl", "list_roles", "List the built-in roles."),
}

Command = TypeVar("Command", bound=Callable[..., object])

_ACTIONS: tuple[AskedAction, ...] = get_args(AskedAction)


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
    The roles admin, producer, consumer and read-only allow things by themselves: `penstock acl roles` lists them. An
    API key is the user key:ID. Rules of a server's configuration (auth.acl) are not shown here.

    \b
    Examples:
      penstock acl add ./data allow publish 'devices/%c/#' --role device
      penstock acl add ./data allow consume orders --user billing
      penstock acl check ./data --user billing consume orders
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
    show_rules(list(stored_in(directory).rules.values()), output)


@click.command("roles")
@output_option("table", "json")
def list_roles(output: str) -> None:
    """List the roles that allow something by themselves. A rule that denies takes from all but admin.

    \b
    Examples:
      penstock acl roles
      penstock acl roles -o json
    """
    if output == "json":
        print_json({"roles": [msgspec.to_builtins(role._asdict()) for role in BUILT_IN_ROLES]})
    else:
        print_table(["role", "may"], [(role.name, role.summary) for role in BUILT_IN_ROLES])


@click.command()
@directory_argument
@click.argument("asked", metavar="[USER] ACTION TOPIC", nargs=-1, required=True)
@click.option("--user", metavar="NAME", help="Whom it is about; key:ID is an API key. May stand before ACTION instead.")
@click.option("--client-id", metavar="ID", default="", help="What %c stands for.")
@output_option("table", "json")
def check(directory: Path, asked: tuple[str, ...], user: str | None, client_id: str, output: str) -> None:
    """Say whether a user may do something, by the roles and rules of the directory, and which of them decides; ends
    with 1 if not.

    ACTION is publish (to a topic), subscribe (to a filter), receive (a message of a topic), consume or browse (a
    queue).

    \b
    Examples:
      penstock acl check ./data --user alice publish devices/pump-7/up --client-id pump-7
      penstock acl check ./data billing consume orders
    """
    name, action, topic = _asked(asked, user)
    verdict = verdict_in(stored_in(directory), name, action, topic, client_id)
    show_verdict(verdict, output)
    if not verdict.allowed:
        raise click.exceptions.Exit(FAILED)


def _asked(words: tuple[str, ...], user: str | None) -> tuple[str, AskedAction, str]:
    whole = words if user is None else (user, *words)
    if len(whole) != 3:
        raise click.UsageError("write a user, an action and a topic: --user alice publish a/b")
    name, written, topic = whole
    action = next((action for action in _ACTIONS if action == written), None)
    if action is None:
        raise click.BadParameter(f"{written!r} is not one of {', '.join(_ACTIONS)}", param_hint="ACTION")
    return name, action, topic


def verdict_in(stored: Stored, name: str, action: AskedAction, topic: str, client_id: str) -> Verdict:
    """By what is in a directory. NoSuchUser, NoSuchKey."""
    subject = find_subject(name, stored.users.get, stored.keys.get)
    rules = book_of(stored.rules.values()).about(name, subject.roles, subject.namespace)
    return Question(subject, action, topic, client_id).answer(rules, SystemClock().now_ms())


def show_verdict(verdict: Verdict, output: str) -> None:
    if output == "json":
        print_json(verdict)
    else:
        click.echo(f"{'allowed' if verdict.allowed else 'denied'}: {verdict.because}")


def show_rules(rules: list[Rule], output: str) -> None:
    if output == "json":
        print_json({"rules": rules})
    elif rules:
        rows = [(rule.effect.value, rule.action.value, rule.pattern, _whom(rule), rule.namespace) for rule in rules]
        print_table(["effect", "action", "pattern", "whom", "namespace"], rows)
    else:
        click.echo("no rules yet")


def _whom(rule: Rule) -> str:
    return f"user {rule.user}" if rule.user else f"role {rule.role}" if rule.role else "everyone"
