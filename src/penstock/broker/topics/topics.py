"""Publishing by topic, for all doors: whom it is for, one frame for all that is durable, then those who are
connected."""

from __future__ import annotations

import asyncio
import logging
from array import array
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import NamedTuple, TypeAlias

from penstock.broker.broker import Broker
from penstock.broker.publish.publisher import Publisher
from penstock.broker.publish.request import PublishRequest, Put, PutFields, RoutedFields, Targets
from penstock.broker.queues.transaction import Acks
from penstock.broker.retained.retained import Retained
from penstock.broker.retained.space import RetainedSpace
from penstock.broker.sessions.sessions import Sessions
from penstock.broker.sessions.targets import RETAIN, Accepted
from penstock.broker.topics.planning import Plan, plan, plan_share
from penstock.broker.topics.publication import QOS, Publication, is_reserved
from penstock.broker.topics.router import Router
from penstock.broker.topics.shares import SharedStrategy
from penstock.broker.topics.stores import targets_of
from penstock.broker.topics.subscriptions import Share
from penstock.core.errors import InvalidArgument, PenstockError, Unroutable
from penstock.core.types import Purpose
from penstock.kernels.topics import check_topic
from penstock.log.columns import Columns, Spans
from penstock.log.engine import Done
from penstock.log.journal.late import Part
from penstock.log.upkeep.faults import Telling
from penstock.queues.exchange_topics import TOPIC_EXCHANGE, ExchangeAddress, exchange_address, swapped

logger = logging.getLogger("penstock.broker.topics")

_NOBODY = frozenset[int]()
_NOBODYS = Plan([])
"""of what nobody who is connected or has a session gets; never changed"""
_UPKEEP_MS = 5_000
# At most, of a part of a frame beside its bytes.
_PART_BYTES = 128


@dataclass(frozen=True, slots=True)
class TopicOptions:
    shared_strategy: SharedStrategy = SharedStrategy.ROUND_ROBIN
    retain_available: bool = True


class Reach(NamedTuple):
    """Whom a publication got to."""

    plan: Plan
    columns: Columns
    topics: frozenset[int]
    """numbers of those that feed a queue, or that somebody without a subscription listens to"""

    def rows(self) -> Collection[int]:
        """Those that somebody gets."""
        assert self.columns.topics is not None
        if len(self.topics) == len(self.columns.topics.starts):
            return range(self.columns.count)
        by_topic = self.columns.rows_of_topics(sorted(self.topics)) if self.topics else ()
        return set(chain(by_topic, *self.plan.rows()))


_Prepared: TypeAlias = "tuple[Publication, bool, Plan, _Durable, list[Accepted], Targets]"
"""what becomes of a publication, which is behind exchanges then, and whether something of it is to be retained"""
_Durable: TypeAlias = "tuple[Sequence[PutFields], Sequence[Part], RoutedFields | None]"
"""what of it is: nothing, where all are empty"""


