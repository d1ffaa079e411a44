"""What is insecure about a configuration, said at every start."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.server.config import Config
from penstock.server.config_listeners import Listener, WebSocketListener, is_loopback


def weaknesses(config: Config) -> list[str]:
    """A sentence each; none if there is nothing to say."""
    return [*_of_logins(config), *_of_listeners(config)]


def _of_logins(config: Config) -> Iterator[str]:
    auth = config.auth
    if auth.development_mode:
        yield "development mode: everyone on this machine is an admin without login; not for data that matters"
    elif auth.allow_anonymous:
        yield "auth.allow_anonymous: clients without a login may do what rules for everyone allow"
    if auth.jwt is not None and auth.jwt.secret is not None:
        yield "auth.jwt.secret stands in the configuration: whoever reads it makes tokens; use secret_file"


def _of_listeners(config: Config) -> Iterator[str]:
    for name, listener in config.listeners.all_switched_on().items():
        yield from _of_listener(name, listener)
        limits = config.rate_limit
        if not is_loopback(listener) and 0 in (limits.max_connections_per_ip, limits.max_messages_per_client):
            yield f"rate_limit has no limit for some of what clients of listener {name} send"


def _of_listener(name: str, listener: Listener) -> Iterator[str]:
    if listener.tls is None and not is_loopback(listener):
        yield f"listener {name} on {listener.host} has no TLS: passwords and messages can be read on their way"
    if listener.proxy_protocol:
        yield f"listener {name} believes any address that is announced: let only the proxy reach port {listener.port}"
    if isinstance(listener, WebSocketListener) and "*" in listener.allowed_origins:
        yield f"listener {name} lets pages of every origin connect: name them in allowed_origins"
