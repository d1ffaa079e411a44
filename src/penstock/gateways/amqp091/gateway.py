"""AMQP 0.9.1: all connections of a process, and what they share."""

from __future__ import annotations

import asyncio
import logging
import socket
from time import monotonic

from penstock.broker.auth.access import Access
from penstock.broker.auth.limits import RateLimits
from penstock.broker.broker import Broker
from penstock.broker.topics.topics import Topics
from penstock.codecs.amqp091.errors import AmqpError, Fault
from penstock.codecs.amqp091.methods import ConnectionClose
from penstock.gateways.amqp091.blocking import Blocking
from penstock.gateways.amqp091.checks import Checks
from penstock.gateways.amqp091.columns import ConnectionColumns
from penstock.gateways.amqp091.connection import Connection
from penstock.gateways.amqp091.connections import Connections
from penstock.gateways.amqp091.consuming import Consuming
from penstock.gateways.amqp091.counters import AmqpCounters
from penstock.gateways.amqp091.directory import AmqpDirectory
from penstock.gateways.amqp091.exchange_requests import ExchangeRequests
from penstock.gateways.amqp091.login import Login
from penstock.gateways.amqp091.messages import Messenger
from penstock.gateways.amqp091.modes import Modes
from penstock.gateways.amqp091.options import AmqpOptions, CurrentOptions
from penstock.gateways.amqp091.publishes import Publishes
from penstock.gateways.amqp091.queue_requests import QueueRequests
from penstock.gateways.amqp091.queues import Queues
from penstock.gateways.amqp091.replies import Replies
from penstock.gateways.amqp091.reports import Reports
from penstock.gateways.amqp091.requests import Requests
from penstock.gateways.amqp091.returns import Returns
from penstock.gateways.amqp091.routes import Routes
from penstock.gateways.amqp091.settlements import Settlements
from penstock.gateways.amqp091.turns import TURN_ROWS, Turns
from penstock.gateways.background import Background
from penstock.gateways.port import InThisProcess
from penstock.gateways.wire.budget import usual_budget_bytes
from penstock.gateways.wire.listener import ListenerFacts
from penstock.gateways.wire.outbox import Flusher
from penstock.gateways.wire.platform import open_reactor
from penstock.gateways.wire.reactor import ReactorOptions
from penstock.gateways.wire.slot_protocol import SlotProtocol
from penstock.gateways.wire.websocket import Spoken, one_message

logger = logging.getLogger("penstock.amqp")

_RECEIVE_BYTES = 256 << 10
_HIGH_WATER_BYTES = 64 << 10
_LOOK_AROUND_S = 0.5
_LOOKED_AT_ONCE = 1000
_SILENT_INTERVALS = 2
_CLOSING_TURNS, _CLOSING_TURN_S = 50, 0.02
_WEBSOCKET_BYTES = 32 << 20
_OVER_WEBSOCKET = Spoken("AMQP", "amqp", one_message)
_FORCED = "broker forced connection closure with reason 'shutdown'"