class Topics:
    """Of one broker, used from its loop. Sessions and retained messages are closed with it."""

    def __init__(
        self, broker: Broker, sessions: Sessions, retained: Retained, options: TopicOptions | None = None
    ) -> None:
        self._broker, self.sessions, self.retained = broker, sessions, retained
        self._intake, self._routes = broker.publishing.intake, broker.publishing.routes
        self.options = options or TopicOptions()
        self._routers: dict[str, Router] = {}
        self.received = 0
        """messages that were taken"""
        self.retaining = 0
        """publications under way that change what is retained"""
        self._telling = Telling(logger)
        self._upkeep: asyncio.Task[None] | None = None
        broker.alarms.set(self, broker.now() + _UPKEEP_MS, self._keep_up)

    def router(self, namespace: str) -> Router:
        found = self._routers.get(namespace)
        if found is None:
            found = self._routers[namespace] = Router()
        return found

    @property
    def routers(self) -> list[Router]:
        return list(self._routers.values())

    # Publishing

    def publish_now(self, publication: Publication, done: Done) -> bool:
        """publish() in this turn of the loop. Whether it was taken; `done` is called when it is committed, at once if
        nothing of it is durable. Raises what a queue refuses. False if something has to be waited for. In both cases
        nobody got anything."""
        prepared = None if publication.producer is not None else self._prepared(publication)
        if prepared is None:
            return False
        publication, has_retained, made, (puts, parts, routed), accepted, _ = prepared
        if routed is None and not puts and not parts:
            _note_taken(accepted, made)
            self._deliver(publication, made)
            done(None)
            return True
        if accepted or has_retained:
            return self._publish_kept(prepared, done)
        is_taken = self._intake.try_stage(puts, done, parts, routed) is not None
        if is_taken:
            self._deliver(publication, made)
        return is_taken

    def _publish_kept(self, prepared: _Prepared, done: Done) -> bool:
        """publish_now() where something is kept until it is committed, or refused."""
        publication, has_retained, made, (puts, parts, routed), accepted, _ = prepared
        self.retaining += has_retained
        is_taken = False
        try:
            finish = partial(self._finish, accepted, has_retained, done)
            is_taken = self._intake.try_stage(puts, finish, parts, routed) is not None
        finally:
            if not is_taken:
                self._finish(accepted, has_retained)
        if is_taken:
            _note_taken(accepted, made)
            self._deliver(publication, made)
        return is_taken

    async def publish(self, publication: Publication, acks: Acks | None = None) -> Reach:
        """Returns when it is committed. Raises what a queue refuses: then nobody got it. The rows must be kept. `acks`
        are settled in the same frame, or nothing is done: StaleSettlement."""
        if acks is not None:
            await acks.prepare()
        publication.targets = None
        while (prepared := self._prepared(publication)) is None:
            await self._make(publication)
        publication, has_retained, made, (puts, parts, routed), accepted, targets = prepared
        self.retaining += has_retained
        request = PublishRequest([Put(*put) for put in puts], parts, publication.producer, routed=routed)
        if acks is not None:
            request = request._replace(late=acks.late, purpose=Purpose.SETTLE)
        try:
            if acks is not None or routed is not None or puts or parts:
                await self._intake.stage(request)
            _note_taken(accepted, made)
        finally:
            self._finish(accepted, has_retained)
        if acks is not None:
            acks.done()
        return Reach(made, publication.columns, self._deliver(publication, made).union(targets.feeding))

    def _prepared(self, publication: Publication) -> _Prepared | None:
        """None if a queue, or the log of what is retained, has to be made first."""
        if has_retained := publication.has_retained:
            publication = publication.without_retained()
            has_retained = publication.has_retained
        namespace = publication.namespace
        targets = publication.targets or self._routes.targets(publication.topics, namespace)
        if targets is not None and (publication.further or not targets.are_entered):
            publication, targets = self._entered(publication)
        space = self.retained.spaces.get(namespace) if has_retained else None
        if targets is None or (has_retained and space is None):
            return None
        made = self._plan(publication)
        if publication.is_mandatory:
            _refuse_unrouted(publication, Reach(made, publication.columns, frozenset(targets.feeding)))
        parts, accepted = publication.parts, list[Accepted]()
        if made.stored or space is not None:
            parts, accepted = self._parts(publication, made, space)
        return publication, has_retained, made, _durable(publication, targets, parts), accepted, targets

    def _entered(self, publication: Publication) -> tuple[Publication, Targets | None]:
        """The publication behind exchanges, and the queues that it feeds there; None if one has to be made first."""
        routes, namespace, said = self._routes, publication.namespace, (publication.headers, publication.further)
        entered = routes.enter(publication.columns, publication.topics, namespace, *said)
        return publication.entered(entered), routes.targets(entered.topics, namespace, entered.found)

    async def _make(self, publication: Publication) -> None:
        """What _prepared() asks for."""
        routes, namespace = self._routes, publication.namespace
        if routes.targets(publication.topics, namespace) is None:
            made = await routes.make(
                publication.topics,
                publication.columns,
                namespace,
                publication.partition,
                publication.producer,
                self._beside_bytes(publication),
            )
            if publication.made is not None:
                publication.made |= made
        if publication.without_retained().has_retained:
            await self.retained.space(namespace)

    def _beside_bytes(self, publication: Publication) -> int:
        """What the frame will have beside queues, about. InvalidArgument for what cannot be retained."""
        space = self.retained.spaces.get(publication.namespace) if publication.has_retained else None
        parts, accepted = self._parts(publication, self._plan(publication), space)
        self._finish(accepted, False)
        return sum([columns.bytes + _PART_BYTES for _, columns in parts])

    def tell(self, publication: Publication) -> None:
        """Those who are connected, and nobody else: what the broker says of itself."""
        self._plan(publication).deliver(publication)
        self._tap(publication)

    def _deliver(self, publication: Publication, made: Plan) -> frozenset[int]:
        """To those who are connected. The numbers of topics that others listen to."""
        if made is not _NOBODYS:
            made.deliver(publication)
        self.received += publication.columns.count
        return self._tap(publication) if self._broker.taps.count else _NOBODY

    def _tap(self, publication: Publication) -> frozenset[int]:
        taps = self._broker.taps
        if not taps.count:
            return _NOBODY
        return taps.push(publication.namespace, publication.shown, publication.topics)

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

    def _plan(self, publication: Publication) -> Plan:
        router = self._routers.get(publication.namespace)
        routes = None if router is None else router.routes(publication.topics)
        return plan(publication, routes, self.options.shared_strategy) if routes else _NOBODYS

    def _parts(
        self, publication: Publication, made: Plan, space: RetainedSpace | None
    ) -> tuple[list[Part], list[Accepted]]:
        """What goes into the frame beside queues. Room is kept last: nothing is refused behind it."""
        parts = list(publication.parts)
        if space is not None:
            columns = _retained_columns(publication)
            parts += space.parts(columns, array("i", range(columns.count)))
        accepted = self._accept(publication, made)
        for each in accepted:
            parts += each.parts
        return parts, accepted

    def _accept(self, publication: Publication, made: Plan) -> list[Accepted]:
        """For those that messages are stored for, layer by layer."""
        return [self.sessions.accept(publication.shown, targets_of(layer)) for layer in made.stored]

    async def send(
        self,
        columns: Columns,
        *,
        qos: int,
        retain: bool,
        publisher: Publisher,
        namespace: str = "default",
        made: dict[bytes, str] | None = None,
        is_mandatory: bool = False,
    ) -> int:
        """publish() for doors without packets: all rows alike. How many reached a subscriber or a queue. A key places a
        message, its headers do not. Queues that are made for it are added to `made`, by topic.

        InvalidArgument for what is no topic to publish to. May they do it? is the caller's question."""
        if not 0 <= qos <= QOS - 1:
            raise InvalidArgument(f"{qos} is not a QoS: give 0, 1 or 2")
        if retain and not self.options.retain_available:
            raise InvalidArgument("nothing is retained here (mqtt.retain_available): publish it without retain")
        flags = bytes([qos | (RETAIN if retain else 0)]) * columns.count
        publication = Publication(columns, _topics_of(columns), flags, publisher, namespace, made=made)
        publication.is_mandatory = is_mandatory
        return len((await self.publish(publication)).rows())

    async def redistribute(self, share: Share, publication: Publication) -> None:
        """Messages of a shared subscription that a member did not get: to other members, while there are any."""
        made = Plan([])
        strategy = self.options.shared_strategy
        plan_share(publication, share, range(publication.columns.count), strategy, made)
        accepted = self._accept(publication, made)
        try:
            if parts := [part for each in accepted for part in each.parts]:
                await self._broker.shard.commit(parts)
            _note_taken(accepted, made)
        finally:
            self._finish(accepted, False)
        made.deliver(publication)

    # Upkeep

    def _keep_up(self, now: int) -> None:
        self._broker.alarms.set(self, now + _UPKEEP_MS, self._keep_up)
        if self._upkeep is None or self._upkeep.done():
            self._upkeep = asyncio.get_running_loop().create_task(self.keep_up(now))

    async def keep_up(self, now: int) -> None:
        """Snapshots of sessions are written, what expired is forgotten."""
        try:
            await self.sessions.keep_up(now)
            await self.retained.keep_up(now)
        except PenstockError as error:
            # What storage refuses it refuses to everybody, and says why itself.
            self._telling.warn("upkeep", "upkeep of sessions and retained messages failed error=%s", error)
        except Exception:
            logger.exception("upkeep of sessions and retained messages failed")

    async def close(self) -> None:
        """After the doors, before the broker."""
        self._broker.alarms.drop(self)
        if self._upkeep is not None:
            await asyncio.wait([self._upkeep])
        await self.sessions.close()
        self.retained.close()


