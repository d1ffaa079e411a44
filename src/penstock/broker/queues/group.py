"""A group at work: its members, its cursors in the partitions, and the clocks that run for it."""

from __future__ import annotations

import asyncio
import logging
from array import array
from collections.abc import Hashable, Iterable, Sequence
from functools import lru_cache
from typing import Protocol

import msgspec

from penstock.broker.alarms import Alarms
from penstock.broker.feed.hold import Hold
from penstock.broker.feed.member import GroupMember
from penstock.broker.feed.reads import Reads
from penstock.broker.feed.stored import StoredBatch
from penstock.broker.feed.turns import Contender, Turns
from penstock.broker.queues.partitioned import PartitionedQueue
from penstock.broker.queues.unit import Unit
from penstock.core.errors import GroupInUse
from penstock.core.timeline import Timeline
from penstock.kernels.windows import ready_in
from penstock.queues.bindings import filter_mask
from penstock.queues.cursor import Cursor, Limits
from penstock.queues.deadletter import Reason
from penstock.queues.declared import GroupRecord, Switch
from penstock.queues.members import Added, Assigned, Event, Left, Lost, Members, Resumed, Revoking
from penstock.queues.names import GroupName
from penstock.queues.retry import backoff_table, endless_table
from penstock.queues.settings import Expiry, Ordering, QueueSettings, RetryPolicy

logger = logging.getLogger("penstock.broker.group")

DEFAULT_GROUP = GroupName("default")
"""the one that protocols without groups use, whose messages count for limits of what is ready"""
NEVER = 1 << 62
NO_LIMIT = 1 << 31
# Most queues have the same.
_KNOWN_LIMITS = 64


class Failures(Protocol):
    """What becomes of messages that came back too often: see broker/feed/settling.py."""

    def dead_letter(self, group: Group, unit: Unit, offsets: array[int], reason: Reason) -> object: ...

    def note(self, unit: Unit) -> object: ...

    def after_dropping(self, group: Group, unit: Unit) -> object: ...


