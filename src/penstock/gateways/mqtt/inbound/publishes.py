"""Publishes of all connections of a turn: one publication, one frame, one buffer of answers.

What one client alone has to be asked or told for is left to its `OwnPublishes`, as a whole: order of a connection needs
nothing else, and no other connection waits for it."""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Collection, Coroutine, Hashable, Mapping, Sequence
from functools import partial
from itertools import compress

from penstock.broker.auth.access import Access
from penstock.broker.auth.permissions import Permissions
from penstock.broker.broker import Broker
from penstock.broker.publish.request import Targets
from penstock.broker.topics.publication import Publication
from penstock.broker.topics.topics import Topics
from penstock.codecs.mqtt.errors import PacketError
from penstock.core.errors import OutcomeUnknown, PenstockError
from penstock.gateways.mqtt.connection import Connection
from penstock.gateways.mqtt.inbound.arrival import FLAGS, Aliased, Arrivals, Arrived
from penstock.gateways.mqtt.inbound.client_columns import ClientColumns
from penstock.gateways.mqtt.inbound.directed import directed_rows
from penstock.gateways.mqtt.inbound.grants import Grants
from penstock.gateways.mqtt.inbound.own_publishes import OwnPublishes
from penstock.gateways.mqtt.inbound.refusals import OF_EVERYBODY
from penstock.gateways.mqtt.inbound.scanned import TURN_ROWS, RunOfRows, Scanned, rows_of
from penstock.gateways.mqtt.inbound.turn_answers import AnswerWays, TurnAnswers
from penstock.gateways.mqtt.sessions.session import Session
from penstock.gateways.wire.outbox import Flusher
from penstock.gateways.wire.reactor import Reactor
from penstock.gateways.wire.turn_loop import TurnLoop
from penstock.kernels import mqtt_columns as names
from penstock.kernels import turn as kernel
from penstock.kernels.mqtt_scan import Scanner
from penstock.log.journal.late import Part
from penstock.queues.names import is_request

_QOS, _QOS_2 = 0x06, 0x04
_ZERO = array("i", [0])
_NOTHING_HELD: Mapping[int, array[int]] = {}
Work = Coroutine[None, None, None]


