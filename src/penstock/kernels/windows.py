"""Handing out and settling in the windows of many partitions, in one call: what a small batch costs is mostly calls.

Ranges are those of kernels/window. What the numbers mean, queues/cursor.py and broker/feed/hold.py say."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from typing import Any

from penstock.core.ports import Buffer
from penstock.kernels import entry as frame
from penstock.kernels.pending import NEVER_MS
from penstock.kernels.places import Partition, Place
from penstock.kernels.staged import StagedLog
from penstock.kernels.window import Window

_NEVER = NEVER_MS


class Share:
    """What one member has of one partition."""

    def __init__(self, partition: int) -> None:
        self.partition = partition
        self.held = self.clock_ms = self.alarm_ms = 0
        self.is_revoked = False


class Member:
    """One who is handed messages of some partitions."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.holds: dict[int, Any] = {}
        self.ready: dict[int, None] = {}
        self.is_closed = self.is_full = False

    @property
    def held(self) -> int:
        count = 0
        for hold in self.holds.values():
            count += held_in(hold)
        return count


class Handed:
    """Batches that were handed out, `counts` messages of each from `rows` on, one behind the other: a list for each
    thing that is known of them."""

    def __init__(self) -> None:
        self.units: list[Any] = []
        self.batches: list[Any] = []
        self.rows: list[int] = []
        self.counts: list[int] = []
        self.times: list[int] = []
        self.amounts: list[int] = []
        self.unwatched: list[Any] = []
        self.messages = 0

    def note(self, unit: Any, batch: frame.FrameEntry, row: int, count: int) -> int:
        """Batches of one frame have the same time."""
        self.units.append(unit)
        self.batches.append(batch)
        self.rows.append(row)
        self.counts.append(count)
        self.messages += count
        last = len(self.times) - 1
        if last >= 0 and self.times[last] == batch.max_timestamp:
            self.amounts[last] += count
        else:
            self.times.append(batch.max_timestamp)
            self.amounts.append(count)
        return 0


def hand_out(
    member: Member,
    units: Mapping[int, Any],
    group: int,
    by_key: bool,
    now: int,
    room: int,
    limit: int,
    most: int,
    too_old: int,
    timeout_ms: int,
    found: Handed,
) -> int:
    """Batches that come next in the partitions that are ready and are in memory, whole: to `found`. How many messages:
    no more than `room` in all, `most` of one batch, and `limit` entries in a window. Partitions that have no more are
    struck off; what needs a closer look stays. Who has to be given an alarm is added to `found.unwatched`."""
    given = 0
    for partition in list(member.ready):
        if given >= room:
            break
        share, unit = member.holds.get(partition), units.get(partition)
        if share is None or unit is None or is_revoked(share):
            continue
        place = place_in(unit, group)
        if place is None:
            continue
        count = hand_out_of(place, unit, by_key, member.number, now, room - given, limit, most, too_old, False, found)
        if count > 0:
            given += count
            note_given(share, count, now, timeout_ms, found)
        if is_at_end(place, unit):
            del member.ready[partition]
    return given


def hand_out_parts(
    member: Member,
    units: Mapping[int, Any],
    group: int,
    by_key: bool,
    now: int,
    room: int,
    limit: int,
    too_old: int,
    found: Handed,
) -> int:
    """hand_out() to one who shares partitions with others: of a batch it may get a part, and no clock runs for it. What
    has more goes behind the other partitions."""
    given = 0
    for partition in list(member.ready):
        if given >= room:
            break
        share, unit = member.holds.get(partition), units.get(partition)
        if share is None or unit is None:
            continue
        place = place_in(unit, group)
        if place is None:
            continue
        count = hand_out_of(place, unit, by_key, member.number, now, room - given, limit, room, too_old, True, found)
        if count > 0:
            given += count
            add_given(share, count)
            del member.ready[partition]
            if not is_at_end(place, unit):
                member.ready[partition] = None
    return given


def ready_in(ready: dict[int, None], units: Mapping[int, Any], group: int, limit: int) -> int:
    """How many messages of these partitions may be handed out now, `limit` entries in a window. Those that have none,
    and none that may come, are struck off."""
    count = 0
    for partition in list(ready):
        unit = units.get(partition)
        if unit is None:
            del ready[partition]
            continue
        place = place_in(unit, group)
        if place is None or is_at_end(place, unit):
            del ready[partition]
        else:
            count += ready_of(place, unit, limit)
    return count


def ready_of(place: Place, unit: Partition, limit: int) -> int:
    window = place.window
    return window.ready + max(min(unit.data.high_watermark - window.next, limit - window.live), 0)


def held_in(share: Share) -> int:
    return share.held


def is_revoked(share: Share) -> bool:
    return share.is_revoked


def place_in(unit: Partition, group: int) -> Any:
    return unit.cursors.get(group)


def is_at_end(place: Place, unit: Partition) -> bool:
    """Nothing is left to hand out."""
    return place.window.next >= unit.data.high_watermark and place.window.ready == 0


