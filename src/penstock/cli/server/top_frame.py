"""What `penstock top` shows: two looks at a server, and what happened between them."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

import msgspec

from penstock.cli.output import age_text
from penstock.client.http.answers import Facts
from penstock.client.http.async_client import AsyncClient
from penstock.codecs.http.administration import QueueSummary

QUEUE_COLUMNS = [
    "queue",
    "messages",
    "depth",
    "in/s",
    "out/s",
    "acks/s",
    "lag",
    "oldest",
    "in flight",
    "consumers",
    "state",
]
QUEUE_NUMBERS = QUEUE_COLUMNS[1:-1]
_RATES = ("published_per_s", "delivered_per_s", "acked_per_s")
_COUNTED = ("published", "journal_syncs", "journal_bytes")
"""of an overview: what only grows"""


@dataclass(frozen=True, slots=True)
class GroupLook:
    """Counts are since the server was started."""

    lag: int
    lag_s: float
    in_flight: int
    delivered: int
    acked: int


@dataclass(frozen=True, slots=True)
class QueueLook:
    summary: QueueSummary
    published: int
    groups: tuple[GroupLook, ...]

    @property
    def delivered(self) -> int:
        return sum([group.delivered for group in self.groups])

    @property
    def acked(self) -> int:
        return sum([group.acked for group in self.groups])

    @property
    def lag(self) -> int:
        """Of the group that is farthest behind."""
        return max([group.lag for group in self.groups], default=0)

    @property
    def lag_s(self) -> float:
        return max([group.lag_s for group in self.groups if group.lag], default=0.0)

    @property
    def in_flight(self) -> int:
        return sum([group.in_flight for group in self.groups])


@dataclass(frozen=True, slots=True)
class Look:
    """At a server, at a moment."""

    at_s: float
    overview: Facts
    queues: dict[str, QueueLook]
    queue_count: int

    def count(self, name: str) -> int:
        value = self.overview.get(name)
        return value if isinstance(value, int) else 0


async def look(client: AsyncClient, most_queues: int) -> Look:
    """The queues with the most to do, and no more of them than fit a screen."""
    overview, summaries = await asyncio.gather(client.overview(), client.queues())
    shown = sorted(summaries, key=lambda queue: (-queue.depth, queue.name))[:most_queues]
    told = await asyncio.gather(*(client.queue_stats(queue.name) for queue in shown))
    queues = {queue.name: _queue_look(queue, stats) for queue, stats in zip(shown, told, strict=True)}
    return Look(time.monotonic(), overview, queues, len(summaries))


def _queue_look(summary: QueueSummary, stats: Facts) -> QueueLook:
    groups = stats["groups"]
    assert isinstance(groups, dict)
    fields = GroupLook.__dataclass_fields__
    looks = [GroupLook(**{name: group[name] for name in fields}) for group in groups.values()]
    published = stats["published"]
    assert isinstance(published, int)
    return QueueLook(summary, published, tuple(looks))


@dataclass(frozen=True, slots=True)
class Frame:
    before: Look
    after: Look

    def head(self) -> list[str]:
        """Lines about the server as a whole."""
        look = self.after
        problems = look.overview.get("problems") or []
        assert isinstance(problems, list)
        uptime_s = look.overview.get("uptime_s")
        age = age_text(uptime_s) if isinstance(uptime_s, int | float) else "-"
        state = "ready" if look.overview.get("is_ready") else f"not ready: {'; '.join(map(str, problems))}"
        return [
            f"penstock {look.overview.get('version')}, up {age}, {state}",
            f"queues {look.count('queues'):,}  groups {look.count('groups'):,}  messages {look.count('messages'):,}  "
            f"in {_rate_text(self._speed('published'))}/s",
            f"clients {look.count('clients'):,} ({look.count('connected'):,} connected)  "
            f"subscriptions {look.count('subscriptions'):,}  streams {look.count('streams'):,}  "
            f"syncs {_rate_text(self._speed('journal_syncs'))}/s  "
            f"journal {_rate_text(self._speed('journal_bytes') / (1 << 20))} MiB/s",
        ]

    def rows(self) -> list[list[object]]:
        """Of queues, as QUEUE_COLUMNS has them."""
        return [self._row(queue, self.before.queues.get(name)) for name, queue in self.after.queues.items()]

    @property
    def hidden(self) -> int:
        """Queues that have no row."""
        return self.after.queue_count - len(self.after.queues)

    def facts(self) -> Facts:
        """The same for programs: what the server tells of itself, and what happened a second."""
        speeds = {f"{name}_per_s": self._speed(name) for name in _COUNTED}
        return {**self.after.overview, **speeds, "top_queues": [self._facts(name) for name in self.after.queues]}

    def _facts(self, name: str) -> Facts:
        now = self.after.queues[name]
        rates = dict(zip(_RATES, self._rates(now, self.before.queues.get(name)), strict=True))
        return {
            **msgspec.to_builtins(now.summary),
            **rates,
            "lag": now.lag,
            "lag_s": now.lag_s,
            "in_flight": now.in_flight,
        }

    def _row(self, now: QueueLook, was: QueueLook | None) -> list[object]:
        summary = now.summary
        return [
            summary.name,
            f"{summary.messages:,}",
            f"{summary.depth:,}",
            *("-" if rate is None else _rate_text(rate) for rate in self._rates(now, was)),
            f"{now.lag:,}",
            age_text(now.lag_s) if now.lag_s else "-",
            now.in_flight,
            summary.consumers,
            "paused" if summary.is_paused else "-",
        ]

    def _rates(self, now: QueueLook, was: QueueLook | None) -> list[float | None]:
        """As _RATES names them; None of a queue that the look before did not have."""
        if was is None:
            return [None] * len(_RATES)
        pairs = (now.published, was.published), (now.delivered, was.delivered), (now.acked, was.acked)
        return [self._per_second(later - earlier) for later, earlier in pairs]

    def _speed(self, name: str) -> float:
        return self._per_second(self.after.count(name) - self.before.count(name))

    def _per_second(self, count: float) -> float:
        """A server that was restarted counts from 0 again."""
        passed_s = self.after.at_s - self.before.at_s
        return count / passed_s if passed_s > 0 and count > 0 else 0.0


def _rate_text(rate: float) -> str:
    return f"{rate:,.0f}" if rate >= 10 or rate == 0 else f"{rate:.1f}"