class Publishes:
    """Used from the loop."""

    def __init__(
        self,
        reactor: Reactor,
        scanner: Scanner,
        columns: ClientColumns,
        connections: Mapping[int, Connection],
        broker: Broker,
        topics: Topics,
        access: Access,
        flusher: Flusher,
        own_publishes: OwnPublishes,
    ) -> None:
        """Connections by slot."""
        self._reactor, self._scanner, self._columns, self._connections = reactor, scanner, columns, connections
        self._topics, self._wall, self._own_publishes = topics, broker.clock.now_ms, own_publishes
        self._ways = AnswerWays(reactor, columns, connections, flusher)
        limits = columns.unanswered, columns.maxima, columns.received
        self._counted = (*limits, columns.is_limited, columns.namespaces, columns.places)
        self._routes = broker.publishing.routes
        self._publisher = broker.publisher()
        self._arrivals = Arrivals(TURN_ROWS)
        self._grants = Grants(access)
        self._work: dict[Connection, list[Work]] = {}
        """what has to be awaited of a connection, of this turn"""
        self.loop: TurnLoop
        """it is told of frames under way"""

    def take(self, heads: array[int], regions: array[int], contents: array[int], every: int) -> None:
        """The publishes that a scan found; `contents` says what each region holds, `every` what any of them does."""
        reactor, columns, count = self._reactor, self._columns, len(contents)
        slots, wanted = reactor.slots, _ZERO * count
        publishers = kernel.publishers(contents, slots, columns.versions, wanted)
        if not publishers:
            return
        if publishers == count and not every & kernel.ACKNOWLEDGES:
            scanned: Scanned = RunOfRows(self._scanner, 0, len(heads))
        else:
            picked = _zeros(len(heads))
            scanned = rows_of(self._scanner, picked[: kernel.pick_publishes(heads, regions, wanted, picked)])
        as_it_came = None
        if publishers == 1 and not contents[region := wanted.index(1)] & kernel.ACKNOWLEDGES:
            as_it_came = columns.versions[slots[region]], reactor.starts[region]
        aliased = self._aliased(scanned, contents) if every & kernel.HAS_ALIASES else ()
        arena = reactor.arena[: reactor.stops[-1]]
        arrived, wrong = self._arrivals.take(arena, scanned, aliased, self._wall(), as_it_came)
        counts, over = _ZERO * count, _ZERO * count
        found = kernel.count_in(arrived.regions, arrived.heads, slots, *self._counted, counts, over, arrived.places)
        if found & kernel.IS_OVER:
            wrong |= self._exceeded(arrived, over)
        held = self._hold(arrived, wrong) if every & kernel.HAS_QOS_2 else _NOTHING_HELD
        if wrong:
            arrived = self._without_wrong(arrived, wrong, wanted)
            if not arrived.regions:
                return
        if found & kernel.ARE_APART:
            self._take_namespaces(arrived, held)
        else:
            self._take(arrived, held, self._connections[slots[arrived.regions[0]]].session.namespace)
        if found & kernel.IS_LIMITED:
            self._pause_limited(arrived)

    def waiting(self) -> list[tuple[Connection, Work]]:
        """What has to be awaited of connections before anything else of them is looked at, of what was taken since the
        last call."""
        if not self._work:
            return []
        work, self._work = self._work, {}
        return [(each, several[0] if len(several) == 1 else _in_turn(several)) for each, several in work.items()]

    def _connection(self, region: int) -> Connection:
        return self._connections[self._reactor.slots[region]]

    # What came

    def _aliased(self, scanned: Scanned, contents: array[int]) -> list[Aliased]:
        firsts, found = _zeros(len(contents) + 1), []
        [regions] = scanned.pick((names.REGION,))
        kernel.bounds(regions, firsts)
        for region, what in enumerate(contents):
            if what & kernel.HAS_ALIASES and firsts[region] < firsts[region + 1]:
                connection = self._connection(region)
                client = connection.heard_aliases, connection.alias_maximum
                found.append(Aliased(firsts[region], firsts[region + 1], *client))
        return found

    def _without_wrong(self, arrived: Arrived, wrong: Mapping[int, PacketError], wanted: array[int]) -> Arrived:
        """Clients that have broken the protocol by what they published."""
        for region, error in wrong.items():
            self._connection(region).fail(error)
            wanted[region] = 0
        return arrived.of_regions(wanted)

    def _exceeded(self, arrived: Arrived, over: array[int]) -> dict[int, PacketError]:
        """What is wrong with those who sent too many, by region."""
        found: dict[int, PacketError] = {}
        for region in compress(range(len(over)), over):
            mine = [head for head, each in zip(arrived.heads, arrived.regions, strict=True) if each == region]
            incoming = self._connection(region).incoming
            found[region] = incoming.exceeded(incoming.under_way + sum([head & _QOS == 2 for head in mine]))
        return found

    def _hold(self, arrived: Arrived, wrong: dict[int, PacketError]) -> dict[int, array[int]]:
        """The identifiers of QoS 2 by region: each is taken once [MQTT-4.3.3-10]."""
        ids: dict[int, array[int]] = {}
        for row, head in enumerate(arrived.heads):
            if head & _QOS == _QOS_2:
                ids.setdefault(arrived.regions[row], array("i")).append(arrived.packet_ids[row])
        for region, mine in ids.items():
            if region not in wrong:
                connection = self._connection(region)
                try:
                    connection.hold(mine)
                except PacketError as error:
                    wrong[region] = error
        return ids

    def _pause_limited(self, arrived: Arrived) -> None:
        limited = self._reactor.values(self._columns.is_limited)
        for region in compress(range(len(limited)), limited):
            if (count := arrived.regions.count(region)) and (pause := self._connection(region).spend(count)):
                self._await(self._connection(region), pause)

    # Who goes with others

    def _take_namespaces(self, arrived: Arrived, held: Mapping[int, array[int]]) -> None:
        namespaces = self._reactor.values(self._columns.namespaces)
        for number in set(namespaces):
            mine = arrived.of_regions(array("i", [each == number for each in namespaces]))
            if mine.count:
                self._take(mine, held, self._connection(mine.regions[0]).session.namespace)

    def _take(self, arrived: Arrived, held: Mapping[int, array[int]], namespace: str) -> None:
        """All of one namespace."""
        targets = self._routes.known_targets(arrived.topics, namespace)
        apart = self._apart(arrived, held, namespace, targets is not None)
        if any(apart):
            together = arrived.of_regions(array("i", [not each for each in apart]))
            if together.count:
                self._publish(together, held, namespace)
            self._take_apart(arrived, apart)
        else:
            self._publish(arrived, held, namespace, targets)

    def _apart(self, arrived: Arrived, held: Mapping[int, array[int]], namespace: str, is_known: bool) -> array[int]:
        """Regions whose client has to be asked or told something on its own."""
        reactor, topics, index = self._reactor, arrived.topics, arrived.columns.topic_index
        assert index is not None
        slots, regions = reactor.slots, arrived.regions
        apart = _ZERO * len(slots)
        if not is_known:
            special = bytes([self._is_special(topic, namespace) for topic in topics])
            if any(special):
                kernel.mark_topics(regions, index, special, apart)
        for region in self._grants.refused(regions, index, topics, slots, reactor.generations, self._permissions):
            apart[region] = 1
        for row in directed_rows(arrived) if arrived.has_user_properties else ():
            apart[regions[row]] = 1
        for region in held:
            apart[region] |= bool(self._connection(region).came.duplicate)
        return apart

    def _permissions(self, region: int) -> Permissions:
        return self._connection(region).permissions

    def _is_special(self, topic: bytes, namespace: str) -> bool:
        """It asks the broker for something, names a queue that would have to be made, or an exchange of which its
        publisher may have to be told more."""
        if is_request(topic) or not topic.startswith(b"$"):
            return topic.startswith(b"$")
        try:
            return self._routes.is_apart(topic, namespace)
        except PenstockError:
            return True  # it can be no queue's or exchange's, which its publisher is told

    def _take_apart(self, arrived: Arrived, apart: array[int]) -> None:
        arrived.keep()
        for region in compress(range(len(apart)), apart):
            mine = arrived.of_regions(_only(region, len(apart)))
            if mine.count:
                connection = self._connection(region)
                self._await(connection, self._own_publishes.take(connection, mine))

    def _await(self, connection: Connection, work: Work) -> None:
        self._work.setdefault(connection, []).append(work)

    # Publishing

    def _publish(
        self, arrived: Arrived, held: Mapping[int, array[int]], namespace: str, targets: Targets | None = None
    ) -> None:
        publication = self._publication(arrived, held, namespace, targets)
        turn = TurnAnswers(self._ways, arrived)
        self.loop.begun()
        try:
            is_taken = self._topics.publish_now(publication, partial(self._done, turn))
        except OutcomeUnknown as error:
            turn.owe()
            self._done(turn, error)
            return
        except PenstockError as error:
            self.loop.given_up()
            self._refused(arrived, held, namespace, error)
            return
        except BaseException:
            self.loop.given_up()
            raise
        turn.owe()
        if not is_taken:
            self._publish_later(arrived, turn, publication)

    def _publication(
        self, arrived: Arrived, held: Mapping[int, array[int]], namespace: str, targets: Targets | None
    ) -> Publication:
        return Publication(
            arrived.columns,
            arrived.topics,
            arrived.heads.translate(FLAGS),
            self._publisher,
            namespace,
            _Publishers(self._reactor.slots, arrived.regions),
            self._held_parts(arrived, held) if held else (),
            places=arrived.places,
            as_it_came=arrived.as_it_came,
            targets=targets,
        )

    def _held_parts(self, arrived: Arrived, held: Mapping[int, array[int]]) -> list[Part]:
        """Identifiers of QoS 2 of sessions that outlive their connection: message and identifier are one frame."""
        mine, found = set(arrived.regions), []
        for region, ids in held.items():
            if region in mine and (stored := self._connection(region).session.stored) is not None:
                found.append(self._topics.sessions.held_part(stored, ids))
        return found

    def _refused(self, arrived: Arrived, held: Mapping[int, array[int]], namespace: str, error: PenstockError) -> None:
        """A queue refuses something of it, which is nothing to those who published to others."""
        apart = self._blamed(arrived, namespace, error)
        rest = array("i", [not each for each in apart])
        self._take_apart(arrived, apart)
        others = arrived.of_regions(rest)
        if not others.count:
            return
        regions = list(dict.fromkeys(others.regions))
        if any(apart):
            self._publish(others, held, namespace)
            return
        for half in (regions[: len(regions) // 2], regions[len(regions) // 2 :]):
            wanted = _zeros(len(apart))
            for region in half:
                wanted[region] = 1
            self._publish(arrived.of_regions(wanted), held, namespace)

    def _blamed(self, arrived: Arrived, namespace: str, error: PenstockError) -> array[int]:
        """Regions that a refusal is about; none if that cannot be told of what it says."""
        apart, queue, routes = _zeros(len(self._reactor.slots)), getattr(error, "queue", None), self._routes
        regions, index = set(arrived.regions), arrived.columns.topic_index
        assert index is not None
        if len(regions) == 1 or error.code in OF_EVERYBODY:
            for region in regions:
                apart[region] = 1
        elif queue is not None:
            fed = [routes.queues(topic, namespace) or () for topic in arrived.topics]
            blamed = bytes([any(each.name == queue for each in queues) for queues in fed])
            kernel.mark_topics(arrived.regions, index, blamed, apart)
        return apart

    def _publish_later(self, arrived: Arrived, turn: TurnAnswers, publication: Publication) -> None:
        """Something has to be waited for: by all of them together, and by nobody else."""
        arrived.keep()
        parties = {region: self._connection(region) for region in dict.fromkeys(arrived.regions)}
        task = asyncio.create_task(self._published(parties, arrived, turn, publication))
        for connection in parties.values():
            self._await(connection, _finished(task))

    async def _published(
        self, parties: Mapping[int, Connection], arrived: Arrived, turn: TurnAnswers, publication: Publication
    ) -> None:
        regions = max(parties) + 1
        try:
            await self._topics.publish(publication)
        except OutcomeUnknown as error:
            self._done(turn, error)
        except PenstockError:
            self.loop.given_up()
            turn.give_up()
            for region, connection in parties.items():
                if not connection.is_ended:
                    await self._own_publishes.take(connection, arrived.of_regions(_only(region, regions)))
        else:
            self._done(turn, None)

    def _done(self, turn: TurnAnswers, error: PenstockError | None) -> None:
        """All of it is committed, or nobody knows whether."""
        turn.done(error)
        self.loop.committed()


class _Publishers:
    """The clients that rows are of."""

    __slots__ = ("_regions", "_slots")

    def __init__(self, slots: array[int], regions: array[int]) -> None:
        self._slots, self._regions = slots, regions

    def rows_by(self, subscriber: Hashable) -> Collection[int]:
        connection = subscriber.connection if isinstance(subscriber, Session) else None
        if connection is None or connection.transport.slot not in self._slots:
            return ()
        region = self._slots.index(connection.transport.slot)
        return {row for row, each in enumerate(self._regions) if each == region}


async def _in_turn(several: Sequence[Work]) -> None:
    """All of them, whatever becomes of one."""
    for work in several:
        try:
            await work
        except BaseException:
            for each in several:
                each.close()
            raise


async def _finished(task: asyncio.Task[None]) -> None:
    await asyncio.wait([task])


def _zeros(count: int) -> array[int]:
    return _ZERO * count


def _only(region: int, regions: int) -> array[int]:
    wanted = _zeros(regions)
    wanted[region] = 1
    return wanted
