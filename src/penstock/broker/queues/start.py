"""Where a group begins: earliest, latest, an offset, a time, or a while ago."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from penstock.core.errors import InvalidArgument
from penstock.core.types import TimestampMs
from penstock.core.units import parse_duration
from penstock.log.partition import Log
from penstock.log.shard import Shard


@dataclass(frozen=True, slots=True)
class Start:
    """`offsets` are for the partitions they name, or for all of them under -1; `time_ms` is an age if `is_age`."""

    kind: str
    offsets: tuple[tuple[int, int], ...] = ()
    time_ms: int = 0

    @classmethod
    def at_offset(cls, offset: int, partition: int = -1) -> Start:
        return cls("offset", ((partition, offset),))

    @classmethod
    def at_time(cls, time_ms: int) -> Start:
        return cls("time", time_ms=time_ms)

    @classmethod
    def ago(cls, seconds: float) -> Start:
        return cls("duration", time_ms=int(seconds * 1000))

    @classmethod
    def parse(cls, text: str) -> Start:
        """`earliest`, `latest`, an offset as a number, a time as ISO 8601, or a duration like `1h`: that long ago."""
        word = text.strip()
        if word in ("earliest", "latest"):
            return cls(word)
        if word.isdecimal():
            return cls.at_offset(int(word))
        try:
            time = datetime.fromisoformat(word)
        except ValueError:
            pass
        else:
            return cls.at_time(int((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1000))
        try:
            return cls.ago(parse_duration(word))
        except InvalidArgument as error:
            raise InvalidArgument(
                f"{text!r} is not a place to start: write earliest, latest, an offset, a time like "
                f"2026-01-31T12:00:00Z, or a duration like 1h"
            ) from error

    async def offset(self, shard: Shard, log: Log, partition: int, now: int) -> int:
        """Of the first message, in that partition."""
        if self.kind == "earliest":
            return log.start
        if self.kind == "latest":
            return log.end
        if self.kind == "offset":
            wanted = dict(self.offsets)
            return min(max(wanted.get(partition, wanted.get(-1, log.start)), log.start), log.end)
        time = self.time_ms if self.kind == "time" else now - self.time_ms
        return await shard.offset_at_time(log, TimestampMs(time))


EARLIEST, LATEST = Start("earliest"), Start("latest")
