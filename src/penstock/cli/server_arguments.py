"""Which server a command talks to, and as whom: options, and behind them a context."""

from __future__ import annotations

import functools
import os
import ssl
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

import click

from penstock.cli.context_choice import find_context
from penstock.cli.login_arguments import first_line, password_file_option, user_option
from penstock.client.http.options import TlsFiles
from penstock.client.mqtt.options import MqttOptions
from penstock.codecs.mqtt.kinds import Version
from penstock.core.errors import InvalidArgument
from penstock.server.context import Context

_FILE = click.Path(dir_okay=False, exists=True, path_type=Path)
_SCHEMES = {"mqtt": False, "mqtts": True, "ws": False, "wss": True}
"""and whether they mean TLS"""
_NO_CREATE = (("create-queues", "false"),)
# A server may say something else of every message.
_MOST_TOLD = 100
_VERSIONS = {"5": Version.V5, "3.1.1": Version.V3_1_1}


@dataclass(frozen=True, slots=True)
class Place:
    """Where a server of MQTT is; `path` is that of a WebSocket."""

    host: str | None = None
    port: int | None = None
    is_tls: bool = False
    path: str | None = None


@dataclass(frozen=True, slots=True)
class ServerArguments:
    host: str | None = None
    port: int | None = None
    username: str | None = None
    password_file: Path | None = None
    client_id: str = ""
    mqtt_version: str = "5"
    tls: bool = False
    ca_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None
    ws_path: str | None = None
    context: str | None = None

    def options(self) -> MqttOptions:
        """With the login of the context only if it is for the same server: else a password would go to another
        one."""
        context = find_context(self.context, os.environ) or Context()
        place = _parse(context.mqtt)
        if not self._is_for(place):
            context, place = Context(), Place()
        is_own = self.username is None and self.password_file is None
        login = _login(context) if is_own else (self.username, self._password())
        return MqttOptions(
            host=self.host or place.host or "127.0.0.1",
            port=self.port or place.port,
            version=_VERSIONS[self.mqtt_version],
            client_id=self.client_id,
            username=login[0],
            password=login[1],
            tls=self._tls(place.is_tls, context),
            websocket_path=self.ws_path or place.path,
        )

    def _is_for(self, place: Place) -> bool:
        return self.host in (None, place.host) and self.port in (None, place.port)

    def _password(self) -> bytes | None:
        return None if self.password_file is None else first_line(self.password_file).encode()

    def _tls(self, is_usual: bool, said: Context) -> ssl.SSLContext | None:
        if not (self.tls or is_usual or self.ca_file or self.cert_file):
            return None
        return TlsFiles(
            self.ca_file or said.ca_file,
            self.cert_file or said.cert_file,
            self.key_file or said.key_file,
            said.server_certificate_file,
        ).context()


def mqtt_options(address: str | None) -> MqttOptions:
    """Of an address, or of the context if there is none."""
    place = _parse(address)
    return ServerArguments(host=place.host, port=place.port, tls=place.is_tls, ws_path=place.path).options()


def _parse(address: str | None) -> Place:
    """Of `Context.mqtt`."""
    if address is None:
        return Place()
    parts = urlsplit(address)
    is_tls = _SCHEMES.get(parts.scheme)
    try:
        port = parts.port
    except ValueError:
        is_tls = None
    if is_tls is None or not parts.hostname:
        raise InvalidArgument(
            f"{address!r} is not an address of MQTT: write it like mqtt://host:1883 or wss://host/mqtt"
        )
    return Place(parts.hostname, port, is_tls, parts.path or None)


def _login(context: Context) -> tuple[str | None, bytes | None]:
    """A key or a token goes as the password."""
    if context.username is not None:
        return context.username, None if context.password is None else context.password.encode()
    secret = context.api_key or context.token
    return (None, None) if secret is None else ("", secret.encode())


_OPTIONS = (
    click.option(
        "-H", "--host", metavar="HOST", help="Host of the server.  [default: that of the context, or 127.0.0.1]"
    ),
    click.option(
        "-p",
        "--port",
        metavar="PORT",
        type=click.IntRange(1, 65_535),
        help="Port of the server.  [default: that of the context, or 1883; with TLS 8883, over WebSocket 8083]",
    ),
    user_option("Log in as this user.  [default: that of the context]"),
    password_file_option,
    click.option(
        "-i", "--client-id", metavar="ID", default="", help="MQTT client id.  [default: chosen by the server]"
    ),
    click.option(
        "-V", "--mqtt-version", type=click.Choice(list(_VERSIONS)), default="5", show_default=True, help="MQTT version."
    ),
    click.option("--tls", is_flag=True, help="Connect with TLS."),
    click.option(
        "--ca-file", metavar="FILE", type=_FILE, help="Trust only this certificate authority (PEM); implies --tls."
    ),
    click.option("--cert-file", metavar="FILE", type=_FILE, help="Client certificate (PEM); implies --tls."),
    click.option(
        "--key-file", metavar="FILE", type=_FILE, help="Key of the client certificate, if it is in another file."
    ),
    click.option("--ws-path", metavar="PATH", help="Connect over a WebSocket at this path, like /mqtt."),
    click.option(
        "--context", metavar="NAME", help="Use this context (see `penstock context list`).  [default: the current one]"
    ),
)
no_create_option = click.option(
    "--no-create", is_flag=True, help="Fail if a queue that is named as $queue/NAME does not exist."
)
_NAMES = tuple(ServerArguments.__dataclass_fields__)


def server_options(command: Callable[..., object]) -> Callable[..., object]:
    """The options, as one parameter `server`."""

    @functools.wraps(command)
    def with_server(**given: object) -> object:
        # click has converted each to the type of its field.
        server = ServerArguments(**{name: given.pop(name) for name in _NAMES})  # type: ignore[arg-type]
        return command(server=server, **given)

    wrapped: Callable[..., object] = with_server
    for option in reversed(_OPTIONS):
        wrapped = option(wrapped)
    return wrapped


def naming_queues(options: MqttOptions, no_create: bool) -> MqttOptions:
    """For a command that may name queues: what the server says, like which it created, goes to stderr, once each."""
    if no_create and options.version is Version.V3_1_1:
        raise click.UsageError("MQTT 3.1.1 has no user properties: leave --no-create out, or use version 5")
    told: set[str] = set()

    def tell(said: str) -> None:
        if said not in told and len(told) < _MOST_TOLD:
            told.add(said)
            click.echo(f"penstock: {said}", err=True)

    return replace(options, user_properties=_NO_CREATE if no_create else (), on_reason_string=tell)


def user_properties(texts: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    pairs = [text.partition("=") for text in texts]
    if wrong := next((name for name, equals, _ in pairs if not equals or not name), None):
        raise click.BadParameter(f"{wrong!r}: write it like colour=red", param_hint="--property")
    return tuple((name, value) for name, _, value in pairs)
