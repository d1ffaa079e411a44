"""Order over HTTP: a key in flight at one receiver is given to no other."""

from __future__ import annotations

from threading import Thread
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.http_client import HttpClient
from tests.support.http_server import RunningServer
from tests.support.mqtt_gateway import user

from penstock.codecs.mqtt.packets import Publish

Message = dict[str, Any]


def texts(messages: list[Message]) -> list[str]:
    return [message["text"] for message in messages]


def ack(http: HttpClient, *messages: Message) -> None:
    answer = http.post("messages/ack", {"receipts": [message["receipt"] for message in messages]})
    assert answer.status == 200, answer.json


def test_two_receivers_never_have_messages_of_one_key_at_once(server: RunningServer, http: HttpClient) -> None:
    server.declare("q", partitions=1)
    http.publish("q", "a1", "a2", key="a")
    http.publish("q", "b1", key="b")
    first, second = http.receive("q", max=1), server.http().receive("q")
    assert (texts(first), texts(second)) == (["a1"], ["b1"])
    assert http.receive("q") == []
    ack(http, *first)
    assert texts(http.receive("q")) == ["a2"]


def test_a_strict_queue_is_at_one_receiver_at_a_time(server: RunningServer, http: HttpClient) -> None:
    server.declare("q", ordering="strict")
    http.publish("q", *map(str, range(5)))
    first = http.receive("q", max=2)
    assert texts(first) == ["0", "1"]
    assert server.http().receive("q") == []
    ack(http, first[0])
    assert server.http().receive("q") == []
    ack(http, first[1])
    assert texts(server.http().receive("q", max=2)) == ["2", "3"]


def test_a_receiver_that_waits_gets_the_next_when_the_one_before_is_settled(
    server: RunningServer, http: HttpClient
) -> None:
    server.declare("q", ordering="strict")
    http.publish("q", "1", "2")
    [first] = http.receive("q", max=1)
    found: list[Message] = []
    waiting = Thread(target=lambda: found.extend(server.http().receive("q", wait="20s")))
    waiting.start()
    group = next(iter(server.broker.queue("q").groups.values()))
    server.until(lambda: group.is_active)
    ack(http, first)
    waiting.join(30)
    assert texts(found) == ["2"]


def test_receivers_of_a_strict_queue_do_not_take_its_backlog_into_memory(
    server: RunningServer, http: HttpClient
) -> None:
    server.declare("q", ordering="strict")
    http.publish("q", *map(str, range(500)))
    http.receive("q", max=1)
    for _ in range(3):
        assert http.receive("q") == []
    group = next(iter(server.broker.queue("q").groups.values()))
    assert server.call(lambda: group.cursor(group.queue.units[0]).window.pending) == 2


def test_who_says_who_it_is_gets_more_of_the_keys_it_has(server: RunningServer, http: HttpClient) -> None:
    server.declare("q", ordering="strict")
    http.publish("q", "1", "2", "3")
    [first] = http.receive("q", max=1, consumer="me")
    [second] = http.receive("q", max=1, consumer="me")
    assert texts([first, second]) == ["1", "2"]
    assert http.receive("q", max=1, consumer="another") == []
    ack(http, first, second)
    assert texts(http.receive("q", consumer="another")) == ["3"]


def test_what_is_claimed_belongs_to_who_claimed_it(server: RunningServer, http: HttpClient) -> None:
    server.declare("q", ordering="strict")
    http.publish("q", "1", "2")
    client = server.consumer("q", user(consumer_group="default", prefetch="1"))
    assert client.expect(Publish).payload == b"1"
    answer = http.post("queues/q/claim", {"idle": 0})
    assert texts(answer.json["messages"]) == ["1"]
    client.cut()
    assert http.receive("q") == []
    ack(http, *answer.json["messages"])
    assert texts(http.receive("q", wait="20s")) == ["2"]


def test_a_name_that_is_too_long_is_refused(server: RunningServer, http: HttpClient) -> None:
    server.declare("q")
    assert http.post("queues/q/receive", {"consumer": "x" * 300}).status == 400


class Walk:
    """What receivers do, against what queues promise: messages are numbered in the order they were published."""

    def __init__(self, server: RunningServer, is_strict: bool) -> None:
        self._http = server.http()
        ordering = {"ordering": "strict"} if is_strict else {"partitions": 1}
        server.declare("q", retry_policy={"initial_backoff": 0, "max_retries": 50}, **ordering)
        self._is_strict, self._published = is_strict, 0
        self.held: list[tuple[int, Message]] = []
        """number of the request and message, of all that is in flight"""
        self._requests = 0
        self._settled: set[int] = set()

    def _key(self, message: Message) -> str:
        return "" if self._is_strict else message["key"]

    def publish(self, key: int) -> None:
        self._http.publish("q", str(self._published), key=f"k{key}")
        self._published += 1

    def receive(self, most: int) -> None:
        self._requests += 1
        found = self._http.receive("q", max=most, visibility="1h")
        self.held += [(self._requests, message) for message in found]
        for message in found:
            holders = {request for request, held in self.held if self._key(held) == self._key(message)}
            assert holders == {self._requests}, "a key is in flight twice"
        for key in {self._key(message) for message in found}:
            numbers = [int(message["text"]) for message in found if self._key(message) == key]
            assert numbers == sorted(numbers)

    def settle(self, which: int, verb: str) -> None:
        if not self.held:
            return
        _, message = self.held.pop(which % len(self.held))
        body = {"receipts": [message["receipt"]]} | ({"delay": 0} if verb == "nack" else {})
        answer = self._http.post(f"messages/{verb}", body)
        if verb == "nack":
            # Later ones of its key were taken back.
            number = int(message["text"])
            self.held = [
                (request, held)
                for request, held in self.held
                if self._key(held) != self._key(message) or int(held["text"]) < number
            ]
        else:
            assert answer.status == 200, answer.json
            self._settled.add(int(message["text"]))

    def finish(self) -> None:
        """Nothing is stuck."""
        while self.held:
            self.settle(0, "ack")
        while len(self._settled) < self._published:
            found = self._http.receive("q", max=100, wait="20s")
            assert found, sorted(set(range(self._published)) - self._settled)
            ack(self._http, *found)
            self._settled |= {int(message["text"]) for message in found}
        assert self._http.receive("q") == []


steps = st.lists(
    st.one_of(
        st.tuples(st.just("publish"), st.integers(0, 2), st.just("")),
        st.tuples(st.just("receive"), st.integers(1, 4), st.just("")),
        st.tuples(st.just("settle"), st.integers(0, 9), st.sampled_from(["ack", "ack", "nack"])),
    ),
    max_size=40,
)


@pytest.mark.parametrize("is_strict", [False, True])
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=steps)
def test_whatever_receivers_do_a_key_is_at_one_of_them(
    server: RunningServer, is_strict: bool, steps: list[tuple[str, int, str]]
) -> None:
    server.forget()
    walk = Walk(server, is_strict)
    for verb, number, how in steps:
        if verb == "publish":
            walk.publish(number)
        elif verb == "receive":
            walk.receive(number)
        else:
            walk.settle(number, how)
    walk.finish()
