"""Messages that came by AMQP 0.9.1, as every other door shows them: one test per reader."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from tests.support.amqp091 import TASK, TASK_HEADERS
from tests.support.http_gateway import RunningHttp
from tests.support.mqtt_gateway import EXPLICIT, RunningGateway, consumer, said

from penstock.codecs.mqtt.packets import Publish
from penstock.log.columns import Columns

TOPIC = b"tasks/add"
NATIVE = TASK.stored()


def put(on: RunningGateway | RunningHttp, queue: str, *values: bytes, native: Sequence[bytes] | None = None) -> None:
    """In one batch, as a door for AMQP puts it."""
    columns = Columns.of(values, native=native or [NATIVE] * len(values))

    async def run() -> None:
        await on.broker.publishing.put(on.broker.queue(queue), columns, on.broker.publisher())

    on.wait(run())


def send(on: RunningGateway | RunningHttp, *, retain: bool = False, native: bytes = NATIVE) -> int:
    """By topic."""
    topics = on.topics if isinstance(on, RunningGateway) else on._topics
    columns = Columns.of([b"one"], topics=[TOPIC], native=[native])
    return on.wait(topics.send(columns, qos=1, retain=retain, publisher=on.broker.publisher()))


def assert_shown(message: Publish) -> None:
    properties = message.properties
    assert (properties.content_type, properties.response_topic) == ("application/json", "$queue/answers")
    assert properties.correlation_data == b"c-1"
    pairs = properties.user_properties
    start = pairs.index(TASK_HEADERS[0])
    assert pairs[start:] == TASK_HEADERS


def assert_json(message: dict[str, Any]) -> None:
    assert (message["content_type"], message["reply_to"]) == ("application/json", "$queue/answers")
    assert message["correlation_id"] == "c-1"
    assert [tuple(pair) for pair in message["headers"]] == list(TASK_HEADERS)


def test_a_consumer_by_mqtt_is_shown_them(mqtt: RunningGateway) -> None:
    mqtt.declare()
    client = consumer(mqtt)
    put(mqtt, "q", b"one", b"two", b"plain", native=[NATIVE, NATIVE, b""])
    for payload in (b"one", b"two"):
        message = client.expect_message()
        assert (message.payload, said(message)["queue"]) == (payload, "q")
        assert_shown(message)
    plain = client.expect_message()
    assert (plain.payload, plain.properties.content_type) == (b"plain", None)


def test_a_consumer_by_mqtt_is_shown_them_after_a_restart_and_again(mqtt: RunningGateway) -> None:
    mqtt.declare()
    put(mqtt, "q", b"one", b"two")
    mqtt.restart()
    first = consumer(mqtt, properties=EXPLICIT)
    for _ in range(2):
        assert_shown(first.expect_message())
    first.cut()
    mqtt.left_with(0)
    again = consumer(mqtt, "again", EXPLICIT)
    for _ in range(2):
        message = again.expect_message()
        assert said(message)["delivery-count"] == "2"
        assert_shown(message)


def test_a_subscriber_of_the_topic_is_shown_them(mqtt: RunningGateway) -> None:
    subscriber = mqtt.client("s")
    subscriber.subscribe("tasks/#", qos=1)
    assert send(mqtt) == 1
    assert_shown(subscriber.expect_message())


def test_a_session_that_was_away_is_shown_them(mqtt: RunningGateway) -> None:
    away = mqtt.lasting("away")
    away.subscribe("tasks/#", qos=1)
    away.disconnect()
    mqtt.left_with(0)
    assert send(mqtt) == 1
    assert_shown(mqtt.lasting("away").expect_message())


def test_what_is_retained_shows_them(mqtt: RunningGateway) -> None:
    send(mqtt, retain=True)
    mqtt.restart()
    late = mqtt.client("late")
    late.subscribe("tasks/#", qos=1)
    message = late.expect_message()
    assert message.retain
    assert_shown(message)


def test_a_queue_that_is_bound_to_the_topic_keeps_them_as_they_came(mqtt: RunningGateway) -> None:
    queue = mqtt.declare(topics=["tasks/#"])
    mqtt.client("s").subscribe("tasks/#")
    send(mqtt)

    async def stored() -> list[tuple[bytes | None, bytes | None]]:
        found = await queue.units[0].stored(0)
        assert found is not None
        return [(row.properties, row.native) for row in found.messages([0])]

    assert mqtt.wait(stored()) == [(None, NATIVE)]


def test_receive_and_browse_show_them(http: RunningHttp) -> None:
    http.declare()
    put(http, "q", b"one", b"two")
    received = http.post("/queues/q/receive", {"max": 1}).json["messages"]
    browsed = http.get("/queues/q/messages").json["messages"]
    assert [len(received), len(browsed)] == [1, 2]
    for message in (*received, *browsed):
        assert_json(message)


def test_events_of_a_queue_show_them(http: RunningHttp) -> None:
    http.declare()
    put(http, "q", b"one")
    reader = http.events("/queues/q/events?from=earliest")
    assert_json(reader.take(1)[0].json)


def test_events_of_a_topic_show_them(http: RunningHttp) -> None:
    reader = http.events("/topics/events?filter=tasks/%2B")
    http.until(lambda: http.broker.taps.count == 1)
    send(http)
    assert_json(reader.take(1)[0].json)


def test_the_retained_messages_of_the_api_show_them(http: RunningHttp) -> None:
    send(http, retain=True)
    [message] = http.get("/retained?filter=tasks/%23").json["items"]
    assert_json(message)


@pytest.mark.parametrize("bad", [NATIVE[:-1], b"\x91", b"\x91\xff\xff\xff\xff", b"\x10\0", b"\x01"])
def test_damaged_ones_stop_no_reader(mqtt: RunningGateway, bad: bytes) -> None:
    mqtt.declare()
    put(mqtt, "q", b"bad", b"good", native=[bad, NATIVE])
    client = consumer(mqtt)
    message = client.expect_message()
    assert (message.payload, message.properties.content_type) == (b"bad", None)
    assert_shown(client.expect_message())
