"""What one client publishes: may it, is it new, what is it answered and when."""

from __future__ import annotations

import logging
from array import array
from collections.abc import Coroutine
from functools import partial
from typing import TYPE_CHECKING

from penstock.codecs.mqtt.errors import PacketError, ProtocolError
from penstock.codecs.mqtt.kinds import PacketType, Version
from penstock.codecs.mqtt.reasons import ReasonCode
from penstock.core.errors import ErrorCode, OutcomeUnknown, PenstockError
from penstock.gateways.mqtt.answers import Answer
from penstock.gateways.mqtt.arrival import Arrived
from penstock.gateways.mqtt.directed import has_directions
from penstock.gateways.mqtt.fanout import rows_of_topics
from penstock.gateways.mqtt.intake import Publication, reason_of
from penstock.kernels import rows

if TYPE_CHECKING:
    from penstock.gateways.mqtt.connection import Connection

logger = logging.getLogger("penstock.mqtt")

_QOS, _QOS_1, _QOS_2 = 0x06, 0x02, 0x04
_MINE = (b"$SYS/", b"$share/")
_Reasons = dict[int, ReasonCode]
"""by row"""


class Publishes:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._gateway = connection.gateway
        self.publisher = connection.gateway.broker.publisher()
        self._joint = connection.gateway.broker.publishing.joint

    def take(self, arrived: Arrived) -> Coroutine[None, None, None] | None:
        """None if it is under way; else what has to be awaited before anything else of the client is looked at."""
        session = self._connection.session
        held: array[int] | None = None
        if arrived.heads.count(arrived.heads[0]) != len(arrived.heads) or arrived.heads[0] & _QOS == _QOS_2:
            arrived, held, again = self._without_duplicates(arrived)
            owed = self._owe(arrived) if arrived.columns.count else []
            if again:
                # Behind the first of its identifier, which may not be committed yet.
                self._connection.answers.give(self._connection.answers.owe(PacketType.PUBREC, again))
            if not arrived.columns.count:
                return None
        else:
            owed = self._owe(arrived)
        if not self._joint.is_late and all(map(self.is_plain, arrived.topics)) and not has_directions(arrived):
            publication = Publication(arrived, session, self.publisher, session.namespace, held)
            try:
                if self._gateway.intake.publish_now(publication, partial(self._done, owed, arrived)):
                    return None
            except PenstockError as error:
                logger.debug("publish not taken at once client=%s error=%s", session.client_id, error)
        arrived.keep()
        return self._take_slowly(arrived, held, owed)

    def is_plain(self, topic: bytes) -> bool:
        """Neither refused nor one that asks the broker for something."""
        if topic.startswith(b"$") and (not topic.startswith(b"$queue/") or _settlement_in(topic)):
            return False
        return self._connection.permissions.may_publish(topic)

    def _without_duplicates(self, arrived: Arrived) -> tuple[Arrived, array[int] | None, array[int]]:
        """What is to be taken, the identifiers of QoS 2 in it, and those of messages that came before: they are
        answered again, and not taken again [MQTT-4.3.3-10]."""
        numbers = array("i", [row for row, head in enumerate(arrived.heads) if head & _QOS == _QOS_2])
        if not numbers:
            return arrived, None, numbers
        ids = array("i", bytes(4 * len(numbers)))
        rows.take_int32(arrived.packet_ids, numbers, ids)
        came = self._connection.session.incoming.publish_qos_2(ids)
        if not came.duplicate:
            return arrived, ids, array("i")
        fresh = set(came.fresh)
        kept = array("i")
        for row, head in enumerate(arrived.heads):
            if head & _QOS != _QOS_2:
                kept.append(row)
            elif arrived.packet_ids[row] in fresh:
                kept.append(row)
                fresh.discard(arrived.packet_ids[row])
        return arrived.narrowed(kept), array("i", came.fresh), array("i", came.duplicate)

    # Answers

    def _owe(self, arrived: Arrived) -> list[Answer]:
        if arrived.heads[0] & _QOS == _QOS_1 and arrived.heads.count(arrived.heads[0]) == len(arrived.heads):
            # What is nearly always so.
            self._connection.session.incoming.publish_qos_1(len(arrived.packet_ids))
            return [self._connection.answers.owe(PacketType.PUBACK, arrived.packet_ids)]
        owed = []
        for kind, qos in ((PacketType.PUBACK, _QOS_1), (PacketType.PUBREC, _QOS_2)):
            ids = [arrived.packet_ids[row] for row, head in enumerate(arrived.heads) if head & _QOS == qos]
            if ids:
                owed.append(self._connection.answers.owe(kind, array("i", ids)))
            if ids and qos == _QOS_1:
                self._connection.session.incoming.publish_qos_1(len(ids))
        return owed

    def _done(self, owed: list[Answer], arrived: Arrived, error: PenstockError | None) -> None:
        """All of it is committed, or nobody knows whether."""
        if error is not None:
            self._fail(error)
            return
        self._answer(owed, arrived, {})

    def joint_done(self, owed: list[Answer], count: int, error: PenstockError | None) -> None:
        """What became of so many messages that were committed together with those of others."""
        if error is None:
            for answer in owed:
                self._connection.session.incoming.puback(count)
                self._connection.answers.give(answer)
        elif isinstance(error, OutcomeUnknown):
            self._fail(error)
        else:
            self._refuse_all(owed, count, error)

    def _refuse_all(self, owed: list[Answer], count: int, error: PenstockError) -> None:
        connection, reason = self._connection, reason_of(error)
        self._gateway.tell_refusal(connection, "publish", error)
        self._gateway.intake.refused += count
        self._gateway.counters.refused_rows[reason] += count
        if connection.session.version is Version.V3_1_1:
            connection.fail(ProtocolError("a publish was refused, which MQTT 3.1.1 cannot say", reason))
            return
        for answer in owed:
            connection.session.incoming.puback(count)
            connection.answers.give(answer, array("i", [reason]) * count)

    def _answer(self, owed: list[Answer], arrived: Arrived, refused: _Reasons) -> None:
        """`refused` by row."""
        connection = self._connection
        if refused and connection.session.version is Version.V3_1_1:
            reason = next(iter(refused.values()))
            connection.fail(ProtocolError("a publish was refused, which MQTT 3.1.1 cannot say", reason))
            return
        for answer in owed:
            if answer.kind is PacketType.PUBACK:
                connection.session.incoming.puback(len(answer.packet_ids))
            reasons = self._reasons(answer, arrived, refused) if refused else None
            connection.answers.give(answer, reasons)

    def _reasons(self, answer: Answer, arrived: Arrived, refused: _Reasons) -> array[int]:
        by_id = {arrived.packet_ids[row]: reason for row, reason in refused.items() if arrived.packet_ids[row]}
        if answer.kind is PacketType.PUBREC:
            self._connection.session.incoming.refuse([number for number in answer.packet_ids if number in by_id])
        return array("i", [by_id.get(number, ReasonCode.SUCCESS) for number in answer.packet_ids])

    def _fail(self, error: PenstockError) -> None:
        """Nothing was acknowledged: the client sends it again when it comes back."""
        self._connection.fail(
            ProtocolError(f"a publish could not be committed: {error}", ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR)
        )

    # What takes longer

    async def _take_slowly(self, arrived: Arrived, held: array[int] | None, owed: list[Answer]) -> None:
        refused: _Reasons = {}
        plain: list[int] = []
        try:
            for number, topic in enumerate(arrived.topics):
                reasons = await self._ask(arrived, number, topic)
                if reasons is None:
                    plain.append(number)
                else:
                    refused |= reasons
            if plain:
                refused |= await self._publish(arrived, plain, held)
        except PacketError as error:
            self._connection.fail(error)
            return
        except OutcomeUnknown as error:
            self._fail(error)
            return
        self._gateway.intake.refused += len(refused)
        self._gateway.counters.refused_rows.update(refused.values())
        self._answer(owed, arrived, refused)

    async def _ask(self, arrived: Arrived, number: int, topic: bytes) -> _Reasons | None:
        """None if the topic is to be published; else the rows that were refused."""
        if topic.startswith((b"$queue/", b"$dlq/")) and _settlement_in(topic):
            return await self._gateway.settlements.take(self._connection, arrived, number, topic)
        if topic.startswith(b"$admin/"):
            return await self._gateway.admin.take(self._connection, arrived, number, topic)
        if not topic.startswith(_MINE) and self._connection.permissions.may_publish(topic):
            return None
        return dict.fromkeys(rows_of_topics(arrived.columns, [number]), ReasonCode.NOT_AUTHORIZED)

    async def _publish(self, arrived: Arrived, topics: list[int], held: array[int] | None) -> _Reasons:
        """All at once; if somebody refuses, topic after topic, so that the others are taken."""
        numbers = rows_of_topics(arrived.columns, topics)
        if has_directions(arrived):
            return await self._publish_directed(arrived, numbers, held)
        if await self._publish_rows(arrived, numbers, held) is None:
            return {}
        refused: _Reasons = {}
        for topic in topics:
            refused |= await self._publish_topic(arrived, rows_of_topics(arrived.columns, [topic]), held)
        return refused

    async def _publish_topic(self, arrived: Arrived, numbers: array[int], held: array[int] | None) -> _Reasons:
        """As much of it as is taken, whatever came together: the others are not refused for the sake of one."""
        refused: _Reasons = {}
        waiting = [numbers]
        while waiting:
            some = waiting.pop()
            error = await self._publish_rows(arrived, some, held)
            if error is None:
                continue
            if len(some) > 1:
                half = len(some) // 2
                waiting += [some[half:], some[:half]]
                continue
            self._gateway.tell_refusal(self._connection, "publish", error)
            refused |= dict.fromkeys(some, reason_of(error))
            if error.code is not ErrorCode.TOO_LARGE:
                # What is full or not there now is so for those behind it, too.
                refused |= dict.fromkeys([row for rows in waiting for row in rows], reason_of(error))
                waiting.clear()
        return refused

    async def _publish_rows(
        self, arrived: Arrived, numbers: array[int], held: array[int] | None
    ) -> PenstockError | None:
        """What they are refused with; nobody got any of them then."""
        session = self._connection.session
        mine = arrived if len(numbers) == arrived.columns.count else arrived.narrowed(numbers)
        ids = None if not held else array("i", [number for number in held if number in set(mine.packet_ids)])
        try:
            await self._gateway.intake.publish(Publication(mine, session, self.publisher, session.namespace, ids))
        except OutcomeUnknown:
            raise
        except PenstockError as error:
            return error
        return None

    async def _publish_directed(self, arrived: Arrived, numbers: array[int], held: array[int] | None) -> _Reasons:
        """One after the other, into each queue on its own: dedup and placement are a queue's."""
        session, refused = self._connection.session, _Reasons()
        for row in numbers:
            one = arrived.narrowed(array("i", [row]))
            ids = one.packet_ids if held and one.packet_ids[0] in held else None
            publication = Publication(one, session, self.publisher, session.namespace, ids)
            try:
                await self._gateway.intake.publish_directed(publication)
            except OutcomeUnknown:
                raise
            except PenstockError as error:
                self._gateway.tell_refusal(self._connection, "publish", error)
                refused[row] = reason_of(error)
        return refused


def is_reserved(topic: bytes) -> bool:
    """Whether nobody's message can have it: it is the broker's own, or asks the broker for something."""
    return topic.startswith((*_MINE, b"$admin/")) or (
        topic.startswith((b"$queue/", b"$dlq/")) and _settlement_in(topic)
    )


def _settlement_in(topic: bytes) -> bool:
    return topic.rpartition(b"/")[2] in (b"$ack", b"$nack", b"$reject")
