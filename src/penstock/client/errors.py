"""What a client is told that its server or the network did, whatever it speaks."""

from __future__ import annotations

from penstock.core.errors import ErrorCode, PenstockError


class ConnectionLost(PenstockError):
    """A connection could not be made, or has ended. What was under way may have been done or not."""

    code = ErrorCode.CONNECTION_LOST


class Refused(PenstockError):
    """The server said no; the protocol's own kind of it says how."""

    code = ErrorCode.REFUSED

    @property
    def is_passing(self) -> bool:
        """Whether the same may be granted later."""
        return False