class Group:
    """Used from the loop."""

    def __init__(
        self, queue: PartitionedQueue, record: GroupRecord, alarms: Alarms, failures: Failures, timeline: Timeline
    ) -> None:
        self.queue, self.record, self.timeline, self.now = queue, record, timeline, timeline.now
        self.number = record.number
        self.key = record.key
        self.consumers: dict[int, GroupMember] = {}
        """members, and those who compete"""
        self.last_used_ms = self.now()
        self._members: Members | None = None
        self.limits = limits_of(queue.settings)
        self._alarms, self._failures = alarms, failures
        self.switches: list[Switch] = []
        """changes of the number of partitions that it has not gone past, oldest first"""
        self.silent = 0
        """consumers whose time ran out, and of whom nothing was heard since"""
        self.turns, self.reads = Turns(self._ready_in), Reads()
        self.left: dict[int, bool] = {}
        """who left in this turn of the loop, and whether what they held counts as returned"""
        self._pullers: dict[asyncio.Event, None] = {}
        self._kept_for: dict[Hashable, None] = {}

    @property
    def members(self) -> Members:
        """Where all who consume compete, nobody asks for them."""
        if self._members is None:
            self._members = Members(self.name, self.queue.settings.partitions)
        return self._members

    @property
    def name(self) -> str:
        return str(self.key)

    @property
    def is_paused(self) -> bool:
        return self.record.is_paused or self.queue.is_paused

    @property
    def is_deleted(self) -> bool:
        """Whoever still has it in hand must not bring it back."""
        return self.queue.groups.get(self.key) is not self

    @property
    def consuming(self) -> int:
        """Members and those who compete, but for who only has something to settle yet."""
        return sum([not _is_retired(each) for each in self.consumers.values()])

    @property
    def is_active(self) -> bool:
        """Whether somebody waits for messages."""
        return bool(self.consumers or self._pullers)

    @property
    def is_wanted(self) -> bool:
        """Whether somebody waits for messages, or will come back for them."""
        return self.is_active or bool(self._kept_for)

    @property
    def ends_ms(self) -> int | None:
        """When it goes, because nobody has used it for as long as the queue keeps such groups; None while it is wanted,
        and for one that stays."""
        if self.record.is_permanent or self.is_wanted:
            return None
        settings = self.queue.settings
        after = settings.derived_group_expiry_ms if self.record.is_derived else settings.group_expiry_ms
        return None if after is None else self.last_used_ms + after

    def keep_for(self, session: Hashable) -> None:
        """A session that outlives its connection is subscribed: the group stays until let_go()."""
        self._kept_for[session] = None

    def let_go(self, session: Hashable) -> None:
        self._kept_for.pop(session, None)
        self.last_used_ms = self.now()

    def cursor(self, unit: Unit) -> Cursor:
        if self.left:
            self.free_left()
        cursor = unit.cursors.get(self.number)
        if cursor is None:
            start, history_end = self.record.starts.get(unit.partition, (0, 0))
            cursor = Cursor(self.number, max(start, unit.start), history_end)
            cursor.move(self.timeline.shift)
            if not self.is_deleted:
                unit.cursors[self.number] = cursor
        return cursor

    @property
    def expires_at_head(self) -> bool:
        """Messages that are too old are not passed over: they leave as dead letters do."""
        return self.queue.settings.limits.expiry is Expiry.AT_HEAD and self.key == DEFAULT_GROUP

    def configure(self, settings: QueueSettings) -> None:
        self.limits = limits_of(settings)
        for consumer in self.members_at_work():
            for hold in consumer.holds.values():
                if hold.held:
                    self.watch_clock(consumer, hold)
        if self._members is not None and settings.partitions != self._members.partitions:
            self._act(self.members.set_partitions(settings.partitions, self.now()))

    # Members

    def members_at_work(self) -> list[GroupMember]:
        """Those who are given partitions, and whose time runs out."""
        contenders = self.turns.contenders
        return [consumer for number, consumer in self.consumers.items() if number not in contenders]

    def refuse_in_use(self, is_exclusive: bool = False) -> None:
        """GroupInUse if nobody else may join, or if one who wants to be alone would not be."""
        first = next(iter(self.turns.contenders.values()), None)
        if first is not None and first.is_exclusive:  # then there are no others
            raise GroupInUse(self.queue.name, self.name, True)
        if is_exclusive and self.consuming:
            raise GroupInUse(self.queue.name, self.name, False)

    def join(self, consumer: GroupMember, is_immortal: bool) -> None:
        self.refuse_in_use()
        self.consumers[consumer.number] = consumer
        self.queue.listening[self] = None
        self._act(self.members.join(consumer.number, self.now(), is_immortal=is_immortal))

    def heartbeat(self, consumer: GroupMember, generation: int) -> None:
        self.members.heartbeat(consumer.number, generation, self.now())

    def leave(self, consumer: GroupMember, counted: bool = True) -> None:
        """What it holds is free at once."""
        if isinstance(consumer, Contender):
            self._leave_turns(consumer, counted)
            return
        if self.consumers.pop(consumer.number, None) is None:
            return
        self.silent -= consumer.timeouts > 0
        consumer.shut()
        for partition in list(consumer.holds):
            self._free(consumer, partition, counted)
        self._act(self.members.leave(consumer.number, self.now()))
        self.last_used_ms = self.queue.used_ms = self.now()
        self._stop_listening()

    def forget_holds(self, partition: int) -> None:
        """The cursor there begins anew: nothing is held of it."""
        for consumer in list(self.consumers.values()):
            if (hold := consumer.holds.get(partition)) is not None:
                hold.held = 0
                self.released(consumer, hold)
                consumer.wake()

    def look_at_members(self, now: int) -> None:
        self._act(self.members.tick(now))

    def released(self, consumer: GroupMember, hold: Hold) -> None:
        """A consumer that is to give a partition up holds nothing of it any more."""
        if hold.is_revoked and not hold.held:
            self._act(self.members.released(consumer.number, hold.partition, self.now()))

    def _act(self, events: list[Event]) -> None:
        for event in events:
            self._act_on(event)
        due = self.members.next_due_ms
        if due is not None:
            self._alarms.set(self.members, due, self.look_at_members)

    def _act_on(self, event: Event) -> None:
        if isinstance(event, Added):
            return
        consumer = self.consumers.get(event.member)
        if consumer is None:
            return
        if isinstance(event, Assigned):
            consumer.assign(event.partition)
        elif isinstance(event, Revoking):
            hold = consumer.holds[event.partition]
            hold.is_revoked = True
            asyncio.get_running_loop().call_soon(self.released, consumer, hold)
        elif isinstance(event, Resumed):
            consumer.holds[event.partition].is_revoked = False
            consumer.notify(event.partition)
        elif isinstance(event, Lost):
            # That a member hangs is held against none of its messages.
            self._free(consumer, event.partition, counted=consumer.number not in self.members.suspended)
        elif isinstance(event, Left):
            self.leave(consumer)

    def _free(self, consumer: GroupMember, partition: int, counted: bool) -> None:
        unit = self.queue.units.get(partition)
        hold = consumer.holds.get(partition)
        consumer.drop(partition)
        if unit is None or hold is None or not hold.held:
            return
        cursor = self.cursor(unit)
        spent = cursor.give_back(consumer.number, counted, self.limits, self.now())
        if spent:
            self.give_up(unit, spent)
        self.notify(partition)

    def give_up(self, unit: Unit, offsets: array[int]) -> None:
        """Messages that came back too often."""
        self._failures.dead_letter(self, unit, offsets, Reason.MAX_DELIVERIES)

    # Those who compete

    def compete(self, contender: Contender) -> None:
        """GroupInUse if it may not, or cannot be alone."""
        self.refuse_in_use(contender.is_exclusive)
        self.consumers[contender.number] = contender
        self.queue.listening[self] = None
        self._meet(contender)
        self.turns.join(contender)
        self._notify_turns(list(self.queue.units))

    def _meet(self, contender: Contender) -> None:
        """It has a hold for each partition."""
        for partition in self.queue.units:
            if partition not in contender.holds:
                contender.holds[partition] = Hold(partition)

    def _leave_turns(self, contender: Contender, counted: bool) -> None:
        if self.consumers.pop(contender.number, None) is None:
            return
        self.turns.leave(contender)
        if contender.held:
            self.free([contender.number], counted)
        contender.holds = {}
        contender.shut()
        self.last_used_ms = self.queue.used_ms = self.now()
        self._stop_listening()

    def free(self, numbers: Iterable[int], counted: bool) -> None:
        """What they hold is free, whoever looks for messages next: all who go in one turn of the loop go together."""
        if not self.left:
            asyncio.get_running_loop().call_soon(self.free_left)
        self.left.update(dict.fromkeys(numbers, counted))

    def free_left(self) -> None:
        left, self.left = self.left, {}
        for is_counted in (False, True):
            numbers = array("i", sorted(number for number, counted in left.items() if counted is is_counted))
            for unit in self.queue.units.values() if numbers else ():
                self._free_in(unit, numbers, is_counted)

    def _free_in(self, unit: Unit, numbers: array[int], counted: bool) -> None:
        cursor = unit.cursors.get(self.number)
        if cursor is None:
            return
        count, spent = cursor.give_back_many(numbers, counted, self.limits, self.now())
        if spent:
            self.give_up(unit, spent)
        if count:
            self.notify(unit.partition)

    def _ready_in(self, partitions: dict[int, None]) -> int:
        if self.is_paused:
            return 0
        if self.left:
            self.free_left()
        return ready_in(partitions, self.queue.units, self.number, self.limits.window)

    def _notify_turns(self, partitions: Sequence[int]) -> None:
        units = self.queue.units
        for partition in partitions:
            unit = units.get(partition)
            if unit is not None and self.number not in unit.cursors:
                self.cursor(unit)
                for contender in self.turns.contenders.values():
                    self._meet(contender)
        self.turns.notify(partitions)

    # Messages

    def notify(self, partition: int) -> None:
        """There may be something to hand out."""
        self.notify_all([partition])

    def notify_all(self, partitions: Sequence[int]) -> None:
        consumers = self.consumers
        if self.turns.contenders:
            self._notify_turns(partitions)
        elif len(consumers) == 1:
            for consumer in consumers.values():
                consumer.notify(*partitions)
        if len(consumers) > max(len(self.turns.contenders), 1):
            owner_of = self.members.owner_of
            for partition in partitions:
                owner = owner_of(partition)
                if owner is not None and (found := consumers.get(owner)) is not None:
                    found.notify(partition)
        self.wake_pullers()
        if self.queue.head is not None:
            self.queue.head.returned(partitions)
        if self.queue.refuses_ready:
            self.queue.allowance = 0

    def wake_pullers(self) -> None:
        for event in self._pullers:
            event.set()

    def begin_pull(self, more: asyncio.Event) -> None:
        """Somebody who is no member waits until the event says that there may be something."""
        self._pullers[more] = None
        self.queue.listening[self] = None

    def end_pull(self, more: asyncio.Event) -> None:
        self._pullers.pop(more, None)
        self._stop_listening()

    def _stop_listening(self) -> None:
        if not self.is_active:
            self.queue.listening.pop(self, None)

    def stop_at(self, unit: Unit) -> int:
        """Messages behind a change of the number of partitions wait until those before it are settled."""
        if not self.switches:
            return unit.end
        return min(unit.end, self.switches[0].ends.get(unit.partition, 0))

    @property
    def takes_all(self) -> bool:
        """Whether every plain message that is not too old goes to it as it comes: none is filtered out or held back."""
        is_open = not self.switches and self.key.filter is None
        return is_open and self.queue.settings.ordering is not Ordering.STRICT

    def too_old(self, now: int) -> int:
        """What was published then or before is over; -1 for nothing."""
        ttl_ms = self.queue.settings.limits.message_ttl_ms
        return self.timeline.stamped_by(now - ttl_ms) if ttl_ms else -1

    def too_old_among(self, stored: StoredBatch, now: int) -> bytearray | None:
        """Marks of rows that are over, by the queue's limit or by their own; None if none is."""
        now = self.timeline.now_at(stored.batch.header.base_timestamp, now)
        return stored.expired(now, self.queue.settings.limits.message_ttl_ms or 0)

    def too_old_at(self, stored: StoredBatch, row: int, now: int) -> int | None:
        """When the row is over that is not yet; None for never."""
        ttl_ms, expiry = self.queue.settings.limits.message_ttl_ms, stored.batch.expiry(row)
        times = [] if ttl_ms is None else [stored.batch.timestamps()[row] + ttl_ms]
        times += [expiry] if expiry else []
        if not times:
            return None
        return now + max(min(times) - self.timeline.now_at(stored.batch.header.base_timestamp, now), 1)

    def expired(self, unit: Unit, offsets: array[int]) -> None:
        """A consumer found them at the head before anybody else: they go, as from there."""
        self.cursor(unit).set_aside(offsets)
        self._failures.dead_letter(self, unit, offsets, Reason.EXPIRED)

    def begin_switch(self, switch: Switch) -> None:
        # A wall clock that was set back while nobody was here must not make it longer.
        deadline_ms = min(switch.deadline_ms - self.timeline.shift, self.now() + self.queue.settings.switch_timeout_ms)
        self.switches.append(msgspec.structs.replace(switch, deadline_ms=deadline_ms))
        self._watch_switch(self.switches[-1])

    def look_at_switch(self, now: int) -> None:
        """Go past it when every older partition is settled up to it, or when that takes too long."""
        before = len(self.switches)
        while self.switches:
            switch = self.switches[0]
            behind = self._behind(switch)
            if behind and now < switch.deadline_ms:
                self._watch_switch(switch)
                break
            if behind:
                logger.warning(
                    "group goes past a change of partitions with messages unsettled queue=%s group=%s partitions=%s",
                    self.queue.name,
                    self.name,
                    behind,
                )
            del self.switches[0]
        if len(self.switches) < before:
            for partition in self.queue.units:
                self.notify(partition)

    def _behind(self, switch: Switch) -> list[int]:
        """The partitions with something unsettled from before it."""
        units = self.queue.units
        return [
            partition
            for partition, end in switch.ends.items()
            if (unit := units.get(partition)) is not None and unit.has_between(self.cursor(unit).window.floor, end)
        ]

    def _watch_switch(self, switch: Switch) -> None:
        self._alarms.set((self.queue.incarnation, self.number, "switch"), switch.deadline_ms, self.look_at_switch)

    def keys(self, stored: StoredBatch) -> array[int] | None:
        ordering = self.queue.settings.ordering
        if ordering is Ordering.NONE:
            return None
        return stored.one_key() if ordering is Ordering.STRICT else stored.key_hashes()

    def skipped(self, stored: StoredBatch, now: int) -> bytearray | None:
        """Marks of rows that this group does not get: too old, not what its filter asks for, or redriven to another."""
        marks = None if self.expires_at_head else self.too_old_among(stored, now)
        if self.key.filter is None and not stored.is_redriven:
            return marks
        marks = marks if marks is not None else bytearray(len(stored))
        if self.key.filter is not None:
            self._mark_unwanted(stored, marks)
        if stored.is_redriven:
            stored.mark_redriven(self.name.encode(), marks)
        return marks

    def _mark_unwanted(self, stored: StoredBatch, marks: bytearray) -> None:
        topics = stored.topics()
        wanted_filter = self.key.filter or ""
        if topics is None:
            if not filter_mask(wanted_filter, [b""])[0]:
                marks[:] = b"\x01" * len(marks)
            return
        wanted = filter_mask(wanted_filter, [self.queue.routing_key(topic) for topic in topics])
        stored.mark_topics(bytearray(1 - mark for mark in wanted), marks)

    def count_skipped(self, cursor: Cursor, stored: StoredBatch, first: int, stop: int, now: int) -> None:
        skipped = cursor.window.skipped_last
        expired = None if self.expires_at_head else self.too_old_among(stored, now)
        too_old = min(sum(expired[first:stop]), skipped) if expired is not None else 0
        cursor.tally.expired += too_old
        cursor.tally.filtered += skipped - too_old

    # Clocks

    def look_at_due(self, unit: Unit, cursor: Cursor, now: int) -> None:
        """Messages whose backoff or lease is over."""
        if now < cursor.window.next_due:
            return
        leases = cursor.due(now)
        if leases:
            spent = cursor.fail(leases, None, -1, now, None, self.limits)
            self._failures.note(unit)
            if spent:
                self._failures.dead_letter(self, unit, spent, Reason.MAX_RETRIES)
        self.watch_due(unit, cursor)

    def watch_due(self, unit: Unit, cursor: Cursor) -> None:
        if cursor.window.next_due < NEVER:
            self._alarms.set(cursor, cursor.window.next_due, lambda now: self._due(unit, cursor, now))

    def _due(self, unit: Unit, cursor: Cursor, now: int) -> None:
        if unit.cursors.get(self.number) is not cursor:
            return
        self.look_at_due(unit, cursor, now)
        # What the alarm was set for may be settled, and something later have come meanwhile.
        self.watch_due(unit, cursor)
        if cursor.window.ready:
            self.notify(unit.partition)

    def watch_clock(self, consumer: GroupMember, hold: Hold, due: int | None = None) -> None:
        """It rings at the latest one timeout after something happened, and then looks at what is the oldest."""
        timeout_ms = self.queue.settings.performance.delivery_timeout_ms
        if timeout_ms is None:
            return
        if due is None:
            due = hold.clock_ms + timeout_ms
        if 0 < hold.alarm_ms <= due:
            return
        hold.alarm_ms = due
        self._alarms.set(hold_key(consumer, hold), due, lambda now: self._clock_ran_out(consumer, hold, now))

    def _clock_ran_out(self, consumer: GroupMember, hold: Hold, now: int) -> None:
        """The oldest message has failed, the others return uncounted."""
        current = consumer.holds.get(hold.partition)
        if current is None:
            return
        current.alarm_ms = 0
        timeout_ms = self.queue.settings.performance.delivery_timeout_ms
        if not current.held or timeout_ms is None:
            return
        # The partition may have been taken away and given again, and an earlier alarm stands for both times.
        hold, unit = current, self.queue.units[hold.partition]
        cursor, number = self.cursor(unit), consumer.number
        due = hold.deadline(cursor, number, timeout_ms)
        if now < due:
            self.watch_clock(consumer, hold, due)
            return
        if self._is_suspended(consumer, now, timeout_ms):
            return
        oldest = cursor.oldest_in_flight(number)
        if oldest < 0:
            return
        spent = cursor.fail(array("q", [oldest]), None, number, now, None, self.limits)
        cursor.give_back(number, False, self.limits, now)
        hold.held = cursor.held_by(number)
        self._failures.note(unit)
        if spent:
            self._failures.dead_letter(self, unit, spent, Reason.MAX_RETRIES)
        self.watch_due(unit, cursor)
        self.released(consumer, hold)
        self.notify(hold.partition)
        consumer.wake()

    def _is_suspended(self, consumer: GroupMember, now: int, timeout_ms: int) -> bool:
        """The time of a consumer ran out: whether all it holds goes to others, because it settles nothing."""
        settings = self.queue.settings
        if consumer.timeouts and now - consumer.timed_out_ms < timeout_ms:
            return False  # of another partition, in the same while
        if not consumer.timeouts:
            self.silent += 1
        consumer.timeouts += 1
        consumer.timed_out_ms = now
        if settings.suspend_after is None:
            return False
        # One that is gone after its first failure has the first timeout, too, held against the member.
        retries = settings.retry_policy.max_retries
        most = settings.suspend_after if retries is None else max(1, min(settings.suspend_after, retries))
        if consumer.timeouts < most or consumer.number in self.members.suspended:
            return False
        logger.warning(
            "consumer suspended, it settles nothing queue=%s group=%s consumer=%s timeouts=%d",
            self.queue.name,
            self.name,
            consumer.name or consumer.number,
            consumer.timeouts,
        )
        self._act(self.members.suspend(consumer.number, now))
        return not consumer.holds

    def heard_from(self, number: int) -> None:
        """A consumer settled something, or tried to: it is at work. Cheap to call where `silent` is not 0."""
        consumer = self.consumers.get(number)
        if consumer is None or not consumer.timeouts:
            return
        consumer.timeouts = 0
        self.silent -= 1
        if number in self.members.suspended:
            logger.info(
                "consumer at work again queue=%s group=%s consumer=%s",
                self.queue.name,
                self.name,
                consumer.name or number,
            )
            self._act(self.members.resume(number, self.now()))

    # Numbers

    def ready(self) -> int:
        """Messages that nobody holds and that have no time of their own to wait for."""
        return sum([self.ready_in(unit) for unit in self.queue.units.values()])

    def ready_in(self, unit: Unit, end: int | None = None) -> int:
        """Up to what is committed, or to `end`."""
        window = self.cursor(unit).window
        first = max(window.next, unit.start)
        end = unit.end if end is None else end
        return window.ready + window.parked + max(end - first - unit.missing(first), 0)

    def depth(self) -> int:
        """What it has not settled of messages that came after it was created or reset."""
        return sum([self.depth_in(unit) for unit in self.queue.units.values()])

    def depth_in(self, unit: Unit, first: int = 0) -> int:
        """Of one partition, from an offset on."""
        end = unit.data.end
        cursor = unit.cursors.get(self.number)
        if cursor is None:
            start = max(self.record.starts.get(unit.partition, (0, 0))[1], unit.start, first)
            return end - start - unit.missing(start)
        return cursor.depth(end, unit.missing(max(cursor.window.next, cursor.history_end, first)), first)


def _is_retired(consumer: GroupMember) -> bool:
    return isinstance(consumer, Contender) and consumer.is_retired


def hold_key(consumer: GroupMember, hold: Hold) -> tuple[int, int]:
    return consumer.number, hold.partition


def limits_of(settings: QueueSettings) -> Limits:
    return _limits(settings.retry_policy, settings.max_deliveries, settings.group_window)


@lru_cache(_KNOWN_LIMITS)
def _limits(policy: RetryPolicy, max_deliveries: int | None, window: int) -> Limits:
    backoff = policy.initial_backoff_ms, policy.max_backoff_ms, policy.backoff_multiplier
    table = endless_table(*backoff) if policy.max_retries is None else backoff_table(*backoff, policy.max_retries)
    most = NO_LIMIT if max_deliveries is None else max_deliveries
    return Limits(table, policy.total_timeout_ms or 0, most, window)
