"""PUBACK and PUBREC to all clients of a turn, in one buffer."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from itertools import compress
from typing import NamedTuple

from penstock.core.errors import PenstockError
from penstock.gateways.mqtt.connection import Connection
from penstock.gateways.mqtt.inbound.answers import Encoded
from penstock.gateways.mqtt.inbound.arrival import Arrived
from penstock.gateways.mqtt.inbound.client_columns import ClientColumns
from penstock.gateways.wire.outbox import Flusher
from penstock.gateways.wire.reactor import Reactor
from penstock.kernels import turn as kernel

_ZERO = array("i", [0])


class AnswerWays(NamedTuple):
    """How answers get to clients."""

    reactor: Reactor
    columns: ClientColumns
    connections: Mapping[int, Connection]
    flusher: Flusher


class TurnAnswers:
    """The answers to what clients published together, from the moment that it can no longer be refused."""

    __slots__ = (
        "_counts",
        "_data",
        "_direct",
        "_error",
        "_generations",
        "_is_done",
        "_is_owed",
        "_later",
        "_slots",
        "_starts",
        "_stops",
        "_ways",
    )

    def __init__(self, ways: AnswerWays, arrived: Arrived) -> None:
        self._ways, reactor = ways, ways.reactor
        made = kernel.answers(arrived.regions, arrived.heads, arrived.packet_ids, reactor.slots, reactor.generations)
        self._data, self._slots, self._generations, self._starts, self._stops, self._counts = made
        self._direct = _ZERO * len(self._slots)
        self._later: list[tuple[int, Connection, Encoded]] = []
        """of those who are owed others, which come first"""
        self._is_owed = self._is_done = False
        self._error: PenstockError | None = None

    def owe(self) -> None:
        self._is_owed, columns = True, self._ways.columns
        if kernel.owe(self._slots, columns.waiting, columns.owed, self._direct):
            for place, direct in enumerate(self._direct):
                if not direct:
                    connection = self._ways.connections[self._slots[place]]
                    data = bytes(self._data[self._starts[place] : self._stops[place]])
                    self._later.append((place, connection, connection.answers.owe_encoded(data)))
        if self._is_done:
            self._settle()

    def give_up(self) -> None:
        """They are not answered from here."""
        columns = self._ways.columns
        for place in compress(range(len(self._slots)), self._direct):
            if (connection := self._connection(place)) is not None:
                columns.owed[self._slots[place]] -= 1
                connection.answers.give_ready()
        for _, connection, answer in self._later:
            connection.answers.forget(answer)

    def done(self, error: PenstockError | None) -> None:
        """At once, before they are owed, where nothing of it is durable."""
        self._is_done, self._error = True, error
        if self._is_owed:
            self._settle()

    def _settle(self) -> None:
        if self._error is None:
            self._answer()
            return
        for place in range(len(self._slots)):
            if (connection := self._connection(place)) is not None and not connection.is_ended:
                connection.uncommitted(self._error)

    def _answer(self) -> None:
        reactor, columns, _, flusher = self._ways
        flusher.flush_now()
        slots, generations, starts, stops = self._slots, self._generations, self._starts, self._stops
        counted, behind = (columns.unanswered, columns.owed, columns.waiting), _ZERO * len(slots)
        found = kernel.settle(slots, generations, self._counts, self._direct, reactor.generation, *counted, behind)
        if self._later:
            parts = slots, generations, starts, stops
            slots, generations, starts, stops = [array("i", compress(each, self._direct)) for each in parts]
        flusher.sent_bytes += sum(stops) - sum(starts)
        reactor.write_many(slots, generations, self._data, starts, stops)
        for place, connection, answer in self._later:
            if not connection.is_ended:
                connection.incoming.puback(self._counts[place])
                connection.answers.give_encoded(answer)
        for place in behind[:found]:
            if (waiting := self._connection(place)) is not None:
                waiting.answers.give_ready()

    def _connection(self, place: int) -> Connection | None:
        """None if it is gone."""
        found = self._ways.connections.get(self._slots[place])
        return None if found is None or found.transport.generation != self._generations[place] else found
