"""Packets of one client that are neither publishes nor acknowledgements."""

from __future__ import annotations

from collections.abc import Coroutine

from penstock.codecs.mqtt.errors import ProtocolError
from penstock.codecs.mqtt.kinds import Sender
from penstock.codecs.mqtt.packets import Auth, Connect, Disconnect, Packet, PingReq, Subscribe, Unsubscribe
from penstock.codecs.mqtt.reasons import ReasonCode
from penstock.gateways.mqtt.connection import Connection
from penstock.gateways.mqtt.sessions.login import Login
from penstock.gateways.mqtt.sessions.subscriptions import Subscriptions

_PING_RESPONSE = b"\xd0\x00"


class Requests:
    def __init__(self, login: Login, subscriptions: Subscriptions) -> None:
        self._login, self._subscriptions = login, subscriptions

    def take(self, connection: Connection, packet: Packet) -> Coroutine[None, None, None] | None:
        """What has to be awaited before the next packet is looked at, if anything has to be."""
        connection.follow(Sender.CLIENT, packet)
        match packet:
            case Connect():
                return self._login.take_connect(connection, packet)
            case Auth():
                return self._login.take_auth(connection, packet)
            case Subscribe():
                return self._subscriptions.subscribe(connection, packet)
            case Unsubscribe():
                return self._subscriptions.unsubscribe(connection, packet)
            case PingReq():
                connection.outbox.write(_PING_RESPONSE)
            case Disconnect():
                self._take_disconnect(connection, packet)
            case _:
                raise ProtocolError(f"a client sent {packet.type.name}", version=connection.version)
        return None

    def _take_disconnect(self, connection: Connection, packet: Disconnect) -> None:
        connection.said_goodbye = packet.reason is ReasonCode.SUCCESS
        if packet.properties.session_expiry_interval_s is not None:
            self._login.change_expiry(connection, packet.properties.session_expiry_interval_s)
        connection.close()
