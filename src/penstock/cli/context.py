"""`penstock context`: the servers this user's commands know."""

from __future__ import annotations

import os
from pathlib import Path

import click
import msgspec

from penstock.cli.context_choice import complete_context, contexts_of
from penstock.cli.failures import NotThere
from penstock.cli.lazy import LazyCommand, LazyGroup
from penstock.cli.login_arguments import first_line, password_file_option, password_of, user_option
from penstock.cli.output import DATA_FORMATS, output_option, print_data, print_done, print_listed, print_table
from penstock.core.errors import InvalidArgument
from penstock.server.context import Context, Contexts, context_file, write_contexts

COMMANDS = {
    "list": LazyCommand("context", "list_contexts", "List the contexts; * marks the current one."),
    "use": LazyCommand("context", "use", "Switch to a context."),
    "set": LazyCommand("context", "set_context", "Create or change a context."),
    "show": LazyCommand("context", "show", "Show a context without its secrets."),
    "delete": LazyCommand("context", "delete", "Delete a context."),
}

_SECRETS = ("password", "token", "api_key")
_HIDDEN = "(secret)"
_FILE = click.Path(dir_okay=False, exists=True, path_type=Path)


@click.group(cls=LazyGroup, table=COMMANDS)
def context() -> None:
    """Manage contexts: the servers that commands connect to, and the logins to use there. They are stored in
    ~/.config/penstock/config.yaml, which only you can read.

    A command uses the server given with --url or --context, else PENSTOCK_URL or PENSTOCK_CONTEXT, else the current
    context, else http://127.0.0.1:8080. The first start of a server with logins creates the context `local`.

    \b
    Examples:
      penstock context set production --url https://broker.example.com --api-key-file key
      penstock context use production
      penstock context list
    """


@click.command("list")
@output_option()
def list_contexts(output: str) -> None:
    """List the contexts; * marks the current one.

    \b
    Examples:
      penstock context list
    """
    found = contexts_of(os.environ)
    contexts = {name: _shown(each) for name, each in found.contexts.items()}
    facts = {"current_context": found.current_context, "contexts": contexts}
    columns, rows = ["", "context", "url", "mqtt", "login"], [_row(found, name) for name in found.contexts]
    nothing = "no contexts yet: `penstock context set NAME --url URL` creates one"
    print_listed(output, facts, columns, rows, nothing)


@click.command()
@click.argument("name", metavar="NAME", shell_complete=complete_context)
@output_option()
def use(name: str, output: str) -> None:
    """Switch to a context.

    \b
    Examples:
      penstock context use production
    """
    found = contexts_of(os.environ)
    _named(found, name)
    _write(msgspec.structs.replace(found, current_context=name))
    print_done(output, f"context {name}: current", context=name, is_current=True)


@click.command("set")
@click.argument("name", metavar="NAME")
@click.option("--url", "--server", metavar="URL", help="HTTP URL of the server, like https://broker.example.com.")
@click.option(
    "--mqtt", metavar="ADDRESS", help="MQTT address, like mqtts://broker.example.com:8883 or wss://host/mqtt."
)
@user_option("Log in as this user, with a password; replaces any other login of the context.")
@password_file_option
@click.option("--token", metavar="TOKEN", help="Log in with this token (JWT).")
@click.option("--api-key", metavar="KEY", help="Log in with this API key (psk_…).")
@click.option("--api-key-file", metavar="FILE", type=_FILE, help="Read the API key from the first line of this file.")
@click.option("--ca-file", metavar="FILE", type=_FILE, help="Trust only this certificate authority (PEM).")
@click.option("--cert-file", metavar="FILE", type=_FILE, help="Client certificate (PEM).")
@click.option("--key-file", metavar="FILE", type=_FILE, help="Key of the client certificate, if it is in another file.")
@click.option("--namespace", metavar="NAME", help="Namespace to work in.")
@click.option(
    "--local/--remote",
    default=None,
    help="Whether the server is on this machine, where destructive commands do not ask for confirmation.",
)
@output_option()
def set_context(name: str, password_file: Path | None, api_key_file: Path | None, output: str, **given: object) -> None:
    """Create or change a context: settings that are not given stay as they are. The first context becomes the current
    one.

    With --user and without --password-file, you are prompted for the password.

    \b
    Examples:
      penstock context set local --url http://127.0.0.1:8080 --local
      penstock context set production --url https://broker.example.com --api-key-file key
      penstock context set production --ca-file authority.pem --mqtt mqtts://broker.example.com
    """
    said = {key: str(_absolute(value)) for key, value in given.items() if isinstance(value, str | Path)}
    if api_key_file is not None:
        said["api_key"] = first_line(api_key_file)
    if "username" in said:
        said["password"] = password_of(password_file)
    elif password_file is not None:
        raise click.UsageError("a password needs --user")
    found = contexts_of(os.environ)
    changed = _changed(found.contexts.get(name, Context()), said, given["local"])
    found = found.with_context(name, changed)
    if found.current is None:
        found = msgspec.structs.replace(found, current_context=name)
    _write(found)
    is_current = found.current_context == name
    print_done(output, f"context {name}: set{', current' if is_current else ''}", context=name, is_current=is_current)


