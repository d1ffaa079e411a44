"""Packet identifiers at work: what QoS 1 and 2 expect of each side, as tables, and how many may be under way.

`Outgoing` is the side that sends PUBLISH, `Incoming` the one that receives it; a session has one of each. They hold
identifiers only, not messages, and know neither time nor disk: what must outlive the process is kept by their owner."""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Protocol

from penstock.codecs.mqtt.errors import ProtocolError
from penstock.codecs.mqtt.kinds import MAX_PACKET_ID, PacketType
from penstock.codecs.mqtt.reasons import FIRST_REFUSAL, ReasonCode
from penstock.core.errors import InvalidArgument

DEFAULT_RECEIVE_MAXIMUM = 65_535
"""where the other side names none, as in 3.1.1"""


class Awaits(enum.IntEnum):
    """What a packet identifier in use still waits for: that type of packet."""

    PUBACK = PacketType.PUBACK
    PUBREC = PacketType.PUBREC
    PUBCOMP = PacketType.PUBCOMP
    SUBACK = PacketType.SUBACK
    UNSUBACK = PacketType.UNSUBACK


class Effect(enum.Enum):
    FINISH = "the identifier is free"
    REFUSE = "the identifier is free, and the other side did not take the message"
    RELEASE = "send PUBREL"
    NOT_FOUND = "send PUBREL; in MQTT 5 with 0x92"
    IGNORE = "nothing is known of it, and nothing is owed"


# (what the identifier awaits, what came, whether it refuses). What is not here is a protocol error.
SENDER: Mapping[tuple[Awaits | None, PacketType, bool], Effect] = {
    (Awaits.PUBACK, PacketType.PUBACK, False): Effect.FINISH,
    (Awaits.PUBACK, PacketType.PUBACK, True): Effect.REFUSE,
    (Awaits.PUBREC, PacketType.PUBREC, False): Effect.RELEASE,
    (Awaits.PUBREC, PacketType.PUBREC, True): Effect.REFUSE,
    (Awaits.PUBCOMP, PacketType.PUBREC, False): Effect.RELEASE,
    (Awaits.PUBCOMP, PacketType.PUBCOMP, False): Effect.FINISH,
    (Awaits.PUBCOMP, PacketType.PUBCOMP, True): Effect.FINISH,
    (Awaits.SUBACK, PacketType.SUBACK, False): Effect.FINISH,
    (Awaits.UNSUBACK, PacketType.UNSUBACK, False): Effect.FINISH,
    (None, PacketType.PUBACK, False): Effect.IGNORE,
    (None, PacketType.PUBACK, True): Effect.IGNORE,
    (None, PacketType.PUBREC, False): Effect.NOT_FOUND,
    (None, PacketType.PUBREC, True): Effect.IGNORE,
    (None, PacketType.PUBCOMP, False): Effect.IGNORE,
    (None, PacketType.PUBCOMP, True): Effect.IGNORE,
}

# The same by what came: a lookup for each of many identifiers, and the tuple and its hash would be most of the work.
_EFFECTS: Mapping[tuple[PacketType, bool], Mapping[Awaits | None, Effect]] = {
    (type, is_refusal): {awaits: effect for (awaits, *came), effect in SENDER.items() if came == [type, is_refusal]}
    for type in PacketType
    for is_refusal in (False, True)
}
_REQUESTS = frozenset({Awaits.SUBACK, Awaits.UNSUBACK})
_PUBLISHES = {1: Awaits.PUBACK, 2: Awaits.PUBREC}


_NONE = frozenset[int]()
_LAST_WORDS = {PacketType.PUBACK: Awaits.PUBACK, PacketType.PUBCOMP: Awaits.PUBCOMP}


@dataclass(slots=True)
class Settled:
    """Identifiers by what came of them, each list in the order in which the packets came."""

    finished: list[int] = field(default_factory=list)
    refused: list[int] = field(default_factory=list)
    release: list[int] = field(default_factory=list)
    not_found: list[int] = field(default_factory=list)


