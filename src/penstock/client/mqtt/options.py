"""How a client connects, and what it may keep in memory."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from penstock.codecs.mqtt.kinds import Version
from penstock.codecs.mqtt.packets import Will

PORT, TLS_PORT, WEBSOCKET_PORT = 1883, 8883, 8083
MAX_UNANSWERED = {Version.V5: 1000, Version.V3_1_1: 20}


@dataclass(frozen=True, slots=True)
class Reconnect:
    """Each failure doubles the wait, up to the longest; the wait is drawn from its upper half, so that the clients of a
    server that comes back do not all come at once."""

    first_delay_s: float = 0.2
    longest_delay_s: float = 30.0
    max_attempts: int | None = None
    """in a row, without a connection that has lasted for the longest delay; None tries for ever"""


class Authentication(Protocol):
    """An exchange of AUTH of MQTT 5, client's side; begins anew with each `first`."""

    method: str

    def first(self) -> bytes: ...

    def answer(self, challenge: bytes) -> bytes: ...

    def finish(self, data: bytes) -> None:
        """What the server said last; Refused if it has not proved who it is."""
        ...


@dataclass(frozen=True, slots=True)
class MqttOptions:
    host: str = "127.0.0.1"
    port: int | None = None
    """None is the usual one: 1883, with TLS 8883, with a WebSocket 8083"""
    version: Version = Version.V5
    client_id: str = ""
    """empty asks the server for one"""
    clean_start: bool = True
    """of the first connection; later ones go on with the session, if the server still has it. In MQTT 3.1.1 a clean
    session ends with its connection."""
    session_expiry_s: int = 0
    """how long the server keeps the session without a connection; of MQTT 5"""
    keep_alive_s: int = 60
    username: str | None = None
    password: bytes | None = field(default=None, repr=False)
    authentication: Authentication | None = None
    """in place of a password, or beside it"""
    will: Will | None = None
    tls: ssl.SSLContext | None = None
    tls_server_name: str | None = None
    """whom the certificate must name; None is the host"""
    websocket_path: str | None = None
    """over WebSocket, at this path"""
    connect_timeout_s: float = 10.0
    """for the whole of it: name look-up, TCP, TLS, WebSocket, CONNACK"""
    reconnect: Reconnect | None = Reconnect()
    """when an established connection is lost; None ends the client then"""
    manual_ack: bool = False
    """messages are acknowledged by `ack()`, not when they are handed out"""
    max_buffered_messages: int = 1000
    """received and not taken; then nothing more is read. Of MQTT 5 it is the receive maximum as well."""
    max_buffered_bytes: int = 16 << 20
    max_unanswered: int | None = None
    """messages of QoS 1 and 2 under way; a server of MQTT 5 may ask for fewer. None is 1000, and 20 in MQTT 3.1.1,
    where a server cannot say what it takes"""
    max_packet_bytes: int = 16 << 20
    """received; a longer packet ends the connection"""
    user_properties: tuple[tuple[str, str], ...] = ()
    """of CONNECT; of MQTT 5. (`create-queues`, `false`) makes Penstock refuse what would make a queue"""
    on_reason_string: Callable[[str], None] | None = None
    """called on the event loop with what the server says of a request that it did, like a queue that it made for it"""

    @property
    def address(self) -> tuple[str, int]:
        if self.port is not None:
            return self.host, self.port
        if self.websocket_path is not None:
            return self.host, WEBSOCKET_PORT
        return self.host, PORT if self.tls is None else TLS_PORT

    @property
    def window(self) -> int:
        return MAX_UNANSWERED[self.version] if self.max_unanswered is None else self.max_unanswered

    def __str__(self) -> str:
        host, port = self.address
        return f"{host}:{port}"
