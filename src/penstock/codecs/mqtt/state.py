"""In which order packets may come on a connection, as a table, seen from either end."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass

from penstock.codecs.mqtt.errors import ProtocolError
from penstock.codecs.mqtt.kinds import PacketType, Sender, Version
from penstock.codecs.mqtt.packets import Auth, ConnAck, Connect, Disconnect, Packet, Publish
from penstock.codecs.mqtt.reasons import AUTH_OF, DISCONNECT_OF, ReasonCode


class State(enum.Enum):
    NEW = "new"
    CONNECTING = "connecting"
    AUTHENTICATING = "authenticating"
    """the server's turn: it asks on, accepts or refuses"""
    CHALLENGED = "challenged"
    """the client's turn"""
    OPEN = "open"
    REAUTHENTICATING = "reauthenticating"
    """open, and the server's turn in a new exchange of AUTH"""
    RECHALLENGED = "rechallenged"
    CLOSING = "closing"
    """one side has said its last word"""
    CLOSED = "closed"


class Event(enum.Enum):
    CONNECT = "CONNECT"
    CONNECT_WITH_METHOD = "CONNECT with an authentication method"
    CONNACK = "CONNACK"
    CONNACK_REFUSED = "CONNACK that refuses"
    AUTH_CONTINUE = "AUTH to continue"
    AUTH_AGAIN = "AUTH to begin again"
    AUTH_DONE = "AUTH of success"
    WORK = "any other packet"
    DISCONNECT = "DISCONNECT"


class Handling(enum.Enum):
    TAKE = "take"
    WAIT = "wait"
    """keep it until CONNACK was sent, and drop it if that refuses [MQTT-3.1.4-6]"""
    IGNORE = "ignore"


_SETTLE = {PacketType.PUBLISH, PacketType.PUBACK, PacketType.PUBREC, PacketType.PUBREL, PacketType.PUBCOMP}
SENT_BY: Mapping[Sender, frozenset[PacketType]] = {
    Sender.CLIENT: frozenset(
        _SETTLE
        | {PacketType.CONNECT, PacketType.SUBSCRIBE, PacketType.UNSUBSCRIBE, PacketType.PINGREQ}
        | {PacketType.DISCONNECT, PacketType.AUTH}
    ),
    Sender.SERVER: frozenset(
        _SETTLE
        | {PacketType.CONNACK, PacketType.SUBACK, PacketType.UNSUBACK, PacketType.PINGRESP}
        | {PacketType.DISCONNECT, PacketType.AUTH}
    ),
}

_C, _S = Sender.CLIENT, Sender.SERVER
# What is not here is a protocol error. In CLOSING and CLOSED everything is ignored.
ORDER: Mapping[tuple[State, Sender, Event], State | Handling] = {
    (State.NEW, _C, Event.CONNECT): State.CONNECTING,
    (State.NEW, _C, Event.CONNECT_WITH_METHOD): State.AUTHENTICATING,
    (State.CONNECTING, _S, Event.CONNACK): State.OPEN,
    (State.CONNECTING, _S, Event.CONNACK_REFUSED): State.CLOSING,
    (State.CONNECTING, _C, Event.WORK): Handling.WAIT,
    (State.CONNECTING, _C, Event.DISCONNECT): Handling.WAIT,
    (State.AUTHENTICATING, _S, Event.CONNACK): State.OPEN,
    (State.AUTHENTICATING, _S, Event.CONNACK_REFUSED): State.CLOSING,
    (State.AUTHENTICATING, _S, Event.AUTH_CONTINUE): State.CHALLENGED,
    (State.AUTHENTICATING, _C, Event.DISCONNECT): State.CLOSING,
    (State.CHALLENGED, _C, Event.AUTH_CONTINUE): State.AUTHENTICATING,
    (State.CHALLENGED, _C, Event.DISCONNECT): State.CLOSING,
    (State.CHALLENGED, _S, Event.CONNACK_REFUSED): State.CLOSING,
    (State.OPEN, _C, Event.WORK): State.OPEN,
    (State.OPEN, _S, Event.WORK): State.OPEN,
    (State.OPEN, _C, Event.DISCONNECT): State.CLOSING,
    (State.OPEN, _S, Event.DISCONNECT): State.CLOSING,
    (State.OPEN, _C, Event.AUTH_AGAIN): State.REAUTHENTICATING,
    (State.REAUTHENTICATING, _C, Event.WORK): State.REAUTHENTICATING,
    (State.REAUTHENTICATING, _S, Event.WORK): State.REAUTHENTICATING,
    (State.REAUTHENTICATING, _C, Event.DISCONNECT): State.CLOSING,
    (State.REAUTHENTICATING, _S, Event.DISCONNECT): State.CLOSING,
    (State.REAUTHENTICATING, _S, Event.AUTH_CONTINUE): State.RECHALLENGED,
    (State.REAUTHENTICATING, _S, Event.AUTH_DONE): State.OPEN,
    (State.RECHALLENGED, _C, Event.WORK): State.RECHALLENGED,
    (State.RECHALLENGED, _S, Event.WORK): State.RECHALLENGED,
    (State.RECHALLENGED, _C, Event.DISCONNECT): State.CLOSING,
    (State.RECHALLENGED, _S, Event.DISCONNECT): State.CLOSING,
    (State.RECHALLENGED, _C, Event.AUTH_CONTINUE): State.REAUTHENTICATING,
}

