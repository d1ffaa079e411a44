"""Records on their way into a log: where each field starts and ends in one source buffer, no object per record."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, compress

from penstock.core.errors import InvalidArgument
from penstock.core.ports import Buffer
from penstock.kernels import batch as kernel
from penstock.kernels import cells, hashing, rows


@dataclass(slots=True)
class Spans:
    """Entry i of a column is source[starts[i]:ends[i]]. Arrays of int32 (typecode 'i'). Never changed: not frozen only
    because that doubles what it costs to make one, and scattering makes hundreds."""

    starts: array[int]
    ends: array[int]

    def take(self, picked: array[int]) -> Spans:
        return Spans(_take_int32(self.starts, picked), _take_int32(self.ends, picked))

    def part(self, rows: slice) -> Spans:
        return Spans(self.starts[rows], self.ends[rows])


@dataclass(slots=True)
class Columns:
    """`count` records over one source. Nothing of it, the source and the arrays included, may change until the records
    are encoded; not frozen for the same reason as Spans.
    A topic is an index into the dictionary `topics`; an expiry is in ms since 1970, 0 for never ('q')."""

    count: int
    source: Buffer
    value: Spans
    key: Spans | None = None
    properties: Spans | None = None
    native: Spans | None = None
    topic_index: array[int] | None = None
    topics: Spans | None = None
    expiry: array[int] | None = None
    producer_id: int = 0
    producer_epoch: int = 0
    base_sequence: int = 0

    @classmethod
    def of(
        cls,
        values: Sequence[bytes],
        *,
        keys: Sequence[bytes] | None = None,
        topics: Sequence[bytes] | None = None,
        properties: Sequence[bytes] | None = None,
        native: Sequence[bytes] | None = None,
        expiry: Sequence[int] | None = None,
    ) -> Columns:
        """For callers that hold an object per record."""
        others = (keys, topics, properties, native, expiry)
        if len(values) == 1 and others == _NONE:
            return cls(1, values[0], Spans(_ZERO, array("i", [len(values[0])])))
        for column in others:
            if column is not None and len(column) != len(values):
                raise InvalidArgument("the columns of a batch differ in length")
        parts: list[bytes] = []
        value = _append(parts, values)
        key = _append(parts, keys) if keys is not None else None
        stored_properties = _append(parts, properties) if properties is not None else None
        stored_native = _append(parts, native) if native is not None else None
        topic_index, dictionary = None, None
        if topics is not None:
            numbers = {topic: number for number, topic in enumerate(dict.fromkeys(topics))}
            topic_index = array("i", [numbers[topic] for topic in topics])
            dictionary = _append(parts, list(numbers))
        times = array("q", expiry) if expiry is not None else None
        source = b"".join(parts)
        return cls(len(values), source, value, key, stored_properties, stored_native, topic_index, dictionary, times)

    @property
    def bytes(self) -> int:
        """Bytes of all fields and their offsets: what admission counts. InvalidArgument if a span leaves the source."""
        count, value, topics = self.count, self.value, self.topics
        size = len(self.source)
        total = 4 * count + kernel.spans_bytes(value.starts, value.ends, count, size)
        if topics is not None:
            entries = len(topics.starts)
            total += 4 * (count + entries) + kernel.spans_bytes(topics.starts, topics.ends, entries, size)
        if self.expiry is not None:
            total += 8 * count
        if (key := self.key) is not None:
            total += 4 * count + kernel.spans_bytes(key.starts, key.ends, count, size)
        if (properties := self.properties) is not None:
            total += 4 * count + kernel.spans_bytes(properties.starts, properties.ends, count, size)
        if (native := self.native) is not None:
            total += 4 * count + kernel.spans_bytes(native.starts, native.ends, count, size)
        return total

    @property
    def longest_value(self) -> int:
        return rows.longest(self.value.starts, self.value.ends)

    @property
    def bytes_at_most(self) -> int:
        """No field of a record is longer: known at a look."""
        return len(self.source)

    def longest_row(self, enough: int) -> int:
        """Bytes of all fields of the longest record; of another one, or a bound, where that is not above `enough`."""
        found = [spans for spans in (self.value, self.key, self.properties, self.native) if spans is not None]
        topics = self.topics
        bound = sum([rows.longest(spans.starts, spans.ends) for spans in found])
        bound += 0 if topics is None else rows.longest(topics.starts, topics.ends)
        if bound <= enough:
            return bound
        sizes = [sum([spans.ends[row] - spans.starts[row] for spans in found]) for row in range(self.count)]
        if topics is not None and self.topic_index is not None:
            named = self.topic_index
            sizes = [size + topics.ends[named[row]] - topics.starts[named[row]] for row, size in enumerate(sizes)]
        return max(sizes)

    def select(self, picked: array[int]) -> Columns:
        """The rows of the given numbers (int32), in that order, over the same source. Unused topics are dropped."""
        gathered = self.gather(picked)
        gathered._drop_unused_topics()
        return gathered

    def rows_of_topics(self, numbers: Sequence[int]) -> array[int]:
        """Those that have one of these numbers in the topic_index, in order."""
        assert self.topics is not None and self.topic_index is not None
        if len(numbers) == len(self.topics.starts):
            return array("i", range(self.count))
        marks, chosen = bytearray(len(self.topics.starts)), bytearray(self.count)
        for number in numbers:
            marks[number] = 1
        rows.mark_by_number(memoryview(self.topic_index), marks, chosen)
        return array("i", compress(range(self.count), chosen))

    def by_topic(self) -> tuple[array[int], array[int]]:
        """All rows in the order of their topics, and where each topic's begin among them; one word more."""
        assert self.topics is not None and self.topic_index is not None
        counts, order = _int32s(len(self.topics.starts)), _int32s(self.count)
        hashing.scatter(self.topic_index, counts, order)
        return order, array("i", accumulate(counts, initial=0))

    def of_topics(self, numbers: Sequence[int]) -> Columns:
        """The rows of these topics, over the same source."""
        assert self.topics is not None
        return self if len(numbers) == len(self.topics.starts) else self.select(self.rows_of_topics(numbers))

    def scatter(self, partitions: int, unkeyed: int = 0) -> list[tuple[int, Columns]]:
        """(partition, its rows in order) for each partition that occurs. Rows without a key go to `unkeyed`."""
        numbers, counts, gathered = self.gathered(partitions, unkeyed)
        return [(numbers[0], gathered)] if len(numbers) == 1 else list(gathered.parts(numbers, counts))

    def parts(self, numbers: Sequence[int], counts: Sequence[int]) -> Iterator[tuple[int, Columns]]:
        """Of what gathered() gave: the rows of each partition."""
        for number, count, stop in zip(numbers, counts, accumulate(counts), strict=True):
            yield number, self.part(stop - count, stop)

    def gathered(self, partitions: int, unkeyed: int = 0) -> tuple[list[int], array[int], Columns]:
        """The partitions that occur, how many rows each gets (int32), and all rows in the order of partitions."""
        if partitions == 1 or self.key is None:
            return [0 if partitions == 1 else unkeyed], array("i", [self.count]), self
        counts, order = _int32s(partitions), _int32s(self.count)
        hashing.scatter(self.partitions(partitions, unkeyed), counts, order)
        numbers = [number for number, count in enumerate(counts) if count]
        return numbers, array("i", [count for count in counts if count]), self.gather(order)

    def partitions(self, count: int, unkeyed: int = 0) -> array[int]:
        """Of each row, by its key; `unkeyed` where it has none."""
        if self.key is None:
            return array("i", [unkeyed]) * self.count
        numbers = _int32s(self.count)
        hashing.partitions(self.source, self.key.starts, self.key.ends, count, numbers)
        rows.set_where_empty(self.key.starts, self.key.ends, unkeyed, numbers)
        return numbers

    def gather(self, picked: array[int]) -> Columns:
        """The rows of the given numbers, in that order, with all topics."""
        return Columns(
            len(picked),
            self.source,
            self.value.take(picked),
            None if self.key is None else self.key.take(picked),
            None if self.properties is None else self.properties.take(picked),
            None if self.native is None else self.native.take(picked),
            None if self.topic_index is None else _take_int32(self.topic_index, picked),
            self.topics,
            None if self.expiry is None else _take_int64(self.expiry, picked),
            self.producer_id,
            self.producer_epoch,
            self.base_sequence,
        )

    def part(self, start: int, stop: int) -> Columns:
        """Rows start to stop - 1, without unused topics."""
        rows = slice(start, stop)
        part = Columns(
            stop - start,
            self.source,
            self.value.part(rows),
            None if self.key is None else self.key.part(rows),
            None if self.properties is None else self.properties.part(rows),
            None if self.native is None else self.native.part(rows),
            None if self.topic_index is None else self.topic_index[rows],
            self.topics,
            None if self.expiry is None else self.expiry[rows],
            self.producer_id,
            self.producer_epoch,
            self.base_sequence,
        )
        part._drop_unused_topics()
        return part

    def _drop_unused_topics(self) -> None:
        """Of columns that nobody else has seen yet."""
        if self.topic_index is not None and self.topics is not None:
            self.topics = self.topics.take(_renumber(self.topic_index, len(self.topics.starts)))


def _append(parts: list[bytes], entries: Sequence[bytes]) -> Spans:
    """Spans of the entries behind what `parts` holds already."""
    first = sum(map(len, parts))
    parts.append(b"".join(entries))
    ends = _int32s(len(entries) + 1)
    cells.ends(entries if isinstance(entries, list) else list(entries), first, ends)
    return Spans(ends[:-1], ends[1:])


def _int32s(count: int) -> array[int]:
    return _ZERO * count


_ZERO = array("i", [0])
_NONE = (None,) * 5


def _take_int32(values: array[int], picked: array[int]) -> array[int]:
    out = picked[:]  # room of that size, made faster than zeros
    rows.take_int32(values, picked, out)
    return out


def _take_int64(values: array[int], picked: array[int]) -> array[int]:
    out = array("q", bytes(8 * len(picked)))
    rows.take_int64(values, picked, out)
    return out


def _renumber(topic_index: array[int], topics: int) -> array[int]:
    """Renumber the topics in place, in order of first use; the old numbers of those in use."""
    used = _int32s(topics)
    count = rows.renumber(topic_index, array("i", [-1]) * topics, used)
    return used[:count]