@click.command()
@click.argument("name", metavar="[NAME]", required=False, shell_complete=complete_context)
@output_option()
def show(name: str | None, output: str) -> None:
    """Show a context, or the current one, without its secrets.

    \b
    Examples:
      penstock context show
      penstock context show production -o json
    """
    found = contexts_of(os.environ)
    name = name or found.current_context
    facts = {"name": name, **({} if name is None else _shown(_named(found, name)))}
    if output in DATA_FORMATS:
        print_data(facts, output)
    elif name is None:
        click.echo("no current context: commands use http://127.0.0.1:8080")
    else:
        print_table(["setting", "value"], list(facts.items()))


@click.command("current")
@output_option()
def current(output: str) -> None:
    """Print the name of the current context.

    \b
    Examples:
      penstock config current-context
    """
    name = contexts_of(os.environ).current_context
    print_done(output, name or "none", current_context=name)


@click.command()
@click.argument("name", metavar="NAME", shell_complete=complete_context)
@click.option("--dry-run", is_flag=True, help="Show what would be done; change nothing.")
@output_option()
def delete(name: str, dry_run: bool, output: str) -> None:
    """Delete a context and its stored login.

    \b
    Examples:
      penstock context delete production
    """
    found = contexts_of(os.environ)
    _named(found, name)
    left = {each: kept for each, kept in found.contexts.items() if each != name}
    is_current = found.current_context == name
    if not dry_run:
        _write(Contexts(current_context=None if is_current else found.current_context, contexts=left))
    text = f"{'would be deleted' if dry_run else 'deleted'}{', and none is current' if is_current else ''}"
    print_done(output, f"context {name}: {text}", context=name, was_current=is_current, dry_run=dry_run)


def _named(contexts: Contexts, name: str) -> Context:
    try:
        return contexts.named(name)
    except InvalidArgument as error:
        raise NotThere(str(error)) from None


def _changed(context: Context, said: dict[str, str], local: object) -> Context:
    """One login: another one goes."""
    fields = msgspec.structs.asdict(context)
    if any(name in said for name in ("username", "token", "api_key")):
        fields |= dict.fromkeys(("username", *_SECRETS))
    fields |= said
    if isinstance(local, bool):
        fields["local"] = local
    return msgspec.convert(fields, Context)


def _absolute(value: str | Path) -> str | Path:
    """Commands are typed in many directories."""
    return value.absolute() if isinstance(value, Path) else value


def _shown(context: Context) -> dict[str, object]:
    found: dict[str, object] = msgspec.to_builtins(context)
    return {name: _HIDDEN if name in _SECRETS else value for name, value in found.items()}


def _row(contexts: Contexts, name: str) -> list[object]:
    each = contexts.contexts[name]
    login = each.username or ("token" if each.token else "API key" if each.api_key else "-")
    return ["*" if contexts.current_context == name else "", name, each.url or "-", each.mqtt or "-", login]


def _write(contexts: Contexts) -> None:
    write_contexts(context_file(os.environ), contexts)
