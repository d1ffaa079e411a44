"""What a command talks to: a server, or a data directory that it opens itself. Flags go before the environment, that
before the context file, that before the default."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import click

from penstock.cli.context_choice import complete_context, contexts_of
from penstock.cli.login_arguments import password_file_option, password_of, user_option
from penstock.client.http.options import URL, HttpOptions, Retries, TlsFiles
from penstock.core.errors import InvalidArgument
from penstock.server.context import Context

# Enough for a server that is restarted just now; a person waits for the answer.
_RETRIES = Retries(attempts=1)


@dataclass(frozen=True, slots=True)
class TargetArguments:
    """As they were given, None where they were not."""

    data: Path | None = None
    url: str | None = None
    token: str | None = None
    api_key: str | None = None
    context: str | None = None
    namespace: str | None = None
    ca_file: Path | None = None
    username: str | None = None
    password_file: Path | None = None


@dataclass(frozen=True, slots=True)
class Target:
    options: HttpOptions
    is_local: bool
    """what destroys something is done without asking"""
    directory: Path | None = None
    """opened by the command itself"""
    has_been_chosen: bool = True
    """not the default that counts where nobody said anything"""

    def __str__(self) -> str:
        return str(self.directory) if self.directory is not None else self.options.url

    @property
    def is_unmade(self) -> bool:
        """A directory that is not there, or has nothing in it."""
        return self.directory is not None and not (self.directory.is_dir() and any(self.directory.iterdir()))


def find_target(given: TargetArguments, variables: Mapping[str, str]) -> Target:
    """InvalidArgument for a context that is not there, or logins that exclude each other."""
    if given.data is not None:
        if any((given.url, given.token, given.api_key, given.context, given.ca_file, given.username)):
            raise click.UsageError("--data is a directory without a server: leave --url, --context and logins out")
        return Target(HttpOptions(namespace=given.namespace, retries=_RETRIES), True, given.data)
    asked = _Layer(given.url, given.token, given.api_key, login=_password_login(given))
    around = _environment(variables)
    layers = [
        asked,
        *_named(given.context, variables),
        around,
        *_named(variables.get("PENSTOCK_CONTEXT"), variables),
        *_current(variables),
    ]
    return _trusting(_combined(layers, given.namespace), given.ca_file)


@dataclass(frozen=True, slots=True)
class _Layer:
    """One place that may say something about the server."""

    url: str | None = None
    token: str | None = None
    api_key: str | None = None
    context: Context | None = None
    login: tuple[str, str] | None = None
    """a user and a password"""

    @property
    def has_login(self) -> bool:
        has_own = self.token or self.api_key or self.login
        return bool(has_own or (self.context is not None and self.context.has_login))

    def may_log_in(self, url: str) -> bool:
        """The login of a context, and the authority it trusts, are for its own server: else a password would go to
        another one."""
        return self.context is None or (self.url or URL).rstrip("/") == url.rstrip("/")


def _password_login(given: TargetArguments) -> tuple[str, str] | None:
    if given.username is None:
        if given.password_file is not None:
            raise click.UsageError("a password needs --user")
        return None
    return given.username, password_of(given.password_file)


def _environment(variables: Mapping[str, str]) -> _Layer:
    def said(*names: str) -> str | None:
        return next((variables[name] for name in names if variables.get(name)), None)

    return _Layer(said("PENSTOCK_URL", "PENSTOCK_SERVER"), said("PENSTOCK_TOKEN"), said("PENSTOCK_API_KEY"))


def _named(name: str | None, variables: Mapping[str, str]) -> list[_Layer]:
    return [] if not name else [_of(contexts_of(variables).named(name))]


def _current(variables: Mapping[str, str]) -> list[_Layer]:
    current = contexts_of(variables).current
    return [] if current is None else [_of(current)]


def _of(context: Context) -> _Layer:
    return _Layer(context.url, context.token, context.api_key, context)


def _combined(layers: list[_Layer], namespace: str | None) -> Target:
    url = next((layer.url for layer in layers if layer.url), URL)
    login = next((layer for layer in layers if layer.has_login and layer.may_log_in(url)), _Layer())
    chosen = next((layer for layer in layers if layer.url or layer.context is not None), None)
    context = None if chosen is None else chosen.context
    own = next((layer.context for layer in layers if layer.context is not None and layer.may_log_in(url)), None)
    said = login.context or Context()
    options = HttpOptions(
        url,
        token=login.token,
        api_key=login.api_key,
        username=said.username if login.login is None else login.login[0],
        password=said.password if login.login is None else login.login[1],
        tls=None if own is None else _tls(own),
        retries=_RETRIES,
        namespace=namespace or (None if context is None else context.namespace),
    )
    is_local = chosen is None or (context is not None and context.local)
    return Target(options, is_local, has_been_chosen=chosen is not None)


def _trusting(target: Target, ca_file: Path | None) -> Target:
    """That authority, in place of the context's."""
    if ca_file is None:
        return target
    said = target.options.tls
    files = replace(said if isinstance(said, TlsFiles) else TlsFiles(), ca_file=ca_file)
    return replace(target, options=replace(target.options, tls=files))


def _tls(context: Context) -> TlsFiles | None:
    files = context.ca_file, context.cert_file, context.key_file, context.server_certificate_file
    return TlsFiles(*files) if any(files) else None


_OPTIONS = (
    click.option(
        "--url", metavar="URL", help="URL of the server.  [default: that of the context, or http://127.0.0.1:8080]"
    ),
    click.option("--token", metavar="TOKEN", help="Log in with this token (JWT) or API key."),
    click.option("--api-key", metavar="KEY", help="Log in with this API key."),
    click.option(
        "--context",
        metavar="NAME",
        help="Use this context (see `penstock context list`).  [default: the current one]",
        shell_complete=complete_context,
    ),
    click.option(
        "--data",
        metavar="DIR",
        type=click.Path(file_okay=False, path_type=Path),
        help="Work on this data directory instead of a server; no server may have it open.",
    ),
    click.option("--namespace", metavar="NAME", help="Namespace to work in.  [default: that of the login]"),
    click.option(
        "--ca-file",
        metavar="FILE",
        type=click.Path(dir_okay=False, exists=True, path_type=Path),
        help="Trust only this certificate authority (PEM).  [default: that of the context]",
    ),
)
_NAMES = tuple(TargetArguments.__dataclass_fields__)
_USER = user_option()
_USERNAME = user_option("Log in as this user.", "-u", "--username")


def target_options(command: Callable[..., object]) -> Callable[..., object]:
    """The options, as one parameter `target`."""
    return _with_target(command, _USER)


def target_options_beside_user(command: Callable[..., object]) -> Callable[..., object]:
    """The same for a command whose own --user is not who logs in."""
    return _with_target(command, _USERNAME)


def _with_target(
    command: Callable[..., object], login: Callable[[Callable[..., object]], Callable[..., object]]
) -> Callable[..., object]:
    @functools.wraps(command)
    def with_target(**given: object) -> object:
        # click has converted each to the type of its field.
        arguments = TargetArguments(**{name: given.pop(name) for name in _NAMES})  # type: ignore[arg-type]
        try:
            target = find_target(arguments, os.environ)
        except InvalidArgument as error:
            raise click.UsageError(str(error)) from error
        return command(target=target, **given)

    wrapped: Callable[..., object] = with_target
    for option in reversed((*_OPTIONS, login, password_file_option)):
        wrapped = option(wrapped)
    return wrapped
