"""Which server a command talks to, and as whom: options, and behind them the local context."""

from __future__ import annotations

import functools
import os
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import click
import msgspec

from penstock.client.mqtt.options import MqttOptions
from penstock.codecs.mqtt.kinds import Version
from penstock.core.errors import InvalidArgument
from penstock.server.context import Context, context_file

_FILE = click.Path(dir_okay=False, exists=True, path_type=Path)
_VERSIONS = {"5": Version.V5, "3.1.1": Version.V3_1_1}
# -h is the host, as in other clients of MQTT.
CONTEXT_SETTINGS = {"help_option_names": ["--help"]}


@dataclass(frozen=True, slots=True)
class ServerArguments:
    host: str | None
    port: int | None
    username: str | None
    password_file: Path | None
    client_id: str
    mqtt_version: str
    tls: bool
    ca_file: Path | None
    cert_file: Path | None
    key_file: Path | None
    ws_path: str | None

    def options(self) -> MqttOptions:
        """With the login of the local context only if it is for the same server: else a password would go to another
        one."""
        found = self._context()
        context = found if found is not None and self._is_for(found) else None
        is_own = self.username is None and self.password_file is None
        password = self._password()
        if context is not None and is_own:
            password = context.password.encode()
        return MqttOptions(
            host=self.host or (context.host if context else "127.0.0.1"),
            port=self.port or (context.port if context else None),
            version=_VERSIONS[self.mqtt_version],
            client_id=self.client_id,
            username=context.username if context and is_own else self.username,
            password=password,
            tls=self._tls(context is not None and context.tls),
            websocket_path=self.ws_path or (context.path if context else None),
        )

    def _context(self) -> Context | None:
        file = context_file(os.environ)
        try:
            return msgspec.json.decode(file.read_bytes(), type=Context)
        except FileNotFoundError:
            return None
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise InvalidArgument(f"{file} is not a context: {error}; mend or remove it") from None

    def _is_for(self, context: Context) -> bool:
        return self.host in (None, context.host) and self.port in (None, context.port)

    def _password(self) -> bytes | None:
        """The first line, without its end."""
        if self.password_file is None:
            return None
        return self.password_file.read_bytes().split(b"\n", 1)[0].rstrip(b"\r")

    def _tls(self, is_usual: bool) -> ssl.SSLContext | None:
        if not (self.tls or is_usual or self.ca_file or self.cert_file):
            return None
        try:
            context = ssl.create_default_context(cafile=self.ca_file)
            if self.cert_file is not None:
                context.load_cert_chain(self.cert_file, self.key_file)
        except ssl.SSLError as error:
            raise InvalidArgument(f"a certificate or key cannot be used ({error}): give PEM files that fit") from None
        return context


_OPTIONS = (
    click.option("-h", "--host", metavar="HOST", help="The server.  [default: the local context's, or 127.0.0.1]"),
    click.option(
        "-p",
        "--port",
        metavar="PORT",
        type=click.IntRange(1, 65_535),
        help="[default: the local context's, or 1883; with TLS 8883, over WebSocket 8083]",
    ),
    click.option("-u", "--username", metavar="USER", help="Log in as this user.  [default: the local context's]"),
    click.option("--password-file", metavar="FILE", type=_FILE, help="A file with the password in its first line."),
    click.option("-i", "--client-id", metavar="ID", default="", help="[default: one that the server gives]"),
    click.option(
        "-V", "--mqtt-version", type=click.Choice(list(_VERSIONS)), default="5", show_default=True, help="Of MQTT."
    ),
    click.option("--tls", is_flag=True, help="Connect with TLS."),
    click.option("--ca-file", metavar="FILE", type=_FILE, help="Trust this authority (PEM) and no other; means --tls."),
    click.option("--cert-file", metavar="FILE", type=_FILE, help="A client certificate (PEM); means --tls."),
    click.option("--key-file", metavar="FILE", type=_FILE, help="Its key, if it is in a file of its own."),
    click.option("--ws-path", metavar="PATH", help="Connect over a WebSocket at this path, like /mqtt."),
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


def user_properties(texts: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    pairs = [text.partition("=") for text in texts]
    if wrong := next((name for name, equals, _ in pairs if not equals or not name), None):
        raise click.BadParameter(f"{wrong!r}: write it like colour=red", param_hint="--property")
    return tuple((name, value) for name, _, value in pairs)