def _refuse_unrouted(publication: Publication, reach: Reach) -> None:
    columns, reached = publication.columns, reach.rows()
    if len(reached) == columns.count:
        return
    assert columns.topic_index is not None
    row = next(row for row in range(columns.count) if row not in reached)
    topic = publication.topics[columns.topic_index[row]]
    address = exchange_address(topic) or ExchangeAddress(TOPIC_EXCHANGE, swapped(topic))
    raise Unroutable(address.exchange, address.key.decode("utf-8", "replace"))


def _durable(publication: Publication, targets: Targets, parts: Sequence[Part]) -> _Durable:
    queues, columns, publisher = targets.queues, publication.columns, publication.publisher
    if not queues:
        return (), parts, None
    if publication.is_directed or (len(queues) == 1 and publication.places is None):
        partition = publication.partition
        mine = [(queue, columns.of_topics(some)) for queue, some in targets.by_queue().items()]
        return [(queue, rows, publisher, partition, None, None) for queue, rows in mine], parts, None
    return (), parts, (columns, targets, publisher, publication.places)


def _note_taken(accepted: Sequence[Accepted], made: Plan) -> None:
    """It can no longer be refused: those who had no room have lost it, and are told so if that is the policy."""
    for each, layer in zip(accepted, made.stored, strict=True):
        each.taken()
        for stored in each.overflowed:
            for subscriber in layer:
                if subscriber.stored is stored:
                    subscriber.overflown()