class Outgoing:
    """Gives out identifiers 1..65535, round and round past those in use, and no more at a time than the other side's
    receive maximum. A dict keeps the order: PUBLISHes as they were sent, PUBRELs as their PUBRECs came."""

    def __init__(self, receive_maximum: int = DEFAULT_RECEIVE_MAXIMUM) -> None:
        self._receive_maximum = _checked_maximum(receive_maximum)
        self._awaited: dict[int, Awaits] = {}
        self._resends: dict[int, None] = {}
        self._requests = 0
        self._last = 0

    def __len__(self) -> int:
        """Identifiers in use."""
        return len(self._awaited)

    @property
    def last(self) -> int:
        """The identifier given out last; 0 for none."""
        return self._last

    @property
    def window(self) -> int:
        """How many PUBLISHes may be sent now. PUBRELs carried over from an earlier connection count as well, which is
        less than the specification would allow."""
        if not self._resends and not self._requests:
            return max(0, self._receive_maximum - len(self._awaited))
        under_way = len(self._awaited) - self._requests - len(self._resends)
        return max(0, min(self._receive_maximum - under_way, MAX_PACKET_ID - len(self._awaited) + len(self._resends)))

    @property
    def has_resends(self) -> bool:
        """Whether PUBLISHes of an earlier connection are still to be sent again, before any others."""
        return bool(self._resends)

    def awaited(self) -> list[tuple[int, Awaits]]:
        """Every identifier of a message and what it waits for, in order: what `restore` takes."""
        return [(packet_id, awaits) for packet_id, awaits in self._awaited.items() if awaits not in _REQUESTS]

    def publish(self, count: int, qos: int) -> list[int]:
        """Identifiers for the next PUBLISHes of QoS 1 or 2: `count` of them, or as many as the window has. None while
        there are PUBLISHes to send again, which go first."""
        if qos not in _PUBLISHES:
            raise InvalidArgument(f"a packet identifier belongs to QoS 1 or 2, not {qos}")
        return [] if self._resends else self._allocate(min(count, self.window), _PUBLISHES[qos])

    def request(self, type: PacketType) -> int | None:
        """An identifier for a client's SUBSCRIBE or UNSUBSCRIBE; None if all are in use. Not part of the window."""
        awaits = {PacketType.SUBSCRIBE: Awaits.SUBACK, PacketType.UNSUBSCRIBE: Awaits.UNSUBACK}[type]
        if len(self._awaited) == MAX_PACKET_ID:
            return None
        self._requests += 1
        return self._allocate(1, awaits)[0]

    def _allocate(self, count: int, awaits: Awaits) -> list[int]:
        following = self._last + 1
        if count == 1 and following <= MAX_PACKET_ID and following not in self._awaited:
            self._awaited[following], self._last = awaits, following
            return [following]
        ids: Sequence[int] = range(self._last + 1, self._last + 1 + count)
        if self._last + count > MAX_PACKET_ID or not self._awaited.keys().isdisjoint(ids):
            ids = list(islice(self._free_ids(), count))
        self._awaited.update(dict.fromkeys(ids, awaits))
        if ids:
            self._last = ids[-1]
        return list(ids)

    def _free_ids(self) -> Iterable[int]:
        for step in range(1, MAX_PACKET_ID + 1):
            packet_id = (self._last + step - 1) % MAX_PACKET_ID + 1
            if packet_id not in self._awaited:
                yield packet_id

    def receive(self, type: PacketType, packet_ids: Sequence[int], reasons: Sequence[int] = ()) -> Settled:
        """PUBACK, PUBREC, PUBCOMP, SUBACK or UNSUBACK of these identifiers; without reasons all of them are success.
        ProtocolError if one has an identifier that waits for another kind; those before it are settled."""
        if not reasons and not self._resends and (settled := self._finish_all(type, packet_ids)) is not None:
            return settled
        settled = Settled()
        accepted, refused = _EFFECTS[type, False], _EFFECTS[type, True]
        for i, packet_id in enumerate(packet_ids):
            awaits = self._awaited.get(packet_id)
            effect = (refused if reasons and reasons[i] >= FIRST_REFUSAL else accepted).get(awaits)
            if effect is None:
                expected = "nothing" if awaits is None else awaits.name
                raise ProtocolError(f"{type.name} for packet identifier {packet_id}, which awaits {expected}")
            self._apply(effect, packet_id, settled)
        return settled

    def _finish_all(self, type: PacketType, packet_ids: Sequence[int]) -> Settled | None:
        """What is nearly always so: each PUBACK or PUBCOMP is awaited. None, and nothing changed, if one is not."""
        awaits = _LAST_WORDS.get(type)
        if awaits is None:
            return None
        if len(packet_ids) == 1:
            if self._awaited.get(packet_ids[0]) is not awaits:
                return None
            del self._awaited[packet_ids[0]]
            return Settled([packet_ids[0]])
        ids = list(dict.fromkeys(packet_ids))
        if list(map(self._awaited.get, ids)).count(awaits) < len(ids):
            return None
        for _ in map(self._awaited.pop, ids):
            pass
        return Settled(finished=ids)

    def _apply(self, effect: Effect, packet_id: int, settled: Settled) -> None:
        if effect is Effect.FINISH:
            self._free(packet_id)
            settled.finished.append(packet_id)
        elif effect is Effect.REFUSE:
            self._free(packet_id)
            settled.refused.append(packet_id)
        elif effect is Effect.RELEASE:
            self._release(packet_id)
            settled.release.append(packet_id)
        elif effect is Effect.NOT_FOUND:
            settled.not_found.append(packet_id)

    def _free(self, packet_id: int) -> None:
        self._requests -= self._awaited.pop(packet_id) in _REQUESTS
        if self._resends:
            self._resends.pop(packet_id, None)

    def _release(self, packet_id: int) -> None:
        """To the end of the order, unless it was released before."""
        self._resends.pop(packet_id, None)
        if self._awaited[packet_id] is not Awaits.PUBCOMP:
            del self._awaited[packet_id]
            self._awaited[packet_id] = Awaits.PUBCOMP

    def abandon(self, packet_ids: Iterable[int]) -> None:
        """For messages that are not the session's (those of queues), when the connection ends: they are not sent again.
        In QoS 2 the other side may hold the identifier, and would take the next message under it for a duplicate: it is
        released when the session goes on, and free only then."""
        for packet_id in packet_ids:
            awaits = self._awaited.get(packet_id)
            if awaits is Awaits.PUBACK:
                self._free(packet_id)
            elif awaits is Awaits.PUBREC:
                self._release(packet_id)

    def resume(self, receive_maximum: int = DEFAULT_RECEIVE_MAXIMUM) -> list[int]:
        """The session goes on over a new connection: the identifiers to send PUBREL for, in order. Then send what
        `resends` gives, until it gives no more. Requests are not part of a session and are forgotten."""
        self._receive_maximum = _checked_maximum(receive_maximum)
        for packet_id in [packet_id for packet_id, awaits in self._awaited.items() if awaits in _REQUESTS]:
            self._free(packet_id)
        released = [packet_id for packet_id, awaits in self._awaited.items() if awaits is Awaits.PUBCOMP]
        self._resends = dict.fromkeys(
            packet_id for packet_id, awaits in self._awaited.items() if awaits is not Awaits.PUBCOMP
        )
        return released

    def resends(self) -> list[int]:
        """The PUBLISHes to send again now, with DUP set, in the order in which they were sent first; more of them when
        the window opens."""
        ids = list(islice(self._resends, self.window))
        for packet_id in ids:
            del self._resends[packet_id]
        return ids

    @classmethod
    def restore(cls, awaited: Iterable[tuple[int, Awaits]], last: int = 0) -> Outgoing:
        """From what `awaited` gave, perhaps in an earlier process. Call `resume` when the client comes. New identifiers
        go on behind `last`, or behind those in use."""
        outgoing = cls()
        outgoing._awaited.update(awaited)
        outgoing._last = last or next(reversed(outgoing._awaited), 0)
        return outgoing


