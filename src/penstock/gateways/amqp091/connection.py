"""One client while it is connected: what it agreed on, its channels, and how it ends."""

from __future__ import annotations

import asyncio
import logging
from time import monotonic

from penstock.broker.auth.identity import Identity
from penstock.broker.auth.limits import ClientRates
from penstock.broker.auth.permissions import Permissions
from penstock.broker.publish.publisher import Publisher
from penstock.codecs.amqp091.assembly import Assembly
from penstock.codecs.amqp091.encode import HEARTBEAT, method_frame
from penstock.codecs.amqp091.errors import AmqpError, Fault
from penstock.codecs.amqp091.kinds import PROTOCOL_HEADER, Sender, Table
from penstock.codecs.amqp091.methods import ChannelClose, ChannelCloseOk, ConnectionClose, Method
from penstock.codecs.amqp091.state import Connection as Order
from penstock.codecs.amqp091.state import Handling, State
from penstock.codecs.sasl import Exchange
from penstock.core.errors import PenstockError
from penstock.gateways.amqp091.channel import Channel
from penstock.gateways.amqp091.columns import ConnectionColumns
from penstock.gateways.amqp091.faults import fault_of
from penstock.gateways.amqp091.options import CurrentOptions
from penstock.gateways.amqp091.reports import Reports
from penstock.gateways.wire.listener import ListenerFacts
from penstock.gateways.wire.outbox import Outbox
from penstock.gateways.wire.slot import SlotTransport
from penstock.queues.names import DEFAULT_NAMESPACE

logger = logging.getLogger("penstock.amqp")

_ENDED = frozenset({State.CLOSING, State.LEAVING, State.CLOSED})
_FAREWELL_S = 10.0
_TOLD = (Fault.LOGIN_REFUSED, Fault.NOT_LOOPBACK)
"""before it is let in"""


