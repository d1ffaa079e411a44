"""One client while it is connected: what it agreed on, what is sent to it, and how it ends."""

from __future__ import annotations

import asyncio
import logging
from array import array
from collections.abc import Coroutine, Sequence
from functools import partial
from time import monotonic

from penstock.broker.auth.identity import Identity
from penstock.broker.auth.limits import ClientRates
from penstock.broker.auth.permissions import Permissions
from penstock.broker.broker import Broker
from penstock.broker.publish.publisher import Publisher
from penstock.broker.topics.topics import Topics
from penstock.codecs.mqtt.encode import encode_refusal, encode_within
from penstock.codecs.mqtt.errors import PacketError, ProtocolError
from penstock.codecs.mqtt.inflight import Arrived, Incoming
from penstock.codecs.mqtt.kinds import MAX_PACKET_BYTES, PacketType, Version
from penstock.codecs.mqtt.kinds import Sender as Side
from penstock.codecs.mqtt.packets import Disconnect, Packet
from penstock.codecs.mqtt.properties import Properties
from penstock.codecs.mqtt.reasons import ReasonCode
from penstock.codecs.mqtt.state import Connection as Order
from penstock.codecs.mqtt.state import State
from penstock.core.errors import PenstockError
from penstock.gateways.mqtt.admin.reports import Reports
from penstock.gateways.mqtt.inbound.answers import Answers
from penstock.gateways.mqtt.inbound.client_columns import ClientColumns
from penstock.gateways.mqtt.inbound.scanned import Scanned
from penstock.gateways.mqtt.inbound.topic_aliases import HeardAliases, OutOfNames, TopicAliases
from penstock.gateways.mqtt.options import CurrentOptions, QueuedPolicy
from penstock.gateways.mqtt.outbound.backlog import Backlog
from penstock.gateways.mqtt.outbound.deliveries import Deliveries
from penstock.gateways.mqtt.outbound.sender import Sender
from penstock.gateways.mqtt.sessions.exchange import Exchange
from penstock.gateways.mqtt.sessions.session import FEW_HELD, Session
from penstock.gateways.wire.budget import Budget
from penstock.gateways.wire.listener import ListenerFacts
from penstock.gateways.wire.outbox import Outbox
from penstock.gateways.wire.slot import SlotTransport
from penstock.kernels import mqtt_columns as names
from penstock.kernels import mqtt_rows, rows

logger = logging.getLogger("penstock.mqtt")

_KIND = 0xF0
_ACKNOWLEDGEMENTS = (PacketType.PUBACK, PacketType.PUBREC, PacketType.PUBREL, PacketType.PUBCOMP)
_KINDS = {kind.value: kind for kind in _ACKNOWLEDGEMENTS}
_NOTHING_CAME = Arrived()


