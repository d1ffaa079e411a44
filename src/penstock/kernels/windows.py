"""The same step in the windows of many partitions, in one call: what a small batch costs is mostly calls.

Ranges are those of kernels/window."""

from __future__ import annotations

from penstock.core.ports import Buffer
from penstock.kernels.window import Window


def deliver_each(
    windows: list[Window],
    batches: list[Buffer],
    by_key: bool,
    consumer: int,
    now: int,
    room: int,
    limit: int,
    most: int,
    too_old: int,
) -> list[int]:
    """Window.deliver_whole() of batch i in window i, one after the other: how many messages of each. No more than
    `room` in all, `most` of one batch, and `limit` entries in a window. A window may occur several times."""
    given = []
    for i in range(len(windows)):
        window = windows[i]
        count = 0
        free = min(room, limit - window.live, most)
        if free > 0:
            count = window.deliver_whole(batches[i], by_key, consumer, now, free, too_old)
        room -= count
        given.append(count)
    return given


def ack_each(windows: list[Window], firsts: list[int], stops: list[int], consumer: int) -> list[int]:
    """Window.ack_whole() of firsts[i]..stops[i] - 1 in window i, one after the other: how many messages the consumer
    holds there afterwards; -1 where nothing changed."""
    held = []
    for i in range(len(windows)):
        window = windows[i]
        is_settled = window.ack_whole(firsts[i], stops[i], consumer)
        held.append(window.held_by(consumer) if is_settled else -1)
    return held
