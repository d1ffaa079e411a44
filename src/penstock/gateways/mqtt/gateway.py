"""The MQTT broker: all connections of a process, and what they share."""

from __future__ import annotations

import asyncio
import logging
import socket
from time import monotonic

from penstock.broker.auth.access import Access
from penstock.broker.auth.limits import RateLimits
from penstock.broker.broker import Broker
from penstock.broker.topics.topics import Topics
from penstock.codecs.mqtt.reasons import ReasonCode
from penstock.gateways.background import Background
from penstock.gateways.mqtt.admin.admin import Admin
from penstock.gateways.mqtt.admin.counters import MqttCounters
from penstock.gateways.mqtt.admin.directory import MqttDirectory
from penstock.gateways.mqtt.admin.reports import Reports
from penstock.gateways.mqtt.admin.system import SystemTopics
from penstock.gateways.mqtt.connections import Connections
from penstock.gateways.mqtt.inbound.client_columns import ClientColumns
from penstock.gateways.mqtt.inbound.own_publishes import OwnPublishes
from penstock.gateways.mqtt.inbound.publishes import Publishes
from penstock.gateways.mqtt.inbound.requests import Requests
from penstock.gateways.mqtt.inbound.scanned import TURN_ROWS
from penstock.gateways.mqtt.inbound.settlements import Settlements
from penstock.gateways.mqtt.inbound.turns import Turns
from penstock.gateways.mqtt.options import CurrentOptions, MqttOptions
from penstock.gateways.mqtt.sessions.login import Login
from penstock.gateways.mqtt.sessions.registry import Registry
from penstock.gateways.mqtt.sessions.subscriptions import Subscriptions
from penstock.gateways.port import InThisProcess
from penstock.gateways.wire.budget import Budget, usual_budget_bytes
from penstock.gateways.wire.listener import ListenerFacts
from penstock.gateways.wire.outbox import Flusher
from penstock.gateways.wire.platform import open_reactor
from penstock.gateways.wire.reactor import ReactorOptions
from penstock.gateways.wire.slot_protocol import SlotProtocol
from penstock.gateways.wire.websocket import Spoken
from penstock.kernels.mqtt_encode import frame_packets
from penstock.kernels.mqtt_scan import Scanner

logger = logging.getLogger("penstock.mqtt")

_RECEIVE_BYTES = 256 << 10
_HIGH_WATER_BYTES = 64 << 10
_LOOK_AROUND_S = 1.0
_LOOKED_AT_ONCE = 1000
_CLOSING_TURNS, _CLOSING_TURN_S = 50, 0.02

OVER_WEBSOCKET = Spoken("MQTT", "mqtt", frame_packets)
"""a message a packet: there are clients that depend on it"""


