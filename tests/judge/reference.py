"""A broker as simple as it can be: lists and dictionaries, one request at a time. It says what a request is answered,
what is stored then, and who is sent what. The true broker must give the same, however its requests came in.

What it leaves open, because the true one may choose:
- between connections, any order of their requests that explains what was seen (`orders.py` looks for one);
- the partition of a key, and that of a connection's messages without one: each has one, and keeps it;
- which of the messages that a group has are handed out by a receive: as many as can be, of a key the oldest first;
- which reason a refusal names where a queue has several, or several queues have one;
- whether a refused publish leaves behind the queue that it named, empty;
- the order of answers of different kinds (PUBACK, PUBREC, SUBACK …) on one connection: each kind keeps its own;
- after a refusal that MQTT 3.1.1 cannot express, and after a malformed packet, the connection ends: answers to what
  came before may be missing, and what came behind it may have been taken or not;
- what a dead letter carries beside its value and key.
Not modelled: time (backoff, expiry, leases), shared subscriptions, wills, stored sessions, drop-oldest, filters of
groups, priorities and delays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from tests.judge.layout import DEAD, Principal, QueueFacts
from tests.judge.requests import Message, Producer

OK, STALE, NO_SUBSCRIPTION = "ok", "stale", "no-subscription"
NOT_ALLOWED, RESERVED, INVALID, NO_QUEUE = "not-authorised", "reserved", "invalid-argument", "no-such-queue"
TOO_LARGE, FULL, OUT_OF_ORDER, FENCED = "too-large", "queue-full", "out-of-order", "fenced-producer"
EITHER = "|"
"""between codes, where several reasons hold"""
_BROKERS_OWN = ("$SYS/", "$share/", "$admin/")


class Refused(Exception):
    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


class Row(NamedTuple):
    """A stored message. Those with the same `lane` are in one partition, in their order."""

    value: bytes
    key: str | None
    topic: str | None
    headers: tuple[tuple[str, str], ...]
    lane: tuple[str, ...]
    partition: int | None
    """that was asked for"""


class Sent(NamedTuple):
    """A message to a subscriber."""

    topic: str
    value: bytes
    qos: int
    retain: bool
    headers: tuple[tuple[str, str], ...]


class Kept(NamedTuple):
    message: Message
    qos: int


@dataclass
class Group:
    first: int
    """rows before it do not count for the depth"""
    settled: frozenset[int] = frozenset()
    held: dict[int, int] = field(default_factory=dict)
    """by row, which of its deliveries is current"""
    deliveries: dict[int, int] = field(default_factory=dict)
    failures: dict[int, int] = field(default_factory=dict)

    def copy(self) -> Group:
        return Group(self.first, self.settled, {**self.held}, {**self.deliveries}, {**self.failures})


@dataclass
class Queue:
    facts: QueueFacts
    rows: tuple[Row, ...] = ()
    groups: dict[str, Group] = field(default_factory=dict)
    producers: dict[tuple[str, bool, str], tuple[int, int]] = field(default_factory=dict)
    """epoch and next sequence of each, which is its login's: that of another is another one"""
    published: int = 0

    def copy(self) -> Queue:
        groups = {name: group.copy() for name, group in self.groups.items()}
        return replace(self, groups=groups, producers={**self.producers})

    def depth(self) -> int:
        return max(
            [len(set(range(group.first, len(self.rows))) - group.settled) for group in self.groups.values()], default=0
        )


Wanted = list[tuple[str, tuple[Row, ...]]]
"""queue and rows"""


