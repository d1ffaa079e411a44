"""The MQTT broker: all connections of a process, and what they share."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable, Coroutine
from time import monotonic

from penstock.broker.auth.access import Access
from penstock.broker.auth.limits import RateLimits
from penstock.broker.broker import Broker
from penstock.broker.topics.topics import Topics
from penstock.broker.webhooks.events import Event
from penstock.codecs.mqtt.errors import PacketError, ProtocolError
from penstock.codecs.mqtt.kinds import Version
from penstock.codecs.mqtt.reasons import ReasonCode
from penstock.core.errors import PenstockError
from penstock.gateways.mqtt.admin.admin import Admin
from penstock.gateways.mqtt.admin.complaints import Complaints, Recently
from penstock.gateways.mqtt.admin.counters import MqttCounters
from penstock.gateways.mqtt.admin.directory import PROTOCOLS, MqttDirectory
from penstock.gateways.mqtt.admin.system import SystemTopics
from penstock.gateways.mqtt.connection import Connection
from penstock.gateways.mqtt.inbound.arrival import Arrivals
from penstock.gateways.mqtt.inbound.refusals import OF_EVERYBODY
from penstock.gateways.mqtt.inbound.settlements import Settlements
from penstock.gateways.mqtt.inbound.turns import TURN_ROWS, Turns
from penstock.gateways.mqtt.options import MqttOptions
from penstock.gateways.mqtt.outbound.fanout import FanOut
from penstock.gateways.mqtt.outbound.outbox import Flusher
from penstock.gateways.mqtt.outbound.retained import RetainedMessages
from penstock.gateways.mqtt.protocol import MqttProtocol
from penstock.gateways.mqtt.sessions.registry import Registry
from penstock.gateways.mqtt.sessions.subscriptions import drop_forbidden
from penstock.gateways.port import InThisProcess
from penstock.gateways.wire.budget import Budget, usual_budget_bytes
from penstock.gateways.wire.listener import ListenerFacts
from penstock.log.upkeep.faults import Telling

logger = logging.getLogger("penstock.mqtt")

Periodic = Callable[[], Awaitable[None]]

_RECEIVE_BYTES = 256 << 10
_LOOK_AROUND_S = 1.0
_LOOKED_AT_ONCE = 1000
_CLOSING_TURNS, _CLOSING_TURN_S = 50, 0.02


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
        self.loop = asyncio.get_running_loop()
        self.broker, self.access, self.topics = broker, access, topics
        self.limits, self.options = limits, options
        self.sessions, self.retained = topics.sessions, topics.retained
        self.flusher = Flusher()
        memory_bytes = options.memory_bytes or usual_budget_bytes()
        self.budget = Budget(memory_bytes // 2, self._make_room)
        """of what clients have not taken"""
        self.incoming_bytes = max(memory_bytes // 4, 3 * options.max_packet_bytes)
        """at most, of packets that are not there whole: who sends is not refused for those who do not read"""
        self.names = Budget(memory_bytes // 4, _nothing)
        """of topic filters and topic aliases"""
        self.arrivals = Arrivals(TURN_ROWS)
        self.receive_buffer = memoryview(bytearray(_RECEIVE_BYTES))
        self.fanout = FanOut(broker.timeline)
        self.counters = MqttCounters(self)
        self.turns = Turns(self)
        self.settlements = Settlements(broker)
        self.admin = Admin(broker, access)
        self.publisher = broker.publisher()
        self.registry = Registry(self)
        self.directory = MqttDirectory(self)
        self.system = SystemTopics(self)
        self.retained_messages = RetainedMessages(self.retained)
        self._complaints = Complaints(self.loop.time)
        self._refusals = Recently(self.loop.time)
        self.telling = Telling(logger)
        self._connections: dict[Connection, None] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._timers: list[asyncio.Task[None]] = []
        self.is_closing = False
        self.accepted = 0
        self._dropped = self._sent = 0
        """by connections that are closed"""

    async def start(self) -> None:
        """Sessions of before collect again; clocks begin to run."""
        self.registry.restore()
        self.access.watch(self._look_at_permissions)
        self._timers = [
            self.loop.create_task(self._every(_LOOK_AROUND_S, self._look_around)),
        ]
        if self.options.sys_interval_s > 0:
            self._timers.append(self.loop.create_task(self._every(self.options.sys_interval_s, self.system.publish)))

    def protocol(self, listener: ListenerFacts) -> MqttProtocol:
        """For one connection."""
        return MqttProtocol(self, listener)

    def adopt(self, connection: socket.socket, peer: object, listener: ListenerFacts) -> None:
        """Serve a connection without a transport of asyncio."""
        self.turns.adopt(connection, listener, peer)

    # Connections

    @property
    def connection_count(self) -> int:
        return len(self._connections)

    @property
    def connections(self) -> list[Connection]:
        return list(self._connections)

    @property
    def subscription_count(self) -> int:
        return sum([len(router) for router in self.topics.routers])

    def opened(self, connection: Connection) -> None:
        self._connections[connection] = None
        self.accepted += 1

    def closed(self, connection: Connection) -> None:
        if connection in self._connections:
            del self._connections[connection]
            self._dropped += connection.dropped
            self._sent += connection.sent
            if connection.is_known and self.broker.webhooks.wants(Event.DISCONNECTED):
                facts = {**_facts(connection), "connected_s": round(monotonic() - connection.opened_s, 3)}
                self.broker.webhooks.tell(Event.DISCONNECTED, facts)

    @property
    def dropped(self) -> int:
        """Messages that their receivers had no room for."""
        now = sum([connection.dropped for connection in self._connections])
        return self._dropped + now + self.sessions.totals.dropped

    @property
    def sent(self) -> int:
        """Messages that went out to clients."""
        return self._sent + sum([connection.sent for connection in self._connections])

    def logged_in(self, connection: Connection) -> None:
        logger.debug("client connected client=%s peer=%s", connection.name, connection.peer)
        if self.broker.webhooks.wants(Event.CONNECTED):
            self.broker.webhooks.tell(Event.CONNECTED, _facts(connection))

    def refuse_if_closing(self, version: Version) -> None:
        if self.is_closing:
            raise ProtocolError("the server is shutting down", ReasonCode.SERVER_UNAVAILABLE, version)

    def count_failure(self, connection: Connection, error: PacketError) -> None:
        """A peer that breaks the protocol is heard of once a minute."""
        if self._complaints.is_due(connection.peer, error.reason):
            logger.warning(
                "connection closed peer=%s client=%s reason=%s detail=%s",
                connection.peer,
                connection.name,
                error.reason,
                error.detail,
            )

    def refused(self, peer: str, reason: str) -> None:
        """A layer in front of the protocol did not let somebody through."""
        if self._complaints.is_due(peer, ReasonCode.MALFORMED_PACKET):
            logger.warning("connection closed peer=%s detail=%s", peer, reason)

    def tell_refusal(self, connection: Connection, what: str, error: Exception, level: int = logging.INFO) -> None:
        """The client is told each time, as far as its version can; the log once a minute for each client and kind of
        request, and for all clients together where storage refuses everybody."""
        if isinstance(error, PenstockError) and error.code in OF_EVERYBODY:
            self.telling.warn(
                f"{what} {error.code.value}", f"{what} refused client=%s error=%s", connection.name, error
            )
        elif self._refusals.is_new(f"{what} {connection.name}"):
            logger.log(level, "%s refused client=%s error=%s", what, connection.name, error)

    def _make_room(self) -> None:
        """More waits for peers than all of them may leave lying: whoever leaves the most is cut off."""
        worst = max(self._connections, key=lambda each: each.outbox.counted_bytes, default=None)
        if worst is None or not worst.outbox.counted_bytes:
            return
        waiting = worst.outbox.counted_bytes
        self.counters.throttled["memory"] += 1
        text = "memory for connections is spent, those that take nothing are cut off client=%s waiting=%d budget=%d"
        self.telling.warn("memory", text, worst.name, waiting, self.budget.limit_bytes)
        worst.sacrifice()

    def tell_names_spent(self, client: str) -> None:
        self.counters.throttled["memory"] += 1
        text = "memory for topic filters and aliases is spent client=%s used=%d budget=%d"
        self.telling.warn("names", text, client, self.names.used_bytes, self.names.limit_bytes)

    def tell_lost_will(self, client_id: str, reason: str) -> None:
        """Once a minute: with a full disk every client that goes has one."""
        self.telling.warn("will", "will not published client=%s error=%s", client_id, reason)

    @property
    def failures(self) -> dict[ReasonCode, int]:
        return self._complaints.counts

    # Work beside connections

    def spawn(self, work: Coroutine[object, object, object]) -> None:
        """Somebody has to see what goes wrong in it."""

        async def run() -> None:
            try:
                await work
            except PenstockError as error:
                # What storage refuses it refuses to everybody, and says why itself.
                self.telling.warn("work", "work beside connections failed error=%s", error)
            except Exception:
                logger.exception("work beside connections failed")

        task = self.loop.create_task(run())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _every(self, seconds: float, work: Periodic) -> None:
        while True:
            await asyncio.sleep(seconds)
            try:
                await work()
            except PenstockError as error:
                self.telling.warn("periodic", "periodic work failed error=%s", error)
            except Exception:
                logger.exception("periodic work failed")

    async def _look_around(self) -> None:
        """Clients that are silent for too long, or never said who they are; what is due."""
        self.turns.turn()
        for number, connection in enumerate(self.connections):
            if number % _LOOKED_AT_ONCE == _LOOKED_AT_ONCE - 1:
                await asyncio.sleep(0)
            now = monotonic()
            if not connection.is_open:
                if now - connection.opened_s > self.options.connect_timeout_s:
                    connection.abort()
            elif (expires := connection.identity.expires_ms) is not None and expires <= self.broker.wall():
                connection.disconnect(ReasonCode.NOT_AUTHORIZED, "the login has expired")
            elif connection.keep_alive_s and now - self.turns.heard_s(connection) > connection.keep_alive_s:
                connection.disconnect(ReasonCode.KEEP_ALIVE_TIMEOUT, "nothing was heard for 1.5 times the keep alive")
        await self.registry.look_at_due()

    def _look_at_permissions(self) -> None:
        """Rules changed: subscriptions that are not allowed any more end."""
        for connection in self.connections:
            if connection.is_open:
                self.spawn(drop_forbidden(connection))

    # The end

    async def drain(self) -> None:
        """No new clients; those that are there are told, and what they sent is committed and answered."""
        self.is_closing = True
        for connection in self.connections:
            if connection.is_open:
                connection.stop_listening()
        while any(connection.has_unanswered for connection in self._connections):
            await self.broker.shard.drain()
            await asyncio.sleep(0)
        for connection in self.connections:
            connection.disconnect(ReasonCode.SERVER_SHUTTING_DOWN, "the server is shutting down")
        await asyncio.sleep(0)

    async def close(self) -> None:
        """Before the broker is closed."""
        self.is_closing = True
        for timer in self._timers:
            timer.cancel()
        for connection in self.connections:
            connection.close()
        for _ in range(_CLOSING_TURNS):
            if not self._connections:
                break
            await asyncio.sleep(_CLOSING_TURN_S)
        for connection in self.connections:
            connection.abort()
        await asyncio.sleep(0)
        while self._tasks:
            await asyncio.wait(list(self._tasks))
        self.turns.close()


def _facts(connection: Connection) -> dict[str, object]:
    """What a webhook is told of a client."""
    session = connection.session
    return {
        "client_id": session.client_id,
        "namespace": session.namespace,
        "user": connection.identity.name,
        "protocol": PROTOCOLS[session.version],
        "listener": connection.facts.name,
        "peer": connection.peer,
    }


def _nothing() -> None:
    """Whoever takes from it asks first."""