def add_given(share: Share, count: int) -> int:
    share.held += count
    return 0


def note_given(share: Share, count: int, now: int, timeout_ms: int, found: Handed) -> int:
    if share.held == 0:
        share.clock_ms = now
    share.held += count
    if share.alarm_ms <= 0 or share.alarm_ms > share.clock_ms + timeout_ms:
        found.unwatched.append(share)
    return 0


def hand_out_of(
    place: Place,
    unit: Partition,
    by_key: bool,
    consumer: int,
    now: int,
    room: int,
    limit: int,
    most: int,
    too_old: int,
    in_parts: bool,
    found: Handed,
) -> int:
    """Of one partition; how many messages."""
    window, given = place.window, 0
    if window.next_due <= now or window.next >= unit.data.high_watermark:
        return 0
    batches = unit.data.tail
    at = place_of(batches, window.next)
    if at < 0 or window.next < unit.data.bounds.start:
        batches, at = batches_from(unit, window.next), 0
    while at < len(batches):
        batch = batches[at]
        free, row = min(room - given, limit - window.live, most), window.next - batch.first
        count = taken(window, batch, unit.data, by_key, consumer, now, free, too_old, in_parts) if free > 0 else 0
        if count < 1:
            break
        given += count
        found.note(unit, batch, row, count)
        at += 1
    if given:
        place.tally.delivered += given
    return given


def place_of(tail: list[Any], offset: int) -> int:
    """Of the last batch that begins at an offset or before; -1 if none does. Mostly it is the last of all."""
    low, high = -1, len(tail) - 1
    while low < high:
        middle = high if low < 0 and high == len(tail) - 1 else (low + high + 1) >> 1
        if first_of(tail[middle]) <= offset:
            low = middle
        else:
            high = middle - 1
    return low


def first_of(batch: frame.FrameEntry) -> int:
    return batch.first


def batches_from(unit: Any, offset: int) -> list[Any]:
    """What was in the tail, and is in memory still."""
    found: list[Any] = unit.batches_from(offset)
    return found


def taken(
    window: Window,
    batch: frame.FrameEntry,
    data: StagedLog,
    by_key: bool,
    consumer: int,
    now: int,
    free: int,
    too_old: int,
    in_parts: bool,
) -> int:
    if batch.end > data.high_watermark:
        return 0
    body: Buffer = batch.data
    if in_parts:
        return window.deliver_some(body, by_key, consumer, now, free, too_old)
    return window.deliver_whole(body, by_key, consumer, now, free, too_old)


def ack_runs(
    deliveries: list[Any],
    firsts: array[int],
    stops: array[int],
    now: int,
    units: dict[Any, None],
    woken: dict[Any, None],
    after: list[int],
    rest: list[int],
) -> int:
    """Settle places firsts[i]..stops[i] - 1 of delivery i; how many messages. Units in which something was settled are
    added to `units`, members that may look again to `woken`, and to `after` those i behind which there is more to do
    than clocks. To `rest` those i of which nothing was settled, because single messages have to be looked at."""
    done = 0
    for i in range(len(deliveries)):
        delivery = deliveries[i]
        group, unit, number = delivery.group, delivery.unit, delivery.consumer
        place = place_in(unit, group.number)
        count = 0
        if place is not None and not group.silent:
            count = ack_run(place, delivery, firsts[i], stops[i], number)
        if count < 1:
            rest.append(i)
            continue
        done += count
        units[unit] = None
        is_odd = has_followers(place) or len(group.switches) > 0
        member = group.consumers.get(number)
        if member is not None:
            share = share_in(member, unit)
            if share is not None and note_settled(share, place, number, now):
                is_odd = True
            if may_look(member):
                woken[member] = None
        if is_odd:
            after.append(i)
    return done


def ack_run(place: Place, delivery: Any, first: int, stop: int, consumer: int) -> int:
    """Settle those places of rows of a batch that follow each other, if the consumer holds all of them since; how many
    messages."""
    if delivery.deliveries is not None or len(place.leaving) or first >= stop:
        return 0
    stored, rows = delivery.stored, delivery.rows
    base = stored.first
    if len(rows) != stored.end - base:
        if not stored.is_dense or rows[stop - 1] - rows[first] != stop - 1 - first:
            return 0
        base += rows[first] - first
    if not place.window.ack_whole(base + first, base + stop, consumer):
        return 0
    place.note_acked(base + first, base + stop)
    return stop - first


def has_followers(place: Place) -> bool:
    """Something waits for a time, or may be handed out again."""
    return place.window.next_due < _NEVER or place.window.ready > 0


def note_settled(share: Share, place: Place, consumer: int, now: int) -> bool:
    """The clock begins anew; whether the share is to be given up."""
    share.clock_ms, share.held = now, place.window.held_by(consumer)
    return share.is_revoked


def share_in(member: Member, unit: Partition) -> Any:
    return member.holds.get(unit.partition)


def may_look(member: Member) -> bool:
    return member.is_full or len(member.ready) > 0 or member.is_closed