class Connection:
    """`session`, `permissions` and what sends are there from the login on."""

    session: Session
    identity: Identity
    permissions: Permissions
    sender: Sender
    answers: Answers
    deliveries: Deliveries
    publisher: Publisher
    incoming: Incoming
    """of the session, which has another one when it goes on"""

    __slots__ = (
        "_columns",
        "_is_lost",
        "_names",
        "_options",
        "_order",
        "_reports",
        "_room",
        "alias_maximum",
        "answers",
        "came",
        "deliveries",
        "exchange",
        "facts",
        "heard_aliases",
        "identity",
        "incoming",
        "is_assigned",
        "is_ended",
        "is_open",
        "keep_alive_s",
        "makes_queues",
        "max_packet_bytes",
        "opened_s",
        "outbox",
        "permissions",
        "publisher",
        "rates",
        "said_goodbye",
        "sender",
        "session",
        "tells_problems",
        "topic_aliases",
        "transport",
    )

    def __init__(
        self,
        transport: SlotTransport,
        facts: ListenerFacts,
        outbox: Outbox,
        rates: ClientRates,
        columns: ClientColumns,
        names: Budget,
        options: CurrentOptions,
        reports: Reports,
    ) -> None:
        self.transport, self.facts, self.outbox, self.rates = transport, facts, outbox, rates
        self._columns, self._names, self._options, self._reports = columns, names, options, reports
        self._order = Order()
        self.is_open = self.is_ended = False
        """let in and not gone; gone, or about to be"""
        self.exchange: Exchange | None = None
        """while it is not known who it is, or it says so again"""
        self.is_assigned = False
        """the broker made up the client id"""
        self.max_packet_bytes, self.tells_problems = MAX_PACKET_BYTES, True
        """what the client takes, and whether it wants to be told more than a reason: from CONNECT on"""
        self.makes_queues = True
        """by publishing and subscribing to those that are not there; from CONNECT on"""
        self.alias_maximum = 0
        self.topic_aliases: TopicAliases | None = None
        """those to the client; the others are `heard_aliases`"""
        self.keep_alive_s = 0.0
        self.opened_s = monotonic()
        self.said_goodbye = False
        """a DISCONNECT that wants no will came"""
        self.heard_aliases = HeardAliases(names)
        self.came = _NOTHING_CAME
        """what was held last: see hold()"""
        self._is_lost = False
        self._room: asyncio.Event | None = None
        """made when somebody waits for the client to take more"""

    # What it is

    @property
    def version(self) -> Version | None:
        return self._order.version

    @property
    def peer(self) -> str:
        """Its address."""
        found = self.transport.get_extra_info("peername")
        return str(found[0]) if isinstance(found, tuple) else str(found or "local")

    @property
    def certificate(self) -> dict[str, object] | None:
        found = self.transport.get_extra_info("peercert")
        return found if isinstance(found, dict) and found else None

    @property
    def dropped(self) -> int:
        """Messages for which there was no room, beside those of its stored session."""
        return self.sender.dropped + self.sender.backlog.dropped if hasattr(self, "sender") else 0

    @property
    def received(self) -> int:
        """Messages that the client published."""
        return 0 if self._is_lost else self._columns.received[self.transport.slot]

    @property
    def sent(self) -> int:
        """Messages that went out."""
        return self.sender.sent if hasattr(self, "sender") else 0

    @property
    def is_about_to_send(self) -> bool:
        """Whether there is something stored that the client would take now."""
        feed = self.deliveries.feed
        return feed is not None and feed.is_about_to_send

    def begin(
        self,
        session: Session,
        identity: Identity,
        permissions: Permissions,
        backlog: Backlog,
        broker: Broker,
        topics: Topics,
    ) -> None:
        """The client is let in."""
        self.session, self.identity, self.permissions = session, identity, permissions
        self.publisher = broker.publisher()
        self.sender = Sender(self.outbox, session.outgoing, backlog, session.version, broker.now, self.overflown)
        # Not a method of this one: it would go in a circle.
        encode = partial(_encoded, session.version, self.max_packet_bytes, self.tells_problems)
        columns, slot = self._columns, self.transport.slot
        self.answers = Answers(self.outbox, session.version, encode, columns, slot)
        self.deliveries = Deliveries(self, session, broker, topics.sessions, topics.router(session.namespace))
        self.incoming = session.incoming
        self.incoming.count_at(columns.unanswered, slot)

    # Packets

    def follow(self, side: Side, packet: Packet) -> None:
        """ProtocolError if the packet may not come now from that side."""
        self._order.take(side, packet)
        self._look_at_order()

    def hold(self, packet_ids: Sequence[int]) -> None:
        """Messages of QoS 2 came with these. ProtocolError if they are too many, of its own or of all."""
        self.came = self.incoming.publish_qos_2(packet_ids)
        if self.incoming.held_count > FEW_HELD:
            self.session.claim(self._names)
            if self.session.claimed_bytes > self._names.room_bytes:
                raise OutOfNames(
                    "the server has no memory left for unfinished QoS 2 messages", ReasonCode.QUOTA_EXCEEDED
                )

    def released(self, count: int) -> None:
        """So many identifiers of QoS 2 may be free."""
        if self.incoming.held_count + count > FEW_HELD:
            self.session.claim(self._names)

    def take_acknowledgements(self, scanned: Scanned) -> Coroutine[None, None, None] | None:
        """Those that a scan found, whatever else did it find."""
        [heads] = scanned.pick((names.HEAD,))
        if heads.count(heads[0]) == len(heads):
            # What is nearly always so.
            return self._take_kind(scanned, _KINDS[heads[0] >> 4], None)
        found = array("i", bytes(4 * len(heads)))
        work = None
        for kind in _ACKNOWLEDGEMENTS:
            count = mqtt_rows.pick_rows(heads, _KIND, kind << 4, found)
            if count:
                work = _both(work, self._take_kind(scanned, kind, found[:count]))
        return work

    def spend(self, messages: int) -> Coroutine[None, None, None] | None:
        """The pause that the client's rate asks for, if any."""
        wait_s = self.rates.messages.spend(messages)
        if not wait_s:
            return None
        self._reports.throttled["message-rate"] += 1
        return asyncio.sleep(wait_s)

    def _take_kind(
        self, scanned: Scanned, kind: PacketType, wanted: array[int] | None
    ) -> Coroutine[None, None, None] | None:
        """Acknowledgements of one kind."""
        ids, reasons = scanned.pick((names.PACKET_ID, names.REASON))
        if wanted is not None:
            mine, why = array("i", bytes(4 * len(wanted))), array("i", bytes(4 * len(wanted)))
            rows.take_int32(ids, wanted, mine)
            rows.take_int32(reasons, wanted, why)
            ids, reasons = mine, why
        return self.deliveries.take(kind, ids, reasons)

    def _look_at_order(self) -> None:
        self.is_open = self._order.is_open
        self.is_ended = self._is_lost or self._order.state in (State.CLOSING, State.CLOSED)

    # Sending and ending

    def send(self, packet: Packet) -> None:
        """ProtocolError, which ends the connection, if the client does not take a packet of its size."""
        data = self._encoded(packet)
        self.follow(Side.SERVER, packet)
        self.outbox.write(data)

    def refuse_unless_fitting(self, packet: Packet) -> None:
        """ProtocolError if it could not be sent: before anything is done that it would be the answer to."""
        self._encoded(packet)

    def _encoded(self, packet: Packet) -> bytes:
        assert self.version is not None
        return _encoded(self.version, self.max_packet_bytes, self.tells_problems, packet)

    def pump(self) -> None:
        """The client takes more."""
        if self.is_open:
            self.sender.pump()
            self.deliveries.pump()
            self._tell_room()

    @property
    def has_unanswered(self) -> bool:
        return self.is_open and len(self.answers) > 0

    async def has_room(self) -> bool:
        """Wait until the client takes more; False if it is gone."""
        while not self.is_ended and not self.sender.room:
            await self.pumped()
        return not self.is_ended

    async def pumped(self) -> None:
        """Returns when the client has taken something, or is gone."""
        if self._room is None:
            self._room = asyncio.Event()
        self._room.clear()
        await self._room.wait()

    def _tell_room(self) -> None:
        if self._room is not None:
            self._room.set()

    def overflown(self) -> None:
        """More waits for the client than may."""
        if self._options.now.queued_policy is QueuedPolicy.DISCONNECT:
            self.disconnect(ReasonCode.QUOTA_EXCEEDED, "too many messages wait for this client")

    def stop_listening(self) -> None:
        """What the client sends from now on is not taken."""
        if not self.is_ended:
            self.transport.pause_reading()

    def disconnect(self, reason: ReasonCode, detail: str = "") -> None:
        """Tell the client why, as far as its version can, and close."""
        if self.is_open and self.version is Version.V5:
            self.send(Disconnect(reason, Properties(reason_string=detail or None)))
        self.close()

    def fail(self, error: PacketError) -> None:
        """The client has broken the protocol, or cannot be served."""
        if self.is_ended:
            return
        self._reports.failed(self.name, self.peer, error)
        error.version = error.version or self.version
        if data := encode_refusal(error, self.is_open, self.max_packet_bytes):
            self.outbox.write(data)
        self.close()

    def broke(self, error: BaseException) -> None:
        """Something went wrong here; this client pays for it, no other."""
        if isinstance(error, PacketError):
            self.fail(error)
            return
        detail = str(error)
        if not isinstance(error, PenstockError):
            logger.error("connection failed client=%s", self.name, exc_info=error)
            detail = "something went wrong in the server"
        self.fail(ProtocolError(detail, ReasonCode.UNSPECIFIED_ERROR))

    def uncommitted(self, error: PenstockError) -> None:
        """Nothing that it published was acknowledged: it sends it again when it comes back."""
        self.fail(ProtocolError(f"a publish could not be committed: {error}", ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR))

    def close(self) -> None:
        """Nothing more of it is taken."""
        if self._is_lost:
            return
        self._order.close()
        self._look_at_order()
        self._columns.versions[self.transport.slot] = 0
        self.outbox.flush()
        self.transport.close()

    def abort(self) -> None:
        self.transport.abort()

    def sacrifice(self) -> None:
        """Cut off without a word, which would not be read either: what waits for it is the memory of others."""
        self.outbox.give_back()
        if hasattr(self, "sender"):
            self.sender.backlog.take_all()
        self.abort()

    def lost(self) -> None:
        """The transport is closed."""
        self._is_lost = True
        self.outbox.give_back()
        self.heard_aliases.give_back()
        if self.topic_aliases is not None:
            self.topic_aliases.give_back()
        self._tell_room()
        self._order.close()
        self._look_at_order()
        if self.is_known:
            self.answers.leave()
            self.incoming.leave()
            self.deliveries.close()

    def let_go(self) -> None:
        """Of what refers back to it, once nobody asks for it any more: what goes in a circle is found by the garbage
        collector only, which looks rarely, and 40,000 connections that came and went were 100 MB until then."""
        if self.is_known:
            self.deliveries.let_go()
            self.sender.let_go()

    @property
    def is_known(self) -> bool:
        """Whether the client was let in."""
        return hasattr(self, "session")

    @property
    def name(self) -> str:
        return self.session.client_id if self.is_known else self.peer


def _both(
    first: Coroutine[None, None, None] | None, second: Coroutine[None, None, None] | None
) -> Coroutine[None, None, None] | None:
    if first is None or second is None:
        return first or second
    return _in_turn(first, second)


async def _in_turn(first: Coroutine[None, None, None], second: Coroutine[None, None, None]) -> None:
    try:
        await first
    except BaseException:
        second.close()
        raise
    await second


def _encoded(version: Version, max_bytes: int, tells_problems: bool, packet: Packet) -> bytes:
    """ProtocolError if the client does not take a packet of its size."""
    data = encode_within(packet, version, max_bytes, tells_problems)
    if data is None:
        detail = f"{packet.type.name} is larger than the {max_bytes} bytes that the client takes"
        raise ProtocolError(detail, ReasonCode.PACKET_TOO_LARGE, version)
    return data
