"""Messages from clients: who may publish, whom they are for, one frame for all that is durable, then the answers."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, groupby
from typing import NamedTuple

from penstock.broker.broker import Broker
from penstock.broker.publisher import Publisher
from penstock.broker.queue import Queue
from penstock.broker.retained.retained import Retained
from penstock.broker.retained.space import RetainedSpace
from penstock.broker.sessions.sessions import Sessions
from penstock.broker.sessions.targets import Accepted
from penstock.codecs.mqtt.reasons import ReasonCode
from penstock.core.errors import ErrorCode, PenstockError
from penstock.gateways.mqtt.arrival import Arrived
from penstock.gateways.mqtt.directed import directions
from penstock.gateways.mqtt.fanout import FanOut, Plan, arrived_again, rows_of_topics
from penstock.gateways.mqtt.router import Route, Router
from penstock.gateways.mqtt.session import Session
from penstock.gateways.mqtt.shared_flights import Unfinished
from penstock.gateways.mqtt.storing import targets_of
from penstock.log.columns import Columns, Spans
from penstock.log.engine import Done
from penstock.log.shard import Part

_RETAIN = 0x01
_NOBODY = frozenset[int]()
REASONS = {
    ErrorCode.QUEUE_FULL: ReasonCode.QUOTA_EXCEEDED,
    ErrorCode.DISK_LOW: ReasonCode.QUOTA_EXCEEDED,
    ErrorCode.TOO_LARGE: ReasonCode.QUOTA_EXCEEDED,
    ErrorCode.NO_SUCH_QUEUE: ReasonCode.TOPIC_NAME_INVALID,
    ErrorCode.INVALID_ARGUMENT: ReasonCode.TOPIC_NAME_INVALID,
}


def reason_of(error: PenstockError) -> ReasonCode:
    """What a publisher is told."""
    return REASONS.get(error.code, ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR)


@dataclass(slots=True)
class Publication:
    """Rows of one client on their way: all of them, or those that some queues share."""

    arrived: Arrived
    session: Session | None
    publisher: Publisher
    namespace: str
    held: array[int] | None = None
    """packet identifiers of QoS 2 that go into the frame"""
    parts: Sequence[Part] = ()
    """what else goes into it"""


class Reach(NamedTuple):
    """Whom a publish got to."""

    plan: Plan
    topics: frozenset[int]
    """numbers of those that feed a queue, or that somebody without a session listens to"""


class Intake:
    """Of all connections."""

    def __init__(
        self, broker: Broker, router: Callable[[str], Router], fanout: FanOut, sessions: Sessions, retained: Retained
    ) -> None:
        self._broker, self._router, self._fanout = broker, router, fanout
        self._sessions, self._retained = sessions, retained
        self.received = self.refused = 0
        self.retaining = 0
        """publishes under way that change what is retained"""

    # In this turn of the loop

    def publish_now(self, publication: Publication, done: Done) -> bool:
        """Whether it was taken; `done` is called when it is committed, at once if nothing of it is durable. Raises what
        a queue refuses. False if something has to be waited for. In both cases nobody got anything."""
        arrived, namespace = publication.arrived, publication.namespace
        wanted = self._wanted_now(arrived, namespace)
        if wanted is None:
            return False
        has_retained = _has_retained(arrived.heads)
        space = self._retained.spaces.get(namespace) if has_retained else None
        if has_retained and space is None:
            return False
        plan = self._plan(arrived, publication)
        parts, accepted = self._parts(publication, plan, space)
        if wanted or parts:
            finish = partial(self._finish, accepted, has_retained, done)
            self.retaining += has_retained
            try:
                is_taken = self._broker.publishing.publish_now(wanted, publication.publisher, parts, finish)
            except BaseException:
                self._finish(accepted, has_retained)
                raise
            if not is_taken:
                self._finish(accepted, has_retained)
                return False
        self._push(publication, plan)
        if not (wanted or parts):
            done(None)
        return True

    def _push(self, publication: Publication, plan: Plan) -> frozenset[int]:
        """To those who are connected. The numbers of topics that others listen to."""
        arrived, taps = publication.arrived, self._broker.taps
        self._fanout.push(arrived, plan)
        self.received += arrived.columns.count
        return taps.push(publication.namespace, arrived.columns, arrived.topics) if taps.count else _NOBODY

    def _finish(
        self,
        accepted: Sequence[Accepted],
        has_retained: bool,
        done: Done | None = None,
        error: PenstockError | None = None,
    ) -> None:
        self.retaining -= has_retained
        for each in accepted:
            each.close()
        if done is not None:
            done(error)

    def _plan(self, arrived: Arrived, publication: Publication) -> Plan:
        router = self._router(publication.namespace)
        routes: list[Route] = [router.route(topic) for topic in arrived.topics]
        return self._fanout.plan(arrived, routes, publication.session)

    def _wanted_now(self, arrived: Arrived, namespace: str) -> list[tuple[Queue, Columns]] | None:
        """Of each queue its rows; None if a queue has to be made first."""
        targets = self._broker.publishing.targets_now
        if len(arrived.topics) == 1:
            queues = targets(arrived.topics[0], namespace)
            return None if queues is None else [(queue, arrived.columns) for queue in queues]
        topics_of: dict[Queue, list[int]] = {}
        for number, topic in enumerate(arrived.topics):
            queues = targets(topic, namespace)
            if queues is None:
                return None
            for queue in queues:
                topics_of.setdefault(queue, []).append(number)
        return [(queue, _rows(arrived.columns, numbers)) for queue, numbers in topics_of.items()]

    def _parts(
        self, publication: Publication, plan: Plan, space: RetainedSpace | None
    ) -> tuple[list[Part], list[Accepted]]:
        """What goes into the frame beside queues."""
        arrived, parts = publication.arrived, list(publication.parts)
        accepted = self._accept(arrived, plan)
        for each in accepted:
            parts += each.parts
        if space is not None:
            columns = _retained_columns(arrived)
            parts += space.parts(columns, array("i", range(columns.count)))
        session = publication.session
        if publication.held and session is not None and session.stored is not None:
            parts.append(self._sessions.held_part(session.stored, publication.held))
        return parts, accepted

    def _accept(self, arrived: Arrived, plan: Plan) -> list[Accepted]:
        """For sessions that messages are stored for."""
        found = []
        for layer in plan.stored:
            accepted = self._sessions.accept(arrived.columns, targets_of(layer))
            found.append(accepted)
            for stored in accepted.overflowed:
                for session in layer:
                    if session.stored is stored and session.connection is not None:
                        session.connection.overflown()
        return found

    # With waiting

    async def publish(self, publication: Publication) -> Reach:
        """Returns when it is committed. Raises what a queue refuses: then nobody got it. The rows must be kept."""
        arrived, namespace = publication.arrived, publication.namespace
        topics_of: dict[Queue, list[int]] = {}
        for number, topic in enumerate(arrived.topics):
            for queue in await self._broker.publishing.targets(topic, namespace):
                topics_of.setdefault(queue, []).append(number)
        wanted = [(queue, _rows(arrived.columns, numbers)) for queue, numbers in topics_of.items()]
        reach = await self._publish_into(publication, wanted)
        return reach._replace(topics=reach.topics.union(chain.from_iterable(topics_of.values())))

    async def publish_directed(self, publication: Publication) -> None:
        """A single message that says more than its topic. Each queue takes it on its own, after all were asked whether
        they do; the rest is one frame. To those who are no queue, what it says is theirs to read."""
        arrived, publishing = publication.arrived, self._broker.publishing
        queues = await publishing.targets(arrived.topics[0], publication.namespace)
        if queues:
            partition, producer = directions(arrived.columns)
            for queue in queues:
                publishing.refuse(queue, arrived.columns)
                if partition is not None:
                    queue.place(arrived.columns, publication.publisher, partition)
            for queue in queues:
                await publishing.put(queue, arrived.columns, publication.publisher, partition, producer)
        await self._publish_into(publication, [])

    async def _publish_into(self, publication: Publication, wanted: Sequence[tuple[Queue, Columns]]) -> Reach:
        arrived = publication.arrived
        has_retained = _has_retained(arrived.heads)
        space = await self._retained.space(publication.namespace) if has_retained else None
        plan = self._plan(arrived, publication)
        parts, accepted = self._parts(publication, plan, space)
        self.retaining += has_retained
        try:
            if wanted or parts:
                await self._broker.publishing.publish_into(wanted, publication.publisher, parts)
        finally:
            self._finish(accepted, has_retained)
        return Reach(plan, self._push(publication, plan))

    async def redistribute(self, unfinished: Sequence[Unfinished]) -> None:
        """Messages of shared subscriptions that a member did not get: to other members, while there are any."""
        for share, some in groupby(unfinished, lambda each: each.share):
            arrived = arrived_again([each.packet for each in some], self._broker.now())
            plan = Plan([])
            self._fanout.plan_share(arrived, share, range(arrived.columns.count), plan)
            accepted = self._accept(arrived, plan)
            try:
                if parts := [part for each in accepted for part in each.parts]:
                    await self._broker.shard.commit(parts)
            finally:
                self._finish(accepted, False)
            self._fanout.push(arrived, plan)


def _has_retained(heads: bytes) -> bool:
    """Whether any of the messages is to be retained."""
    first = heads[0]
    if heads.count(first) == len(heads):
        return bool(first & _RETAIN)
    return any(head & _RETAIN for head in set(heads))


def _rows(columns: Columns, numbers: Sequence[int]) -> Columns:
    assert columns.topics is not None
    if len(numbers) == len(columns.topics.starts):
        return columns
    return columns.select(rows_of_topics(columns, numbers))


def _retained_columns(arrived: Arrived) -> Columns:
    """Rows to be retained, with the QoS they came with."""
    rows = [row for row, head in enumerate(arrived.heads) if head & _RETAIN]
    columns = arrived.columns
    source, index = columns.source, columns.topic_index
    assert index is not None

    def entries(spans: Spans) -> list[bytes]:
        return [bytes(source[spans.starts[row] : spans.ends[row]]) for row in rows]

    return Columns.of(
        entries(columns.value),
        topics=[arrived.topics[index[row]] for row in rows],
        properties=None if columns.properties is None else entries(columns.properties),
        native=[bytes([arrived.heads[row] >> 1 & 3]) for row in rows],
        expiry=None if columns.expiry is None else [columns.expiry[row] for row in rows],
    )
