"""The MQTT broker: all connections of a process, and what they share."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from time import monotonic

from penstock.broker.auth.access import Access
from penstock.broker.auth.limits import RateLimits
from penstock.broker.broker import Broker
from penstock.broker.retained.retained import Retained
from penstock.broker.sessions.sessions import Sessions
from penstock.broker.webhooks.events import Event
from penstock.codecs.mqtt.errors import PacketError, ProtocolError
from penstock.codecs.mqtt.kinds import Version
from penstock.codecs.mqtt.reasons import ReasonCode
from penstock.gateways.listener import ListenerFacts
from penstock.gateways.mqtt.admin import Admin
from penstock.gateways.mqtt.arrival import Arrivals
from penstock.gateways.mqtt.bus import MqttBus
from penstock.gateways.mqtt.complaints import Complaints, Recently
from penstock.gateways.mqtt.connection import Connection
from penstock.gateways.mqtt.counters import MqttCounters
from penstock.gateways.mqtt.directory import PROTOCOLS, MqttDirectory
from penstock.gateways.mqtt.fanout import FanOut
from penstock.gateways.mqtt.feeder import Feeder
from penstock.gateways.mqtt.intake import Intake
from penstock.gateways.mqtt.joint_publishes import JointPublishes
from penstock.gateways.mqtt.options import MqttOptions
from penstock.gateways.mqtt.outbox import Flusher
from penstock.gateways.mqtt.protocol import MqttProtocol
from penstock.gateways.mqtt.registry import Registry
from penstock.gateways.mqtt.relay import Relay
from penstock.gateways.mqtt.retaining import RetainedMessages
from penstock.gateways.mqtt.router import Router
from penstock.gateways.mqtt.settlements import Settlements
from penstock.gateways.mqtt.subscribing import drop_forbidden
from penstock.gateways.mqtt.system import SystemTopics
from penstock.gateways.pace import Pace
from penstock.kernels.mqtt_scan import Scanner

logger = logging.getLogger("penstock.mqtt")

Periodic = Callable[[], Awaitable[None]]

_RECEIVE_BYTES = 256 << 10
# Packets of a scan; the smallest take 4 bytes.
_SCAN_ROWS = 8192
_LOOK_AROUND_S = 1.0
_LOOKED_AT_ONCE = 1000
_KEEP_UP_S = 5.0
_CLOSING_TURNS, _CLOSING_TURN_S = 50, 0.02


class MqttGateway:
    """Made and used on one event loop. `start()` it before the first connection, `drain()` and `close()` it in the
    end."""

    def __init__(
        self,
        broker: Broker,
        access: Access,
        sessions: Sessions,
        retained: Retained,
        limits: RateLimits,
        options: MqttOptions,
        pace: Pace | None = None,
    ) -> None:
        """`pace` is that of the loop, which is told what receives bring."""
        self.pace = pace or Pace()
        self.loop = asyncio.get_running_loop()
        self.broker, self.access, self.sessions = broker, access, sessions
        self.limits, self.options = limits, options
        self.retained = retained
        self.flusher = Flusher()
        self.feeder = Feeder()
        self.scanner = Scanner(_SCAN_ROWS)
        self.arrivals = Arrivals(_SCAN_ROWS)
        self.receive_buffer = memoryview(bytearray(_RECEIVE_BYTES))
        self.fanout = FanOut(options.shared_strategy, broker.now)
        self._routers: dict[str, Router] = {"default": Router()}
        self.counters = MqttCounters(self)
        self.intake = Intake(broker, self.router, self.fanout, sessions, retained)
        self.bus = MqttBus(self.intake, options)
        self.relay = Relay(self.scanner, broker, self.router, self.intake)
        self.joint = JointPublishes(self.scanner, broker, self.router, self.intake)
        self.settlements = Settlements(broker)
        self.admin = Admin(broker, access)
        self.publisher = broker.publisher()
        self.registry = Registry(self)
        self.directory = MqttDirectory(self)
        self.system = SystemTopics(self)
        self.retained_messages = RetainedMessages(retained)
        self._complaints = Complaints(self.loop.time)
        self._refusals = Recently(self.loop.time)
        self._connections: dict[Connection, None] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._timers: list[asyncio.Task[None]] = []
        self.is_closing = False
        self.accepted = 0
        self._dropped = self._sent = 0
        """by connections that are closed"""

    def start(self) -> None:
        """Sessions of before collect again; clocks begin to run."""
        self.registry.restore()
        self.access.watch(self._look_at_permissions)
        self._timers = [
            self.loop.create_task(self._every(_LOOK_AROUND_S, self._look_around)),
            self.loop.create_task(self._every(_KEEP_UP_S, self._keep_up)),
        ]
        if self.options.sys_interval_s > 0:
            self._timers.append(self.loop.create_task(self._every(self.options.sys_interval_s, self.system.publish)))

    def protocol(self, listener: ListenerFacts) -> MqttProtocol:
        """For one connection."""
        return MqttProtocol(self, listener)

    def router(self, namespace: str) -> Router:
        found = self._routers.get(namespace)
        if found is None:
            found = self._routers[namespace] = Router()
        return found

    @property
    def routers(self) -> list[Router]:
        return list(self._routers.values())

    # Connections

    @property
    def connection_count(self) -> int:
        return len(self._connections)

    @property
    def connections(self) -> list[Connection]:
        return list(self._connections)

    @property
    def subscription_count(self) -> int:
        return sum([len(router) for router in self._routers.values()])

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
        request."""
        if self._refusals.is_new(f"{what} {connection.name}"):
            logger.log(level, "%s refused client=%s error=%s", what, connection.name, error)

    @property
    def failures(self) -> dict[ReasonCode, int]:
        return self._complaints.counts

    # Work beside connections

    def spawn(self, work: Coroutine[object, object, object]) -> None:
        """Somebody has to see what goes wrong in it."""

        async def run() -> None:
            try:
                await work
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
            except Exception:
                logger.exception("periodic work failed")

    async def _look_around(self) -> None:
        """Clients that are silent for too long, or never said who they are; what is due."""
        for number, connection in enumerate(self.connections):
            if number % _LOOKED_AT_ONCE == _LOOKED_AT_ONCE - 1:
                await asyncio.sleep(0)
            now = monotonic()
            if not connection.is_open:
                if now - connection.opened_s > self.options.connect_timeout_s:
                    connection.abort()
            elif (expires := connection.identity.expires_ms) is not None and expires <= self.broker.now():
                connection.disconnect(ReasonCode.NOT_AUTHORIZED, "the login has expired")
            elif connection.keep_alive_s and now - connection.heard_s > connection.keep_alive_s:
                connection.disconnect(ReasonCode.KEEP_ALIVE_TIMEOUT, "nothing was heard for 1.5 times the keep alive")
        await self.registry.look_at_due()

    def _look_at_permissions(self) -> None:
        """Rules changed: subscriptions that are not allowed any more end."""
        for connection in self.connections:
            if connection.is_open:
                self.spawn(drop_forbidden(connection))

    async def _keep_up(self) -> None:
        now = self.broker.now()
        await self.sessions.keep_up(now)
        await self.retained.keep_up(now)

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
        await self.sessions.close()


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
