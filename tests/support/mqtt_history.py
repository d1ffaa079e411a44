"""What clients of MQTT saw while their server died again and again, and whether that keeps what MQTT promises. The
clients never die: their memory is the history."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from tests.support.queue_history import require


@dataclass(frozen=True, slots=True)
class Stream:
    """Messages of one publisher on one topic with one QoS: what MQTT keeps in order."""

    publisher: str
    topic: str
    qos: int

    def message_id(self, number: int) -> str:
        return f"{self.publisher}|{self.topic}|{self.qos}|{number}"


@dataclass(slots=True)
class Sent:
    """One message of a stream."""

    stream: Stream
    number: int
    is_acknowledged: bool = False
    """PUBACK or PUBREC came"""
    times: int = 1
    """how often it went out: more than once when the publisher came back"""


@dataclass(frozen=True, slots=True)
class Arrival:
    message_id: str
    connection: int
    """which of the receiver's connections it came over"""
    qos: int
    is_dup: bool
    place: str = ""
    """the message id that a queue gives; empty where there is none"""


@dataclass(slots=True)
class Receiver:
    """A session with its subscriptions, or a consumer group of a queue with one consumer."""

    name: str
    topics: tuple[str, ...]
    """what it gets: topics that begin like one of these"""
    is_queue: bool = False
    arrivals: list[Arrival] = field(default_factory=list)
    settled: dict[str, tuple[int, int]] = field(default_factory=dict)
    """places whose settlement was acknowledged: how many arrivals there were by then, and a connection over which it
    may come all the same"""

    def gets(self, topic: str) -> bool:
        return topic.startswith(self.topics)


@dataclass
class Findings:
    messages: int = 0
    sent_again: int = 0
    """by publishers that did not know"""
    duplicates: int = 0
    """arrivals of QoS 1 that had come before"""
    crashes: int = 0


@dataclass
class History:
    sent: dict[str, Sent] = field(default_factory=dict)
    receivers: dict[str, Receiver] = field(default_factory=dict)
    crashes: int = 0
    events: int = 0
    """told so far; what rounds are measured in"""

    def receiver(self, name: str, *topics: str, is_queue: bool = False) -> Receiver:
        return self.receivers.setdefault(name, Receiver(name, topics, is_queue))

    def sending(self, stream: Stream, number: int) -> str:
        message_id = stream.message_id(number)
        self.sent[message_id] = Sent(stream, number)
        self.events += 1
        return message_id

    def sending_again(self, message_id: str) -> None:
        self.sent[message_id].times += 1
        self.events += 1

    def acknowledged(self, message_id: str) -> None:
        self.sent[message_id].is_acknowledged = True
        self.events += 1

    def arrived(self, receiver: Receiver, arrival: Arrival) -> None:
        require(arrival.message_id in self.sent, f"{receiver.name} got {arrival.message_id}, which nobody sent")
        receiver.arrivals.append(arrival)
        self.events += 1

    def settled(self, receiver: Receiver, place: str, connection: int = -1) -> None:
        """`connection`: the one over which the settlement was sent again. The server may have had the message on its
        way there already, and the settlement was good for that delivery too."""
        receiver.settled[place] = len(receiver.arrivals), connection
        self.events += 1

    def missing(self, receiver: Receiver) -> list[str]:
        """Acknowledged to their publisher, and not here."""
        came = {arrival.message_id for arrival in receiver.arrivals}
        wanted = [name for name, sent in self.sent.items() if sent.is_acknowledged and receiver.gets(sent.stream.topic)]
        return [name for name in wanted if name not in came]

    def check(self) -> Findings:
        """After publishers have finished and receivers were given the time for everything."""
        found = Findings(messages=len(self.sent), crashes=self.crashes)
        found.sent_again = sum(sent.times - 1 for sent in self.sent.values())
        for receiver in self.receivers.values():
            lost = self.missing(receiver)
            require(not lost, f"{receiver.name} never got {len(lost)} acknowledged messages, the first is {lost[:1]}")
            found.duplicates += self._check_once(receiver)
            if receiver.is_queue:
                self._check_settled(receiver)
            else:
                self._check_order(receiver)
        return found

    def _check_once(self, receiver: Receiver) -> int:
        """Twice only with QoS 1, and only for a reason: a connection ended on the way here, or on the way there."""
        duplicates = 0
        came: dict[str, list[Arrival]] = defaultdict(list)
        for arrival in receiver.arrivals:
            before = came[arrival.message_id]
            before.append(arrival)
            if len(before) == 1:
                continue
            duplicates += 1
            self._check_duplicate(receiver, before)
        return duplicates

    def _check_duplicate(self, receiver: Receiver, came: list[Arrival]) -> None:
        sent, last = self.sent[came[-1].message_id], came[-1]
        what = f"{last.message_id} came to {receiver.name} {len(came)} times: {came}"
        if receiver.is_queue:
            places = {arrival.place for arrival in came}
            require(len(places) == 1 or sent.stream.qos == 1, f"{what}: it is in the queue more than once")
        else:
            require(last.qos == 1, f"{what}, with QoS {last.qos}")
        is_sent_again = sent.stream.qos == 1 and sent.times > 1
        is_new_connection = any(before.connection != last.connection for before in came[:-1])
        require(is_sent_again or is_new_connection, f"{what}: no connection ended in between")

    def _check_settled(self, receiver: Receiver) -> None:
        """What was settled for ever does not come again."""
        for number, arrival in enumerate(receiver.arrivals):
            before, connection = receiver.settled.get(arrival.place, (len(receiver.arrivals), -1))
            is_allowed = number < before or arrival.connection == connection
            require(is_allowed, f"{arrival} came to {receiver.name} after it was settled")

    def _check_order(self, receiver: Receiver) -> None:
        """Each stream as it was sent, if one looks at the first time that each message came."""
        last: dict[Stream, int] = {}
        seen: set[str] = set()
        for arrival in receiver.arrivals:
            if arrival.message_id in seen:
                continue
            seen.add(arrival.message_id)
            sent = self.sent[arrival.message_id]
            before = last.get(sent.stream, -1)
            require(sent.number > before, f"{receiver.name} got {arrival.message_id} after number {before}")
            last[sent.stream] = sent.number
