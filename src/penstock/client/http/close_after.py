"""Closing at the end of a `with` block."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

from penstock.core.errors import PenstockError

logger = logging.getLogger("penstock.client")


async def close_after(close: Callable[[], Awaitable[None]], error: BaseException | None) -> None:
    """What goes wrong in closing is raised, unless the block ended with an error of its own: that one is told."""
    try:
        await close()
    except PenstockError as failure:
        if error is None:
            raise
        logger.warning("closing after an error failed too error=%s", failure)