@dataclass(slots=True)
class Arrived:
    """PUBLISHes of QoS 2 by identifier: those to take, and those that were taken before. PUBREC is owed for both."""

    fresh: list[int] = field(default_factory=list)
    duplicate: list[int] = field(default_factory=list)


@dataclass(slots=True)
class Released:
    """PUBCOMP is owed for both: in MQTT 5 with 0x92 where the identifier was not found."""

    known: list[int] = field(default_factory=list)
    not_found: list[int] = field(default_factory=list)


class Counts(Protocol):
    """Numbers by place: a list, or a column of memory."""

    def __getitem__(self, place: int, /) -> int: ...

    def __setitem__(self, place: int, count: int, /) -> None: ...


class Incoming:
    """The identifiers of QoS 2 that were taken and not released, and how many PUBLISHes are unanswered. Over that limit
    the other side has broken its promise, and the connection ends with 0x93."""

    def __init__(self, receive_maximum: int = DEFAULT_RECEIVE_MAXIMUM, held: Iterable[int] = ()) -> None:
        """`held` are the identifiers of a session from before."""
        self._receive_maximum = _checked_maximum(receive_maximum)
        self._held: set[int] | None = set(held) or None
        """most have none, and an empty set takes 232 bytes"""
        self.leave()

    def leave(self) -> None:
        """The connection is gone: the count begins anew, and the place where it was is another's."""
        self._counted: frozenset[int] = _NONE
        self._unanswered: Counts = [0]
        self._place = 0

    def count_at(self, unanswered: Counts, place: int) -> None:
        """What is unanswered is counted there from now on: who takes PUBLISHes of many connections together counts
        those of QoS 1 himself."""
        self._unanswered, self._place = unanswered, place
        unanswered[place] = 0

    @property
    def receive_maximum(self) -> int:
        return self._receive_maximum

    @property
    def under_way(self) -> int:
        """PUBLISHes of this connection that count against the receive maximum."""
        return self._unanswered[self._place]

    def held(self) -> list[int]:
        return sorted(self._held or ())

    @property
    def held_count(self) -> int:
        return 0 if self._held is None else len(self._held)

    def publish_qos_1(self, count: int) -> None:
        """So many came; each is under way until `puback`."""
        self._check_limit(self.under_way + count)
        self._unanswered[self._place] += count

    def puback(self, count: int) -> None:
        """So many of them were answered, with whatever reason."""
        self._unanswered[self._place] = max(len(self._counted), self.under_way - count)

    def publish_qos_2(self, packet_ids: Sequence[int]) -> Arrived:
        """They are under way until PUBREL, or until PUBREC refused them: `refuse`. Over the limit none of them is held:
        the client will send them again, and they must not pass for duplicates then."""
        counted = self._counted.union(packet_ids)
        self._check_limit(self.under_way + len(counted) - len(self._counted))
        arrived, held = Arrived(), self._held
        if held is None:
            held = self._held = set()
        for packet_id in packet_ids:
            (arrived.duplicate if packet_id in held else arrived.fresh).append(packet_id)
            held.add(packet_id)
        self._count(counted)
        return arrived

    def refuse(self, packet_ids: Collection[int]) -> None:
        """PUBREC says no, or the messages could not be taken: the identifiers are free, and no PUBREL will come."""
        if self._held is not None:
            self._held.difference_update(packet_ids)
        self._count(self._counted.difference(packet_ids))

    def pubrel(self, packet_ids: Collection[int]) -> Released:
        released, held = Released(), self._held or set()
        for packet_id in packet_ids:
            (released.known if packet_id in held else released.not_found).append(packet_id)
            held.discard(packet_id)
        self._count(self._counted.difference(packet_ids))
        return released

    def _count(self, counted: frozenset[int]) -> None:
        self._unanswered[self._place] += len(counted) - len(self._counted)
        self._counted = counted

    def resume(self, receive_maximum: int = DEFAULT_RECEIVE_MAXIMUM) -> None:
        """A new connection of the session: what was taken stays taken, and the count begins anew."""
        self._receive_maximum = _checked_maximum(receive_maximum)
        self.leave()

    def _check_limit(self, under_way: int) -> None:
        if under_way > self._receive_maximum:
            raise self.exceeded(under_way)

    def exceeded(self, under_way: int) -> ProtocolError:
        return ProtocolError(
            f"{under_way} PUBLISHes are unanswered, and the receive maximum is {self._receive_maximum}",
            ReasonCode.RECEIVE_MAXIMUM_EXCEEDED,
        )


def _checked_maximum(receive_maximum: int) -> int:
    if not 1 <= receive_maximum <= MAX_PACKET_ID:
        raise InvalidArgument(f"the receive maximum is {receive_maximum}: give 1 to {MAX_PACKET_ID}")
    return receive_maximum