class MqttGateway(InThisProcess):
    """Made and used on one event loop. `start()` it before the first connection, `drain()` and `close()` it in the
    end."""

    def __init__(
        self,
        broker: Broker,
        access: Access,
        topics: Topics,
        limits: RateLimits,
        options: MqttOptions,
    ) -> None:
        self._broker, self._access = broker, access
        self._options = current = CurrentOptions(options)
        memory_bytes = options.memory_bytes or usual_budget_bytes()
        longest_bytes = max(options.max_packet_bytes, options.max_packet_bytes_before_login)
        self.incoming_bytes = max(memory_bytes // 4, 3 * longest_bytes)
        """at most, of packets that are not there whole: who sends is not refused for those who do not read"""
        self.names = Budget(memory_bytes // 4, _nothing)
        """of what clients have the server keep: topic filters, topic aliases, wills, identifiers of QoS 2"""
        self.reports = reports = Reports(asyncio.get_running_loop().time, self.names)
        self.background = Background(logger, reports.telling)
        flusher, scanner = Flusher(broker.soon), Scanner(TURN_ROWS)
        reactor = open_reactor(
            ReactorOptions(
                max_packet_bytes=max(longest_bytes, 1 << 20),
                max_pieces_bytes=self.incoming_bytes,
                high_water_bytes=_HIGH_WATER_BYTES,
            )
        )
        columns = ClientColumns(reactor)
        self.connections = Connections(
            columns, current, limits, flusher, memory_bytes // 2, self.names, reports, broker.webhooks
        )
        self._subscriptions = Subscriptions(broker, topics, current, self.names, reports, self.background)
        self.registry = Registry(
            broker, topics, access, current, self.names, self._subscriptions, reports, self.background
        )
        login = Login(broker, topics, access, current, self.connections, self.registry)
        admin = Admin(broker, access, reports)
        own_publishes = OwnPublishes(broker, topics, Settlements(broker, reports), admin, reports)
        publishes = Publishes(
            reactor, scanner, columns, self.connections.by_slot, broker, topics, access, flusher, own_publishes
        )
        self.turns = Turns(
            reactor,
            scanner,
            columns,
            self.connections,
            publishes,
            Requests(login, self._subscriptions),
            self.registry.disconnected,
            broker.shard,
            broker.feeder,
            flusher,
            current,
            reports,
        )
        self.counters = MqttCounters(self.connections, topics, flusher, reports, reactor)
        self.directory = MqttDirectory(self.registry, broker)
        self.system = SystemTopics(broker, topics, admin, self.registry, self.counters)
        self._receive_buffer = memoryview(bytearray(_RECEIVE_BYTES))

    @property
    def options(self) -> MqttOptions:
        return self._options.now

    @options.setter
    def options(self, options: MqttOptions) -> None:
        self._options.now = options

    @property
    def handshake_timeout_s(self) -> float:
        return self.options.connect_timeout_s

    @property
    def max_message_bytes(self) -> int:
        return self.options.max_packet_bytes

    @property
    def spoken(self) -> Spoken:
        return OVER_WEBSOCKET

    @property
    def connection_count(self) -> int:
        return len(self.connections)

    async def start(self) -> None:
        """Sessions of before collect again; clocks begin to run."""
        self.registry.restore()
        self._access.watch(self._look_at_permissions)
        self.background.every(_LOOK_AROUND_S, self._look_around)
        if self.options.sys_interval_s > 0:
            self.background.every(self.options.sys_interval_s, self.system.publish)

    def protocol(self, listener: ListenerFacts) -> SlotProtocol:
        """For one connection."""
        return SlotProtocol(self.turns.loop, self._receive_buffer, listener)

    def adopt(self, connection: socket.socket, peer: object, listener: ListenerFacts) -> None:
        """Serve a connection without a transport of asyncio."""
        self.turns.loop.adopt(connection, listener, peer)

    def refused(self, peer: str, reason: str) -> None:
        """A layer in front of the protocol did not let somebody through."""
        self.reports.turned_away(peer, reason)

    async def _look_around(self) -> None:
        """Clients that are silent for too long, or never said who they are; what is due."""
        self.turns.loop.turn()
        for number, connection in enumerate(self.connections):
            if number % _LOOKED_AT_ONCE == _LOOKED_AT_ONCE - 1:
                await asyncio.sleep(0)
            now = monotonic()
            if not connection.is_open:
                if now - connection.opened_s > self.options.connect_timeout_s:
                    connection.abort()
            elif (expires := connection.identity.expires_ms) is not None and expires <= self._broker.wall():
                connection.disconnect(ReasonCode.NOT_AUTHORIZED, "the login has expired")
            elif connection.keep_alive_s and now - self.turns.heard_s(connection) > connection.keep_alive_s:
                connection.disconnect(ReasonCode.KEEP_ALIVE_TIMEOUT, "nothing was heard for 1.5 times the keep alive")
        await self.registry.look_at_due()

    def _look_at_permissions(self) -> None:
        """Rules changed: subscriptions that are not allowed any more end."""
        for connection in self.connections:
            if connection.is_open:
                self.background.spawn(self._subscriptions.drop_forbidden(connection))

    # The end

    async def drain(self) -> None:
        """No new clients; those that are there are told, and what they sent is committed and answered."""
        self.connections.is_closing = True
        for connection in self.connections:
            if connection.is_open:
                connection.stop_listening()
        while any(connection.has_unanswered for connection in self.connections):
            await self._broker.shard.drain()
            await asyncio.sleep(0)
        for connection in self.connections:
            connection.disconnect(ReasonCode.SERVER_SHUTTING_DOWN, "the server is shutting down")
        await asyncio.sleep(0)

    async def close(self) -> None:
        """Before the broker is closed."""
        self.connections.is_closing = True
        self.background.stop()
        for connection in self.connections:
            connection.close()
        for _ in range(_CLOSING_TURNS):
            if not len(self.connections):
                break
            await asyncio.sleep(_CLOSING_TURN_S)
        for connection in self.connections:
            connection.abort()
        await asyncio.sleep(0)
        await self.background.finish()
        self.turns.loop.close()


def _nothing() -> None:
    """Whoever takes from it asks first."""
