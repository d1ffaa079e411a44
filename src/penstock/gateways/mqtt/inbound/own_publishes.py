"""What one client publishes where that cannot be taken with what others do: it asks the broker for something, may not,
says where a message goes, sends one again, or has to wait."""

from __future__ import annotations

from array import array
from collections.abc import Coroutine, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby

from penstock.broker.broker import Broker
from penstock.broker.topics.publication import OneSource, Publication
from penstock.broker.topics.topics import Reach, Topics
from penstock.codecs.mqtt.errors import PacketError, ProtocolError
from penstock.codecs.mqtt.inflight import Arrived as Came
from penstock.codecs.mqtt.kinds import PacketType, Version
from penstock.codecs.mqtt.reasons import ReasonCode
from penstock.core.errors import ErrorCode, NoSuchQueue, OutcomeUnknown, PenstockError
from penstock.gateways.mqtt.admin.admin import Admin
from penstock.gateways.mqtt.admin.reports import Reports
from penstock.gateways.mqtt.connection import Connection
from penstock.gateways.mqtt.inbound.answers import UNROUTED, Answer, Noted, Refused, Told, created
from penstock.gateways.mqtt.inbound.arrival import Arrived
from penstock.gateways.mqtt.inbound.directed import directed_rows, directions
from penstock.gateways.mqtt.inbound.refusals import refusal_of
from penstock.gateways.mqtt.inbound.settlements import Settlements
from penstock.queues.exchange_topics import EXCHANGE_PREFIX
from penstock.queues.names import is_settlement, queue_of_publish_topic

_QOS, _QOS_1, _QOS_2 = 0x06, 0x02, 0x04
_MINE = (b"$SYS/", b"$share/")
_Refusals = dict[int, Refused]
"""by row"""


@dataclass(slots=True)
class _Noted:
    """What a client may not expect of what it published."""

    made: dict[bytes, str] = field(default_factory=dict)
    """queues by the topics that they were made for"""
    unrouted: set[int] = field(default_factory=set)
    """packet identifiers of messages that an exchange had nobody for"""


_NOTHING_NOTED = _Noted()