def _topics_of(columns: Columns) -> list[bytes]:
    """Checked, each of them."""
    spans, source = columns.topics, columns.source
    if spans is None or columns.topic_index is None or not columns.count:
        raise InvalidArgument("a publish by topic needs messages, and a topic for each of them")
    topics = [bytes(source[start:end]) for start, end in zip(spans.starts, spans.ends, strict=True)]
    for topic in topics:
        check_topic(topic)
        if is_reserved(topic):
            raise InvalidArgument(f"{topic.decode()!r} is for the broker to publish, or asks it for something")
    return topics


def _retained_columns(publication: Publication) -> Columns:
    """Rows to be retained, with the QoS they came with."""
    columns, flags = publication.shown, publication.flags
    rows = [row for row, flag in enumerate(flags) if flag & RETAIN]
    source, index = columns.source, columns.topic_index
    assert index is not None

    def entries(spans: Spans) -> list[bytes]:
        return [bytes(source[spans.starts[row] : spans.ends[row]]) for row in rows]

    return Columns.of(
        entries(columns.value),
        topics=[publication.topics[index[row]] for row in rows],
        properties=None if columns.properties is None else entries(columns.properties),
        native=[bytes([flags[row] & QOS]) for row in rows],
        expiry=None if columns.expiry is None else [columns.expiry[row] for row in rows],
    )