class Connection:
    """`identity`, `permissions` and `publisher` are there from the login on, `namespace` from connection.open on."""

    identity: Identity
    permissions: Permissions
    publisher: Publisher

    __slots__ = (
        "__weakref__",
        "_columns",
        "_is_lost",
        "_options",
        "_reports",
        "assembly",
        "capabilities",
        "channels",
        "client_properties",
        "closing_s",
        "exclusive",
        "facts",
        "frame_max",
        "granted",
        "granted_at",
        "heartbeat_s",
        "identity",
        "is_blocked",
        "is_greeted",
        "mechanism",
        "namespace",
        "next_beat_s",
        "number",
        "opened_s",
        "order",
        "outbox",
        "parked",
        "permissions",
        "publisher",
        "rates",
        "received",
        "sasl",
        "scram_identity",
        "transport",
        "user",
        "vhost",
        "waiting",
    )

    def __init__(
        self,
        number: int,
        transport: SlotTransport,
        facts: ListenerFacts,
        outbox: Outbox,
        rates: ClientRates,
        columns: ConnectionColumns,
        options: CurrentOptions,
        reports: Reports,
    ) -> None:
        self.number, self.transport, self.facts, self.outbox, self.rates = number, transport, facts, outbox, rates
        self._columns, self._options, self._reports = columns, options, reports
        now = options.now
        self.order, self.assembly = Order(), Assembly(now.max_message_bytes, now.max_unfinished_bytes)
        self.frame_max = now.frame_max
        self.heartbeat_s = 0.0
        self.next_beat_s = 0.0
        self.channels: dict[int, Channel] = {}
        self.exclusive: dict[str, None] = {}
        """queues that are its own, and go with it"""
        self.client_properties: Table = {}
        self.capabilities: frozenset[str] = frozenset()
        self.sasl: Exchange | None = None
        """while it is not known who it is"""
        self.scram_identity: Identity | None = None
        self.mechanism = self.user = ""
        self.vhost, self.namespace = "/", DEFAULT_NAMESPACE
        self.granted: dict[bytes, None] = {}
        """topics that it may publish to, and that there are, since rules and exchanges last changed"""
        self.granted_at = (-1, -1)
        self.opened_s = monotonic()
        self.closing_s = 0.0
        """when it was told that it is over"""
        self.is_greeted = False
        """its protocol header came"""
        self.is_blocked = self._is_lost = False
        self.waiting: asyncio.Task[None] | None = None
        """what has to be done before anything else of it is looked at"""
        self.parked = 0
        """channels that have sent more than is kept while they wait"""
        self.received = 0
        """messages that it published"""

    # What it is

    @property
    def is_open(self) -> bool:
        return self.order.is_running and not self._is_lost

    @property
    def is_ended(self) -> bool:
        """Gone, or about to be."""
        return self._is_lost or self.order.state in _ENDED

    @property
    def is_known(self) -> bool:
        """Whether it was let in."""
        return hasattr(self, "permissions")

    @property
    def has_unconfirmed(self) -> bool:
        confirms = [channel.confirms for channel in self.channels.values()]
        return self.is_open and any(each is not None and each.unconfirmed for each in confirms)

    @property
    def sent(self) -> int:
        """Messages that its consumers were handed, of those that are there."""
        return sum([consumer.sent for channel in self.channels.values() for consumer in channel.consumers.values()])

    @property
    def is_lost(self) -> bool:
        return self._is_lost

    @property
    def peer(self) -> str:
        """Its address."""
        found = self.transport.get_extra_info("peername")
        return str(found[0]) if isinstance(found, tuple) else str(found or "local")

    @property
    def peer_port(self) -> int:
        found = self.transport.get_extra_info("peername")
        return int(found[1]) if isinstance(found, tuple) and len(found) > 1 else 0

    @property
    def certificate(self) -> dict[str, object] | None:
        found = self.transport.get_extra_info("peercert")
        return found if isinstance(found, dict) and found else None

    @property
    def name(self) -> str:
        """What the client calls itself, or where it comes from."""
        said = self.client_properties.get("connection_name")
        return str(said.value) if said is not None and said.kind == "S" else f"{self.peer}:{self.peer_port}"

    # Methods

    def follow(self, channel: int, method: Method) -> Handling:
        """A method of the client. AmqpError if it must not come now."""
        return self.order.take(Sender.CLIENT, channel, method)

    def send(self, channel: int, method: Method) -> None:
        if self._is_lost:
            return
        data = method_frame(channel, method, self.frame_max)
        self.order.take(Sender.SERVER, channel, method)
        self.outbox.write(data)

    def greet_again(self) -> None:
        """It speaks another protocol: told which one is spoken here, and gone."""
        self.outbox.write(PROTOCOL_HEADER)
        self.close()

    def beat(self, now_s: float) -> None:
        """What has to be sent so that the client knows that somebody is here."""
        if self.heartbeat_s and now_s >= self.next_beat_s:
            self.next_beat_s = now_s + self.heartbeat_s / 2
            self.outbox.write(HEARTBEAT)

    def scanned(self, is_scanned: bool) -> None:
        """Whether its frames are looked at with those of all others."""
        self._columns.frame_maxima[self.transport.slot] = self.frame_max if is_scanned else 0

    def note_assembling(self) -> None:
        self._columns.assembling[self.transport.slot] = self.assembly.assembling

    # Channels

    def open_channel(self, channel: Channel) -> None:
        self.channels[channel.number] = channel

    def drop_channel(self, number: int) -> None:
        """It is closed, by whichever side."""
        self.assembly.drop(number)
        self.note_assembling()
        if (channel := self.channels.pop(number, None)) is not None:
            channel.close()

    # The end

    def fail(self, error: AmqpError) -> None:
        """The client has asked for what it cannot have: its channel ends, or all of it."""
        if self.is_ended:
            return
        self._reports.failed(self.name, self.peer, error)
        if not self.is_greeted:
            self.greet_again()
        elif not self.order.is_running and self.order.state is not State.OPENING and error.fault not in _TOLD:
            self.close()  # as RabbitMQ does before it lets somebody in
        elif error.is_hard:
            self.close_by(error.close())
        elif error.channel in self.channels:
            self.drop_channel(error.channel)
            close = error.close()
            assert isinstance(close, ChannelClose)
            self.send(error.channel, close)

    def close_by(self, close: ChannelClose | ConnectionClose) -> None:
        """Tell why, and wait for the client to agree: what it sent before it knew is not looked at."""
        if isinstance(close, ChannelClose):
            close = ConnectionClose(close.reply_code, close.reply_text, close.failing_class, close.failing_method)
        self.send(0, close)
        self.closing_s = monotonic()
        self._let_go()

    def close_channel_ok(self, number: int) -> None:
        self.send(number, ChannelCloseOk())

    def broke(self, error: BaseException, channel: int = 0) -> None:
        """Something went wrong here; this client pays for it, no other."""
        if isinstance(error, PenstockError):
            self.fail(fault_of(error, self.vhost, channel))
            return
        logger.error("connection failed client=%s", self.name, exc_info=error)
        self.fail(AmqpError(Fault.INTERNAL, 0, detail="something went wrong in the server"))

    def uncommitted(self, error: PenstockError) -> None:
        """Nothing that it published was confirmed: it sends it again when it comes back."""
        self.fail(AmqpError(Fault.INTERNAL, 0, detail=f"a publish could not be committed: {error}"))

    def close(self) -> None:
        """Nothing more of it is taken, and what was to be sent is."""
        if self._is_lost:
            return
        self.order.close()
        self._let_go()
        self.outbox.flush()
        self.transport.close()

    @property
    def is_overdue(self) -> bool:
        """It was told to go, and does not."""
        return self.closing_s > 0 and monotonic() - self.closing_s > _FAREWELL_S

    def abort(self) -> None:
        self.transport.abort()

    def sacrifice(self) -> None:
        """Cut off without a word, which would not be read either: what waits for it is the memory of others."""
        self.outbox.give_back()
        self.abort()

    def lost(self) -> None:
        """The transport is closed."""
        self._is_lost = True
        self.outbox.give_back()
        self.order.close()
        self._let_go()

    def _let_go(self) -> None:
        """Of all that it held of others."""
        if self.order.state is State.CLOSED or self._is_lost:
            self._columns.frame_maxima[self.transport.slot] = 0
        if self.waiting is not None and not self._is_current(self.waiting):
            self.waiting.cancel()
        for number in list(self.channels):
            self.drop_channel(number)

    def _is_current(self, task: asyncio.Task[None]) -> bool:
        """It is what asks for the end itself, and goes on behind it."""
        try:
            return asyncio.current_task() is task
        except RuntimeError:
            return False