class OwnPublishes:
    """One for all connections."""

    def __init__(
        self, broker: Broker, topics: Topics, settlements: Settlements, admin: Admin, reports: Reports
    ) -> None:
        self._routes, self._topics = broker.publishing.routes, topics
        self._settlements, self._admin, self._reports = settlements, admin, reports

    def take(self, connection: Connection, arrived: Arrived) -> Coroutine[None, None, None]:
        """To be awaited before anything else of the client is looked at; it is counted among what is to be answered,
        and what has QoS 2 is held."""
        held: array[int] | None = None
        owed: list[Answer] = []
        if any(head & _QOS == _QOS_2 for head in arrived.heads):
            held, again = array("i", connection.came.fresh), array("i", connection.came.duplicate)
            arrived = _without_duplicates(connection.came, arrived)
            owed = _owe(connection, arrived) if arrived.count else []
            owed += _owe_again(connection, again, held)
        else:
            owed = _owe(connection, arrived)
        return self._take(connection, arrived, held, owed)

    def _publication(
        self, connection: Connection, arrived: Arrived, held: array[int] | None, noted: _Noted
    ) -> Publication:
        """`held` are packet identifiers of QoS 2, which go into the frame."""
        session = connection.session
        source = OneSource(session, arrived.count)
        publication = Publication(
            arrived.columns,
            arrived.topics,
            arrived.flags,
            connection.publisher,
            session.namespace,
            source,
            made=noted.made,
        )
        if held and session.stored is not None:
            publication.parts = [self._topics.sessions.held_part(session.stored, held)]
        return publication

    # Answers

    def _answer(
        self,
        connection: Connection,
        owed: list[Answer],
        arrived: Arrived,
        refused: _Refusals,
        noted: _Noted = _NOTHING_NOTED,
    ) -> None:
        """`refused` by row."""
        if refused and connection.session.version is Version.V3_1_1:
            reason = next(iter(refused.values())).reason
            connection.fail(ProtocolError("a publish was refused, which MQTT 3.1.1 cannot say", reason))
            return
        told: dict[int, Told] = {**refused}
        if (noted.made or noted.unrouted) and connection.session.version is not Version.V3_1_1:
            told |= _notes(arrived, refused, noted)
        for answer in owed:
            if answer.kind is PacketType.PUBACK:
                connection.incoming.puback(len(answer.packet_ids))
            connection.answers.give(answer, _told(connection, answer, arrived, told) if told else {})

    # What takes longer

    async def _take(
        self, connection: Connection, arrived: Arrived, held: array[int] | None, owed: list[Answer]
    ) -> None:
        refused: _Refusals = {}
        noted = _Noted()
        try:
            for some in _runs(arrived) if arrived.count else ():
                mine = arrived if len(some) == arrived.count else arrived.narrowed(some)
                not_taken = await self._take_run(connection, mine, held, noted)
                refused |= {some[row]: each for row, each in not_taken.items()}
        except PacketError as error:
            connection.fail(error)
            return
        except OutcomeUnknown as error:
            connection.uncommitted(error)
            return
        self._reports.refused_rows.update([each.reason for each in refused.values()])
        self._answer(connection, owed, arrived, refused, noted)

    async def _take_run(
        self, connection: Connection, arrived: Arrived, held: array[int] | None, noted: _Noted
    ) -> _Refusals:
        """Rows that are all to be published, or all ask for something; what is refused of them."""
        refused: _Refusals = {}
        plain: list[int] = []
        for number, topic in enumerate(arrived.topics):
            reasons = await self._ask(connection, arrived, number, topic)
            if reasons is None:
                plain.append(number)
            else:
                refused |= reasons
        return refused | await self._publish(connection, arrived, plain, held, noted) if plain else refused

    async def _ask(self, connection: Connection, arrived: Arrived, number: int, topic: bytes) -> _Refusals | None:
        """None if the topic is to be published; else the rows that were refused."""
        if is_settlement(topic):
            return await self._settlements.take(connection, arrived, number, topic)
        if topic.startswith(b"$admin/"):
            return await self._admin.take(connection, arrived, number, topic)
        if not topic.startswith(_MINE) and connection.permissions.may_publish(topic):
            return self._refused_to_make(connection, arrived, number, topic)
        detail = f"{connection.identity.name} may not publish to {topic.decode()!r}"
        if topic.startswith(_MINE):
            detail = f"{topic.decode()!r} is for the server to publish"
        refused = Refused(ReasonCode.NOT_AUTHORIZED, detail)
        return dict.fromkeys(arrived.columns.rows_of_topics([number]), refused)

    def _refused_to_make(self, connection: Connection, arrived: Arrived, number: int, topic: bytes) -> _Refusals | None:
        """The client wants no queue to be made, and the topic names one that is not there."""
        if connection.makes_queues or topic.startswith(EXCHANGE_PREFIX):
            return None
        if self._routes.queues(topic, connection.session.namespace) is not None:
            return None
        refused = refusal_of(NoSuchQueue(queue_of_publish_topic(topic.decode()) or topic.decode()))
        return dict.fromkeys(arrived.columns.rows_of_topics([number]), refused)

    async def _publish(
        self, connection: Connection, arrived: Arrived, topics: list[int], held: array[int] | None, noted: _Noted
    ) -> _Refusals:
        """As much of it as is taken, in its order, whatever came together: none is refused for the sake of another."""
        numbers = arrived.columns.rows_of_topics(topics)
        if directed_rows(arrived):
            return await self._publish_directed(connection, arrived, numbers, held, noted)
        index = arrived.columns.topic_index
        assert index is not None
        refused: _Refusals = {}
        given_up: set[int] = set()
        waiting = [numbers]
        while waiting:
            some = array("i", [row for row in waiting.pop() if index[row] not in given_up])
            error = await self._publish_rows(connection, arrived, some, held, noted) if some else None
            if error is None:
                continue
            if len(some) > 1:
                half = len(some) // 2
                waiting += [some[half:], some[:half]]
                continue
            self._reports.refused(connection.name, "publish", error)
            refused[some[0]] = refusal_of(error)
            if error.code is not ErrorCode.TOO_LARGE:
                # What is full or not there now is so for those of its topic behind it, too.
                given_up.add(index[some[0]])
                behind = [row for row in numbers if row > some[0] and index[row] == index[some[0]]]
                refused |= dict.fromkeys(behind, refusal_of(error))
        return refused

    async def _publish_rows(
        self, connection: Connection, arrived: Arrived, numbers: array[int], held: array[int] | None, noted: _Noted
    ) -> PenstockError | None:
        """What they are refused with; nobody got any of them then."""
        mine = arrived if len(numbers) == arrived.count else arrived.narrowed(numbers)
        ids = None if not held else array("i", [number for number in held if number in set(mine.packet_ids)])
        try:
            reach = await self._topics.publish(self._publication(connection, mine, ids, noted))
        except OutcomeUnknown:
            raise
        except PenstockError as error:
            return error
        _note_unrouted(mine, reach, noted)
        return None

    def _feeds_queue(self, topic: bytes, namespace: str) -> bool:
        """Or will, once that is made. To those who are no queue, what a message says is theirs to read."""
        return topic.startswith(EXCHANGE_PREFIX) or self._routes.queues(topic, namespace) != []

    async def _publish_directed(
        self, connection: Connection, arrived: Arrived, numbers: array[int], held: array[int] | None, noted: _Noted
    ) -> _Refusals:
        """One after the other, each in a frame of its own."""
        refused = _Refusals()
        for row in numbers:
            one = arrived.narrowed(array("i", [row]))
            ids = one.packet_ids if held and one.packet_ids[0] in held else None
            publication = self._publication(connection, one, ids, noted)
            try:
                if self._feeds_queue(one.topics[0], connection.session.namespace):
                    login = connection.identity.mark
                    publication.partition, publication.producer = directions(one.columns, login)
                _note_unrouted(one, await self._topics.publish(publication), noted)
            except OutcomeUnknown:
                raise
            except PenstockError as error:
                self._reports.refused(connection.name, "publish", error)
                refused[row] = refusal_of(error)
        return refused