class Reference:
    def __init__(self, principals: Sequence[Principal], queues: Sequence[QueueFacts], auto_create: bool) -> None:
        self.principals = {each.name: each for each in principals}
        self.queues = {facts.name: Queue(facts) for facts in queues}
        self.auto_create = auto_create
        self.retained: dict[str, Kept] = {}
        self.subscriptions: dict[str, dict[str, int]] = {}
        """by connection, the QoS of each filter"""
        self.sent: dict[str, tuple[Sent, ...]] = {}
        """to each connection"""
        self.bare: frozenset[str] = frozenset()
        """connections whose messages have no headers"""

    def copy(self) -> Reference:
        made = Reference((), (), self.auto_create)
        made.principals, made.bare = self.principals, self.bare
        made.queues = {name: queue.copy() for name, queue in self.queues.items()}
        made.retained, made.sent = {**self.retained}, {**self.sent}
        made.subscriptions = {name: {**filters} for name, filters in self.subscriptions.items()}
        return made

    def sum(self) -> object:
        """What tells two apart that answered the same requests, in another order, alike."""
        stored = {name: hash(frozenset(row.value for row in queue.rows)) for name, queue in sorted(self.queues.items())}
        return stored, sorted(self.retained.items()), sorted(self.sent.items())

    def row_counts(self) -> dict[str, int]:
        return {name: len(queue.rows) for name, queue in self.queues.items()}

    # Publishing

    def publish(
        self,
        who: str,
        connection: str,
        messages: Sequence[tuple[str, Message]],
        qos: int,
        retain: bool,
        partition: int | None = None,
        producer: Producer | None = None,
    ) -> None:
        """By topic. Refused, and nothing has happened."""
        for topic, _ in messages:
            self._check_topic(self.principals[who], topic)
        wanted: dict[str, tuple[Row, ...]] = {}
        for topic, message in messages:
            for name in self._targets(topic):
                row = _row(message, topic, (connection,), partition)
                wanted[name] = (*wanted.get(name, ()), row)
        self._store(list(wanted.items()), partition, who, producer)
        for topic, message in messages:
            self._fan_out(topic, message, qos, retain)

    def put(
        self,
        who: str,
        connection: str,
        queue: str,
        messages: Sequence[Message],
        partition: int | None = None,
        producer: Producer | None = None,
    ) -> int:
        """Into one queue; how many came before. Refused, and nothing has happened."""
        if not self.principals[who].is_admin:
            self._refuse_unless(self.principals[who].publish, f"$queue/{queue}")
        if queue not in self.queues:
            self._make(queue)
        rows = tuple(_row(message, None, (connection,), partition) for message in messages)
        return len(rows) - self._store([(queue, rows)], partition, who, producer)

    def _check_topic(self, principal: Principal, topic: str) -> None:
        if topic.startswith(_BROKERS_OWN) and principal.is_admin:
            raise Refused(RESERVED)
        if not principal.is_admin:
            self._refuse_unless(principal.publish, topic)

    def _refuse_unless(self, allowed: Sequence[str], topic: str) -> None:
        if not any(matches(pattern, topic) for pattern in allowed):
            raise Refused(NOT_ALLOWED)

    def _targets(self, topic: str) -> list[str]:
        bound = [name for name, queue in self.queues.items() if any(matches(f, topic) for f in queue.facts.topics)]
        if not topic.startswith("$queue/"):
            return bound
        path = topic.removeprefix("$queue/")
        levels = path.split("/")
        prefixes = ["/".join(levels[:count]) for count in range(len(levels), 0, -1)]
        named = next((prefix for prefix in prefixes if prefix in self.queues), None)
        if named is None:
            self._make(path)
            named = path
        return list(dict.fromkeys([named, *bound]))

    def _make(self, name: str) -> None:
        if not all(name.split("/")):
            raise Refused(INVALID)
        if not self.auto_create:
            raise Refused(NO_QUEUE)
        self.queues[name] = Queue(QueueFacts(name, 10))

    def _store(
        self, wanted: Wanted, partition: int | None = None, who: str = "", producer: Producer | None = None
    ) -> int:
        """All of it or nothing; how many rows are new, of a single queue."""
        fresh: Wanted = []
        reasons: list[str] = []
        for name, rows in wanted:
            queue, known = self.queues[name], 0
            try:
                known = _known(queue, who, producer, len(rows))
            except Refused as refused:
                reasons.append(refused.code)
            fresh.append((name, rows[known:]))
            reasons += _reasons(queue, rows, len(rows) - known, partition)
        if reasons:
            raise Refused(EITHER.join(dict.fromkeys(reasons)))
        for name, rows in fresh:
            queue = self.queues[name]
            queue.rows += rows
            queue.published += len(rows)
            if producer is not None and rows:
                end = producer.sequence + len(dict(wanted)[name])
                queue.producers[who, producer.is_key, producer.id] = producer.epoch, end
        return sum(len(rows) for _, rows in fresh)

    # Subscribers

    def subscribe(self, who: str, connection: str, topic_filter: str, qos: int, *, has_headers: bool = True) -> None:
        principal = self.principals[who]
        if not principal.is_admin and not any(contains(pattern, topic_filter) for pattern in principal.subscribe):
            raise Refused(NOT_ALLOWED)
        self.bare |= set() if has_headers else {connection}
        self.subscriptions.setdefault(connection, {})[topic_filter] = qos
        for topic, (message, kept_qos) in self.retained.items():
            if matches(topic_filter, topic):
                self._send(connection, topic, message, min(qos, kept_qos), True)

    def unsubscribe(self, connection: str, topic_filter: str) -> bool:
        """Whether there was such a one."""
        return self.subscriptions.get(connection, {}).pop(topic_filter, None) is not None

    def ended(self, connection: str) -> None:
        self.subscriptions.pop(connection, None)

    def _fan_out(self, topic: str, message: Message, qos: int, retain: bool) -> None:
        for connection, filters in self.subscriptions.items():
            mine = [granted for topic_filter, granted in filters.items() if matches(topic_filter, topic)]
            if mine:
                self._send(connection, topic, message, min(qos, max(mine)), False)
        if retain and message.value:
            self.retained[topic] = Kept(message, qos)
        elif retain:
            self.retained.pop(topic, None)

    def _send(self, connection: str, topic: str, message: Message, qos: int, retain: bool) -> None:
        sent = Sent(topic, message.value, qos, retain, () if connection in self.bare else message.headers)
        self.sent[connection] = (*self.sent.get(connection, ()), sent)

    # Groups

    def receive(self, who: str, queue: str, group: str, most: int, got: Sequence[tuple[bytes, int]]) -> str | None:
        """`got` is what the true broker gave: each value, and how often it was handed out. What is wrong with it, if
        anything. Refused."""
        if not self.principals[who].is_admin:
            self._refuse_unless(self.principals[who].consume, f"$queue/{queue}")
        if queue not in self.queues:
            raise Refused(NO_QUEUE)
        found = self.queues[queue]
        mine = found.groups.setdefault(group, Group(len(found.rows)))
        free = [number for number in range(len(found.rows)) if number not in mine.settled and number not in mine.held]
        if len(got) != min(most, len(free)):
            return f"{len(got)} messages were handed out, {min(most, len(free))} could be"
        for value, count in got:
            number = next((each for each in free if found.rows[each].value == value), None)
            if number is None:
                return f"{value!r} was handed out, which is not there, or somebody's"
            if any(_goes_before(found.rows[each], found.rows[number], mine, each) for each in free if each < number):
                return f"{value!r} was handed out before an older one of its key or connection"
            if count != mine.deliveries.get(number, 0) + 1:
                return f"delivery {count} of {value!r} is said, it is {mine.deliveries.get(number, 0) + 1}"
            free.remove(number)
            mine.deliveries[number] = mine.held[number] = count
        return None

    def free(self, queue: str, group: str) -> int:
        """How many messages a receive could give."""
        found = self.queues[queue]
        mine = found.groups.get(group, Group(0))
        return len(set(range(len(found.rows))) - mine.settled - mine.held.keys())

    def settle(self, who: str, verb: str, queue: str, group: str, value: bytes, delivery: int | None) -> str:
        """OK or STALE; a delivery of None is the one that is current. Refused."""
        if not self.principals[who].is_admin:
            self._refuse_unless(self.principals[who].consume, f"$queue/{queue}")
        found = self.queues[queue]
        mine = found.groups[group]
        number = next(each for each, row in enumerate(found.rows) if row.value == value)
        if number not in mine.held or delivery not in (None, mine.held[number]):
            return STALE
        del mine.held[number]
        if verb == "ack":
            mine.settled |= {number}
            return OK
        if verb == "nack":
            self._take_back(found, mine, number)
            mine.failures[number] = mine.failures.get(number, 0) + 1
        if verb == "reject" or mine.failures[number] > found.facts.max_retries:
            mine.settled |= {number}
            self._bury(queue, found.rows[number])
        return OK

    def _take_back(self, queue: Queue, group: Group, number: int) -> None:
        """Later ones of a key do not stay with a consumer when an earlier one comes again."""
        key = queue.rows[number].key
        for later in [each for each in group.held if each > number and key is not None]:
            if queue.rows[later].key == key:
                del group.held[later]

    def _bury(self, queue: str, row: Row) -> None:
        letters = self.queues.setdefault(DEAD + queue, Queue(QueueFacts(DEAD + queue, 1)))
        letters.rows += (row._replace(topic=None, headers=(), partition=None, lane=("dead", row.value.hex())),)

    def transact(
        self,
        who: str,
        connection: str,
        puts: Sequence[tuple[str, Sequence[Message]]],
        acks: Sequence[tuple[str, str, bytes, int]],
    ) -> None:
        """Several puts see each other. Refused, and nothing has happened."""
        tried = self.copy()
        wanted: dict[str, tuple[Row, ...]] = {}
        for name, messages in puts:
            if name not in tried.queues:
                tried._make(name)
            rows = tuple(_row(message, None, (connection,), None) for message in messages)
            wanted[name] = (*wanted.get(name, ()), *rows)
        tried._store(list(wanted.items()))
        if any(tried.settle(who, "ack", *ack) == STALE for ack in acks):
            raise Refused(STALE)
        self.queues = tried.queues


