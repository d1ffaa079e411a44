"""What is wrong with the bytes or the packets of a peer. Both end the connection."""

from __future__ import annotations

from penstock.codecs.mqtt.kinds import Version
from penstock.codecs.mqtt.reasons import ReasonCode
from penstock.core.errors import ErrorCode, PenstockError

# Details quote what peers sent, and go into log lines and reason strings.
_MAX_DETAIL_CHARACTERS = 200


def shortened(detail: str) -> str:
    """For a reason string: no longer than people read, and nothing in it that cannot be seen."""
    seen = "".join([character if character.isprintable() else "?" for character in detail[:_MAX_DETAIL_CHARACTERS]])
    return seen if len(detail) <= _MAX_DETAIL_CHARACTERS else seen[:-1] + "…"


class PacketError(PenstockError):
    """`reason` is what the peer is told; `version` is how, None if it never said what it speaks: then it is told
    nothing. `encode.encode_refusal` makes the packet."""

    def __init__(self, detail: str, reason: ReasonCode, version: Version | None = None) -> None:
        detail = shortened(detail)
        super().__init__(f"{detail} ({reason!s}): the connection is closed, mend the client that sent it")
        self.detail, self.reason, self.version = detail, reason, version


class MalformedPacket(PacketError):
    """Bytes that are no packet of this version."""

    code = ErrorCode.MALFORMED_PACKET

    def __init__(
        self, detail: str, reason: ReasonCode = ReasonCode.MALFORMED_PACKET, version: Version | None = None
    ) -> None:
        super().__init__(detail, reason, version)


class ProtocolError(PacketError):
    """A packet that says what it must not, or that comes when it must not."""

    code = ErrorCode.PROTOCOL_ERROR

    def __init__(
        self, detail: str, reason: ReasonCode = ReasonCode.PROTOCOL_ERROR, version: Version | None = None
    ) -> None:
        super().__init__(detail, reason, version)
