from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.codecs.amqp091.errors import AmqpError, Fault
from penstock.codecs.amqp091.kinds import Sender
from penstock.codecs.amqp091.methods import (
    METHODS,
    BasicAck,
    BasicConsumeOk,
    BasicDeliver,
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ChannelOpenOk,
    ConnectionBlocked,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionSecure,
    ConnectionSecureOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    ConnectionUpdateSecret,
    ConnectionUpdateSecretOk,
    Method,
    QueueDeclare,
)
from penstock.codecs.amqp091.state import ChannelState, Connection, Handling, State

C, S = Sender.CLIENT, Sender.SERVER
HANDSHAKE = [
    (S, ConnectionStart()),
    (C, ConnectionStartOk()),
    (S, ConnectionSecure()),
    (C, ConnectionSecureOk()),
    (S, ConnectionTune()),
    (C, ConnectionTuneOk()),
    (C, ConnectionOpen()),
    (S, ConnectionOpenOk()),
]

# The server may do without asking, or ask again.
ALSO = {2: ConnectionTune, 4: ConnectionSecure}


def running(channel_max: int = 0, channels: int = 0) -> Connection:
    connection = Connection(channel_max=channel_max)
    for sender, method in HANDSHAKE:
        assert connection.take(sender, 0, method) is Handling.TAKE
    for number in range(1, channels + 1):
        connection.take(C, number, ChannelOpen())
        connection.take(S, number, ChannelOpenOk())
    return connection


def fault(connection: Connection, sender: Sender, channel: int, method: Method) -> Fault:
    before = (connection.state, connection.channels)
    with pytest.raises(AmqpError) as refused:
        connection.take(sender, channel, method)
    assert (connection.state, connection.channels) == before
    assert refused.value.is_hard
    assert (refused.value.class_id, refused.value.method_id) == (method.class_id, method.method_id)
    return refused.value.fault


def test_a_connection_opens_in_the_order_of_the_handshake_alone() -> None:
    connection = Connection()
    for done, (sender, method) in enumerate(HANDSHAKE):
        for other, wrong in HANDSHAKE[:done] + HANDSHAKE[done + 1 :]:
            if type(wrong) is not type(method) and type(wrong) is not ALSO.get(done):
                assert fault(connection, other, 0, wrong) is Fault.WRONG_STATE
        assert fault(connection, C, 1, ChannelOpen()) is Fault.WRONG_STATE
        connection.take(sender, 0, method)
    assert connection.is_running


def test_the_state_is_told_in_rabbitmqs_words() -> None:
    connection = Connection()
    connection.take(S, 0, ConnectionStart())
    with pytest.raises(AmqpError, match="CHANNEL_ERROR - unexpected method in connection state starting"):
        connection.take(C, 0, ConnectionOpen())
    with pytest.raises(AmqpError, match="CHANNEL_ERROR - unexpected method in connection state running"):
        running().take(C, 0, BasicAck())


def test_channels_open_and_close_from_either_side() -> None:
    connection = running()
    assert connection.take(C, 7, ChannelOpen()) is Handling.TAKE
    assert fault(connection, C, 7, QueueDeclare()) is Fault.NOT_OPEN
    connection.take(S, 7, ChannelOpenOk())
    assert connection.take(C, 7, QueueDeclare()) is Handling.TAKE
    assert fault(connection, C, 7, ChannelOpen()) is Fault.SECOND_OPEN
    connection.take(C, 7, ChannelClose())
    assert connection.channel(7) is ChannelState.LEAVING
    connection.take(S, 7, ChannelCloseOk())
    assert (connection.channel(7), connection.channels) == (ChannelState.NONE, 0)
    assert fault(connection, C, 7, QueueDeclare()) is Fault.NOT_OPEN
    assert connection.take(C, 7, ChannelOpen()) is Handling.TAKE


def test_what_comes_on_a_channel_after_the_server_has_closed_it_is_ignored_up_to_close_ok() -> None:
    connection = running(channels=2)
    connection.take(S, 1, ChannelClose())
    for method in (QueueDeclare(), BasicAck(), ChannelOpen()):
        assert connection.take(C, 1, method) is Handling.IGNORE
    assert connection.of_channel(1) is Handling.IGNORE
    assert connection.of_channel(2) is Handling.TAKE
    assert connection.take(C, 1, ChannelClose()) is Handling.ANSWER
    assert connection.take(S, 1, ChannelCloseOk()) is Handling.TAKE
    assert connection.take(C, 1, ChannelCloseOk()) is Handling.TAKE
    assert connection.channel(1) is ChannelState.NONE


