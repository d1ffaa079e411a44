"""A stream's progress as a group of the broker: what it has read is settled there, so that lag and floor are seen."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from penstock.client.errors import Refused
from penstock.client.http.client import Client
from penstock.client.http.options import Retries
from penstock.core.errors import ErrorCode, PenstockError
from penstock.queues.names import DEFAULT_NAMESPACE
from penstock.spark.offsets import PartitionId, Positions

_LOG = logging.getLogger("penstock.spark")
# The stream waits meanwhile; what is not told now is told with the next micro-batch.
_TIMEOUT_S = 5.0
_RETRIES = Retries(attempts=1)


class GroupProgress:
    """One thread. The checkpoint decides where the stream goes on; the group tells the broker of it."""

    def __init__(self, url: str, token: str | None, namespace: str, group: str) -> None:
        # A server gives everybody his own namespace; only who asks for another one must be allowed to.
        other = None if namespace == DEFAULT_NAMESPACE else namespace
        self._client = Client(url, token=token, namespace=other, timeout_s=_TIMEOUT_S, retries=_RETRIES)
        self._group = group
        self._told: Positions = {}
        self._known: set[str] = set()

    def begin(self, queues: Iterable[str]) -> None:
        """Make the group where it is not there yet. What the server refuses is an error: the stream has not begun, and
        whoever starts it is looking."""
        for queue in set(queues) - self._known:
            try:
                self._client.create_group(queue, self._group)
            except Refused as error:
                if error.code is not ErrorCode.GROUP_EXISTS:
                    raise
            self._known.add(queue)

    def tell(self, positions: Mapping[PartitionId, int]) -> None:
        """All below these offsets is done with. What the server does not take now is told with the next: the stream
        does not end because a broker restarts."""
        for queue in {source.queue for source in positions}:
            moved = {
                source.partition: offset
                for source, offset in positions.items()
                if source.queue == queue and self._told.get(source) != offset
            }
            if moved:
                self._commit(queue, moved)

    def close(self) -> None:
        self._client.close()

    def _commit(self, queue: str, offsets: dict[int, int]) -> None:
        try:
            self.begin([queue])
            self._client.commit(queue, self._group, offsets)
        except PenstockError as error:
            _LOG.warning("progress not told queue=%s group=%s, told with the next batch: %s", queue, self._group, error)
            return
        self._told |= {PartitionId(queue, partition): offset for partition, offset in offsets.items()}