def _goes_before(older: Row, newer: Row, group: Group, number: int) -> bool:
    """Whether the older one, which is free, has to be handed out first; without a key only what never was."""
    if newer.key is not None:
        return older.key == newer.key
    return older.lane == newer.lane and number not in group.deliveries


def _row(message: Message, topic: str | None, lane: tuple[str, ...], partition: int | None) -> Row:
    if partition is not None:
        lane = ("partition", str(partition), *lane)
    elif message.key is not None:
        lane = ("key", message.key, *lane)
    return Row(message.value, message.key, topic, message.headers, lane, partition)


def _reasons(queue: Queue, rows: Sequence[Row], fresh: int, partition: int | None) -> list[str]:
    """Why the queue does not take them, of which so many are new."""
    facts, found = queue.facts, []
    if any(len(row.value) > facts.max_bytes for row in rows):
        found.append(TOO_LARGE)
    if partition is not None and not 0 <= partition < facts.partitions:
        found.append(INVALID)
    if queue.groups and facts.max_depth is not None and queue.depth() + fresh > facts.max_depth:
        found.append(FULL)
    return found


def _known(queue: Queue, who: str, producer: Producer | None, count: int) -> int:
    """How many of so many messages it has taken before."""
    if producer is None:
        return 0
    epoch, following = queue.producers.get((who, producer.is_key, producer.id), (-1, 0))
    if producer.epoch < epoch:
        raise Refused(FENCED)
    if producer.epoch > epoch:
        return 0
    if producer.sequence > following:
        raise Refused(OUT_OF_ORDER)
    return min(count, following - producer.sequence)


def matches(pattern: str, topic: str) -> bool:
    """Whether a topic filter has this topic."""
    if topic.startswith("$") and pattern[0] in "+#":
        return False
    return contains(pattern, topic)


def contains(pattern: str, other: str) -> bool:
    """Whether a topic filter has every topic that another one has."""
    mine, theirs = pattern.split("/"), other.split("/")
    for place, level in enumerate(mine):
        if level == "#":
            return not (place == 0 and other.startswith("$"))
        if place >= len(theirs) or theirs[place] == "#" or level not in ("+", theirs[place]):
            return False
    return len(mine) == len(theirs)


def rows_by_lane(rows: Sequence[Row]) -> Mapping[tuple[str, ...], list[Row]]:
    found: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        found.setdefault(row.lane, []).append(row)
    return found
