"""Plain publishes of all connections of a turn: one publication, one frame, one buffer of answers."""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from penstock.broker.topics.publication import Publication
from penstock.broker.topics.router import Route
from penstock.core.errors import OutcomeUnknown, PenstockError
from penstock.gateways.mqtt.answers import Later
from penstock.gateways.mqtt.arrival import Arrived
from penstock.gateways.mqtt.directed import has_directions
from penstock.gateways.mqtt.topic_aliases import HeardAliases
from penstock.gateways.wire.reactor import Reactor
from penstock.kernels import rows as row_kernel
from penstock.kernels import turn as kernel
from penstock.kernels.mqtt_scan import Scanner

if TYPE_CHECKING:
    from penstock.gateways.mqtt.connection import Connection
    from penstock.gateways.mqtt.gateway import MqttGateway

_ID_BYTES = 4
"""of a PUBACK"""


class _Owed(NamedTuple):
    """The answers to one connection: part of a buffer."""

    connection: Connection
    start: int
    stop: int

    @property
    def messages(self) -> int:
        return (self.stop - self.start) // _ID_BYTES


class _Turn:
    """What is under way together."""

    __slots__ = ("data", "later", "owed")

    def __init__(self, data: bytearray, owed: list[_Owed]) -> None:
        self.data, self.owed, self.later = data, owed, Later()


class JointPublishes:
    """Used from the loop. It asks of a publish what `Publishes` asks, and leaves to that what is not so simple: QoS 2,
    aliases, retained ones, subscribers who are connected, queues to be made, a second namespace, and whatever a queue
    refuses."""

    def __init__(self, gateway: MqttGateway, reactor: Reactor, scanner: Scanner) -> None:
        self._gateway, self._reactor, self._scanner = gateway, reactor, scanner
        self._publisher = gateway.broker.publisher()
        self._no_aliases = HeardAliases(gateway.names)
        self.under_way = 0
        """frames that are not committed yet"""

    def take(
        self, connections: Sequence[Connection], heads: array[int], regions: array[int], contents: array[int]
    ) -> array[int]:
        """Of each region, whether its publishes are under way; if not, nothing has happened to them."""
        wanted, namespace = _candidates(connections, contents)
        if namespace is None or self._gateway.broker.taps.count:
            return _none(connections)
        while (picked := self._picked(heads, regions, wanted)) is not None:
            arrived, mine = picked
            if has_directions(arrived):
                return _none(connections)
            turn = self._turn(connections, arrived, mine)
            if self._leave_out(connections, arrived, mine, turn, wanted, namespace):
                continue
            return wanted if self._publish(connections, arrived, mine, turn, namespace) else _none(connections)
        return _none(connections)

    def _picked(self, heads: array[int], regions: array[int], wanted: array[int]) -> tuple[Arrived, array[int]] | None:
        """The publishes of these regions, and the region of each; None if there are none."""
        rows = array("i", bytes(4 * len(heads)))
        count = kernel.pick_publishes(heads, regions, wanted, rows)
        if not count:
            return None
        rows = rows[:count]
        mine = rows[:]
        row_kernel.take_int32(regions, rows, mine)
        arrivals, now_ms = self._gateway.arrivals, self._gateway.broker.wall()
        return arrivals.take(
            self._reactor.arena, self._scanner, rows, self._no_aliases, 0, now_ms, 0, is_first=False
        ), mine

    def _turn(self, connections: Sequence[Connection], arrived: Arrived, mine: array[int]) -> _Turn:
        room = len(mine)
        data, owners = bytearray(_ID_BYTES * room), array("i", bytes(4 * room))
        starts, stops = owners[:], owners[:]
        count = kernel.answers(mine, arrived.packet_ids, data, owners, starts, stops)
        found = zip(owners[:count], starts[:count], stops[:count], strict=True)
        return _Turn(data, [_Owed(connections[region], start, stop) for region, start, stop in found])

    def _leave_out(
        self,
        connections: Sequence[Connection],
        arrived: Arrived,
        mine: array[int],
        turn: _Turn,
        wanted: array[int],
        namespace: str,
    ) -> bool:
        """Whether regions with a publish that is not so simple were taken out of those that are wanted."""
        too_many = [owed for owed in turn.owed if not owed.connection.session.incoming.takes(owed.messages)]
        left_out = {id(owed.connection) for owed in too_many}
        router, topics, index = self._gateway.topics.router(namespace), arrived.topics, arrived.columns.topic_index
        assert index is not None
        is_plain = [_is_plain(router.route(topic)) and self._is_fed(topic, namespace) for topic in topics]
        firsts = array("i", bytes(4 * len(mine)))
        for row in firsts[: kernel.pairs(mine, index, array("i", [-1]) * len(topics), firsts)]:
            connection, number = connections[mine[row]], index[row]
            if not is_plain[number] or not connection.publishes.is_plain(topics[number]):
                left_out.add(id(connection))
        if left_out:
            for region, connection in enumerate(connections):
                if id(connection) in left_out:
                    wanted[region] = 0
        return bool(left_out)

    def _is_fed(self, topic: bytes, namespace: str) -> bool:
        """Whether the queues of a topic are there, if it names one."""
        try:
            return self._gateway.broker.publishing.routes.queues(topic, namespace) is not None
        except PenstockError:
            return False  # it can be no queue's, which its publisher is told

    def _publish(
        self, connections: Sequence[Connection], arrived: Arrived, mine: array[int], turn: _Turn, namespace: str
    ) -> bool:
        """Whether all of it is under way."""
        publication = arrived.publication(self._publisher, namespace, None)
        publication.places = _places(connections, mine)
        for owed in turn.owed:
            owed.connection.session.incoming.publish_qos_1(owed.messages)
            owed.connection.answers.owe_later(turn.later)
        self.under_way += 1
        try:
            is_taken = self._gateway.topics.publish_now(publication, partial(self._done, turn))
        except OutcomeUnknown as error:
            self._done(turn, error)
            is_taken = True
        except PenstockError:
            # Who is refused is told connection by connection.
            self._give_up(turn)
            return False
        except BaseException:
            self._give_up(turn)
            raise
        self._count(connections, mine)
        if not is_taken:
            self._publish_later(connections, arrived, mine, turn, publication)
        return True

    def _give_up(self, turn: _Turn) -> None:
        self.under_way -= 1
        for owed in turn.owed:
            owed.connection.session.incoming.puback(owed.messages)
            owed.connection.answers.forget(turn.later)

    def _publish_later(
        self,
        connections: Sequence[Connection],
        arrived: Arrived,
        mine: array[int],
        turn: _Turn,
        publication: Publication,
    ) -> None:
        """Something has to be waited for: by all of them together, and by nobody else."""
        arrived.columns.source = bytes(self._reactor.arena[: self._reactor.stops[-1]])
        parties = [connections[region] for region in dict.fromkeys(mine)]
        task = self._gateway.loop.create_task(self._published(parties, arrived, mine, turn, publication))
        for connection in parties:
            self._gateway.turns.wait_for(connection, _finished(task))

    async def _published(
        self,
        parties: Sequence[Connection],
        arrived: Arrived,
        mine: array[int],
        turn: _Turn,
        publication: Publication,
    ) -> None:
        try:
            await self._gateway.topics.publish(publication)
        except OutcomeUnknown as error:
            self._done(turn, error)
        except PenstockError:
            self._give_up(turn)
            await self._one_by_one(parties, arrived, mine)
        else:
            self._done(turn, None)

    async def _one_by_one(self, parties: Sequence[Connection], arrived: Arrived, mine: array[int]) -> None:
        """One of them is refused, which is nothing to the others."""
        for connection, region in zip(parties, dict.fromkeys(mine), strict=True):
            if not connection.is_ended:
                rows = array("i", [row for row, each in enumerate(mine) if each == region])
                if (work := connection.publishes.take(arrived.narrowed(rows))) is not None:
                    await work

    def _count(self, connections: Sequence[Connection], mine: array[int]) -> None:
        firsts = array("i", bytes(4 * (len(connections) + 1)))
        kernel.bounds(mine, firsts)
        for region, connection in enumerate(connections):
            if count := firsts[region + 1] - firsts[region]:
                connection.received += count
                if connection.is_limited:
                    self._gateway.turns.wait_for(connection, connection.spend(count))

    def _done(self, turn: _Turn, error: PenstockError | None) -> None:
        """All of it is committed, or nobody knows whether."""
        self.under_way -= 1
        slots, generations, starts, stops = array("i"), array("i"), array("i"), array("i")
        for owed in turn.owed:
            connection = owed.connection
            if connection.is_ended:
                continue
            if error is not None:
                connection.publishes.failed(error)
                continue
            connection.session.incoming.puback(owed.messages)
            if connection.answers.is_due(turn.later):
                transport = connection.transport
                slots.append(transport.slot)
                generations.append(transport.generation)
                starts.append(owed.start)
                stops.append(owed.stop)
                connection.answers.forget(turn.later)
            else:
                connection.answers.replace(turn.later, _ids(turn.data[owed.start : owed.stop]))
        if slots:
            self._gateway.flusher.sent_bytes += sum(stops) - sum(starts)
            self._reactor.write_many(slots, generations, turn.data, starts, stops)
        self._gateway.turns.committed()


