"""Which queues a topic, an exchange or a name stands for, and how a queue that is not there is made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from penstock.broker.catalogue.declarations import Declaring
from penstock.broker.publish.entering import NO_FURTHER, Entered, Entry, Further, HeadersOf, entered
from penstock.broker.publish.placement import check
from penstock.broker.publish.request import ProducerCall, Targets
from penstock.broker.queues.queue import Queue
from penstock.core.errors import TooLarge
from penstock.core.types import Compression
from penstock.kernels import takers
from penstock.log.columns import Columns
from penstock.log.encoded import Rows
from penstock.log.shard import Shard
from penstock.queues.bindings import Bindings
from penstock.queues.dedup import Duplicate
from penstock.queues.exchange_headers import Headers
from penstock.queues.exchange_topics import EXCHANGE_PREFIX, TOPIC_EXCHANGE, exchange_address, exchange_topic
from penstock.queues.names import is_request, queue_of_publish_topic

# Whoever invents topics makes all be looked up again, at a microsecond each. Of 512 bytes at most: some 30 MB.
_KNOWN_TOPICS, _KNOWN_TOPIC_BYTES = 50_000, 512
# Of half a kilobyte each.
_KNOWN_ALONE = 4096
_FORGOTTEN = -1
# What rows take in a frame beside their bytes, at most, for each partition they go to.
_BATCH_BYTES = 128


@dataclass(slots=True)
class _Known:
    """What was looked up since a queue, a binding or an exchange came or went."""

    bindings: Bindings
    version: int
    reads_headers: bool
    """of all ordinary topics, because of what is bound to `amq.topic`"""
    fed: dict[bytes, list[Queue]] = field(default_factory=dict)
    alone: dict[bytes, Targets] = field(default_factory=dict)
    """of topics that make up a publish by themselves"""
    enters_always: bool = False
    """one of them was too long to be kept"""
    entering: dict[bytes, Entry | None] = field(default_factory=dict)
    """topics of exchanges that become other topics; None where messages differ in where they go"""

    def keep(self, topic: bytes, queues: list[Queue]) -> None:
        """Not too much of it: who asks next begins anew."""
        self.fed[topic] = queues
        if len(self.fed) + len(self.entering) > _KNOWN_TOPICS:
            self.version = _FORGOTTEN


class Routes:
    """Used from the loop."""

    def __init__(self, shard: Shard, declaring: Declaring) -> None:
        self._shard, self._declaring = shard, declaring
        self._known: dict[str, _Known] = {}
        """by namespace"""

    # Topics

    def queues(self, topic: bytes, namespace: str = "default") -> list[Queue] | None:
        """Those that a topic feeds; None if it names one that would have to be made, or must not be. NoSuchExchange,
        ExchangeInternal. Of an exchange that looks at headers: those that a message without any gets to."""
        return self._queues(topic, namespace, self._known_of(namespace))

    def _queues(self, topic: bytes, namespace: str, known: _Known) -> list[Queue] | None:
        fed = known.fed.get(topic)
        if fed is not None:
            return fed
        if topic.startswith(EXCHANGE_PREFIX):
            return self._through_exchange(topic, namespace, known)
        route = self._declaring.bindings_of(namespace).route(topic)
        is_named = topic.startswith(b"$") and route.prefix_queue is None
        if is_named and queue_of_publish_topic(topic.decode()) is not None:
            return None
        fed = [self._declaring.queue(name, namespace) for name in route.queues]
        if len(topic) <= _KNOWN_TOPIC_BYTES and not is_request(topic):
            known.keep(topic, fed)
        return fed

    def _through_exchange(self, topic: bytes, namespace: str, known: _Known) -> list[Queue]:
        """Known are only those that feed a queue whatever a message says: of others, publishers may have to be told
        that nobody gets them."""
        address, space = exchange_address(topic), self._declaring.exchanges.of(namespace)
        assert address is not None
        routed, reads_headers = space.route(*address), space.reads_headers(address.exchange)
        fed = [self._declaring.queue(name, namespace) for name in routed.queues]
        if reads_headers or routed.topic is not None:
            if len(topic) <= _KNOWN_TOPIC_BYTES:
                known.entering[topic] = None if reads_headers else (routed.topic, fed)
                if len(known.fed) + len(known.entering) > _KNOWN_TOPICS:
                    known.version = _FORGOTTEN
            else:
                known.enters_always = True
        if fed and not reads_headers and len(topic) <= _KNOWN_TOPIC_BYTES:
            known.keep(topic, fed)
        return fed

    def through(
        self, exchange: str, key: bytes, headers: Headers, namespace: str = "default"
    ) -> tuple[bytes, list[Queue]]:
        """The topic that a message of the broker's own becomes by an exchange, which may be internal, and the queues
        that it gets to. NoSuchExchange; InvalidArgument for a message that asks for what is not there yet."""
        routed = self._declaring.exchanges.of(namespace).route(exchange, key, headers, is_inside=True)
        topic = routed.topic if routed.topic is not None else exchange_topic(exchange, key)
        return topic, [self._declaring.queue(name, namespace) for name in routed.queues]

    def reads_headers(self, exchange: str, namespace: str = "default") -> bool:
        return self._declaring.exchanges.of(namespace).reads_headers(exchange)

    def is_apart(self, topic: bytes, namespace: str = "default") -> bool:
        """Whether publishing to it takes more than looking it up: a queue has to be made, where it goes is for each
        message to say, or nobody is known to get it from an exchange. Raises as queues()."""
        known = self._known_of(namespace)
        if self._queues(topic, namespace, known) is None:
            return True
        return topic.startswith(EXCHANGE_PREFIX) and topic not in known.fed

    def known_targets(self, topics: Sequence[bytes], namespace: str = "default") -> Targets | None:
        """As targets(), where each was looked up before, and what is published to it goes to queues that are there, or
        to none: cheaper than to ask one by one."""
        known = self._known_of(namespace)
        if len(topics) == 1 and (one := known.alone.get(topics[0])) is not None:
            return one
        fed = list(map(known.fed.get, topics))
        return None if None in fed else _targets(known, topics, cast(list[list[Queue]], fed))

    def targets(
        self, topics: Sequence[bytes], namespace: str = "default", found: Mapping[int, list[Queue]] | None = None
    ) -> Targets | None:
        """None if one of the topics names a queue that is not there: see make(). `found`: the queues of topics, by
        their numbers, that enter() found, of which none leads through an exchange any more."""
        known = self._known_of(namespace)
        if found is None and len(topics) == 1 and (one := known.alone.get(topics[0])) is not None:
            return one
        fed: list[list[Queue] | None] = list(map(known.fed.get, topics))
        for number, queues in found.items() if found else ():
            fed[number] = queues
        if None in fed:
            for number, mine in enumerate(fed):
                if mine is None and (mine := self._queues(topics[number], namespace, known)) is None:
                    return None  # what is wrong with those behind it comes behind what make() may refuse
                fed[number] = mine
        return _targets(known, topics, cast(list[list[Queue]], fed), is_behind=found is not None)

    def enter(
        self,
        columns: Columns,
        topics: Sequence[bytes],
        namespace: str = "default",
        headers: HeadersOf | None = None,
        further: Further = NO_FURTHER,
    ) -> Entered:
        """The rows as they are for everything behind exchanges. `headers` of a row: without it, its user properties.
        Raises as queues(), and InvalidArgument for a message that asks for what is not there yet."""
        space, declaring = self._declaring.exchanges.of(namespace), self._declaring
        known = self._known_of(namespace).entering
        return entered(columns, topics, space, lambda name: declaring.queue(name, namespace), known, headers, further)

    def _known_of(self, namespace: str) -> _Known:
        known = self._known.get(namespace)
        if known is None or known.version != known.bindings.version:
            bindings, space = self._declaring.bindings_of(namespace), self._declaring.exchanges.spaces.get(namespace)
            reads_headers = space is not None and space.reads_headers(TOPIC_EXCHANGE)
            known = self._known[namespace] = _Known(bindings, bindings.version, reads_headers)
        return known

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
            if self.queues(topic, namespace) is not None:
                continue  # one that was made for a topic before it takes this one too
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
        named = self._declaring.wanted(queue_of_publish_topic(topic.decode()) or "", {"namespace": namespace})
        return [*(self._declaring.queue(name, namespace) for name in route.queues), named]

    async def made(
        self,
        queue: Queue,
        rows: Sequence[Rows],
        partition: int | None = None,
        producer: ProducerCall | None = None,
        made: list[Queue] | None = None,
    ) -> Queue:
        """The queue that Declaring.wanted() said. One that is not there is made, and added to `made`, if it would take
        the rows: else raises what it would refuse them with, and there is none."""
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


def _has_to_enter(known: _Known, topics: Sequence[bytes]) -> bool:
    return (
        known.reads_headers
        or known.enters_always
        or (bool(known.entering) and not known.entering.keys().isdisjoint(topics))
    )


def _targets(known: _Known, topics: Sequence[bytes], fed: list[list[Queue]], *, is_behind: bool = False) -> Targets:
    """`is_behind`: none of the topics leads through an exchange any more."""
    made = Targets(*takers.targets(fed), is_behind or not _has_to_enter(known, topics))
    if not is_behind and len(topics) == 1 and topics[0] in known.fed:
        if len(known.alone) >= _KNOWN_ALONE:
            known.alone.clear()
        known.alone[topics[0]] = made
    return made
