"""Dead letters to look at: which queues hold them, which of them wait, and choosing among them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

from penstock.broker.broker import Broker
from penstock.broker.browsing import Browsed, browse
from penstock.broker.queues.queue import Queue
from penstock.core.errors import InvalidArgument
from penstock.core.queue_paths import is_dead_letter_queue
from penstock.queues.deadletter import DeadLetter, Reason, from_properties
from penstock.queues.names import GroupName

REDRIVE = GroupName("redrive")
"""The group of a dead-letter queue that has settled what was redriven or dropped."""


@dataclass(frozen=True, slots=True)
class Letter:
    """`facts` is None for a message that somebody published to a dead-letter queue."""

    message: Browsed
    facts: DeadLetter | None

    @classmethod
    def of(cls, message: Browsed) -> Letter:
        return cls(message, from_properties(message.row.properties or b""))

    @property
    def ids(self) -> frozenset[str]:
        """Its own, and that of the message it was."""
        own = str(self.message.id)
        return frozenset((own,)) if self.facts is None else frozenset((own, str(self.facts.source)))


@dataclass(frozen=True, slots=True)
class Selection:
    """What is empty asks for nothing; all that is said must hold. An id is the letter's, or its source message's."""

    ids: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()
    reasons: frozenset[Reason] = frozenset()
    sources: frozenset[str] = frozenset()
    """queues that the messages came from"""

    @property
    def is_everything(self) -> bool:
        return not (self.ids or self.groups or self.reasons or self.sources)

    def may_match(self, message: Browsed) -> bool:
        """A quick look, before the facts are read: one letter may be asked for among very many."""
        if not self.ids or str(message.id) in self.ids:
            return True
        properties = message.row.properties or b""
        return any(identity.encode() in properties for identity in self.ids)

    def matches(self, letter: Letter) -> bool:
        if self.ids and not self.ids & letter.ids:
            return False
        if not (self.groups or self.reasons or self.sources):
            return True
        facts = letter.facts
        return (
            facts is not None
            and (not self.groups or not self.groups.isdisjoint((str(facts.group), facts.group.name)))
            and (not self.reasons or facts.reason in self.reasons)
            and (not self.sources or facts.source.queue in self.sources)
        )


ALL = Selection()


async def letters(
    broker: Broker, queue: Queue, selection: Selection = ALL, limit: int | None = None
) -> AsyncIterator[Letter]:
    """Those that were neither redriven nor dropped, oldest first."""
    given = 0
    async for message in browse(broker, queue):
        if limit is not None and given >= limit:
            return
        if is_settled(queue, message) or not selection.may_match(message):
            continue
        if selection.matches(letter := Letter.of(message)):
            given += 1
            yield letter


def is_settled(queue: Queue, message: Browsed) -> bool:
    """Whether a letter was redriven or dropped."""
    group, unit = queue.groups.get(REDRIVE), queue.units.get(message.partition)
    if group is None or unit is None:
        return False
    window = group.cursor(unit).window
    return message.row.offset < window.next and window.entry(message.row.offset) is None


def waiting(queue: Queue) -> int:
    """How many letters were neither redriven nor dropped."""
    group = queue.groups.get(REDRIVE)
    total = 0
    for unit in queue.units.values():
        window = None if group is None else group.cursor(unit).window
        ahead = unit.start if window is None else max(window.next, unit.start)
        total += unit.end - ahead - unit.missing(ahead) + (0 if window is None else window.pending)
    return total


def dead_letter_queues(broker: Broker) -> list[Queue]:
    """By their name, or because a queue names them for its dead letters."""
    found = {queue: None for queue in broker.queues if is_dead_letter_queue(queue.name)}
    for queue in broker.queues:
        if (target := _named_by(broker, queue)) is not None:
            found[target] = None
    return sorted(found, key=lambda queue: (queue.namespace, queue.name))


def dead_letter_queue_of(broker: Broker, name: str, namespace: str = "default") -> Queue | None:
    """`name` is its own name, or that of a queue whose dead letters it takes; None before the first one came.
    InvalidArgument for a queue that keeps none."""
    queue = broker.queue(name, namespace)
    if queue in dead_letter_queues(broker):
        return queue
    if queue.settings.dead_letter_queue is None:
        raise InvalidArgument(f"queue {queue.name!r} keeps no dead letters: dlq_config.enabled is off")
    return _named_by(broker, queue)


def _named_by(broker: Broker, queue: Queue) -> Queue | None:
    """The queue for another one's dead letters, once there is one."""
    if (topic := queue.settings.dead_letter_topic) is None:
        return None
    route = broker.declaring.bindings_of(queue.namespace).route(topic.encode())
    return None if route.prefix_queue is None else broker.queue(route.prefix_queue, queue.namespace)
