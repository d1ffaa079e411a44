"""`penstock acl`: who may do what."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace

import click
import msgspec

from penstock.cli.connections import destructive, on_server, refuse_unless_confirmed
from penstock.cli.failures import FAILED
from penstock.cli.lazy import LazyCommand, LazyGroup
from penstock.cli.output import (
    DATA_FORMATS,
    output_option,
    print_data,
    print_done,
    print_listed,
    print_table,
    print_told,
)
from penstock.cli.target import Target, target_options, target_options_beside_user
from penstock.client.http.answers import Facts
from penstock.client.http.async_client import AsyncClient

COMMANDS = {
    "add": LazyCommand("user.acl", "add", "Add a rule."),
    "list": LazyCommand("user.acl", "list_rules", "List the rules."),
    "rm": LazyCommand("user.acl", "remove", "Remove a rule."),
    "check": LazyCommand("user.acl", "check", "Say whether a user may do something, and why."),
    "roles": LazyCommand("user.acl", "list_roles", "List the built-in roles."),
}

_EFFECTS = "allow", "deny"
_ACTIONS = "publish", "subscribe", "consume", "configure", "admin", "all"
_ASKED_ACTIONS = "publish", "subscribe", "receive", "consume", "browse", "configure"
_FIELDS = "effect", "action", "pattern", "user", "role"


def rule_arguments(command: Callable[..., object]) -> Callable[..., object]:
    """EFFECT ACTION PATTERN and whom it is about, as one parameter `rule`; the namespace is that of the target."""

    @functools.wraps(command)
    def with_rule(**given: object) -> object:
        said = {name: given.pop(name) for name in _FIELDS}
        return command(rule={name: value for name, value in said.items() if value is not None}, **given)

    wrapped: Callable[..., object] = with_rule
    for option in (
        click.option("--role", metavar="ROLE", help="Apply the rule to users with this role."),
        click.option("--user", metavar="NAME", help="Apply the rule to this user.  [default without --role: everyone]"),
        click.argument("pattern", metavar="PATTERN"),
        click.argument("action", metavar="ACTION", type=click.Choice(_ACTIONS)),
        click.argument("effect", metavar="EFFECT", type=click.Choice(_EFFECTS)),
    ):
        wrapped = option(wrapped)
    return wrapped


@click.group(cls=LazyGroup, table=COMMANDS)
def acl() -> None:
    """List, add and remove access rules: who may publish, subscribe, consume and administer.

    A rule allows or denies an action (publish, subscribe, consume, configure, admin, all) on topics that match a
    pattern: + is one level, # the rest, %c the client id, %u the user name. A deny always wins, and anything that no
    rule allows is denied. Built-in roles come with permissions: `penstock acl roles` lists them. An API key is the user
    key:ID. Rules from the server's configuration (auth.acl) are not shown here.

    \b
    Examples:
      penstock acl add allow publish 'devices/%c/#' --role device
      penstock acl add allow consume orders --user billing
      penstock acl check --user billing consume orders
      penstock acl list
    """


@click.command()
@rule_arguments
@target_options_beside_user
@output_option()
def add(target: Target, rule: Facts, output: str) -> None:
    """Add a rule. EFFECT is allow or deny; ACTION is publish, subscribe, consume, configure, admin or all. The rule
    applies in the namespace given with --namespace; `*` means all namespaces.

    For consume, the pattern is the name of a queue. For configure, it is $exchange/<name> or $queue/<name>. Wildcards
    in the first level do not match topics that begin with $: write $SYS/#, $queue/#, $exchange/#, $dlq/# or $admin/#
    for those.

    \b
    Examples:
      penstock acl add allow publish 'devices/%c/#' --role device
      penstock acl add allow consume orders --user billing
      penstock acl add allow configure '$exchange/#' --role operator
      penstock acl add deny subscribe 'secret/#'
    """

    async def act(client: AsyncClient) -> tuple[Facts, bool]:
        before = await client.rules()
        added = await client.create_rule(_placed(target, rule))
        return added, added not in before

    added, is_new = on_server(_home(target), act, may_create=True)
    text = f"rule {_text(added)}: {'added' if is_new else 'was there already'}"
    print_done(output, text, rule=added, is_new=is_new)


@click.command("rm")
@rule_arguments
@destructive
@target_options_beside_user
@output_option()
def remove(target: Target, rule: Facts, yes: bool, dry_run: bool, output: str) -> None:
    """Remove a rule. Give the same arguments and options as for `penstock acl add`.

    \b
    Examples:
      penstock acl rm allow consume orders --user billing
    """
    if not dry_run:
        refuse_unless_confirmed(target, yes, f"Remove the rule {_text(rule)}?")
    placed = _placed(target, rule)

    async def act(client: AsyncClient) -> None:
        await client.delete_rule(placed, dry_run)

    on_server(_home(target), act)
    text = f"rule {_text(rule)}: {'would be removed' if dry_run else 'removed'}"
    print_done(output, text, rule=placed, dry_run=dry_run)


@click.command("list")
@target_options
@output_option()
def list_rules(target: Target, output: str) -> None:
    """List the rules.

    \b
    Examples:
      penstock acl list
      penstock acl list -o json
    """

    async def act(client: AsyncClient) -> list[Facts]:
        return await client.rules()

    rules = on_server(target, act)
    rows = [(rule["effect"], rule["action"], rule["pattern"], _whom(rule), rule["namespace"]) for rule in rules]
    columns = ["effect", "action", "pattern", "whom", "namespace"]
    print_listed(output, {"rules": rules}, columns, rows, "no rules yet")


@click.command("roles")
@output_option()
def list_roles(output: str) -> None:
    """List the built-in roles and what they allow. A deny rule overrides every role except admin.

    \b
    Examples:
      penstock acl roles
      penstock acl roles -o json
    """
    from penstock.broker.auth.roles import BUILT_IN_ROLES

    if output in DATA_FORMATS:
        print_data({"roles": [msgspec.to_builtins(role._asdict()) for role in BUILT_IN_ROLES]}, output)
    else:
        print_table(["role", "may"], [(role.name, role.summary) for role in BUILT_IN_ROLES])


@click.command()
@click.argument("asked", metavar="[USER] ACTION TOPIC", nargs=-1, required=True)
@click.option(
    "--user", metavar="NAME", help="The user to check; key:ID is an API key. Can also be given before ACTION."
)
@click.option("--client-id", metavar="ID", default="", help="Client id that %c stands for.")
@target_options_beside_user
@output_option()
def check(target: Target, asked: tuple[str, ...], user: str | None, client_id: str, output: str) -> None:
    """Check whether a user may do something, and show the role or rule that decides. The exit code is 1 if the user may
    not.

    ACTION is publish (to a topic), subscribe (to a filter), receive (a message of a topic), consume or browse (a
    queue), configure (an exchange or a queue, by its topic).

    \b
    Examples:
      penstock acl check --user alice publish devices/pump-7/up --client-id pump-7
      penstock acl check billing consume orders
    """
    name, action, topic = _asked(asked, user)

    async def act(client: AsyncClient) -> Facts:
        return await client.check_rule(name, action, topic, client_id)

    verdict = on_server(target, act)
    print_told(output, f"{'allowed' if verdict['allowed'] else 'denied'}: {verdict['because']}", verdict)
    if not verdict["allowed"]:
        raise click.exceptions.Exit(FAILED)


def _asked(words: tuple[str, ...], user: str | None) -> tuple[str, str, str]:
    whole = words if user is None else (user, *words)
    if len(whole) != 3:
        raise click.UsageError("give a user, an action and a topic, like --user alice publish a/b")
    name, action, topic = whole
    if action not in _ASKED_ACTIONS:
        raise click.BadParameter(f"{action!r} is not one of {', '.join(_ASKED_ACTIONS)}", param_hint="ACTION")
    return name, action, topic


def _placed(target: Target, rule: Facts) -> Facts:
    """Without --namespace: that of the login."""
    namespace = target.options.namespace
    return rule if namespace is None else {**rule, "namespace": namespace}


def _home(target: Target) -> Target:
    """The namespace is the rule's, and may be all of them."""
    return replace(target, options=replace(target.options, namespace=None))


def _text(rule: Facts) -> str:
    whom = next((f" --{name} {rule[name]}" for name in ("user", "role") if rule.get(name)), "")
    return f"{rule['effect']} {rule['action']} {rule['pattern']}{whom}"


def _whom(rule: Facts) -> str:
    return next((f"{name} {rule[name]}" for name in ("user", "role") if rule.get(name)), "everyone")
