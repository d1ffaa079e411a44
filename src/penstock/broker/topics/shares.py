"""Messages of shared subscriptions: each goes to one of those who are connected."""

from __future__ import annotations

import enum
import random
from array import array
from collections.abc import Sequence

from penstock.broker.topics.subscriptions import Share, Subscription
from penstock.kernels import hashing
from penstock.log.columns import Columns


class SharedStrategy(enum.StrEnum):
    """Which member of a shared subscription gets a message."""

    ROUND_ROBIN = "round-robin"
    RANDOM = "random"
    STICKY = "sticky"
    """the same one for every message of a topic, as long as members stay"""


def deal(
    share: Share, strategy: SharedStrategy, columns: Columns, wanted: Sequence[int]
) -> list[tuple[Subscription, array[int]]]:
    """Of the given rows, those that each member gets. Those who are connected and keep up come first; if nobody is
    connected, those for whom messages are stored."""
    members = _able(share)
    if not members:
        return []
    dealt: list[array[int]] = [array("i") for _ in members]
    for row, member in zip(wanted, _picks(share, strategy, columns, wanted, len(members)), strict=True):
        dealt[member].append(row)
    return [(member, rows) for member, rows in zip(members, dealt, strict=True) if rows]


def _able(share: Share) -> list[Subscription]:
    live = [member for member in share.members if member.subscriber.is_connected]
    able = [member for member in live if not member.subscriber.is_behind]
    return able or live or [member for member in share.members if member.subscriber.stored and member.qos]


def _picks(
    share: Share, strategy: SharedStrategy, columns: Columns, wanted: Sequence[int], members: int
) -> Sequence[int]:
    if strategy is SharedStrategy.RANDOM:
        return [random.randrange(members) for _ in wanted]
    if strategy is SharedStrategy.STICKY:
        return [_sticky(columns, row) % members for row in wanted]
    first = share.dealt
    share.dealt += len(wanted)
    return [(first + i) % members for i in range(len(wanted))]


def _sticky(columns: Columns, row: int) -> int:
    """By key, or by topic where there is none."""
    key = columns.key
    if key is not None and key.ends[row] > key.starts[row]:
        return hashing.murmur3(columns.source, key.starts[row], key.ends[row])
    assert columns.topics is not None and columns.topic_index is not None
    topic = columns.topic_index[row]
    return hashing.murmur3(columns.source, columns.topics.starts[topic], columns.topics.ends[topic])
