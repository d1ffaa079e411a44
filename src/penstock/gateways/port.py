"""What a server knows of a protocol: a door, one of a list."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from penstock.gateways.wire.listener import Inner, ListenerFacts
from penstock.gateways.wire.websocket import Spoken


class Door(Protocol):
    """Used from the loop: start(), then connections, then drain() and close(), which is called after a start that
    failed, too."""

    @property
    def connection_count(self) -> int: ...

    @property
    def addresses(self) -> Mapping[str, tuple[str, int]]:
        """Of listeners of its own, in a process beside the server; others are the server's."""
        ...

    @property
    def not_accepting(self) -> list[str]:
        """The names of those that do not accept connections now."""
        ...

    async def start(self) -> None:
        """Connections may come. CannotListen for a listener of its own."""
        ...

    async def drain(self) -> None:
        """What was taken is committed and answered; connections end."""
        ...

    async def close(self) -> None:
        """Before the broker is closed."""
        ...


class StreamDoor(Door, Protocol):
    """Its connections are accepted by the server."""

    @property
    def handshake_timeout_s(self) -> float:
        """From accepting a connection to its login, layers in front of the protocol included."""
        ...

    @property
    def max_message_bytes(self) -> int:
        """Of a WebSocket that carries it."""
        ...

    @property
    def spoken(self) -> Spoken | None:
        """Over WebSocket; None where there is none."""
        ...

    def protocol(self, listener: ListenerFacts) -> Inner:
        """For one connection. It can also be fed by a layer in front of the socket."""
        ...

    def refused(self, peer: str, reason: str) -> None:
        """A layer in front of the protocol did not let somebody through."""
        ...


class InThisProcess:
    """A door without listeners of its own."""

    @property
    def addresses(self) -> Mapping[str, tuple[str, int]]:
        return {}

    @property
    def not_accepting(self) -> list[str]:
        return []
