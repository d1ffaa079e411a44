"""In which order methods may come on a connection and on its channels, as tables, seen from either end."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.codecs.amqp091.errors import AmqpError, Fault
from penstock.codecs.amqp091.kinds import Sender
from penstock.codecs.amqp091.methods import Method

_CONNECTION_CLASS = 10


class State(enum.Enum):
    """Of a connection; the values are the words in which RabbitMQ tells them."""

    NEW = "new"
    """the client has sent the protocol header"""
    STARTING = "starting"
    LOGGING_IN = "logging_in"
    """the server's turn: it asks on, accepts or refuses"""
    SECURING = "securing"
    TUNING = "tuning"
    TUNED = "tuned"
    OPENING = "opening"
    RUNNING = "running"
    UPDATING = "updating"
    """running, and the server looks at a new secret"""
    CLOSING = "closing"
    """the server has said connection.close"""
    LEAVING = "leaving"
    """the client has said it"""
    CLOSED = "closed"


class ChannelState(enum.Enum):
    NONE = "none"
    OPENING = "opening"
    OPEN = "open"
    CLOSING = "closing"
    """the server has said channel.close: what comes before close-ok was sent before the client knew"""
    LEAVING = "leaving"


class Handling(enum.Enum):
    TAKE = "take"
    ANSWER = "answer"
    """it is a close while the other side closes too: say close-ok, nothing else changes"""
    IGNORE = "ignore"


_C, _S = Sender.CLIENT, Sender.SERVER
# Methods of channel 0. What is not here is WRONG_STATE.
CONNECTION_ORDER: Mapping[tuple[State, Sender, str], State | Handling] = {
    (State.NEW, _S, "connection.start"): State.STARTING,
    (State.STARTING, _C, "connection.start-ok"): State.LOGGING_IN,
    (State.LOGGING_IN, _S, "connection.secure"): State.SECURING,
    (State.SECURING, _C, "connection.secure-ok"): State.LOGGING_IN,
    (State.LOGGING_IN, _S, "connection.tune"): State.TUNING,
    (State.TUNING, _C, "connection.tune-ok"): State.TUNED,
    (State.TUNED, _C, "connection.open"): State.OPENING,
    (State.OPENING, _S, "connection.open-ok"): State.RUNNING,
    (State.RUNNING, _S, "connection.blocked"): State.RUNNING,
    (State.RUNNING, _S, "connection.unblocked"): State.RUNNING,
    (State.RUNNING, _C, "connection.update-secret"): State.UPDATING,
    (State.UPDATING, _S, "connection.update-secret-ok"): State.RUNNING,
    (State.UPDATING, _S, "connection.blocked"): State.UPDATING,
    (State.UPDATING, _S, "connection.unblocked"): State.UPDATING,
    (State.CLOSING, _C, "connection.close-ok"): State.CLOSED,
    (State.CLOSING, _C, "connection.close"): Handling.ANSWER,
    (State.CLOSING, _S, "connection.close-ok"): State.CLOSING,
    (State.LEAVING, _S, "connection.close-ok"): State.CLOSED,
    (State.LEAVING, _S, "connection.close"): Handling.ANSWER,
    (State.LEAVING, _C, "connection.close-ok"): State.LEAVING,
    **{(state, _C, "connection.close"): State.LEAVING for state in (State.RUNNING, State.UPDATING)},
    **{
        (state, _S, "connection.close"): State.CLOSING
        for state in State
        if state not in (State.NEW, State.CLOSING, State.LEAVING, State.CLOSED)
    },
    # A client may leave before it is let in: RabbitMQ's own clients do when they cannot go on.
    **{
        (state, _C, "connection.close"): State.LEAVING
        for state in (State.STARTING, State.LOGGING_IN, State.SECURING, State.TUNING, State.TUNED, State.OPENING)
    },
}

CHANNEL_ORDER: Mapping[tuple[ChannelState, Sender, str], ChannelState | Handling] = {
    (ChannelState.NONE, _C, "channel.open"): ChannelState.OPENING,
    (ChannelState.OPENING, _S, "channel.open-ok"): ChannelState.OPEN,
    (ChannelState.OPENING, _S, "channel.close"): ChannelState.CLOSING,
    (ChannelState.OPEN, _C, "channel.close"): ChannelState.LEAVING,
    (ChannelState.OPEN, _S, "channel.close"): ChannelState.CLOSING,
    (ChannelState.LEAVING, _S, "channel.close-ok"): ChannelState.NONE,
    (ChannelState.LEAVING, _S, "channel.close"): Handling.ANSWER,
    (ChannelState.CLOSING, _C, "channel.close-ok"): ChannelState.NONE,
    (ChannelState.CLOSING, _C, "channel.close"): Handling.ANSWER,
    (ChannelState.CLOSING, _S, "channel.close-ok"): ChannelState.CLOSING,
    (ChannelState.LEAVING, _C, "channel.close-ok"): ChannelState.LEAVING,
}
_RUNNING = frozenset({State.RUNNING, State.UPDATING})
_ENDED = frozenset({State.CLOSING, State.LEAVING, State.CLOSED})


