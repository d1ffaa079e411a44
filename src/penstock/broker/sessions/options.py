"""How sessions are kept, and how much may wait for one of them."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from penstock.core.errors import InvalidArgument
from penstock.core.types import Durability

NEVER_S = 0xFFFFFFFF
"""the expiry of a session that does not end by itself"""


class Policy(enum.Enum):
    """What becomes of a message for a session that has no room for it."""

    DROP_NEWEST = "drop-newest"
    DROP_OLDEST = "drop-oldest"
    """what waits longest and was not handed out goes instead"""
    DISCONNECT = "disconnect"
    """as drop-newest, and whoever is connected is told to go"""


@dataclass(frozen=True, slots=True)
class SessionOptions:
    message_logs: int = 4
    """over which sessions are spread, by a hash of the client id; those of sessions that are there stay"""
    max_queued_messages: int = 1000
    """of one session, in flight or not"""
    max_queued_bytes: int = 10 << 20
    """topic, properties and value"""
    policy: Policy = Policy.DROP_NEWEST
    settle_delay_s: float = 0.2
    """so long an acknowledgement may wait for a commit to ride in; losing it means that a message comes twice"""
    durability: Durability = Durability.COMMIT
    segment_bytes: int = 32 << 20

    def __post_init__(self) -> None:
        if self.message_logs < 1 or self.max_queued_messages < 1 or self.max_queued_bytes < 1:
            raise InvalidArgument(
                "sessions need at least one log, and room for one message and one byte: see SessionOptions"
            )
