"""basic.ack, nack and reject of a channel, as many as came together."""

from __future__ import annotations

from array import array

from penstock.broker.feed.delivery import Delivery
from penstock.broker.feed.settling import Settling
from penstock.codecs.amqp091.errors import AmqpError, Fault
from penstock.gateways.amqp091.channel import Channel, held_of
from penstock.gateways.amqp091.streams import is_reader
from penstock.gateways.amqp091.tags import Part, UnknownTag
from penstock.gateways.amqp091.transactions import Answers
from penstock.kernels import amqp_columns as names
from penstock.kernels.amqp_turn import tag_runs

METHODS = {names.ACK: (60, 80), names.NACK: (60, 120), names.REJECT: (60, 90)}


class Settlements:
    """For all channels."""

    def __init__(self, settling: Settling) -> None:
        self._settling = settling

    def take(self, channel: Channel, kinds: array[int], flags: array[int], tags: array[int]) -> None:
        """AmqpError for a tag that is not there: what came before it counts."""
        firsts = array("i", bytes(4 * len(kinds)))
        count = tag_runs(kinds, flags, tags, firsts)
        stops = [*firsts[1:count], len(kinds)]
        said: list[Answers] = []
        try:
            for first, stop in zip(firsts[:count], stops, strict=True):
                kind, flag = kinds[first], flags[first]
                parts: list[Part] = []
                said.append(Answers(parts, kind == names.ACK, bool(flag & names.REQUEUE)))
                try:
                    if flag & names.MULTIPLE:
                        channel.tags.take_up_to(tags[first], parts)
                    else:
                        channel.tags.take(tags[first], tags[stop - 1], parts)
                except UnknownTag as unknown:
                    tag = unknown.tag % (1 << 64)
                    raise AmqpError(Fault.UNKNOWN_DELIVERY, channel.number, METHODS[kind], tag=tag) from None
        finally:
            if channel.transaction is not None:
                channel.transaction.answers += said
            else:
                self.settle(said)
                channel.settled()

    def settle(self, said: list[Answers]) -> None:
        """In the order in which it was said."""
        acked: list[Part] = []
        for answers in said:
            if answers.is_ack:
                acked += answers.parts
                continue
            acked += [part for part in answers.parts if is_reader(part.of.delivery.group)]
            self._ack(acked)
            acked = []
            parts = [part for part in answers.parts if not is_reader(part.of.delivery.group)]
            for held in held_of(parts):
                if answers.requeues:
                    self._settling.release(held, counted=True)
                else:
                    self._settling.reject(held)
        self._ack(acked)

    def _ack(self, parts: list[Part]) -> None:
        """Of all of them in one call. Nobody waits: what was acknowledged and is not on disk comes again."""
        if not parts:
            return
        deliveries: list[Delivery] = [part.of.delivery for part in parts]
        firsts, stops = array("i", [part.start for part in parts]), array("i", [part.stop for part in parts])
        self._settling.runs(deliveries, firsts, stops, is_awaited=False)
