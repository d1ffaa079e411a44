"""Telling a webhook of messages that were given up on: behind a bounded queue, with retries, beside delivery."""

from __future__ import annotations

import asyncio
import logging
import urllib.error
import urllib.request
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from penstock.queues.deadletter import DeadLetter

if TYPE_CHECKING:
    from penstock.broker.queue import Queue

logger = logging.getLogger("penstock.broker.alerts")

_WAITING = 1000
_TIMEOUT_S = 10.0
_RETRY_S = (1.0, 5.0, 30.0, 120.0)
_LETTERS_TOLD = 100


class Alerts:
    """One POST of JSON for each frame of moves. A hook that does not answer with 2xx is tried again a few times; then a
    log line has to do."""

    def __init__(self, retry_s: Sequence[float] = _RETRY_S) -> None:
        self.sent = self.failed = self.dropped = 0
        self._retry_s = retry_s
        self._waiting: asyncio.Queue[tuple[str, bytes]] = asyncio.Queue(_WAITING)
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_closed = False

    def tell(self, queue: Queue, target: str, letters: list[DeadLetter]) -> None:
        url = queue.settings.dlq_config.alert_webhook
        if url is None or self._is_closed:
            return
        try:
            self._waiting.put_nowait((url, _body(queue.name, target, letters)))
        except asyncio.QueueFull:
            self.dropped += 1
            logger.warning("alert dropped, %d wait already queue=%s url=%s", _WAITING, queue.name, url)
            return
        if not self._tasks:
            task = asyncio.get_running_loop().create_task(self._send_all())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """What could not be sent yet is given up."""
        self._is_closed = True
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _send_all(self) -> None:
        while not self._waiting.empty():
            url, body = self._waiting.get_nowait()
            await self._send(url, body)

    async def _send(self, url: str, body: bytes) -> None:
        for wait_s in (*self._retry_s, None):
            error = await asyncio.get_running_loop().run_in_executor(None, _post, url, body)
            if error is None:
                self.sent += 1
                return
            if wait_s is not None:
                await asyncio.sleep(wait_s)
        self.failed += 1
        logger.error("alert not delivered url=%s tries=%d error=%s", url, len(self._retry_s) + 1, error)


def _post(url: str, body: bytes) -> str | None:
    """What went wrong, if something did."""
    request = urllib.request.Request(url, body, {"Content-Type": "application/json", "User-Agent": "penstock"})
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT_S):
            return None
    except (OSError, ValueError) as error:
        return f"{type(error).__name__}: {error}"


def _body(queue: str, target: str, letters: list[DeadLetter]) -> bytes:
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
    facts = {"queue": queue, "dead_letter_queue": target, "count": len(letters), "messages": told}
    return msgspec.json.encode({"event": "dead-letter", **facts})
