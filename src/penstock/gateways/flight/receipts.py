"""How much of what clients send is received at a time. gRPC takes a whole record batch before anybody sees it, in
pieces and then in one: while nobody asks for the next one, a client has to wait."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

# A stream of smaller batches than that waits for nobody: all that there may be hold less than one of large ones.
SMALL_BYTES = 2 << 20
# Who sends nothing for so long makes room for others: that it will send cannot be known.
_PATIENCE_S = 2.0
# In its pieces, and put together.
_COPIES = 2


@dataclass(slots=True, eq=False)
class _Reservation:
    client: str
    size_bytes: int
    until_s: float | None
    """None once the batch is here"""


class Receipts:
    """Any thread. `limit_bytes` for all streams and `client_bytes` for those of one client, counted before a batch
    comes by what is expected of its stream. `clock` tells seconds."""

    def __init__(self, limit_bytes: int, client_bytes: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._limit_bytes, self._client_bytes, self._clock = limit_bytes, client_bytes, clock
        self._taken: list[_Reservation] = []
        self._ended_s: float | None = None
        """when the last batch was done with, if nobody has asked since"""
        self._changed = threading.Condition()

    @contextmanager
    def one(self, client: str, expected_bytes: int) -> Iterator[Callable[[int], None]]:
        """Waits for others, until the next batch of a stream may be received; what is larger than all there is may go
        alone. Call what it gives with the size of the batch when it is here: it is held once from then on."""
        if expected_bytes <= SMALL_BYTES:
            yield lambda size_bytes: None
            return
        mine = _Reservation(client, _COPIES * expected_bytes, None)
        with self._changed:
            while not self._has_room(mine):
                self._changed.wait(self._next_end_s())
            mine.until_s = self._clock() + _PATIENCE_S
            self._taken.append(mine)
        try:
            yield partial(self._arrived, mine)
        finally:
            with self._changed:
                self._taken.remove(mine)
                self._ended_s = self._clock()
                self._changed.notify_all()

    def rested(self, rest_s: float) -> None:
        """Returns when batches were received since the last call, and none for so long. For one thread."""
        with self._changed:
            while self._ended_s is None or self._taken or (left_s := self._ended_s + rest_s - self._clock()) > 0:
                self._changed.wait(None if self._ended_s is None or self._taken else left_s)
            self._ended_s = None

    def _arrived(self, mine: _Reservation, size_bytes: int) -> None:
        with self._changed:
            mine.size_bytes, mine.until_s = size_bytes, None
            self._changed.notify_all()

    def _has_room(self, mine: _Reservation) -> bool:
        now_s = self._clock()
        others = [each for each in self._taken if each.until_s is None or each.until_s > now_s]
        same = [each for each in others if each.client == mine.client]
        return all(
            not some or mine.size_bytes + sum(each.size_bytes for each in some) <= limit_bytes
            for some, limit_bytes in ((others, self._limit_bytes), (same, self._client_bytes))
        )

    def _next_end_s(self) -> float | None:
        """Until somebody's patience ends."""
        now_s = self._clock()
        ends = [each.until_s - now_s for each in self._taken if each.until_s is not None and each.until_s > now_s]
        return min(ends, default=None)
