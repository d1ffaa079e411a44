"""What the listener gives the server to write: streams of rows for queues, and actions. On the server's loop."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field

import msgspec

from penstock.broker.auth.access import Access
from penstock.broker.broker import Broker
from penstock.broker.publish.publisher import Publisher
from penstock.broker.publish.request import PlacedBatch
from penstock.broker.queues.queue import Placed, Queue
from penstock.broker.staging.records import StagedRange
from penstock.core.errors import Closed, NoSuchQueue, PenstockError
from penstock.gateways.beside.requests import Requests, Work
from penstock.gateways.flight.commit_actions import ACTIONS, CommitResult, commit
from penstock.gateways.flight.heads import (
    HEADS,
    Action,
    CommitRows,
    Head,
    PutBatches,
    PutBegin,
    PutDone,
    PutEnd,
    PutStream,
)
from penstock.gateways.flight.rights import Writer
from penstock.log.encoded import Encoded
from penstock.queues.settings import Unkeyed

# What a frame holds beside its batches, at most: some bytes for each of them, which are no more than partitions.
_FRAME_BYTES, _ENTRY_BYTES = 64 << 10, 256


@dataclass(slots=True)
class _Stream:
    wanted: PutBegin
    writer: Writer
    queue: Queue
    """as Routes.wanted() says"""
    publisher: Publisher
    order: asyncio.Lock = field(default_factory=asyncio.Lock)
    """held until rows have their offsets, so that those of a stream keep their order"""
    refusal: PenstockError | None = None
    """of a batch: those behind it are refused too, so that there is no hole"""


class FlightWrites:
    """Of one process of the listener: streams end with it, what was begun is finished."""

    def __init__(self, broker: Broker, access: Access, is_loopback: bool) -> None:
        self._broker, self._access, self._is_loopback = broker, access, is_loopback
        self._streams: dict[int, _Stream] = {}
        self._numbers = itertools.count(1)
        self.requests = Requests("flight", HEADS, self._begun, self._streams.clear)

    def _begun(self, head: Head, bodies: Sequence[bytearray]) -> Work | None:
        if isinstance(head, PutEnd):
            self._streams.pop(head.stream, None)
            return None
        return head.id, self._work(head, bodies)

    def _work(
        self, head: PutBegin | PutBatches | Action | CommitRows, bodies: Sequence[bytearray]
    ) -> Coroutine[None, None, object]:
        if isinstance(head, PutBegin):
            return self._begin(head)
        if isinstance(head, PutBatches):
            return self._put(head, bodies)
        if isinstance(head, CommitRows):
            return self._commit_rows(head, bytes(bodies[0]), bodies[1:])
        return self._act(head, bytes(bodies[0]))

    async def _begin(self, head: PutBegin) -> PutStream:
        writer, queue = await self._target(head)
        if head.partition is not None:
            queue.existing(head.partition)
        number, publisher = next(self._numbers), self._broker.publisher()
        self._streams[number] = _Stream(head, writer, queue, publisher)
        count = queue.settings.partitions
        unkeyed = None if queue.settings.unkeyed is Unkeyed.SPREAD else publisher.partition(queue)
        limit = self._broker.shard.max_frame_bytes
        room = limit - limit // 256 - _FRAME_BYTES - _ENTRY_BYTES * count
        return PutStream(number, writer.identity.name, count, unkeyed, max(room, limit // 2))

    async def _target(self, head: PutBegin | CommitRows) -> tuple[Writer, Queue]:
        """Who writes, and the queue as Publishing.wanted() says."""
        writer = await Writer.of(self._access, head.caller, self._is_loopback)
        name = self._broker.declaring.named(head.queue, writer.namespace)
        writer.require_publish(name, writer.namespace)
        queue = self._broker.declaring.wanted(name, {"namespace": writer.namespace})
        if queue.is_unmade and not head.makes_queue:
            raise NoSuchQueue(name)
        return writer, queue

    async def _put(self, head: PutBatches, bodies: Sequence[bytearray]) -> PutDone:
        stream = self._streams.get(head.stream)
        if stream is None:
            raise Closed("the stream has ended")
        try:
            stream.writer.require_publish(stream.queue.name, stream.queue.namespace)
            batches = [
                PlacedBatch(Encoded.checked(body), each.partition, each.is_by_key)
                for each, body in zip(head.batches, bodies, strict=True)
            ]
            made: list[Queue] = []
            places: Sequence[Placed | StagedRange]
            if stream.wanted.is_staged:
                places = await self._stage(stream, batches, made)
            else:
                places = await self._append(stream, batches, head.partitions, made)
            return PutDone(msgspec.Raw(msgspec.json.encode(places)), made[0].name if made else None)
        except PenstockError as error:
            stream.refusal = stream.refusal or error
            raise

    async def _make(self, stream: _Stream, batches: Sequence[PlacedBatch], made: list[Queue]) -> None:
        """The queue, for the first rows that it takes. While the stream's order is held."""
        if stream.queue.is_unmade:
            rows = [each.rows for each in batches]
            stream.queue = await self._broker.publishing.routes.made(
                stream.queue, rows, stream.wanted.partition, made=made
            )

    async def _append(
        self, stream: _Stream, batches: Sequence[PlacedBatch], partitions: int, made: list[Queue]
    ) -> list[Placed]:
        publishing, wanted = self._broker.publishing, stream.wanted.partition
        if wanted is not None:
            batches = [each._replace(partition=wanted, is_by_key=False) for each in batches]
        async with stream.order:
            if stream.refusal is not None:
                raise stream.refusal
            await self._make(stream, batches, made)
            staged = publishing.put_batches_now(stream.queue, batches, partitions, stream.publisher)
            if staged is None:
                return await publishing.put_batches(stream.queue, batches, partitions, stream.publisher)
        placed, committed = staged
        await committed
        return placed

    async def _stage(self, stream: _Stream, batches: Sequence[PlacedBatch], made: list[Queue]) -> list[StagedRange]:
        staging, wanted = self._broker.staging, stream.wanted
        async with stream.order:
            await self._make(stream, batches, made)
        return await asyncio.gather(
            *(
                staging.stage(
                    stream.queue,
                    each.rows,
                    writer=wanted.writer,
                    partition=each.partition if wanted.partition is None else wanted.partition,
                    by=stream.writer.owner,
                )
                for each in batches
            )
        )

    async def _commit_rows(self, head: CommitRows, body: bytes, batches: Sequence[bytearray]) -> CommitResult:
        writer, queue = await self._target(head)
        rows = [Encoded.checked(each) for each in batches]
        made: list[Queue] = []
        if queue.is_unmade:
            queue = await self._broker.publishing.routes.made(queue, rows, made=made)
        done = await commit(self._broker.staging, writer, body, [(queue, each) for each in rows])
        return msgspec.structs.replace(done, created_queue=made[0].name) if made else done

    async def _act(self, head: Action, body: bytes) -> object:
        writer = await Writer.of(self._access, head.caller, self._is_loopback)
        return await ACTIONS[head.kind](self._broker.staging, writer, body)
