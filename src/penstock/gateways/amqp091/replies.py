"""Direct reply-to: answers that go from one connection to another and are stored nowhere.

Who asks consumes `amq.rabbitmq.reply-to`, and what it publishes with that as its reply_to gets an address instead: a
name of a queue that only the default exchange knows."""

from __future__ import annotations

import secrets
from array import array
from collections.abc import Sequence

from penstock.codecs.amqp091.encode import content_frames
from penstock.codecs.amqp091.methods import BasicDeliver
from penstock.gateways.amqp091.channel import Channel
from penstock.gateways.amqp091.connection import Connection
from penstock.gateways.amqp091.messages import Messages
from penstock.kernels.amqp_turn import find_text
from penstock.queues.exchange_topics import DEFAULT_EXCHANGE

REPLY_QUEUE = "amq.rabbitmq.reply-to"
_PREFIX = REPLY_QUEUE.encode() + b"."


def is_reply_key(key: bytes) -> bool:
    return key.startswith(_PREFIX)


class ReplyConsumer:
    """Who waits for answers on a channel."""

    def __init__(self, connection: Connection, channel: Channel, tag: str) -> None:
        self._connection, self._channel, self.tag = connection, channel, tag
        self.address = f"{REPLY_QUEUE}.{secrets.token_urlsafe(24)}"

    @property
    def is_there(self) -> bool:
        return self._channel.reply is self and self._channel.is_open and not self._connection.is_ended

    def deliver(self, properties: bytes, body: bytes) -> None:
        tags, connection = self._channel.tags, self._connection
        method = BasicDeliver(self.tag, tags.next, False, DEFAULT_EXCHANGE, self.address)
        tags.skip(1)
        data = content_frames(self._channel.number, method, properties, body, connection.frame_max)
        connection.outbox.write(data)


class Replies:
    """Of one gateway. Used from the loop."""

    def __init__(self) -> None:
        self._consumers: dict[bytes, ReplyConsumer] = {}

    def consume(self, connection: Connection, channel: Channel, tag: str) -> ReplyConsumer:
        """On a channel without one."""
        made = ReplyConsumer(connection, channel, tag)
        self._consumers[made.address.encode()] = made
        channel.reply = made
        return made

    def cancel(self, channel: Channel) -> None:
        if channel.reply is not None:
            self._consumers.pop(channel.reply.address.encode(), None)
            channel.reply = None

    def is_there(self, address: bytes) -> bool:
        found = self._consumers.get(address)
        return found is not None and found.is_there

    def deliver(self, messages: Messages, rows: Sequence[int], address: bytes) -> bool:
        """Whether there is somebody at this address."""
        found = self._consumers.get(address)
        if found is None or not found.is_there:
            return False
        source, value = messages.columns.source, messages.columns.value
        for row in rows:
            found.deliver(messages.carried(row), bytes(source[value.starts[row] : value.ends[row]]))
        return True


def address_replies(messages: Messages, places: array[int], channel_of: Sequence[Channel]) -> None:
    """Messages that ask for a direct reply say where from now on. `places` of their reply_to; a channel for each row,
    which has a consumer where it is needed."""
    found = array("i", bytes(4 * messages.count))
    source, properties = messages.columns.source, messages.properties
    assert isinstance(source, bytearray)
    for row in found[: find_text(source, places, REPLY_QUEUE.encode(), found)]:
        reply = channel_of[row].reply
        assert reply is not None
        address, at = reply.address.encode(), places[row]
        start, end = properties.starts[row], properties.ends[row]
        behind = source[at + 1 + source[at] : end]
        messages.replace_properties(row, bytes(source[start:at] + bytes([len(address)]) + address + behind))
