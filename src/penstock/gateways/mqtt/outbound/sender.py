"""Sends messages to one client: identifiers and the receive maximum, what waits, what can be dropped."""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby

from penstock.codecs.mqtt.inflight import Outgoing
from penstock.codecs.mqtt.kinds import Version
from penstock.gateways.mqtt.outbound.backlog import Backlog
from penstock.gateways.mqtt.outbound.packets import Packets
from penstock.gateways.mqtt.outbound.shared_flights import SharedFlights, Unfinished, waiting
from penstock.gateways.mqtt.outbound.waiting import still_wanted
from penstock.gateways.wire.outbox import Outbox


class Sender:
    """Of one connection, over the identifiers of its session."""

    __slots__ = ("_now_ms", "_overflown", "_version", "backlog", "dropped", "outbox", "outgoing", "sent", "shared")

    def __init__(
        self,
        outbox: Outbox,
        outgoing: Outgoing,
        backlog: Backlog,
        version: Version,
        now_ms: Callable[[], int],
        overflown: Callable[[], None],
    ) -> None:
        """`now_ms` is running time. `overflown` is called when the backlog has no room for a message."""
        self.outbox, self.outgoing, self.backlog, self._overflown = outbox, outgoing, backlog, overflown
        self._version, self._now_ms = version, now_ms
        self.shared: SharedFlights | None = None
        """made when a message of a shared subscription goes out"""
        self.sent = self.dropped = 0

    @property
    def is_behind(self) -> bool:
        return bool(len(self.backlog)) or self.outbox.is_clogged

    @property
    def room(self) -> int:
        """How many messages with QoS may go out now, past those that wait."""
        return 0 if self.is_behind or self.outgoing.has_resends else self.outgoing.window

    def send(self, packets: Packets) -> None:
        """What has no QoS is dropped if the client does not take what it was sent; the rest waits for its turn."""
        if not packets.with_id:
            if self.outbox.is_clogged:
                self.dropped += len(packets)
            else:
                self.sent += len(packets)
                self.outbox.write(packets.data)
        elif self.room >= packets.with_id:
            self.send_now(packets)
        elif not self.backlog.put(packets):
            self._overflown()
        else:
            self.pump()

    def identified(self, count: int, qos: int) -> list[int]:
        """Identifiers for so many messages, which whoever asks for them writes out; none with QoS 0. There must be
        room."""
        self.sent += count
        return self.outgoing.publish(count, qos) if qos else []

    def send_now(self, packets: Packets) -> list[int]:
        """The identifiers they got. There must be room."""
        self.sent += len(packets)
        if not packets.with_id:
            self.outbox.write(packets.data)
            return []
        qos = packets.qos
        if qos is not None:
            ids = self.outgoing.publish(packets.with_id, qos)
        else:
            ids = []
            for qos, some in groupby([head >> 1 & 3 for head in packets.heads if head & 6]):
                ids += self.outgoing.publish(len(list(some)), qos)
        self.outbox.write(packets.with_ids(ids))
        if packets.share is not None:
            if self.shared is None:
                self.shared = SharedFlights()
            self.shared.sent(packets, ids)
        return ids

    def unfinished_shared(self) -> list[Unfinished]:
        """Messages of shared subscriptions that the client does not have; they are another's now."""
        sent = [] if self.shared is None else self.shared.unfinished(self._version)
        return [*sent, *waiting(self.backlog.take_all(), self._version)]

    def let_go(self) -> None:
        """Of the connection: nothing is sent any more."""
        self._overflown = _nothing
        self.backlog.take_all()
        self.outbox.give_back()

    def pump(self) -> None:
        """Send what waits, as far as it may go; what has to be sent again goes first."""
        if not len(self.backlog) or self.outgoing.has_resends:
            return
        while not self.outbox.is_clogged and (packets := self.backlog.take(self.outgoing.window)) is not None:
            wanted = still_wanted(packets, self._version, self._now_ms())
            if wanted is not None:
                self.send_now(wanted)


def _nothing() -> None:
    """Nobody is there to be told."""
