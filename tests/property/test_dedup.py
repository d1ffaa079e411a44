"""Producers that send, repeat, overlap, skip, restart and fall silent, against the rule said naively; the broker beside
them restarts from snapshots and replay at any time."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from penstock.core.errors import FencedProducer, OutOfOrder
from penstock.queues.dedup import (
    FORGOTTEN_AFTER_MS,
    REMEMBERED_CALLS,
    REMEMBERED_SEQUENCES,
    UNKNOWN,
    Call,
    Fresh,
    Placement,
    Producers,
    decode,
    encode,
)

PARTITIONS = 3
HOUR_MS = 3_600_000

producers = st.sampled_from([b"a", b"b", b"c"])
counts = st.sampled_from([1, 1, 2, 5, 40, 700, 2_100])
spreads = st.sampled_from([(0,), (2,), (0, 1), (1, 2, 0, 0)])


@dataclass(slots=True)
class Life:
    """A producer from its first call in an epoch until it is forgotten or fenced."""

    epoch: int
    first: int
    next: int
    last_ms: int
    calls: list[tuple[int, int]] = field(default_factory=list)

    def remembered_from(self) -> int:
        """The oldest sequence of the last five calls or the last calls that make 2,000, whichever is more."""
        sequences = 0
        for number, (base, count) in enumerate(reversed(self.calls), 1):
            sequences += count
            if number >= REMEMBERED_CALLS and sequences >= REMEMBERED_SEQUENCES:
                return base
        return self.first


class Publishing(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.now_ms = 0
        self.known = Producers()
        self.ends = [0] * PARTITIONS
        self.lives: dict[bytes, Life] = {}
        self.places: dict[tuple[bytes, int, int], tuple[int, int]] = {}
        self.records: list[tuple[bytes, int]] = []
        self.snapshot: list[tuple[bytes, int]] = []
        self.snapshot_at = 0

    @rule(producer=producers, count=counts, spread=spreads)
    def send(self, producer: bytes, count: int, spread: tuple[int, ...]) -> None:
        life = self.lives.get(producer)
        self.publish(producer, life.epoch if life else 0, life.next if life else 0, count, spread)

    @rule(producer=producers, back=st.integers(1, 5_000), count=counts, spread=spreads)
    def send_again(self, producer: bytes, back: int, count: int, spread: tuple[int, ...]) -> None:
        if (life := self.lives.get(producer)) is not None:
            self.publish(producer, life.epoch, max(life.next - back, 0), count, spread)

    @rule(producer=producers, calls_back=st.integers(1, 8), spread=spreads)
    def send_a_whole_call_again(self, producer: bytes, calls_back: int, spread: tuple[int, ...]) -> None:
        if (life := self.lives.get(producer)) is not None:
            self.publish(producer, life.epoch, *life.calls[-calls_back:][0], spread)

    @rule(producer=producers, gap=st.integers(1, 3), count=counts)
    def skip_some(self, producer: bytes, gap: int, count: int) -> None:
        if (life := self.lives.get(producer)) is not None:
            self.publish(producer, life.epoch, life.next + gap, count, (0,))

    @rule(producer=producers, step=st.sampled_from([-1, 1, 4]), base=st.sampled_from([0, 1, 50]), count=counts)
    def change_epoch(self, producer: bytes, step: int, base: int, count: int) -> None:
        life = self.lives.get(producer)
        self.publish(producer, max((life.epoch if life else 1) + step, 0), base, count, (1,))

    @rule(hours=st.sampled_from([1, 1, 10, 23, 24, 30]))
    def time_passes(self, hours: int) -> None:
        self.now_ms += hours * HOUR_MS
        silent = [name for name, life in self.lives.items() if self.now_ms - life.last_ms >= FORGOTTEN_AFTER_MS]
        assert self.known.expire(self.now_ms) == len(silent)
        for name in silent:
            del self.lives[name]

    @rule()
    def write_snapshot(self) -> None:
        self.snapshot = [(encode(call), ms) for call, ms in self.known.dump()]
        self.snapshot_at = len(self.records)

    @rule(seen_twice=st.integers(0, 3))
    def restart(self, seen_twice: int) -> None:
        self.known = Producers()
        for data, ms in self.snapshot + self.records[max(self.snapshot_at - seen_twice, 0) :]:
            self.known.apply(decode(data), ms)
        self.known.expire(self.now_ms)

    def publish(self, producer: bytes, epoch: int, base: int, count: int, spread: tuple[int, ...]) -> None:
        """As the broker does it: what is told to be taken is answered, the rest appended and recorded."""
        expected = self.verdict(producer, epoch, base, count)
        try:
            found = self.known.check(producer, epoch, base, count)
        except OutOfOrder as refused:
            assert expected == "out of order"
            assert (refused.expected, refused.got) == (self.lives[producer].next, base)
            return
        except FencedProducer:
            assert expected == "fenced"
            return
        rows = 0 if isinstance(found, Fresh) else found.rows
        assert rows == expected
        if not isinstance(found, Fresh):
            self.compare_offsets(producer, epoch, base, list(zip(*found.offsets(), strict=True)))
        if rows < count:
            self.append(producer, epoch, base + rows, count - rows, spread)

    def verdict(self, producer: bytes, epoch: int, base: int, count: int) -> str | int:
        """How many rows were taken before, or why the call is refused."""
        life = self.lives.get(producer)
        if life is None or epoch > life.epoch:
            return 0
        if epoch < life.epoch:
            return "fenced"
        return "out of order" if base > life.next else min(count, life.next - base)

    def compare_offsets(self, producer: bytes, epoch: int, base: int, found: list[tuple[int, int]]) -> None:
        """Right or, where more than that need not be remembered, unknown."""
        remembered_from = self.lives[producer].remembered_from()
        for sequence, place in enumerate(found, base):
            if sequence >= remembered_from or place != (UNKNOWN, UNKNOWN):
                assert place == self.places[producer, epoch, sequence]

    def append(self, producer: bytes, epoch: int, base: int, count: int, spread: tuple[int, ...]) -> None:
        partitions = [spread[row % len(spread)] for row in range(count)]
        used = {partition: partitions.count(partition) for partition in dict.fromkeys(partitions)}
        placements = [Placement(partition, self.ends[partition], rows) for partition, rows in used.items()]
        for row, partition in enumerate(partitions):
            self.places[producer, epoch, base + row] = partition, self.ends[partition]
            self.ends[partition] += 1
        call = Call.scattered(producer, epoch, base, placements, partitions)
        self.known.apply(call, self.now_ms)
        self.records.append((encode(call), self.now_ms))
        self.lived(producer, epoch, base, count)

    def lived(self, producer: bytes, epoch: int, base: int, count: int) -> None:
        life = self.lives.get(producer)
        if life is None or life.epoch != epoch:
            life = self.lives[producer] = Life(epoch, base, base, self.now_ms)
        assert base == life.next, "accepted out of order or twice"
        life.calls.append((base, count))
        life.next, life.last_ms = base + count, self.now_ms

    @invariant()
    def as_many_are_known_as_live(self) -> None:
        assert len(self.known) == len(self.lives)


Publishing.TestCase.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
TestPublishing = Publishing.TestCase
