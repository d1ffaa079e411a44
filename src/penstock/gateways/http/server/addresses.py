"""Names of queues and topics in paths."""

from __future__ import annotations

from functools import lru_cache

from penstock.core.queue_paths import DEAD_LETTER_PREFIX, QUEUE_PREFIX

_QUEUE_FORM, _DEAD_LETTER_FORM = "$queue$", "$dlq$"


@lru_cache(4096)
def written_queue(segment: str) -> str:
    """Of a decoded segment of a path: a name as it is, or `$queue$shop$orders` for the path shop/orders and
    `$dlq$orders` for the dead letters of orders. See Declaring.named()."""
    if segment.startswith(_QUEUE_FORM):
        return QUEUE_PREFIX + segment.removeprefix(_QUEUE_FORM).replace("$", "/")
    if segment.startswith(_DEAD_LETTER_FORM):
        return DEAD_LETTER_PREFIX + segment.removeprefix(_DEAD_LETTER_FORM).replace("$", "/")
    return segment
