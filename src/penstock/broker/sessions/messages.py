"""One of the logs that sessions share: a message is stored in it once, with the list of those who get it."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.broker.feed.stored import StoredCache
from penstock.broker.sessions.followed import FollowedLog
from penstock.broker.sessions.wanted import Living
from penstock.log.partition import Log
from penstock.log.shard import Shard


@dataclass(slots=True)
class Totals:
    """Over all sessions."""

    queued_messages: int = 0
    queued_bytes: int = 0
    dropped: int = 0
    """had no room"""
    expired: int = 0
    lost: int = 0
    """could not be found in the log"""


class MessageLog:
    """Used from the loop. A record that nobody wants any more is dead; it goes with its segment."""

    def __init__(self, shard: Shard, log: Log, number: int, cache: StoredCache, totals: Totals) -> None:
        self.log, self.number, self.totals, self.timeline = log, number, totals, shard.timeline
        self.living = Living()
        self.followed = FollowedLog(shard, log, cache)