def test_what_comes_after_the_server_has_closed_the_connection_is_ignored_up_to_close_ok() -> None:
    connection = running(channels=1)
    connection.take(S, 0, ConnectionClose())
    for channel, method in ((1, QueueDeclare()), (2, ChannelOpen()), (0, ConnectionTuneOk()), (1, ConnectionOpen())):
        assert connection.take(C, channel, method) is Handling.IGNORE
    assert connection.of_channel(1) is connection.of_channel(9) is Handling.IGNORE
    assert connection.take(C, 0, ConnectionClose()) is Handling.ANSWER
    connection.take(C, 0, ConnectionCloseOk())
    assert connection.state is State.CLOSED
    assert connection.take(C, 0, ConnectionOpen()) is Handling.IGNORE


@pytest.mark.parametrize("done", range(2, len(HANDSHAKE) + 1))
def test_either_side_may_close_while_it_opens(done: int) -> None:
    for sender, other in ((C, S), (S, C)):
        connection = Connection()
        for who, method in HANDSHAKE[:done]:
            connection.take(who, 0, method)
        assert connection.take(sender, 0, ConnectionClose()) is Handling.TAKE
        connection.take(other, 0, ConnectionCloseOk())
        assert connection.state is State.CLOSED


def test_methods_of_the_other_side_and_of_another_channel_are_refused() -> None:
    connection = running(channels=1)
    for method in (BasicDeliver(), BasicConsumeOk(), ConnectionBlocked()):
        assert fault(connection, C, 1, method) is Fault.UNIMPLEMENTED
    assert fault(connection, S, 1, QueueDeclare()) is Fault.UNIMPLEMENTED
    assert fault(connection, C, 1, ConnectionClose()) is Fault.UNIMPLEMENTED
    assert fault(connection, C, 0, QueueDeclare()) is Fault.WRONG_STATE
    assert fault(connection, C, 1, ChannelCloseOk()) is Fault.UNIMPLEMENTED
    for channel in (0, 5):
        with pytest.raises(AmqpError):
            connection.of_channel(channel)


def test_no_more_channels_are_open_than_was_negotiated() -> None:
    connection = running(channel_max=2, channels=2)
    with pytest.raises(AmqpError) as refused:
        connection.take(C, 3, ChannelOpen())
    assert refused.value.reply_text == (
        "NOT_ALLOWED - number of channels opened (2) has reached the negotiated channel_max (2)"
    )
    connection.take(C, 1, ChannelClose())
    connection.take(S, 1, ChannelCloseOk())
    assert connection.take(C, 3, ChannelOpen()) is Handling.TAKE


def test_a_new_secret_is_looked_at_while_work_goes_on() -> None:
    connection = running(channels=1)
    connection.take(C, 0, ConnectionUpdateSecret(b"token", "renewed"))
    assert connection.take(C, 1, QueueDeclare()) is Handling.TAKE
    assert fault(connection, C, 0, ConnectionUpdateSecret()) is Fault.WRONG_STATE
    connection.take(S, 0, ConnectionUpdateSecretOk())
    assert connection.state is State.RUNNING


@given(
    steps=st.lists(
        st.tuples(st.sampled_from([C, S]), st.integers(0, 2), st.sampled_from(list(METHODS.values()))), max_size=40
    ),
    is_open=st.booleans(),
)
@settings(max_examples=200, deadline=None)
def test_whatever_comes_is_handled_or_refused_and_a_refusal_changes_nothing(
    steps: list[tuple[Sender, int, type[Method]]], is_open: bool
) -> None:
    connection = running(channels=1) if is_open else Connection()
    for sender, channel, kind in steps:
        before = (connection.state, [connection.channel(number) for number in range(3)])
        try:
            handling = connection.take(sender, channel, kind())
        except AmqpError:
            handling = Handling.IGNORE
        after = (connection.state, [connection.channel(number) for number in range(3)])
        assert handling is Handling.TAKE or before == after
    connection.close()
    assert (connection.state, connection.channels) == (State.CLOSED, 0)