def _without_duplicates(came: Came, arrived: Arrived) -> Arrived:
    """What is to be taken: those that came before are answered again, and not taken again [MQTT-4.3.3-10]."""
    if not came.duplicate:
        return arrived
    fresh = set(came.fresh)
    kept = array("i")
    for row, head in enumerate(arrived.heads):
        if head & _QOS != _QOS_2:
            kept.append(row)
        elif arrived.packet_ids[row] in fresh:
            kept.append(row)
            fresh.discard(arrived.packet_ids[row])
    return arrived.narrowed(kept)


def _owe(connection: Connection, arrived: Arrived) -> list[Answer]:
    owed = []
    for kind, qos in ((PacketType.PUBACK, _QOS_1), (PacketType.PUBREC, _QOS_2)):
        ids = [arrived.packet_ids[row] for row, head in enumerate(arrived.heads) if head & _QOS == qos]
        if ids:
            owed.append(connection.answers.owe(kind, array("i", ids)))
    return owed


def _owe_again(connection: Connection, again: array[int], held: array[int] | None) -> list[Answer]:
    """Those whose first came together with them are answered as it is: it may be refused yet. The others are answered
    behind it, which may not be committed yet."""
    fresh = set(held or ())
    known = array("i", [number for number in again if number not in fresh])
    if known:
        connection.answers.give(connection.answers.owe(PacketType.PUBREC, known))
    twice = array("i", [number for number in again if number in fresh])
    return [connection.answers.owe(PacketType.PUBREC, twice)] if twice else []


def _notes(arrived: Arrived, refused: _Refusals, noted: _Noted) -> dict[int, Noted]:
    """By row: the first of a topic that was taken says which queue was made for it."""
    notes: dict[int, Noted] = {}
    if noted.unrouted:
        notes = {row: UNROUTED for row, number in enumerate(arrived.packet_ids) if number in noted.unrouted}
    for topic, queue in noted.made.items():
        rows_of_it = arrived.columns.rows_of_topics([arrived.topics.index(topic)])
        taken = (row for row in rows_of_it if row not in refused and arrived.heads[row] & _QOS)
        if (row := next(taken, None)) is not None:
            notes[row] = created(queue)
    return notes


def _note_unrouted(arrived: Arrived, reach: Reach, noted: _Noted) -> None:
    index, exchanges = arrived.columns.topic_index, [topic.startswith(EXCHANGE_PREFIX) for topic in arrived.topics]
    assert index is not None
    if any(exchanges):
        reached = reach.rows()
        ids = [number for row, number in enumerate(arrived.packet_ids) if exchanges[index[row]] and row not in reached]
        noted.unrouted.update(filter(None, ids))


def _told(connection: Connection, answer: Answer, arrived: Arrived, told: Mapping[int, Told]) -> dict[int, Told]:
    """By packet identifier, of the one answer."""
    mine = set(answer.packet_ids)
    by_id = {arrived.packet_ids[row]: what for row, what in told.items() if arrived.packet_ids[row] in mine}
    if answer.kind is PacketType.PUBREC:
        connection.incoming.refuse([number for number, what in by_id.items() if isinstance(what, Refused)])
    return by_id


def _runs(arrived: Arrived) -> Iterator[array[int]]:
    """Rows that follow each other and are all to be published, or all ask the broker for the same: what is settled
    makes room for what comes behind it, and for nothing before."""
    asks = [_asks(topic) for topic in arrived.topics]
    index = arrived.columns.topic_index
    if index is None or not any(asks) or len(asks) == 1:
        yield array("i", range(arrived.count))
        return
    for _, some in groupby(range(arrived.count), lambda row: index[row] if asks[index[row]] else -1):
        yield array("i", some)


def _asks(topic: bytes) -> bool:
    return topic.startswith(b"$admin/") or is_settlement(topic)
