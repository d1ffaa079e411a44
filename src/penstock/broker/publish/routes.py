"""Which queues a topic or a name stands for, and how one that is not there is made."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import accumulate, chain
from typing import cast

from penstock.broker.catalogue.declarations import Declaring
from penstock.broker.publish.placement import check
from penstock.broker.publish.request import ProducerCall, Targets
from penstock.broker.queues.queue import Queue
from penstock.core.errors import NoSuchQueue, TooLarge
from penstock.core.types import Compression
from penstock.log.columns import Columns
from penstock.log.encoded import Rows
from penstock.log.shard import Shard
from penstock.queues.dedup import Duplicate
from penstock.queues.names import canonical_queue, is_request, queue_of_publish_topic

# Whoever invents topics makes all be looked up again, at a microsecond each. Of 512 bytes at most: some 30 MB.
_KNOWN_TOPICS, _KNOWN_TOPIC_BYTES = 50_000, 512
# What rows take in a frame beside their bytes, at most, for each partition they go to.
_BATCH_BYTES = 128


class Routes:
    """Used from the loop."""

    def __init__(self, shard: Shard, declaring: Declaring, auto_create: bool) -> None:
        self._shard, self._declaring, self._auto_create = shard, declaring, auto_create
        self._known: dict[str, tuple[int, dict[bytes, list[Queue]]]] = {}
        """by namespace, for a version of its bindings"""

    # Topics

    def queues(self, topic: bytes, namespace: str = "default") -> list[Queue] | None:
        """Those that a topic feeds; None if it names one that would have to be made, or must not be."""
        return self._queues(topic, namespace, self._known_of(namespace))

    def _queues(self, topic: bytes, namespace: str, known: dict[bytes, list[Queue]]) -> list[Queue] | None:
        fed = known.get(topic)
        if fed is None:
            route = self._declaring.bindings_of(namespace).route(topic)
            is_named = topic.startswith(b"$") and route.prefix_queue is None
            if is_named and queue_of_publish_topic(topic.decode()) is not None:
                return None
            fed = [self._declaring.queue(name, namespace) for name in route.queues]
            if len(topic) <= _KNOWN_TOPIC_BYTES and not is_request(topic):
                known[topic] = fed
        return fed

    def knows(self, topics: Sequence[bytes], namespace: str = "default") -> bool:
        """Whether each was looked up before, and what is published to it goes to queues that are there, or to none:
        cheaper than to ask one by one."""
        return all(map(self._known_of(namespace).__contains__, topics))

    def targets(self, topics: Sequence[bytes], namespace: str = "default") -> Targets | None:
        """None if one of the topics names a queue that is not there: see make()."""
        known = self._known_of(namespace)
        if len(topics) == 1 and (one := known.get(topics[0])) is not None:
            return Targets(one, array("i", [0, len(one)]), array("i", range(len(one))))
        fed = list(map(known.get, topics))
        if None in fed:
            fed = [self._queues(topic, namespace, known) for topic in topics]
            if None in fed:
                return None
        found = cast(list[list[Queue]], fed)
        each = list(chain.from_iterable(found))
        numbers = {queue: number for number, queue in enumerate(dict.fromkeys(each))}
        begins = array("i", accumulate(map(len, found), initial=0))
        return Targets(list(numbers), begins, array("i", map(numbers.__getitem__, each)))

    def _known_of(self, namespace: str) -> dict[bytes, list[Queue]]:
        """The queues that topics feed, of those that were looked up since a queue came or went; not too many."""
        version, known = self._declaring.bindings_of(namespace).version, self._known.get(namespace)
        if known is None or known[0] != version or len(known[1]) > _KNOWN_TOPICS:
            known = self._known[namespace] = version, {}
        return known[1]

    async def make(
        self,
        topics: Sequence[bytes],
        columns: Columns,
        namespace: str,
        partition: int | None = None,
        producer: ProducerCall | None = None,
        beside_bytes: int = 0,
    ) -> dict[bytes, str]:
        """Make the queues that topics name and that are not there, if neither these nor others that the topics feed
        would refuse the rows; the names of those made, by topic. `topics` are those of the columns' topic_index;
        the frame will have `beside_bytes` for others."""
        planned: dict[Queue, list[int]] = {}
        unmade: dict[bytes, Queue] = {}
        for number, topic in enumerate(topics):
            for queue in self._planned(topic, namespace):
                planned.setdefault(queue, []).append(number)
                if queue.is_unmade:
                    unmade[topic] = queue
        wanted = [(queue, columns.of_topics(some)) for queue, some in planned.items()]
        self.refuse(wanted, partition, producer)
        self.refuse_together(wanted, beside_bytes)
        made: dict[bytes, str] = {}
        for topic, queue in unmade.items():
            new: list[Queue] = []
            await self._declaring.declared(queue.settings, is_auto=True, made=new)
            if new:
                made[topic] = new[0].name
        return made

    def _planned(self, topic: bytes, namespace: str) -> list[Queue]:
        found = self.queues(topic, namespace)
        if found is not None:
            return found
        route = self._declaring.bindings_of(namespace).route(topic)
        named = self.wanted(queue_of_publish_topic(topic.decode()) or "", {"namespace": namespace})
        return [*(self._declaring.queue(name, namespace) for name in route.queues), named]

    # Names

    def wanted(self, name: str, settings: Mapping[str, object]) -> Queue:
        """The queue of that name in the namespace of the settings; one that is not there as it would be made with them,
        see made(). NoSuchQueue where none is made by itself."""
        namespace = str(settings.get("namespace", "default"))
        found = self._declaring.queues.get((namespace, canonical_queue(name)))
        if found is not None:
            return found
        if not self._auto_create:
            raise NoSuchQueue(name)
        return self._declaring.unmade(self._declaring.settings_for(name, settings))

    async def made(
        self,
        queue: Queue,
        rows: Sequence[Rows],
        partition: int | None = None,
        producer: ProducerCall | None = None,
        made: list[Queue] | None = None,
    ) -> Queue:
        """The queue that wanted() said. One that is not there is made, and added to `made`, if it would take the rows:
        else raises what it would refuse them with, and there is none."""
        if not queue.is_unmade:
            return queue
        self.refuse([(queue, mine) for mine in rows], partition, producer)
        return await self._declaring.declared(queue.settings, is_auto=True, made=made)

    def refuse(
        self, wanted: Sequence[tuple[Queue, Rows]], partition: int | None = None, producer: ProducerCall | None = None
    ) -> None:
        """Raise what one of the queues, the disk or a frame would refuse; what a producer sent before is refused by
        none. Changes nothing."""
        fresh: list[tuple[Queue, Rows]] = []
        for queue, mine in wanted:
            if partition is not None:
                queue.existing(partition)
            if producer is not None and isinstance(check(producer, queue, mine.count), Duplicate):
                continue
            queue.check(mine)
            if not queue.has_room(mine.count):
                raise queue.full()
            fresh.append((queue, mine))
        self.refuse_together(fresh)
        if wanted and (low := self._shard.disk_low) is not None:
            raise low

    def refuse_together(self, wanted: Sequence[tuple[Queue, Rows]], beside_bytes: int = 0) -> None:
        """Before a queue is made for them: QueueFull for what all of them are too many for, TooLarge for what a frame
        might not hold. How small compression makes rows is known only when they are there."""
        counts: Counter[Queue] = Counter()
        for queue, mine in wanted:
            counts[queue] += mine.count
        for queue, count in counts.items():
            if not queue.has_room(count):
                raise queue.full()
        plain = [each for each in wanted if each[0].settings.compression is Compression.NONE]
        batches = sum([min(mine.count, queue.settings.partitions) for queue, mine in plain])
        size = sum([mine.bytes for _, mine in plain]) + _BATCH_BYTES * batches + beside_bytes
        if size > self._shard.max_frame_bytes:
            raise TooLarge("the commit", size, self._shard.max_frame_bytes)
