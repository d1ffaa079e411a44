"""What is under way to one client: who hears that it arrived, and what the client is told next."""

from __future__ import annotations

from array import array
from collections.abc import Coroutine, Sequence
from typing import Protocol

from penstock.broker.broker import Broker
from penstock.broker.feed.held import Held
from penstock.broker.sessions.sessions import Sessions
from penstock.broker.topics.router import Router
from penstock.codecs.mqtt.inflight import Incoming
from penstock.codecs.mqtt.kinds import PacketType, Version
from penstock.codecs.mqtt.reasons import ReasonCode
from penstock.gateways.mqtt.outbound.queue_consumer import QueueConsumer
from penstock.gateways.mqtt.outbound.queue_line import QueueLine
from penstock.gateways.mqtt.outbound.stored_feed import StoredFeed, Taker
from penstock.gateways.mqtt.sessions.session import Session
from penstock.kernels.mqtt_encode import encode_acks


class Answering(Taker, Protocol):
    """A client that says what became of what it was sent."""

    incoming: Incoming

    def pump(self) -> None:
        """The client takes more."""

    def released(self, count: int) -> None:
        """So many identifiers of QoS 2 may be free."""


class Deliveries:
    """Of one connection. Messages for nobody in particular need no owner: they are forgotten when they were sent."""

    __slots__ = ("_broker", "_client", "_line", "_session", "_sessions", "consumers", "feed")

    def __init__(self, client: Answering, session: Session, broker: Broker, sessions: Sessions, router: Router) -> None:
        self._client, self._session, self._broker, self._sessions = client, session, broker, sessions
        self.feed = None if session.stored is None else StoredFeed(client, session, session.stored, router)
        self.consumers: dict[str, QueueConsumer] = {}
        """by filter"""
        self._line: QueueLine | None = None

    def take(self, kind: PacketType, packet_ids: array[int], reasons: array[int]) -> Coroutine[None, None, None] | None:
        """PUBACK, PUBREC, PUBREL or PUBCOMP of these identifiers."""
        if kind is PacketType.PUBREL:
            return self._take_releases(packet_ids)
        has_reasons = any(reasons)
        settled = self._client.sender.outgoing.receive(kind, packet_ids, reasons if has_reasons else ())
        if settled.finished or settled.refused:
            self._tell(kind, settled.finished, settled.refused)
        work = self._release(settled.release, settled.not_found) if settled.release or settled.not_found else None
        self._client.pump()
        return work

    def _tell(self, kind: PacketType, finished: list[int], refused: list[int]) -> None:
        if shared := self._client.sender.shared:
            shared.settled([*finished, *refused])
        if self.feed is not None:
            self.feed.settled(kind, [*finished, *refused])
        if self._line is not None and self._line.flights:
            self._settle(finished, refused)

    @property
    def line(self) -> QueueLine:
        """Most clients consume no queue."""
        if self._line is None:
            self._line = QueueLine(self._broker, self._session, self._client.sender, self._client.broke)
        return self._line

    def _settle(self, finished: list[int], refused: list[int]) -> None:
        """Messages of queues are done, or have failed."""
        settling, flights = self._broker.settling, self.line.flights
        if finished:
            settling.runs(*flights.take(finished), is_awaited=False)
        for delivery, first, stop in zip(*flights.take(refused), strict=True) if refused else ():
            settling.fail(Held(delivery, range(first, stop)))

    def _release(self, packet_ids: list[int], unknown: list[int]) -> Coroutine[None, None, None] | None:
        """PUBREL, after it is known for ever that the client has the message."""
        if self.feed is not None and (mine := self.feed.received(packet_ids)):
            return self._release_after(mine, packet_ids, unknown)
        self._send(PacketType.PUBREL, packet_ids, unknown)
        return None

    async def _release_after(self, mine: list[int], packet_ids: list[int], unknown: list[int]) -> None:
        stored = self._session.stored
        assert stored is not None
        await stored.received(mine)
        self._send(PacketType.PUBREL, packet_ids, unknown)

    def _take_releases(self, packet_ids: array[int]) -> Coroutine[None, None, None] | None:
        released = self._client.incoming.pubrel(packet_ids)
        self._client.released(len(packet_ids))
        if self._session.stored is not None and released.known:
            return self._complete_after(released.known, released.not_found)
        self._send(PacketType.PUBCOMP, released.known, released.not_found)
        return None

    async def _complete_after(self, known: list[int], unknown: list[int]) -> None:
        """An identifier that was used again while we still hold it would pass for a message that came twice."""
        stored = self._session.stored
        assert stored is not None
        await self._sessions.released(stored, known)
        self._send(PacketType.PUBCOMP, known, unknown)

    def _send(self, kind: PacketType, known: Sequence[int], unknown: Sequence[int]) -> None:
        version, outbox = self._session.version, self._client.sender.outbox
        if known:
            outbox.write(encode_acks(kind, array("i", known), None, version))
        if unknown:
            why = array("i", [ReasonCode.PACKET_IDENTIFIER_NOT_FOUND]) * len(unknown)
            outbox.write(encode_acks(kind, array("i", unknown), why if version is Version.V5 else None, version))

    def pump(self) -> None:
        if self.feed is not None:
            self.feed.pump()
        if self._line is not None:
            self._line.pump()

    def close(self) -> None:
        """The connection is gone."""
        if self.feed is not None:
            self.feed.close()
        for consumer in list(self.consumers.values()):
            consumer.close()
        self.consumers.clear()

    def let_go(self) -> None:
        """Of the connection, after close()."""
        self.feed = None
        if self._line is not None:
            self._line.let_go()
        del self._client