_OPEN = frozenset({State.OPEN, State.REAUTHENTICATING, State.RECHALLENGED})
_ENDED = frozenset({State.CLOSING, State.CLOSED})
_AUTH_EVENTS = {
    ReasonCode.CONTINUE_AUTHENTICATION: Event.AUTH_CONTINUE,
    ReasonCode.RE_AUTHENTICATE: Event.AUTH_AGAIN,
    ReasonCode.SUCCESS: Event.AUTH_DONE,
}


@dataclass(slots=True)
class Connection:
    """Where a connection stands. Give it every packet of both sides, before it is acted on or sent; those that the
    kernels scan and encode change nothing while `is_open`, and are given to it by nobody."""

    state: State = State.NEW
    version: Version | None = None
    session_expiry_interval_s: int = 0
    """as CONNECT had it, whatever the server made of it"""
    authentication_method: str | None = None

    @property
    def is_open(self) -> bool:
        return self.state in _OPEN

    def take(self, sender: Sender, packet: Packet) -> Handling:
        """ProtocolError, and nothing changed, if the packet must not come now, from this side, or say what it says."""
        if self.state in _ENDED:
            return Handling.IGNORE
        event = event_of(packet)
        following = ORDER.get((self.state, sender, event))
        if following is None or packet.type not in SENT_BY[sender]:
            raise self._violation(f"a {sender.value} sent {packet.type.name} while {self.state.value}")
        self._check(sender, packet)
        if isinstance(following, Handling):
            return following
        self.state = following
        if isinstance(packet, Connect):
            self._begin(packet)
        return Handling.TAKE

    def close(self) -> None:
        self.state = State.CLOSED

    def _begin(self, packet: Connect) -> None:
        self.version = packet.version
        self.session_expiry_interval_s = packet.properties.session_expiry_interval_s or 0
        self.authentication_method = packet.properties.authentication_method

    def _violation(self, detail: str) -> ProtocolError:
        return ProtocolError(detail, version=self.version)

    def _check(self, sender: Sender, packet: Packet) -> None:
        """What one side may say and the other may not, or not on this connection."""
        if isinstance(packet, Auth):
            self._check_auth(sender, packet)
        elif isinstance(packet, Disconnect):
            self._check_disconnect(sender, packet)
        elif isinstance(packet, ConnAck):
            if not packet.reason.is_refusal and packet.properties.authentication_method != self.authentication_method:
                raise self._violation("CONNACK has another authentication method than CONNECT")
        elif isinstance(packet, Publish) and sender is Sender.CLIENT and packet.properties.subscription_identifiers:
            raise self._violation("a client's PUBLISH has a subscription identifier")

    def _check_auth(self, sender: Sender, packet: Auth) -> None:
        if packet.reason not in AUTH_OF[sender]:
            raise self._violation(f"a {sender.value} sent AUTH with {packet.reason!s}")
        method = packet.properties.authentication_method
        if self.authentication_method is None or method not in (self.authentication_method, None):
            raise self._violation("AUTH has another authentication method than CONNECT")

    def _check_disconnect(self, sender: Sender, packet: Disconnect) -> None:
        if sender is Sender.SERVER and self.version is Version.V3_1_1:
            raise self._violation("a server of MQTT 3.1.1 sends no DISCONNECT")
        if packet.reason not in DISCONNECT_OF[sender]:
            raise self._violation(f"a {sender.value} sent DISCONNECT with {packet.reason!s}")
        expiry_s = packet.properties.session_expiry_interval_s
        if expiry_s is not None and sender is Sender.SERVER:
            raise self._violation("a server's DISCONNECT has a session expiry interval")
        if expiry_s and not self.session_expiry_interval_s:
            raise self._violation("DISCONNECT prolongs a session that CONNECT let end with the connection")
        if packet.properties.server_reference is not None and sender is Sender.CLIENT:
            raise self._violation("a client's DISCONNECT has a server reference")


def event_of(packet: Packet) -> Event:
    match packet:
        case Connect():
            return Event.CONNECT_WITH_METHOD if packet.properties.authentication_method is not None else Event.CONNECT
        case ConnAck():
            return Event.CONNACK_REFUSED if packet.reason.is_refusal else Event.CONNACK
        case Auth():
            return _AUTH_EVENTS[packet.reason]
        case Disconnect():
            return Event.DISCONNECT
        case _:
            return Event.WORK
