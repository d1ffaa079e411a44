"""Places in queues: as Spark keeps them in a checkpoint, as users write them, and the ranges between two of them."""

from __future__ import annotations

import enum
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from penstock.core.errors import InvalidArgument

EARLIEST_NUMBER, LATEST_NUMBER = -2, -1
"""What JSON says for the two ends, as in Kafka's connector."""

LOGS = "$logs"
"""Beside the queues of a checkpoint, none of which can have this name: the numbers of the logs that offsets are of."""

METRICS, BEHIND = "$metrics", "$behind"
"""Beside the queues of the latest offsets in a query's progress: how far the stream is behind, in all and by queue."""

_NO_QUEUES = (LOGS, METRICS, BEHIND)

OffsetsJson = dict[str, dict[str, int]]
"""`{"orders": {"0": 42}, "$logs": {"orders/0": 7}}`: by queue, then by partition, the first offset that was not
read yet; and the log in which it is that, by which a queue that was deleted and created again is told from the old."""


class PartitionId(NamedTuple):
    queue: str
    partition: int

    def __str__(self) -> str:
        return f"partition {self.partition} of queue {self.queue!r}"


Positions = dict[PartitionId, int]
"""The first offset that was not read, by partition."""

Logs = dict[PartitionId, int]
"""The number of the log that a partition's offsets are of, where it is known."""


class OffsetRange(NamedTuple):
    """Offsets start..stop of a partition, `stop` not among them. Some may have no row: those that compaction took.
    `log`: the only one that has these rows; None if that is not known."""

    source: PartitionId
    start: int
    stop: int
    log: int | None = None

    @property
    def offsets(self) -> int:
        return self.stop - self.start

    def __str__(self) -> str:
        return f"offsets {self.start} to {self.stop - 1} of {self.source}"


class Edge(enum.Enum):
    EARLIEST = "earliest"
    LATEST = "latest"


@dataclass(frozen=True, slots=True)
class Named:
    """Said partition by partition, EARLIEST_NUMBER and LATEST_NUMBER among them."""

    positions: tuple[tuple[PartitionId, int], ...]


@dataclass(frozen=True, slots=True)
class AtTime:
    """The first row that is not older."""

    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class NamedTimes:
    """A time in ms since 1970, partition by partition: in each the first row that is not older."""

    times_ms: tuple[tuple[PartitionId, int], ...]


Bound = Edge | Named | AtTime | NamedTimes
"""Where reading starts or ends."""


def parse_bound(option: str, text: str) -> Bound:
    """`earliest`, `latest` or JSON. InvalidArgument names the option."""
    word = text.strip()
    if word.lower() in (edge.value for edge in Edge):
        return Edge(word.lower())
    if not word.startswith("{"):
        raise InvalidArgument(f"option {option}: {text!r} is neither earliest, latest nor JSON like {_EXAMPLE}")
    try:
        return Named(tuple(positions_of(json.loads(word), EARLIEST_NUMBER).items()))
    except (ValueError, RecursionError) as error:
        raise InvalidArgument(f"option {option}: {error}; write it like {_EXAMPLE}") from error


def parse_times(option: str, text: str) -> NamedTimes:
    """JSON like that of offsets. InvalidArgument names the option."""
    try:
        return NamedTimes(tuple(positions_of(json.loads(text)).items()))
    except (ValueError, RecursionError) as error:
        raise InvalidArgument(f"option {option}: {error}; write it like {_TIMES_EXAMPLE}") from error


def parse_assigned(option: str, text: str) -> tuple[PartitionId, ...]:
    """`{"orders": [0, 1]}`. InvalidArgument names the option."""
    example = 'write it like {"orders": [0, 1], "returns": [0]}'
    try:
        written = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidArgument(f"option {option}: {error}; {example}") from error
    if not isinstance(written, dict) or not written:
        raise InvalidArgument(f"option {option}: {text!r} names no queue; {example}")
    for queue, numbers in written.items():
        if not isinstance(numbers, list) or not numbers or not all(type(each) is int and each >= 0 for each in numbers):
            raise InvalidArgument(f"option {option}: partitions of {queue!r} are not a list of numbers; {example}")
    return tuple(PartitionId(queue, number) for queue, numbers in written.items() for number in dict.fromkeys(numbers))


_TIMES_EXAMPLE = '{"orders": {"0": 1763424000000}}, with milliseconds since 1970'
_EXAMPLE = '{"orders": {"0": 42, "1": -2}}, with -2 for earliest and -1 for latest'


def positions_of(written: object, least: int = 0) -> Positions:
    """Of OffsetsJson. InvalidArgument where it is anything else, or where an offset is below `least`."""
    if not isinstance(written, Mapping):
        raise InvalidArgument(f"offsets are {type(written).__name__}, not an object with a queue each")
    return dict(_entries({queue: offsets for queue, offsets in written.items() if queue not in _NO_QUEUES}, least))


def logs_of(written: Mapping[str, object]) -> Logs:
    """Of OffsetsJson; empty for that of a version that did not write them."""
    places = written.get(LOGS, {})
    if not isinstance(places, Mapping):
        raise InvalidArgument(f"{LOGS} of the offsets is not an object with a number for each partition")
    split = [(*str(place).rpartition("/")[::2], number) for place, number in places.items()]
    return dict(entry for queue, partition, number in split for entry in _entries({queue: {partition: number}}, 0))


def _entries(written: Mapping[str, object], least: int) -> Iterator[tuple[PartitionId, int]]:
    for queue, partitions in written.items():
        if not isinstance(partitions, Mapping):
            raise InvalidArgument(f"offsets of queue {queue!r} are not an object with an offset for each partition")
        for number, offset in partitions.items():
            if not (isinstance(number, str) and number.isascii() and number.isdigit()):
                raise InvalidArgument(f"{number!r} of queue {queue!r} is not the number of a partition")
            if isinstance(offset, bool) or not isinstance(offset, int) or not least <= offset < 1 << 63:
                raise InvalidArgument(f"{offset!r} is not an offset for partition {number} of queue {queue!r}")
            yield PartitionId(queue, int(number)), offset


def json_of(positions: Mapping[PartitionId, int], logs: Mapping[PartitionId, int] | None = None) -> OffsetsJson:
    """Sorted, so that equal positions are equal text: Spark compares the text."""
    written: OffsetsJson = {}
    for source in sorted(positions):
        written.setdefault(source.queue, {})[str(source.partition)] = positions[source]
    if logs:
        written[LOGS] = {f"{source.queue}/{source.partition}": logs[source] for source in sorted(logs)}
    return written


def ranges_between(
    start: Mapping[PartitionId, int], stop: Mapping[PartitionId, int], logs: Mapping[PartitionId, int] | None = None
) -> list[OffsetRange]:
    """Those with anything in them, in order of queue and partition. What `start` does not know begins at 0."""
    known = logs or {}
    found = (OffsetRange(source, start.get(source, 0), stop[source], known.get(source)) for source in sorted(stop))
    return [each for each in found if each.offsets > 0]
