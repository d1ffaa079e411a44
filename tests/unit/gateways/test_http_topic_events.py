"""Server-sent events of topics."""

from __future__ import annotations

from pathlib import Path

from tests.support.event_reader import EventReader
from tests.support.http_gateway import HttpSetup, RunningHttp, running_http
from tests.support.mqtt_gateway import RunningGateway

from penstock.broker.auth.options import AuthOptions
from penstock.broker.auth.rules import Action, Effect, Rule
from penstock.core.clock import SystemClock
from penstock.gateways.http.events.topic_feed import TopicFeed
from penstock.log.columns import Columns
from penstock.queues.properties import Envelope, pack


def publish(http: RunningHttp, *messages: tuple[bytes, bytes]) -> None:
    """As a gateway tells of what is published."""
    topics = list(dict.fromkeys(topic for topic, _ in messages))
    columns = Columns.of(
        [value for _, value in messages],
        topics=[topic for topic, _ in messages],
        properties=[pack(Envelope((("unit", "C"),), "text/plain")) for _ in messages],
    )
    http.call(lambda: http.broker.taps.push("default", columns, topics))


def opened(http: RunningHttp, topic_filter: str, receive_buffer_bytes: int | None = None) -> EventReader:
    reader = http.events(f"/topics/events?filter={topic_filter}", None, receive_buffer_bytes)
    http.until(lambda: http.broker.taps.count == 1)
    return reader


def test_what_is_published_to_matching_topics_is_told(http: RunningHttp) -> None:
    reader = opened(http, "a/%2B")
    publish(http, (b"a/b", b"1"), (b"other", b"2"), (b"a/c", b"\xff"))
    first, second = [event.json for event in reader.take(2)]
    assert (first["topic"], first["text"], first["headers"], first["content_type"]) == (
        "a/b",
        "1",
        [["unit", "C"]],
        "text/plain",
    )
    assert (second["topic"], second["base64"]) == ("a/c", "/w==")
    assert not reader.last_id


def test_clients_of_one_filter_share_a_tap_that_goes_with_the_last(http: RunningHttp) -> None:
    readers = [opened(http, "a") for _ in range(5)]
    http.until(lambda: http.gateway.app.state.streams.count == 5)
    publish(http, (b"a", b"1"))
    assert [reader.take(1)[0].json["text"] for reader in readers] == ["1"] * 5
    for reader in readers:
        reader.close()
    http.until(lambda: http.broker.taps.count == 0)


def test_who_does_not_read_loses_messages_and_is_told_how_many(http: RunningHttp) -> None:
    reader = opened(http, "a", receive_buffer_bytes=4096)
    [stream] = http.gateway.app.state.streams._open
    sent = 0
    while sent < 1000 or not http.call(lambda: stream.is_full):
        publish(http, (b"a", b"x" * 20_000))
        sent += 1
    for _ in range(50):
        publish(http, (b"a", b"x" * 20_000))
        sent += 1
    assert http.call(lambda: stream.outlet.waiting_bytes) <= 64 << 10
    came = lost = 0
    while came + lost < sent:
        [event] = reader.take(1)
        came, lost = (came, lost + event.json["count"]) if event.kind == "lost" else (came + 1, lost)
    assert lost >= 50
    publish(http, (b"a", b"after"))
    assert reader.take(1)[0].json["text"] == "after"


def test_a_flood_is_counted_and_not_kept(http: RunningHttp) -> None:
    reader = opened(http, "a")
    columns = Columns.of([b"x" * 1000] * 5000, topics=[b"a"] * 5000)
    http.call(lambda: http.broker.taps.push("default", columns, [b"a"]))
    came, lost = 0, 0
    while came + lost < 5000:
        [event] = reader.take(1)
        came, lost = (came, lost + event.json["count"]) if event.kind == "lost" else (came + 1, lost)
    assert 200 < came < 300


def test_messages_of_mqtt_clients_carry_topic_and_value(mqtt: RunningGateway) -> None:
    feed = TopicFeed(mqtt.broker.taps, SystemClock(), "default", "a/#", False)
    mqtt.call(lambda: mqtt.broker.taps.tap("default", "a/#", feed._take))
    client = mqtt.client()
    for qos in range(3):
        client.publish(f"a/{qos}", b"%d" % qos, qos)
    mqtt.until(lambda: len(feed._waiting) == 3)
    assert [(topic, f'"text":"{number}"'.encode() in data) for number, (topic, data) in enumerate(feed._waiting)] == [
        (b"a/0", True),
        (b"a/1", True),
        (b"a/2", True),
    ]


def test_what_is_not_allowed_is_not_followed_and_a_right_that_goes_ends_the_stream(tmp_path: Path) -> None:
    setup = HttpSetup(auth=AuthOptions(), heartbeat_s=0.02)
    with running_http(tmp_path, setup) as http:
        users = http.access.users
        http.wait(users.add("eve", b"password-of-eve"))
        rule = Rule(Effect.ALLOW, Action.SUBSCRIBE, "a/#", user="eve")
        http.wait(users.add_rule(rule))
        login = {"Authorization": "Basic ZXZlOnBhc3N3b3JkLW9mLWV2ZQ=="}
        assert http.get("/topics/events?filter=b", login).status == 403
        assert http.get("/topics/events?filter=a").status == 401
        reader = http.events("/topics/events?filter=a/b", login)
        publish_until_heard(http, reader)
        http.wait(users.remove_rule(rule))
        while (event := reader.next()) is not None and event.kind != "end":
            pass
        assert event is not None
        assert reader.next() is None


def publish_until_heard(http: RunningHttp, reader: EventReader) -> None:
    http.until(lambda: http.broker.taps.count == 1)
    publish(http, (b"a/b", b"1"))
    assert reader.take(1)[0].json["text"] == "1"


def test_what_is_no_filter_of_topics_is_refused(http: RunningHttp) -> None:
    for topic_filter in ("a%23", "", "$queue/orders", "$share/g/a"):
        assert (topic_filter, http.get(f"/topics/events?filter={topic_filter}").status) == (topic_filter, 400)
    assert http.get("/topics/events").status == 400
