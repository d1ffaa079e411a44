"""How many messages a second went through a queue lately: since somebody asked before."""

from __future__ import annotations

from collections import deque
from weakref import WeakKeyDictionary

from penstock.broker.queues.queue import Queue

_WINDOW_S, _APART_S = 60.0, 1.0

Sample = tuple[float, int, int, int]
"""time, published, delivered, acknowledged"""


class Rates:
    """Used from the loop."""

    def __init__(self) -> None:
        self._samples: WeakKeyDictionary[Queue, deque[Sample]] = WeakKeyDictionary()

    def of(self, queue: Queue, now_s: float, published: int, delivered: int, acked: int) -> tuple[float, float, float]:
        """Messages a second of each, over the last minute that was looked at; 0 for who asks for the first time."""
        samples = self._samples.setdefault(queue, deque())
        while len(samples) > 1 and now_s - samples[1][0] >= _WINDOW_S:
            samples.popleft()
        if not samples or now_s - samples[-1][0] >= _APART_S:
            samples.append((now_s, published, delivered, acked))
        first_s, *first = samples[0]
        span_s = now_s - first_s
        if span_s < _APART_S:
            return 0.0, 0.0, 0.0
        rates = [
            round(max(now - then, 0) / span_s, 3)
            for now, then in zip((published, delivered, acked), first, strict=True)
        ]
        return rates[0], rates[1], rates[2]