async def _finished(task: asyncio.Task[None]) -> None:
    await asyncio.wait([task])


def _candidates(connections: Sequence[Connection], contents: array[int]) -> tuple[array[int], str | None]:
    """Regions with publishes that are simple as far as it can be seen, all of one namespace."""
    wanted, namespace = _none(connections), None
    for region, what in enumerate(contents):
        connection = connections[region]
        if what & kernel.PUBLISHES and not what & kernel.IS_SPECIAL and connection.is_open:
            if namespace is None:
                namespace = connection.session.namespace
            wanted[region] = connection.session.namespace == namespace
    return wanted, namespace


def _is_plain(route: Route) -> bool:
    """Nobody gets it at once, and those it is stored for get it whoever sent it."""
    if route.live or route.not_local or route.shares:
        return False
    return not any(receiver.no_local for receiver in route.stored)


def _places(connections: Sequence[Connection], mine: array[int]) -> array[int]:
    of_regions, of_rows = array("q", bytes(8 * len(connections))), array("q", bytes(8 * len(mine)))
    for region in set(mine):
        of_regions[region] = connections[region].publishes.publisher.place
    kernel.spread(of_regions, mine, of_rows)
    return of_rows


def _ids(answers: bytearray) -> array[int]:
    return array("i", [answers[at] << 8 | answers[at + 1] for at in range(2, len(answers), _ID_BYTES)])


def _none(connections: Sequence[Connection]) -> array[int]:
    return array("i", bytes(4 * len(connections)))
