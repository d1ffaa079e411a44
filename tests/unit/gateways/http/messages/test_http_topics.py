"""Topics and clients over HTTP: what is published reaches every protocol, and who is connected can be seen."""

from __future__ import annotations

import threading

import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion
from tests.support.http_client import HttpClient
from tests.support.http_server import RunningServer


def test_a_message_reaches_subscribers_and_bound_queues(server: RunningServer, http: HttpClient) -> None:
    server.declare("orders", topics=["orders/#"])
    subscriber = server.mqtt("s")
    subscriber.subscribe("orders/+", qos=1)
    answer = http.post("topics/orders%2Fnew/messages", {"text": "17", "headers": {"a": "b"}})
    assert (answer.status, answer.json) == (200, {"accepted": 1, "matched": 1})
    message = subscriber.expect_message()
    assert (message.topic, message.payload) == ("orders/new", b"17")
    assert ("a", "b") in message.properties.user_properties
    [stored] = http.receive("orders", wait="20s")
    assert (stored["text"], stored["topic"], stored["headers"]) == ("17", "orders/new", [["a", "b"]])


def test_each_message_of_a_request_may_have_its_topic(server: RunningServer, http: HttpClient) -> None:
    subscriber = server.mqtt("s")
    subscriber.subscribe("a/#", qos=2)
    messages = [{"topic": f"a/{n}", "text": str(n), "qos": n % 3} for n in range(6)]
    assert http.post("publish", {"messages": messages}).json == {"accepted": 6, "matched": 6}
    subscriber.expect_payloads([b"%d" % n for n in range(6)])
    assert http.post("publish", {"topic": "nobody", "text": "x"}).json == {"accepted": 1, "matched": 0}


def test_a_raw_body_is_one_message(server: RunningServer, http: HttpClient) -> None:
    subscriber = server.mqtt("s")
    subscriber.subscribe("raw", qos=1)
    assert http.post("topics/raw/messages", b"\xff\x00", content_type="image/png").status == 200
    message = subscriber.expect_message()
    assert (message.payload, message.properties.content_type) == (b"\xff\x00", "image/png")


@pytest.mark.parametrize(
    "body",
    [
        {"text": "x"},
        {"topic": "", "text": "x"},
        {"topic": "a/#", "text": "x"},
        {"topic": "a\0", "text": "x"},
        {"topic": "t" * 70_000, "text": "x"},
        {"topic": "$SYS/x", "text": "x"},
        {"topic": "a", "text": "x", "qos": 3},
        {"topic": "a", "text": "x", "partition": 0},
        {"topic": "a"},
        {"messages": []},
        {"messages": [{"topic": "a", "text": "x"}], "topic": "b"},
    ],
)
def test_what_cannot_be_published_is_refused(http: HttpClient, body: dict[str, object]) -> None:
    assert http.post("publish", body).status == 400


def test_the_topic_of_the_path_is_not_said_again(http: HttpClient) -> None:
    for body in ({"text": "x", "topic": "b"}, {"messages": [{"text": "x", "topic": "b"}]}):
        assert "leave it out" in http.post("topics/a/messages", body).json["detail"]


@pytest.mark.parametrize("topic_filter", ["", "a%23", "a/%23/b", "%00"])
def test_a_broken_filter_of_retained_messages_is_refused(http: HttpClient, topic_filter: str) -> None:
    assert http.get(f"retained?filter={topic_filter}").status == 400


def test_retained_messages_are_listed_and_removed(server: RunningServer, http: HttpClient) -> None:
    for topic in ("state/door", "state/window", "other"):
        http.post("publish", {"topic": topic, "text": "open", "retain": True})
    told = http.get("retained?filter=state/%23").json
    assert {(item["topic"], item["text"]) for item in told["items"]} == {
        ("state/door", "open"),
        ("state/window", "open"),
    }
    assert "key" not in told["items"][0]
    assert http.delete("retained/state%2Fdoor").status == 204
    assert http.delete("retained/state%2Fdoor").code == "not-found"
    late = server.mqtt("late")
    late.subscribe("state/#", qos=1)
    assert late.expect_message().topic == "state/window"
    for topic in ("state%2Fwindow", "other"):
        http.delete(f"retained/{topic}")
    assert http.get("retained").json["items"] == []
    assert http.get("retained?filter=a%23").code == "invalid-argument"


def test_clients_and_subscriptions_are_seen(server: RunningServer, http: HttpClient) -> None:
    for name in ("one", "two"):
        server.mqtt(name).subscribe("a/b", qos=1)
    assert [client["client_id"] for client in http.get("clients?connected=true").json["items"]] == ["one", "two"]
    page = http.get("clients?limit=1").json
    assert len(page["items"]) == 1
    assert http.get(f"clients?limit=1&cursor={page['next']}").json["items"][0]["client_id"] == "two"
    assert http.get("clients/one").json["subscriptions"] == 1
    assert http.get("clients/three").code == "not-found"
    assert [each["client_id"] for each in http.get("subscriptions").json["items"]] == ["one", "two"]
    assert http.get("topics").json["items"] == [{"name": "a/b", "subscribers": 2, "groups": []}]
    assert http.get("topics/a%2Fb").json["subscribers"] == 2
    assert http.get("topics/none").code == "not-found"


def test_a_real_client_is_sent_away(server: RunningServer, http: HttpClient) -> None:
    ended = threading.Event()
    client = paho.Client(CallbackAPIVersion.VERSION2, "paho", protocol=paho.MQTTv5, reconnect_on_failure=False)
    client.on_disconnect = lambda *_: ended.set()
    client.connect(*server.server.addresses["mqtt"])
    client.loop_start()
    server.until(lambda: server.works.ports.clients.client("default", "paho") is not None)
    assert http.delete("clients/paho").status == 204
    assert ended.wait(20)
    client.loop_stop()
    assert http.delete("clients/nobody").code == "not-found"
