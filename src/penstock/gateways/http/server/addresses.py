"""Names of queues and topics in paths."""

from __future__ import annotations

from functools import lru_cache

from penstock.queues.names import DEAD_LETTER_PREFIX, canonical_queue, check_queue_name

_QUEUE_FORM, _DEAD_LETTER_FORM = "$queue$", "$dlq$"


@lru_cache(4096)
def queue_name(segment: str) -> str:
    """Of a decoded segment of a path: a name as it is, or `$queue$shop$orders` for shop/orders and `$dlq$orders` for
    its dead letters. InvalidArgument where no queue can have that name."""
    if segment.startswith(_QUEUE_FORM):
        name = segment.removeprefix(_QUEUE_FORM).replace("$", "/")
    elif segment.startswith(_DEAD_LETTER_FORM):
        name = DEAD_LETTER_PREFIX + segment.removeprefix(_DEAD_LETTER_FORM).replace("$", "/")
    else:
        name = segment.removeprefix("$queue/")
    name = canonical_queue(name)
    check_queue_name(name)
    return name
