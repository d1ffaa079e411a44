"""What a server of MQTT says no with."""

from __future__ import annotations

from penstock.client.errors import Refused
from penstock.codecs.mqtt.reasons import ReasonCode

# Of a server that can do nothing for this client now, and perhaps later.
_PASSING = frozenset({
    ReasonCode.UNSPECIFIED_ERROR, ReasonCode.SERVER_UNAVAILABLE, ReasonCode.SERVER_BUSY,
    ReasonCode.SERVER_SHUTTING_DOWN, ReasonCode.KEEP_ALIVE_TIMEOUT, ReasonCode.QUOTA_EXCEEDED,
    ReasonCode.MESSAGE_RATE_TOO_HIGH, ReasonCode.CONNECTION_RATE_EXCEEDED, ReasonCode.MAXIMUM_CONNECT_TIME,
})  # fmt: skip

_ADVICE = {
    ReasonCode.BAD_USER_NAME_OR_PASSWORD: "check user name and password",
    ReasonCode.NOT_AUTHORIZED: "log in as a user who may do this, or have it allowed",
    ReasonCode.UNSUPPORTED_PROTOCOL_VERSION: "ask for another version of MQTT",
    ReasonCode.CLIENT_IDENTIFIER_NOT_VALID: "give another client id",
    ReasonCode.SESSION_TAKEN_OVER: "give each client an id of its own",
    ReasonCode.QUOTA_EXCEEDED: "try again later, or have the limit raised",
    ReasonCode.SERVER_BUSY: "try again later",
    ReasonCode.SERVER_SHUTTING_DOWN: "try again when it is back",
    ReasonCode.SERVER_UNAVAILABLE: "try again later",
    ReasonCode.CONNECTION_RATE_EXCEEDED: "try again later",
    ReasonCode.MESSAGE_RATE_TOO_HIGH: "send fewer messages a second",
    ReasonCode.PACKET_TOO_LARGE: "send smaller messages",
    ReasonCode.TOPIC_NAME_INVALID: "publish to another topic",
    ReasonCode.TOPIC_FILTER_INVALID: "subscribe to another filter",
}


class MqttRefused(Refused):
    """By a reason code."""

    def __init__(self, what: str, reason: ReasonCode, detail: str | None = None) -> None:
        said = f"{reason!s}: {detail}" if detail else str(reason)
        advice = _ADVICE.get(reason)
        super().__init__(f"the server refused {what} ({said})" + (f": {advice}" if advice else ""))
        self.what, self.reason, self.detail = what, reason, detail

    @property
    def is_passing(self) -> bool:
        return self.reason in _PASSING
