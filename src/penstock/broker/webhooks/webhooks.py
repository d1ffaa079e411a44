"""All webhooks of a broker: those of the configuration, and those of queues for their dead letters."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

import msgspec

from penstock.broker.webhooks.events import Event, Hook, Notice, encode
from penstock.broker.webhooks.mailbox import FIRST_RETRY_S, Mailbox
from penstock.queues.deadletter import DeadLetter

if TYPE_CHECKING:
    from penstock.broker.queues.partitioned import PartitionedQueue

logger = logging.getLogger("penstock.broker.webhooks")

MAX_HOOKS = 16
"""of the configuration"""
_MAX_ALERTS = 64
"""addresses of queues with something under way: each takes a thread"""
_LETTERS_TOLD = 100
_ID_BYTES = 16


class HookDescription(msgspec.Struct, frozen=True):
    """Counts are since the start, or since the address was configured."""

    place: str
    events: list[str]
    is_signed: bool
    waiting: int
    sent: int
    failed: int
    dropped: int


class Webhooks:
    """Used from the loop; nothing here waits for a receiver. `first_retry_s` is the pause before the second try."""

    def __init__(self, now: Callable[[], int], first_retry_s: float = FIRST_RETRY_S) -> None:
        self.first_retry_s = first_retry_s
        self._now = now
        self._hooks: dict[str, Mailbox] = {}
        self._alerts: dict[str, Mailbox] = {}
        """by address, while something waits"""
        self._wanted: frozenset[Event] = frozenset()
        self._gone = (0, 0, 0)
        """sent, failed and dropped of mailboxes that are no more"""
        self._closing: set[asyncio.Task[None]] = set()
        self._is_closed = False

    # Counts

    @property
    def sent(self) -> int:
        return self._gone[0] + sum([box.sent for box in self._boxes])

    @property
    def failed(self) -> int:
        """Given up after the last try."""
        return self._gone[1] + sum([box.failed for box in self._boxes])

    @property
    def dropped(self) -> int:
        """Never tried, because too many waited."""
        return self._gone[2] + sum([box.dropped for box in self._boxes])

    @property
    def waiting(self) -> int:
        return sum([box.waiting for box in self._boxes])

    def described(self) -> list[HookDescription]:
        return [
            HookDescription(
                box.hook.place,
                sorted(box.hook.events),
                box.hook.secret is not None,
                box.waiting,
                box.sent,
                box.failed,
                box.dropped,
            )
            for box in self._hooks.values()
        ]

    @property
    def lag_thresholds(self) -> list[int]:
        """At which somebody wants to know, the lowest first."""
        return sorted({box.hook.lag_threshold for box in self._hooks.values() if Event.LAG in box.hook.events})

    # Configuration

    def apply(self, hooks: Iterable[Hook]) -> None:
        """Those of a configuration, in place of the ones before. What waits for an address that stays is kept, and goes
        out as the new configuration says."""
        before, self._hooks = self._hooks, {}
        for hook in hooks:
            box = before.pop(hook.url, None) or Mailbox(hook, self.first_retry_s)
            box.hook = hook
            self._hooks[hook.url] = box
        self._wanted = frozenset[Event]().union(*[box.hook.events for box in self._hooks.values()])
        for box in before.values():
            task = asyncio.get_running_loop().create_task(self._end(box))
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    async def close(self) -> None:
        """What could not be sent yet is given up."""
        self._is_closed = True
        for box in self._boxes:
            await box.close()
        if self._closing:
            await asyncio.wait(self._closing)

    async def idle(self) -> None:
        """Returns when nothing waits."""
        for box in self._boxes:
            await box.idle()

    # Telling

    def wants(self, event: Event) -> bool:
        return event in self._wanted

    def tell(self, event: Event, facts: Mapping[str, object], lag_threshold: int | None = None) -> None:
        """All hooks that want it; of those with a threshold, only those with this one. Facts are JSON."""
        if event not in self._wanted or self._is_closed:
            return
        notice = self._notice(event, facts)
        for box in self._hooks.values():
            if event in box.hook.events and lag_threshold in (None, box.hook.lag_threshold):
                box.put(notice)

    def wants_letters(self, queue: PartitionedQueue) -> bool:
        """Whether anybody is told of dead letters of a queue."""
        is_wanted = queue.settings.dlq_config.alert_webhook is not None or self.wants(Event.DEAD_LETTERED)
        return is_wanted and not self._is_closed

    def tell_dead_letters(self, queue: PartitionedQueue, target: str, letters: list[DeadLetter]) -> None:
        """One event for each frame of moves; also to the address that the queue names."""
        if not self.wants_letters(queue):
            return
        url = queue.settings.dlq_config.alert_webhook
        facts = _facts(queue, target, letters)
        self.tell(Event.DEAD_LETTERED, facts)
        if url is not None and url not in self._told_anyway:
            self._alert(url, self._notice(Event.DEAD_LETTERED, facts))

    @property
    def _told_anyway(self) -> list[str]:
        return [url for url, box in self._hooks.items() if Event.DEAD_LETTERED in box.hook.events]

    def _alert(self, url: str, notice: Notice) -> None:
        box = self._alerts.get(url)
        if box is None:
            box = Mailbox(Hook(url, frozenset({Event.DEAD_LETTERED})), self.first_retry_s)
            if len(self._alerts) >= _MAX_ALERTS:
                self._count((0, 0, 1))
                logger.warning(
                    "event dropped, %d other receivers have not answered url=%s", _MAX_ALERTS, box.hook.place
                )
                return
            self._alerts[url] = box
            box.on_empty = lambda: self._forget_alert(url)
        box.put(notice)

    def _forget_alert(self, url: str) -> None:
        box = self._alerts.pop(url)
        self._count((box.sent, box.failed, box.dropped))

    async def _end(self, box: Mailbox) -> None:
        await box.close()
        self._count((box.sent, box.failed, box.dropped))

    def _count(self, more: tuple[int, int, int]) -> None:
        sent, failed, dropped = self._gone
        self._gone = sent + more[0], failed + more[1], dropped + more[2]

    def _notice(self, event: Event, facts: Mapping[str, object]) -> Notice:
        return encode(event, secrets.token_hex(_ID_BYTES), self._now(), facts)

    @property
    def _boxes(self) -> list[Mailbox]:
        return [*self._hooks.values(), *self._alerts.values()]


def _facts(queue: PartitionedQueue, target: str, letters: list[DeadLetter]) -> dict[str, object]:
    told = [
        {
            "message_id": str(letter.source),
            "group": str(letter.group),
            "reason": letter.reason.value,
            "detail": letter.detail,
            "delivery_count": letter.delivery_count,
            "failures": letter.failures,
            "time": letter.moved_ms,
        }
        for letter in letters[:_LETTERS_TOLD]
    ]
    named = {"queue": queue.name, "namespace": queue.namespace, "dead_letter_queue": target}
    return {**named, "count": len(letters), "messages": told}
