"""Listeners of the configuration made ready for connections: which layers stand between a socket and the gateway."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import cast

from penstock.gateways.port import StreamDoor
from penstock.gateways.wire.listener import Inner, ListenerFacts
from penstock.gateways.wire.origins import Origins
from penstock.gateways.wire.proxy import ProxyProtocol
from penstock.gateways.wire.secure import SecureConnections, ShakeHands
from penstock.gateways.wire.websocket import Connection, WebSocketProtocol
from penstock.server.config import Config
from penstock.server.config_listeners import Listener, Listeners, WebSocketListener, is_loopback
from penstock.server.listeners import Listening, bind
from penstock.server.tls import context_of

Gateways = Mapping[str, StreamDoor]
"""by the name of the listener"""
Contexts = dict[str, ssl.SSLContext]
MayConnect = Callable[[str], bool]
HasRoom = Callable[[str, int, int], bool]
"""by the name of the listener, the descriptor of the connection, and how many are on their way to a gateway"""


def contexts_of(listeners: Listeners) -> Contexts:
    """Of those with TLS. BadConfiguration for files that will not do."""
    switched_on = listeners.switched_on().items()
    return {name: context_of(door.tls, f"listeners.{name}.tls") for name, door in switched_on if door.tls is not None}


def facts_of(name: str, listener: Listener) -> ListenerFacts:
    tls = listener.tls
    is_identity = tls is not None and tls.client_ca is not None and tls.certificate_identity
    return ListenerFacts(name, is_loopback(listener), is_identity)


class Doors:
    """All listeners of a server: bound before the data is opened, so that a port in use is known at once; listening
    when everything behind them stands."""

    def __init__(self, config: Config) -> None:
        """BadConfiguration, CannotListen."""
        self._contexts = contexts_of(config.listeners)
        self._sockets: dict[str, list[socket.socket]] = {}
        self._listening: dict[str, Listening] = {}
        self._may_connect: MayConnect | None = None
        self._secure: SecureConnections | None = None
        try:
            for name, listener in config.listeners.switched_on().items():
                self._sockets[name] = bind(name, listener.host, listener.port)
        except BaseException:
            self._close_sockets()
            raise

    @property
    def addresses(self) -> dict[str, tuple[str, int]]:
        return {name: listening.address for name, listening in self._listening.items()}

    @property
    def not_accepting(self) -> list[str]:
        return [name for name in self._sockets if name not in self._listening or not self._listening[name].is_accepting]

    def open(self, config: Config, gateways: Gateways, may_connect: MayConnect, has_room: HasRoom) -> None:
        """From now on clients can connect, where it `has_room`; on listeners that are not loopback `may_connect`
        is asked too, behind a proxy with the address that it announces."""
        self._may_connect = may_connect
        for name, listener in config.listeners.switched_on().items():
            limit = None if is_loopback(listener) or listener.proxy_protocol else may_connect
            room = partial(self._has_room, has_room, name)
            self._listening[name] = Listening(name, self._sockets[name], limit, room)
        self.apply(config, gateways, self._contexts)
        for listening in self._listening.values():
            listening.start()

    def _has_room(self, has_room: HasRoom, name: str, descriptor: int) -> bool:
        return has_room(name, descriptor, sum([each.handshakes for each in self._listening.values()]))

    def apply(self, config: Config, gateways: Gateways, contexts: Contexts) -> None:
        """What further connections get. Addresses stay as they are."""
        self._contexts = contexts
        switched_on = config.listeners.switched_on()
        for name, listening in self._listening.items():
            listener, gateway = switched_on[name], gateways[name]
            make = _layers(name, listener, config, gateway)
            timeout_s = gateway.handshake_timeout_s
            secure = self._shake_hands(contexts[name], timeout_s) if name in contexts else None
            if listener.proxy_protocol:
                listening.serve(_announced(make, secure, timeout_s, gateway, self._may_connect), None)
            else:
                is_plain = secure is None and not isinstance(listener, WebSocketListener)
                adopt = getattr(gateway, "adopt", None) if is_plain else None
                listening.serve(make, secure, adopt and partial(adopt, listener=facts_of(name, listener)))

    def _shake_hands(self, context: ssl.SSLContext, deadline_s: float) -> ShakeHands:
        if self._secure is None:
            self._secure = SecureConnections(asyncio.get_running_loop())
        return partial(self._secure.shake_hands, context=context, deadline_s=deadline_s)

    def end(self) -> None:
        """After close(), when the gateways are closed: who is still behind TLS is cut off."""
        if self._secure is not None:
            self._secure.close()

    async def close(self) -> None:
        """No further connection is accepted."""
        await asyncio.gather(*(listening.close() for listening in self._listening.values()))
        self._close_sockets()

    def _close_sockets(self) -> None:
        for sock in _flat(self._sockets.values()):
            sock.close()


def _flat(sockets: Iterable[list[socket.socket]]) -> list[socket.socket]:
    return [sock for some in sockets for sock in some]


def _layers(name: str, listener: Listener, config: Config, gateway: StreamDoor) -> Callable[[], Inner]:
    facts = facts_of(name, listener)
    if not isinstance(listener, WebSocketListener):
        return lambda: gateway.protocol(facts)
    origins = Origins(listener.allowed_origins)
    spoken = gateway.spoken
    assert spoken is not None
    return lambda: WebSocketProtocol(
        lambda: cast(Connection, gateway.protocol(facts)),
        spoken,
        listener.path,
        origins,
        gateway.max_message_bytes,
        gateway.handshake_timeout_s,
        gateway.refused,
        config.auth.development_mode,
    )


def _announced(
    make: Callable[[], Inner],
    secure: ShakeHands | None,
    timeout_s: float,
    gateway: StreamDoor,
    may_connect: MayConnect | None,
) -> Callable[[], Inner]:
    """The header comes first and in clear, then TLS, then the rest."""
    return lambda: ProxyProtocol(make, timeout_s, secure, gateway.refused, may_connect)