class AmqpGateway(InThisProcess):
    """Made and used on one event loop. `start()` it before the first connection, `drain()` and `close()` it in the
    end."""

    def __init__(
        self, broker: Broker, access: Access, topics: Topics, limits: RateLimits, options: AmqpOptions
    ) -> None:
        self._broker, self._access = broker, access
        self._options = current = CurrentOptions(options)
        memory_bytes = options.memory_bytes or usual_budget_bytes()
        self.reports = reports = Reports()
        self.background = Background(logger, reports.telling)
        flusher = Flusher(broker.soon)
        reactor = open_reactor(
            ReactorOptions(
                max_packet_bytes=max(2 * options.frame_max, 1 << 20),
                max_pieces_bytes=max(memory_bytes // 4, 4 << 20),
                high_water_bytes=_HIGH_WATER_BYTES,
            )
        )
        columns, routes = ConnectionColumns(reactor), Routes()
        self.connections = Connections(columns, current, limits, flusher, memory_bytes // 2, reports, broker.webhooks)
        replies, blocking = Replies(), Blocking()
        checks, returns = Checks(broker, access, current), Returns(broker, topics)
        messenger = Messenger(TURN_ROWS, routes)
        publishes = Publishes(broker, topics, messenger, checks, returns, replies, blocking, reports)
        settlements = Settlements(broker.settling)
        modes = Modes(broker, topics, publishes, checks, settlements, returns, blocking, routes, current)
        self._queues = queues = Queues(broker, self.background)
        login = Login(broker, access, current, self.connections)
        consuming = Consuming(broker, queues, replies, routes, current)
        queue_requests = QueueRequests(broker, queues, replies)
        requests = Requests(login, consuming, queue_requests, ExchangeRequests(broker), modes)
        self.turns = Turns(
            broker,
            reactor,
            columns,
            self.connections,
            login,
            requests,
            publishes,
            settlements,
            modes,
            flusher,
            current,
            reports,
        )
        self.connections.gone = queues.gone
        self.counters = AmqpCounters(self.connections, flusher, reports, reactor)
        self.directory = AmqpDirectory(self.connections)
        self._receive_buffer = memoryview(bytearray(_RECEIVE_BYTES))

    @property
    def options(self) -> AmqpOptions:
        return self._options.now

    @options.setter
    def options(self, options: AmqpOptions) -> None:
        self._options.now = options

    @property
    def handshake_timeout_s(self) -> float:
        return self.options.handshake_timeout_s

    @property
    def max_message_bytes(self) -> int:
        """Of a WebSocket: frames of the protocol may be cut anywhere."""
        return _WEBSOCKET_BYTES

    @property
    def spoken(self) -> Spoken:
        return _OVER_WEBSOCKET

    @property
    def connection_count(self) -> int:
        return len(self.connections)

    async def start(self) -> None:
        """Clocks begin to run."""
        self.background.every(_LOOK_AROUND_S, self._look_around)

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
        """Clients that are silent for too long, or never said who they are; those that have to hear from us."""
        self.turns.loop.turn()
        for number, connection in enumerate(self.connections):
            if number % _LOOKED_AT_ONCE == _LOOKED_AT_ONCE - 1:
                await asyncio.sleep(0)
            self._look_at(connection, monotonic())

    def _look_at(self, connection: Connection, now: float) -> None:
        if connection.is_lost:
            return
        if connection.is_overdue:
            connection.abort()
        elif connection.is_ended:
            return
        elif not connection.is_open:
            if now - connection.opened_s > self.options.handshake_timeout_s:
                self.reports.turned_away(connection.peer, "the handshake took too long")
                connection.abort()
        elif connection.heartbeat_s and (
            now - self.turns.heard_s(connection) > (_SILENT_INTERVALS + 0.5) * connection.heartbeat_s
            and not connection.parked
            and connection.waiting is None
        ):
            self.reports.turned_away(connection.peer, "missed heartbeats")
            connection.abort()
        elif (expires := connection.identity.expires_ms) is not None and expires <= self._broker.wall():
            connection.fail(AmqpError(Fault.FORCED, 0, reason="the login has expired"))
        else:
            connection.beat(now)
            self._look_at_held(connection, now)

    def _look_at_held(self, connection: Connection, now: float) -> None:
        timeout_s = self.options.delivery_timeout_s
        if timeout_s is None:
            return
        for channel in list(connection.channels.values()):
            oldest = channel.tags.oldest
            if oldest is not None and now - oldest.since_s > timeout_s:
                facts = {"channel": channel.number, "timeout_ms": int(timeout_s * 1000)}
                connection.fail(AmqpError(Fault.ACK_TIMEOUT, channel.number, **facts))

    # The end

    async def drain(self) -> None:
        """No new clients; those that are there are told, and what they sent is committed and answered."""
        self.connections.is_closing = True
        for connection in self.connections:
            if connection.is_open:
                connection.transport.pause_reading()
        while any(connection.has_unconfirmed for connection in self.connections):
            await self._broker.shard.drain()
            await asyncio.sleep(0)
        reply = AmqpError(Fault.FORCED, 0, reason=_FORCED).close()
        for connection in self.connections:
            if connection.is_open:
                assert isinstance(reply, ConnectionClose)
                connection.close_by(reply)
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