@dataclass(slots=True)
class Connection:
    """Where a connection and its channels stand. Give it every method of both sides before it is acted on or sent, but
    those that the kernels scan and encode: these change nothing, and `of_channel` says what becomes of them.
    `channel_max` is what was negotiated, 0 for no limit."""

    state: State = State.NEW
    channel_max: int = 0
    _channels: dict[int, ChannelState] = field(default_factory=dict)

    @property
    def is_running(self) -> bool:
        return self.state in _RUNNING

    @property
    def channels(self) -> int:
        return len(self._channels)

    def channel(self, number: int) -> ChannelState:
        return self._channels.get(number, ChannelState.NONE)

    def take(self, sender: Sender, channel: int, method: Method) -> Handling:
        """AmqpError, and nothing changed, if the method must not come now, there, or from this side."""
        number = method.class_id, method.method_id
        if sender not in method.senders and self.state not in _ENDED:
            raise AmqpError(Fault.UNIMPLEMENTED, channel, number)
        if channel == 0:
            return self._take(sender, method)
        if self.state in _ENDED:
            return Handling.IGNORE
        if method.class_id == _CONNECTION_CLASS:
            raise AmqpError(Fault.UNIMPLEMENTED, 0, number)
        if not self.is_running:
            raise AmqpError(Fault.WRONG_STATE, 0, number, state=self.state.value)
        return self._take_on_channel(sender, channel, method)

    def of_channel(self, channel: int, number: tuple[int, int] = (0, 0)) -> Handling:
        """What becomes of a client's frame on this channel that opens and closes nothing: a publish, a settlement, a
        part of a content. AmqpError if the channel is not open."""
        if self.state in _ENDED:
            return Handling.IGNORE
        state = self.channel(channel)
        if state is ChannelState.OPEN:
            return Handling.TAKE
        if state is ChannelState.CLOSING:
            return Handling.IGNORE
        if channel == 0 or not self.is_running:
            raise AmqpError(Fault.WRONG_STATE, 0, number, state=self.state.value)
        raise AmqpError(Fault.NOT_OPEN, 0, number)

    def close(self) -> None:
        """The socket is gone."""
        self.state = State.CLOSED
        self._channels.clear()

    def _take(self, sender: Sender, method: Method) -> Handling:
        following = CONNECTION_ORDER.get((self.state, sender, method.name))
        if following is None:
            if self.state in _ENDED:
                return Handling.IGNORE
            raise AmqpError(Fault.WRONG_STATE, 0, (method.class_id, method.method_id), state=self.state.value)
        if isinstance(following, Handling):
            return following
        self.state = following
        return Handling.TAKE

    def _take_on_channel(self, sender: Sender, channel: int, method: Method) -> Handling:
        state = self.channel(channel)
        following = CHANNEL_ORDER.get((state, sender, method.name))
        if following is None:
            return self._take_work(sender, channel, state, method)
        if isinstance(following, Handling):
            return following
        if state is ChannelState.NONE and self.channel_max and self.channels >= self.channel_max:
            raise AmqpError(Fault.TOO_MANY_CHANNELS, count=self.channels, limit=self.channel_max)
        self._move(channel, following)
        return Handling.TAKE

    def _take_work(self, sender: Sender, channel: int, state: ChannelState, method: Method) -> Handling:
        if state is ChannelState.CLOSING and sender is Sender.CLIENT:
            return Handling.IGNORE
        if state is ChannelState.LEAVING and sender is Sender.SERVER:
            return Handling.IGNORE
        number = method.class_id, method.method_id
        if method.name == "channel.open":
            raise AmqpError(Fault.SECOND_OPEN, 0, number)
        if state is not ChannelState.OPEN:
            raise AmqpError(Fault.NOT_OPEN, 0, number)
        if method.name in ("channel.open-ok", "channel.close-ok"):
            raise AmqpError(Fault.UNIMPLEMENTED, 0, number)
        return Handling.TAKE

    def _move(self, channel: int, state: ChannelState) -> None:
        if state is ChannelState.NONE:
            del self._channels[channel]
        else:
            self._channels[channel] = state
