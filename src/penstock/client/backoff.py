"""How long to wait before another try."""

from __future__ import annotations

import random


def backoff_s(first_s: float, longest_s: float, attempt: int) -> float:
    """Each failure doubles the wait, up to the longest; it is drawn from its upper half, so that clients of a server
    that comes back do not all come at once. `attempt` counts from 0."""
    longest = min(longest_s, first_s * 2 ** min(attempt, 60))
    return random.uniform(longest / 2, longest)
