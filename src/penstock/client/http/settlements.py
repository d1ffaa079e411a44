"""Settlements gathered, and sent many at a time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from penstock.client.http.incoming import Verdict
from penstock.client.http.promises import Promise, break_, keep
from penstock.client.http.requests import Ask, ask
from penstock.codecs.http.deliveries import SettleReport
from penstock.core.errors import PenstockError

logger = logging.getLogger("penstock.client")

# Long enough for the messages of one answer to be handled, short beside any visibility.
_LINGER_S = 0.01
_MOST = 1000


Send = Callable[[Ask[SettleReport]], Awaitable[SettleReport]]
Kind = tuple[str, float | None, str | None, float | None]
"""verb, delay, reason and visibility: those of one kind go in one request"""


class Settlements:
    """Used from one loop. Those waiting are sent in the order of their kinds; how many they are is bounded by what
    callers hold, as receiving more sends them first."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._waiting: dict[Kind, list[tuple[str, Promise[bool]]]] = {}
        self._count = 0
        self._timer: asyncio.TimerHandle | None = None
        self._sending: asyncio.Task[None] | None = None
        self._failed: PenstockError | None = None

    def put(self, verdict: Verdict, promise: Promise[bool]) -> None:
        """The promise says whether the delivery was still the caller's."""
        kind = verdict.verb, verdict.delay_s, verdict.reason, verdict.visibility_s
        self._waiting.setdefault(kind, []).append((verdict.receipt, promise))
        self._count += 1
        if self._count >= _MOST:
            self._wake()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_LINGER_S, self._wake)

    async def flush(self) -> None:
        """Returns when all are sent; raises what went wrong first since the last time."""
        self._wake()
        while self._sending is not None:
            await asyncio.shield(self._sending)
        failed, self._failed = self._failed, None
        if failed is not None:
            raise failed

    def _wake(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._sending is None and self._waiting:
            self._sending = asyncio.get_running_loop().create_task(self._send_all())

    async def _send_all(self) -> None:
        try:
            while self._waiting:
                kind = next(iter(self._waiting))
                some = self._waiting.pop(kind)
                self._count -= len(some)
                for at in range(0, len(some), _MOST):
                    await self._settle(kind, some[at : at + _MOST])
        finally:
            self._sending = None

    async def _settle(self, kind: Kind, some: Sequence[tuple[str, Promise[bool]]]) -> None:
        try:
            report = await self._send(settlement(kind, [receipt for receipt, _ in some]))
        except PenstockError as error:
            logger.warning(
                "settlements failed, the messages come again verb=%s count=%d error=%s", kind[0], len(some), error
            )
            self._failed = self._failed or error
            for _, promise in some:
                break_(promise, error)
            return
        if report.stale:
            logger.warning("settlements did not count verb=%s count=%d why=%s", kind[0], report.stale, report.advice)
        settled = {result.receipt for result in report.results if result.status == "settled"}
        for receipt, promise in some:
            keep(promise, receipt in settled)


def settlement(kind: Kind, receipts: Sequence[str]) -> Ask[SettleReport]:
    """Sent twice it does what it does once; the second answer may call stale what the first one settled."""
    verb, delay_s, reason, visibility_s = kind
    said = {"receipts": receipts, "delay": delay_s, "reason": reason, "visibility": visibility_s}
    body = {name: value for name, value in said.items() if value is not None}
    return ask("POST", f"/messages/{verb}", SettleReport, body, is_repeatable=True)
