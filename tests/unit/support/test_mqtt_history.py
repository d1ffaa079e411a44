"""The checker of crash tests over MQTT finds what it is there for."""

from __future__ import annotations

import pytest
from tests.support.mqtt_history import Arrival, History, Receiver, Stream
from tests.support.queue_history import BrokenPromise


class Told:
    """A history of one publisher and one receiver in which all went well, for a test to spoil."""

    def __init__(self, qos: int, *, is_queue: bool = False) -> None:
        self.history, self.stream = History(), Stream("p", "t", qos)
        self.receiver: Receiver = self.history.receiver("r", "t", is_queue=is_queue)

    def sent(self, *numbers: int, acknowledged: bool = True) -> None:
        for number in numbers:
            message_id = self.history.sending(self.stream, number)
            if acknowledged:
                self.history.acknowledged(message_id)

    def came(self, *numbers: int, connection: int = 1, place: str = "") -> None:
        for number in numbers:
            arrival = Arrival(self.stream.message_id(number), connection, self.stream.qos, False, place)
            self.history.arrived(self.receiver, arrival)

    def check(self) -> None:
        self.history.check()


def test_what_was_acknowledged_and_never_came_is_found() -> None:
    told = Told(1)
    told.sent(0, 1)
    told.sent(2, acknowledged=False)
    told.came(0, 1)
    told.check()
    told.sent(3)
    with pytest.raises(BrokenPromise, match="never got 1 acknowledged"):
        told.check()


def test_qos_2_twice_is_found_over_any_connection() -> None:
    told = Told(2)
    told.sent(0)
    told.came(0)
    told.check()
    told.came(0, connection=2)
    with pytest.raises(BrokenPromise, match="with QoS 2"):
        told.check()


def test_qos_1_twice_needs_a_reason() -> None:
    told = Told(1)
    told.sent(0, 1)
    told.came(0, 1)
    told.came(1, connection=2)
    told.check()
    told.came(0, connection=1)
    with pytest.raises(BrokenPromise, match="no connection ended"):
        told.check()
    told.history.sending_again(told.stream.message_id(0))
    told.check()


def test_messages_out_of_order_are_found_unless_they_come_again() -> None:
    told = Told(1)
    told.sent(0, 1, 2)
    told.came(0, 1)
    told.came(0, 1, 2, connection=2)
    told.check()
    told.sent(3, 4)
    told.came(4, 3)
    with pytest.raises(BrokenPromise, match="after number 4"):
        told.check()


def test_a_message_that_nobody_sent_is_found() -> None:
    with pytest.raises(BrokenPromise, match="nobody sent"):
        Told(1).came(0)


def test_what_comes_after_it_was_settled_is_found() -> None:
    told = Told(1, is_queue=True)
    told.sent(0)
    told.came(0, place="q/0/0")
    told.history.settled(told.receiver, "q/0/0")
    told.check()
    told.came(0, connection=2, place="q/0/0")
    with pytest.raises(BrokenPromise, match="after it was settled"):
        told.check()


def test_a_message_that_is_in_a_queue_twice_is_found() -> None:
    told = Told(2, is_queue=True)
    told.sent(0)
    told.came(0, place="q/0/0")
    told.came(0, connection=2, place="q/0/1")
    with pytest.raises(BrokenPromise, match="in the queue more than once"):
        told.check()
