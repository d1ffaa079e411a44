"""A queue at work: its groups, what it refuses and what it lets go of."""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Callable
from typing import NamedTuple

from penstock.broker.feed.stored import StoredCache
from penstock.broker.queues.group import DEFAULT_GROUP, Group
from penstock.broker.queues.partitioned import PartitionedQueue
from penstock.broker.queues.ready_bytes import ReadyBytes
from penstock.broker.queues.unit import Unit
from penstock.core.errors import InvalidArgument, NoSuchGroup, NoSuchQueue, QueueFull, ReadyFull, TooLarge
from penstock.kernels import hashing
from penstock.log.columns import Columns
from penstock.log.encoded import Rows
from penstock.log.shard import Shard
from penstock.queues.deadletter import REDRIVEN, max_message_bytes
from penstock.queues.declared import QueueRecord
from penstock.queues.names import GroupName
from penstock.queues.settings import Overflow, QueueSettings, Settled

_MANY = 1 << 50
# A snapshot, memory given back or producers forgotten may come so much later where nothing happens.
_IDLE_UPKEEP_MS = 60_000


class Placed(NamedTuple):
    """Rows of a publish that went to one partition, with the offsets from `base_offset` on."""

    partition: int
    base_offset: int
    rows: int


class Queue(PartitionedQueue):
    """Used from the loop."""

    groups: dict[GroupName, Group]
    published: int
    expected: int
    """messages that were admitted and are not staged yet"""
    allowance: int
    """messages that may still come before depths are worked out anew"""
    is_volatile = False
    """it is in memory alone: see volatile"""
    owner: object | None = None
    """of one that is somebody's alone, whose door sees to that"""

    def __init__(
        self,
        shard: Shard,
        cache: StoredCache,
        settings: QueueSettings,
        record: QueueRecord,
        changed: set[Queue] | None = None,
    ) -> None:
        """It adds itself to `changed` when messages or groups have come, or groups have gone."""
        super().__init__(shard, cache, settings, record)
        self.changed = changed
        self._snapshotting: asyncio.Lock | None = None
        self.refused = 0
        self.made_ms = record.created_ms
        """in running time, which is the record's at opening"""
        self.retained_ms = self.kept_up_ms = self._upkeep_due_ms = 0
        self.declared_ms = 0
        """when somebody declared it last, in running time"""
        self._sizes: dict[Unit, ReadyBytes] = {}
        self._reserved = 0
        """messages that are staged: there is room for them when they are committed"""
        self.note_change()

    @property
    def snapshotting(self) -> asyncio.Lock:
        """Held while snapshots of its units are made, one at a time."""
        if self._snapshotting is None:
            self._snapshotting = asyncio.Lock()
        return self._snapshotting

    def group(self, key: GroupName) -> Group:
        found = self.groups.get(key)
        if found is None:
            raise NoSuchGroup(self.name, str(key))
        return found

    def adopt(self, unit: Unit) -> None:
        super().adopt(unit)
        unit.data.wanted_from = lambda: self._unsettled_from(unit)
        self._watch_floor(unit)

    def _watch_floor(self, unit: Unit) -> None:
        self._shard.floors[unit.data.number] = lambda: self._floor(unit)
        self._shard.unsettled[unit.data.number] = lambda first, stop: self._unsettled(unit, first, stop)

    def _unsettled_from(self, unit: Unit) -> int:
        """All groups are done with what lies below."""
        return min([group.cursor(unit).window.floor for group in self.groups.values()], default=0)

    def _floor(self, unit: Unit) -> int | None:
        """Where messages go once every group has settled them: up to here. Without a group, nothing is settled."""
        if self.settings.retention.settled is Settled.KEEP or not self.groups:
            return None
        return self._unsettled_from(unit)

    def _unsettled(self, unit: Unit, first: int, stop: int) -> array[int] | None:
        """What some group has not settled; None where that is what it has not come to."""
        if self._floor(unit) is None:
            return None
        windows = [group.cursor(unit).window for group in self.groups.values()]
        if min([window.next for window in windows]) < stop:
            return None
        return array("q", sorted({each for window in windows for each in window.offsets() if first <= each < stop}))

    def let_go(self) -> bool:
        """Give back the disk of what every group has settled; whether there is more to come."""
        if self.is_deleted or self.settings.retention.settled is Settled.KEEP:
            return False
        waiting = [self._shard.let_go(unit.data) for unit in self.units.values()]
        return any(waiting)

    def retain(self, now: int) -> None:
        """Let go of what the settings do not keep."""
        self.retained_ms = now if self.retained_ms else now - self._early_ms(self._retention_ms)
        for unit in self.units.values():
            self._shard.retain(unit.data)

    # Publishing

    def check(self, columns: Rows) -> None:
        """NoSuchQueue once it is deleted; TooLarge for a message over the limit; InvalidArgument for none."""
        if self.is_deleted:
            raise NoSuchQueue(self.name)
        if columns.count < 1:
            raise InvalidArgument(f"nothing to publish to queue {self.name!r}")
        longest = columns.longest_value
        if longest > self.settings.limits.max_message_size_bytes:
            self.check_longest(longest)
        if 4 * columns.bytes_at_most > self._shard.max_frame_bytes:  # else there is nothing to look at
            check_largest(columns, self._shard.max_frame_bytes, self.name)

    def check_longest(self, longest: int) -> None:
        """TooLarge for a value of so many bytes, if that is over the limit."""
        limit = self.settings.limits.max_message_size_bytes
        if longest > limit:
            raise TooLarge(f"a message for queue {self.name!r}", longest, limit)

    def existing(self, partition: int) -> int:
        """That number; InvalidArgument if there is no such partition."""
        if not 0 <= partition < self.settings.partitions:
            raise InvalidArgument(
                f"queue {self.name!r} has no partition {partition}, it has {self.settings.partitions}"
            )
        return partition

    def producer_partition(self, producer: bytes) -> int:
        """Where the queue remembers what the producer sent; it does not move when partitions are added."""
        return hashing.murmur3(producer, 0, len(producer)) % self.record.first_partitions

    def admit(self, count: int, before: int = 0, value_bytes: Callable[[], int] = lambda: 0) -> bool:
        """Whether so many messages find room, behind those that came `before` them in their frame; False if older ones
        have to be dropped first. QueueFull if they are refused. Depths are worked out only when they may matter."""
        limits = self.settings.limits
        limit = limits.max_queue_depth
        if (limit is None and not self.refuses_ready) or not self.groups:
            return True
        self.allowance -= count
        if self.allowance < 0:
            self.allowance = self._room() - count
            is_ring = self.drops_oldest and limit is not None
            if self.allowance < 0 and not (is_ring and self._reserved + before + count <= (limit or 0)):
                raise self.full()
        if self.refuses_ready and limits.max_ready_bytes_ is not None:
            if self.ready_bytes() + value_bytes() > limits.max_ready_bytes_:
                raise self.full()
            self.allowance = 0
        return self.allowance >= 0

    def _room(self) -> int:
        """For how many messages more."""
        limits = self.settings.limits
        room = [] if limits.max_queue_depth is None else [limits.max_queue_depth - self._taken()]
        if self.refuses_ready and limits.max_ready is not None:
            room.append(limits.max_ready - self.waiting())
        return min(room, default=_MANY)

    def waiting(self) -> int:
        """Messages that nobody of group `default` holds, when everything is committed that is under way."""
        group = self.groups.get(DEFAULT_GROUP)
        ready = 0 if group is None else sum([group.ready_in(unit, unit.data.end) for unit in self.units.values()])
        return ready + self.expected + self._reserved

    def ready_bytes(self) -> int:
        """Of the values of these, without those that are not staged yet."""
        group, total = self.groups.get(DEFAULT_GROUP), 0
        for unit in self.units.values() if group is not None else ():
            assert group is not None
            window = group.cursor(unit).window
            found = self._sizes.get(unit)
            if found is None:
                found = self._sizes[unit] = ReadyBytes(window.floor)
            total += found.of(unit, window)
        return total

    def has_room(self, count: int) -> bool:
        """Whether so many messages will be taken, after others were dropped for them if need be."""
        limit = self.settings.limits.max_queue_depth
        if (limit is None and not self.refuses_ready) or not self.groups or count <= self.allowance:
            return True
        if self.drops_oldest:
            return limit is None or self._reserved + count <= limit
        most = self.settings.limits.max_ready_bytes_
        is_heavy = most is not None and self.refuses_ready and self.ready_bytes() >= max(most, 1)
        return count <= self._room() and not is_heavy

    def _taken(self) -> int:
        """The depth when everything is committed that is under way or was promised room."""
        return self.depth() + self.expected + self._reserved

    def reserve(self, count: int, *, is_forced: bool = False) -> None:
        """Room for so many messages, which nobody else gets until release(). QueueFull, unless it was theirs before."""
        if not is_forced and not self.has_room(count):
            raise self.full()
        self._reserved += count
        self.allowance = 0

    def release(self, count: int) -> None:
        self._reserved -= count
        self.allowance = 0

    def full(self) -> QueueFull:
        self.refused += 1
        self.allowance = 0
        limits = self.settings.limits
        if self.refuses_ready and (limits.max_queue_depth is None or self._taken() < limits.max_queue_depth):
            return ReadyFull(self.name, self.waiting(), limits.max_ready, limits.max_ready_bytes_)
        return QueueFull(self.name, self.depth(), limits.max_queue_depth or 0)

    @property
    def drops_oldest(self) -> bool:
        return self.settings.overflow is Overflow.DROP_OLDEST

    def depth(self) -> int:
        """The largest depth of a group."""
        return max([group.depth() for group in self.groups.values()], default=0)

    def is_upkeep_due(self, now: int) -> bool:
        """Whether it was used since the last upkeep, or something is due: thousands of idle queues cost nothing."""
        return self.used_ms >= self.kept_up_ms or now >= self._upkeep_due_ms

    def note_upkeep(self, now: int) -> None:
        """It is looked at now. After the first time, which all have together, each idle one has its own times."""
        self.kept_up_ms = now if self.kept_up_ms else now - self._early_ms(_IDLE_UPKEEP_MS)
        self._upkeep_due_ms = self.kept_up_ms + _IDLE_UPKEEP_MS

    def plan_upkeep(self) -> None:
        """It was looked at: the next time is no later than what is due then by a setting."""
        ends = [ends_ms for group in self.groups.values() if (ends_ms := group.ends_ms) is not None]
        self._upkeep_due_ms = min([self._upkeep_due_ms, self.retained_ms + self._retention_ms, *ends])

    def is_retention_due(self, now: int) -> bool:
        return now - self.retained_ms >= self._retention_ms

    @property
    def _retention_ms(self) -> int:
        return self.settings.retention.time_check_interval_ms

    def _early_ms(self, interval_ms: int) -> int:
        return self.incarnation * 1000 % interval_ms

    def is_unused(self, now: int, after_ms: int) -> bool:
        """Neither messages nor groups, and none of late."""
        is_empty = all(unit.data.start == unit.data.end for unit in self.units.values())
        return is_empty and not self.groups and now - max(self.used_ms, self.made_ms) >= after_ms

    def configure(self, settings: QueueSettings, record: QueueRecord, own: QueueSettings) -> None:
        """`own` are those without a policy."""
        self._set(settings)
        self.own = own
        self.record, self.allowance, self._upkeep_due_ms = record, 0, 0
        self.is_paused = record.is_paused
        for group in self.groups.values():
            group.configure(settings)


def check_largest(columns: Rows, max_frame_bytes: int, queue: str = "") -> None:
    """A message with all it has must fit a frame as a dead letter, too: TooLarge."""
    # Columns may share bytes, each with the others: no more than this has to be looked at.
    if 4 * columns.bytes_at_most <= max_frame_bytes:
        return
    is_redriven = isinstance(columns, Columns) and columns.producer_id == REDRIVEN
    limit = max_message_bytes(max_frame_bytes, is_redriven=is_redriven)
    longest = columns.longest_row(limit)
    if longest > limit:
        what = f"a message for queue {queue!r}" if queue else "a message"
        raise TooLarge(f"{what} with its key, topic and properties", longest, limit)
