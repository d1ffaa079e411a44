"""What a client and its server know of each other beyond one connection: messages under way and subscriptions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from functools import partial
from itertools import groupby

from penstock.client.mqtt.arrivals import Arrivals
from penstock.client.mqtt.connection import Connection
from penstock.client.mqtt.errors import MqttRefused
from penstock.client.mqtt.inbox import Inbox
from penstock.client.mqtt.options import MqttOptions
from penstock.client.mqtt.outbox import Outbox
from penstock.codecs.mqtt.errors import ProtocolError
from penstock.codecs.mqtt.inflight import DEFAULT_RECEIVE_MAXIMUM
from penstock.codecs.mqtt.kinds import PacketType, Version
from penstock.codecs.mqtt.packets import (
    Connect,
    Disconnect,
    Packet,
    PingResp,
    PubAck,
    PubComp,
    Publish,
    PubRec,
    PubRel,
    SubAck,
    Subscribe,
    Subscription,
    UnsubAck,
)
from penstock.codecs.mqtt.properties import NO_PROPERTIES, Properties
from penstock.core.errors import PenstockError


class Session:
    """Takes every packet of the server and answers it. `lost_subscription` is told when a filter that was granted
    before is not granted any more."""

    def __init__(self, options: MqttOptions, lost_subscription: Callable[[MqttRefused], None]) -> None:
        self._options, self._lost_subscription = options, lost_subscription
        self._receive_maximum = min(max(1, options.max_buffered_messages), DEFAULT_RECEIVE_MAXIMUM)
        self.client_id = options.client_id
        self.inbox = Inbox(options.max_buffered_messages, options.max_buffered_bytes)
        self.outbox = Outbox(options.version)
        self.arrivals = Arrivals(options.version, self._receive_maximum)
        self._subscribed: dict[str, tuple[Subscription, Properties]] = {}

    def connect_packet(self, is_again: bool) -> Connect:
        """In MQTT 3.1.1 a clean start also says that the session is not to be kept, so it stays one."""
        options = self._options
        is_five = options.version is Version.V5
        return Connect(
            version=options.version,
            client_id=self.client_id,
            clean_start=options.clean_start and not (is_again and is_five),
            keep_alive_s=options.keep_alive_s,
            will=options.will,
            username=options.username,
            password=options.password,
            properties=self._connect_properties() if is_five else NO_PROPERTIES,
        )

    def _connect_properties(self) -> Properties:
        options, exchange = self._options, self._options.authentication
        return Properties(
            session_expiry_interval_s=options.session_expiry_s or None,
            receive_maximum=self._receive_maximum,
            maximum_packet_bytes=options.max_packet_bytes,
            authentication_method=None if exchange is None else exchange.method,
            authentication_data=None if exchange is None else exchange.first(),
            user_properties=options.user_properties,
        )

    def begin(self, connection: Connection) -> None:
        """On a connection that was accepted: goes on with what was under way."""
        connack = connection.connack
        self.client_id = connack.properties.assigned_client_identifier or self.client_id
        self.arrivals.resume(connack.session_present)
        receive_maximum = connack.properties.receive_maximum or DEFAULT_RECEIVE_MAXIMUM
        under_way = self.outbox.resume(connack.session_present, min(receive_maximum, self._options.window))
        # First, so that a client gets its own messages as it would have.
        if not connack.session_present:
            self._subscribe_again(connection)
        connection.send_all(under_way)

    def take(self, connection: Connection, packet: Packet) -> None:
        """ProtocolError for what must not come, MqttRefused when the server ends the connection."""
        match packet:
            case Publish():
                arrived = self.arrivals.publish(packet)
                if arrived.message is not None:
                    self.inbox.put(arrived.message)
                if arrived.answer is not None:
                    connection.send_packet(arrived.answer)
            case PubAck() | PubRec() | PubComp() | SubAck() | UnsubAck():
                connection.send_all(self.outbox.receive(packet))
                if packet.properties.reason_string is not None:
                    self._tell(packet)
            case PubRel():
                connection.send_packet(self.arrivals.release(packet))
            case Disconnect():
                raise MqttRefused("to go on with the connection", packet.reason, packet.properties.reason_string)
            case PingResp():
                pass
            case _:
                raise ProtocolError(f"{packet.type.name} was not expected", version=self._options.version)

    def _tell(self, packet: PubAck | PubRec | PubComp | SubAck | UnsubAck) -> None:
        """Of a refusal its error tells."""
        reasons = packet.reasons if isinstance(packet, SubAck | UnsubAck) else (packet.reason,)
        said, tell = packet.properties.reason_string, self._options.on_reason_string
        if said and tell is not None and not any(reason.is_refusal for reason in reasons):
            tell(said)

    def end(self, error: PenstockError) -> None:
        self.inbox.end(error)
        self.outbox.end(error)

    def subscribed(self, asked: tuple[Subscription, ...], properties: Properties, answer: SubAck | UnsubAck) -> None:
        """Remembers what was granted; MqttRefused if one was not."""
        if len(answer.reasons) != len(asked):
            raise ProtocolError(f"SUBACK has {len(answer.reasons)} reasons for {len(asked)} filters")
        for each, reason in zip(asked, answer.reasons, strict=True):
            if not reason.is_refusal:
                self._subscribed[each.filter] = each, properties
        check_granted(asked, answer)

    def unsubscribed(self, filters: Iterable[str]) -> None:
        for each in filters:
            self._subscribed.pop(each, None)

    def _subscribe_again(self, connection: Connection) -> None:
        for properties, group in groupby(self._subscribed.values(), key=lambda pair: pair[1]):
            asked = tuple(subscription for subscription, _ in group)
            if (request := self.outbox.request(PacketType.SUBSCRIBE)) is not None:
                packet_id, answer = request
                answer.add_done_callback(partial(self._check_again, asked))
                connection.send_packet(Subscribe(packet_id, asked, properties))

    def _check_again(self, asked: tuple[Subscription, ...], answer: asyncio.Future[SubAck | UnsubAck]) -> None:
        """Lost with its connection it is asked once more, with the next one."""
        if answer.cancelled() or answer.exception() is not None:
            return
        try:
            check_granted(asked, answer.result())
        except MqttRefused as error:
            self._lost_subscription(error)


def check_granted(asked: Iterable[Subscription], answer: SubAck | UnsubAck) -> None:
    for each, reason in zip(asked, answer.reasons, strict=False):
        if reason.is_refusal:
            raise MqttRefused(f"the subscription to {each.filter!r}", reason, answer.properties.reason_string)
