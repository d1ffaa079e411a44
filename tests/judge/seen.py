"""What was seen of a true broker, and how it differs from what the reference has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tests.judge.layout import DEAD
from tests.judge.reference import Reference, Row, Sent, rows_by_lane


class Place(NamedTuple):
    """A stored message as the true broker shows it."""

    partition: int
    value: bytes
    key: str | None
    topic: str | None
    headers: tuple[tuple[str, str], ...]


@dataclass
class Space:
    """Of a namespace, after a turn."""

    rows: Mapping[str, Sequence[Place]]
    """of each queue all there are, a partition after the other"""
    published: Mapping[str, int]
    """by queue, as it counts them"""
    retained: Mapping[str, bytes] | None = None
    """by topic, those of queues aside; None where there is no such thing"""


@dataclass
class Seen:
    spaces: Mapping[str, Space]
    delivered: Mapping[str, Sequence[Sent]] = field(default_factory=dict)
    """to each connection that is still there"""
    senders: Mapping[bytes, str] = field(default_factory=dict)
    """connections by the values of their messages"""


def space_differs(reference: Reference, space: Space) -> str | None:
    """The first difference."""
    for name, queue in reference.queues.items():
        if difference := rows_differ(queue.rows, space.rows.get(name, ()), name.startswith(DEAD)):
            return f"queue {name}: {difference}"
        counted = space.published.get(name, queue.published)
        if queue.published != counted:
            return f"queue {name} counts {counted} published, and took {queue.published}"
    for name, places in space.rows.items():
        if places and name not in reference.queues:
            return f"queue {name} has {len(places)} messages, and was never published to"
    kept = {topic: kept.message.value for topic, kept in reference.retained.items() if not topic.startswith("$")}
    if space.retained is not None and space.retained != kept:
        return f"retained is {space.retained}, and should be {kept}"
    return None


def rows_differ(rows: Sequence[Row], places: Sequence[Place], is_dead: bool = False) -> str | None:
    wanted, stored = Counter(row.value for row in rows), Counter(place.value for place in places)
    if wanted != stored:
        return f"missing {sorted(wanted - stored)}, too many {sorted(stored - wanted)}"
    if is_dead:
        return None
    at = {place.value: number for number, place in enumerate(places)}
    for lane, mine in rows_by_lane(rows).items():
        found = [places[number] for number in sorted(at[row.value] for row in mine)]
        if [place.value for place in found] != [row.value for row in mine]:
            return f"{lane} is stored as {[place.value for place in found]}, sent as {[row.value for row in mine]}"
        if len({place.partition for place in found}) > 1:
            return f"{lane} is in several partitions: {found}"
        for row, place in zip(mine, found, strict=True):
            if (row.key, row.topic, row.headers) != place[2:] or row.partition not in (None, place.partition):
                return f"{row} is stored as {place}"
    keyed = {(row.key, places[at[row.value]].partition) for row in rows if row.key and row.partition is None}
    if len(keyed) > len({key for key, _ in keyed}):
        return f"a key is in several partitions: {sorted(map(str, keyed))}"
    return None


def sent_differ(sent: Sequence[Sent], delivered: Sequence[Sent], senders: Mapping[bytes, str]) -> str | None:
    """Live ones of a connection keep their order; retained ones, and those without a value, have none."""
    for sender in (None, *dict.fromkeys(senders.values())):
        wanted, came = ([each for each in some if _sender(each, senders) == sender] for some in (sent, delivered))
        if (wanted != came) if sender is not None else (Counter(wanted) != Counter(came)):
            return f"from {sender} came {came}, and should have {wanted}"
    return None


def _sender(sent: Sent, senders: Mapping[bytes, str]) -> str | None:
    return None if sent.retain or not sent.value else senders.get(sent.value)


def adopt(reference: Reference, space: Space, old: Mapping[str, int]) -> None:
    """The order that the true broker has chosen, of the rows behind the `old` ones."""
    for name, queue in reference.queues.items():
        at = {place.value: number for number, place in enumerate(space.rows.get(name, ()))}
        first = old.get(name, 0)
        queue.rows = (*queue.rows[:first], *sorted(queue.rows[first:], key=lambda row: at[row.value]))
