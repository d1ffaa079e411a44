"""`$admin/…`: queues and users made, changed and looked at by publishing."""

from __future__ import annotations

import json

import msgspec

from penstock.broker.auth.access import Access
from penstock.broker.broker import Broker
from penstock.broker.descriptions import describe_queue
from penstock.codecs.mqtt.reasons import ReasonCode
from penstock.core.errors import ErrorCode, NotAuthorised, PenstockError
from penstock.core.queue_paths import QUEUE_PREFIX, queue_topic
from penstock.gateways.mqtt.admin.reports import Reports
from penstock.gateways.mqtt.admin.user_admin import PREFIXES, UserAdmin
from penstock.gateways.mqtt.connection import Connection
from penstock.gateways.mqtt.inbound.answers import Refused
from penstock.gateways.mqtt.inbound.arrival import Arrived
from penstock.queues.names import topic_of_address

_CREATE = "$admin/queue/create"
_NAME_WILL_NOT_DO = (
    ErrorCode.QUEUE_EXISTS,
    ErrorCode.QUEUE_RESERVED,
    ErrorCode.NO_SUCH_QUEUE,
    ErrorCode.USER_EXISTS,
    ErrorCode.NO_SUCH_USER,
)
_QUEUE, _CONFIG = "$admin/queue/", "/config"


class Admin:
    """`$admin/queue/create` takes the settings of a queue as JSON, `$admin/queue/<name>/config` those that change."""

    def __init__(self, broker: Broker, access: Access, reports: Reports) -> None:
        self._broker, self._users, self._reports = broker, UserAdmin(access), reports

    async def take(self, connection: Connection, arrived: Arrived, number: int, topic: bytes) -> dict[int, Refused]:
        """All requests of one topic, one after the other: the rows that are refused."""
        columns, refused = arrived.columns, dict[int, Refused]()
        rows = columns.rows_of_topics([number])
        if not connection.permissions.may_publish(topic):
            detail = f"{connection.identity.name} may not administer anything by publishing to {topic.decode()!r}"
            return dict.fromkeys(rows, Refused(ReasonCode.NOT_AUTHORIZED, detail))
        for row in rows:
            payload = bytes(columns.source[columns.value.starts[row] : columns.value.ends[row]])
            try:
                await self._do(topic.decode(), payload, connection)
            except (PenstockError, ValueError, RecursionError) as error:
                self._reports.refused(connection.name, "admin request", error)
                refused[row] = Refused(_reason(error), str(error))
        return refused

    async def _do(self, topic: str, payload: bytes, connection: Connection) -> None:
        namespace, said = connection.session.namespace, _decoded(payload)
        if topic.startswith(PREFIXES):
            await self._users.do(topic, said, connection.identity.name)
        elif topic == _CREATE:
            wanted = said.get("namespace", namespace)
            if wanted != namespace and not connection.permissions.administers(str(wanted)):
                raise NotAuthorised(f"{connection.identity.name} makes queues in namespace {namespace!r} only")
            await self._broker.declare({"namespace": namespace} | said)
        elif topic.startswith(_QUEUE) and topic.endswith(_CONFIG):
            path = topic.removeprefix(_QUEUE).removesuffix(_CONFIG)
            queue = self._broker.queue(topic_of_address(path), namespace)
            await self._broker.declaring.change(queue, said)
        else:
            raise ValueError(f"{topic} is not a request: publish to {_CREATE} or {_QUEUE}<name>{_CONFIG}")

    async def stats(self) -> list[tuple[str, bytes, bytes]]:
        """Namespace, topic and payload of what `$admin/queue/<name>/stats` says now, of each queue."""
        said = []
        for queue in self._broker.queues:
            told = await describe_queue(queue, self._broker.wall())
            topic = f"{_QUEUE}{queue_topic(queue.name).removeprefix(QUEUE_PREFIX)}/stats"
            said.append((queue.namespace, topic.encode(), msgspec.json.encode(told)))
        return said


def _decoded(payload: bytes) -> dict[str, object]:
    try:
        said = json.loads(payload)
    except ValueError as error:
        raise ValueError(f"the payload is not JSON: {error}") from None
    if not isinstance(said, dict):
        raise ValueError("the payload is JSON, but not an object: write it like {}")
    return said


def _reason(error: Exception) -> ReasonCode:
    if isinstance(error, PenstockError) and error.code in _NAME_WILL_NOT_DO:
        return ReasonCode.TOPIC_NAME_INVALID
    if isinstance(error, NotAuthorised):
        return ReasonCode.NOT_AUTHORIZED
    return ReasonCode.PAYLOAD_FORMAT_INVALID
