"""Settling what came from a queue (MQTT 5): a message to `$queue/<queue>/$ack`, `$nack` or `$reject` that names it."""

from __future__ import annotations

import enum
from collections.abc import Sequence

from penstock.client.mqtt.message import Message
from penstock.codecs.mqtt.packets import Publish
from penstock.codecs.mqtt.properties import Pair, Properties
from penstock.core.errors import InvalidArgument
from penstock.core.queue_paths import queue_topic


class Verdict(enum.StrEnum):
    ACK = "$ack"
    """done with"""
    NACK = "$nack"
    """to come again, after the delay or the queue's own"""
    REJECT = "$reject"
    """to the dead letters"""


def settlement(verdict: Verdict, messages: Sequence[Message], delay_s: float | None, reason: str) -> Publish:
    """Of one queue and group. InvalidArgument for messages that came from none, or from several."""
    sources = {(message.header("queue"), message.header("consumer-group")) for message in messages}
    ids = [message.header("message-id") for message in messages]
    if len(sources) != 1:
        raise InvalidArgument("messages of several queues or groups are not settled together: settle them apart")
    [(queue, group)] = sources
    if queue is None or None in ids:
        raise InvalidArgument("a message that did not come from a queue has nothing to settle: ack() is for the others")
    pairs: list[Pair] = [("message-id", id) for id in ids if id is not None]
    pairs += [("consumer-group", group)] if group is not None else []
    pairs += [("delay", f"{round(delay_s * 1000)}ms")] if delay_s is not None else []
    pairs += [("reason", reason)] if reason else []
    return Publish(f"{queue_topic(queue)}/{verdict}", qos=1, properties=Properties(user_properties=tuple(pairs)))
