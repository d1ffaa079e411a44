"""Settling deliveries by their receipts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.support.http_client import Answer, HttpClient
from tests.support.http_server import RunningServer, running_server


@pytest.fixture(autouse=True)
def _queue(server: RunningServer) -> None:
    server.declare("q", retry_policy={"initial_backoff": 0}, dlq_config={"enabled": True})


def received(http: HttpClient, count: int = 1, queue: str = "q") -> list[str]:
    """Receipts of messages that were published for it."""
    http.publish(queue, *map(str, range(count)))
    return [message["receipt"] for message in http.receive(queue, max=count, visibility="1h")]


def statuses(answer: Answer) -> list[str]:
    said = answer.json
    found = [result["status"] for result in said["results"]]
    assert (said["settled"], said["stale"]) == (found.count("settled"), len(found) - found.count("settled"))
    return found


@pytest.mark.parametrize("prefix", ["messages", "queues/q"])
def test_what_is_done_never_comes_again(http: HttpClient, prefix: str) -> None:
    receipts = received(http, 3)
    answer = http.post(f"{prefix}/ack", {"receipts": receipts})
    assert (answer.status, statuses(answer)) == (200, ["settled"] * 3)
    assert [result["receipt"] for result in answer.json["results"]] == receipts
    assert http.get("queues/q/groups/default").json["lag"] == 0


@pytest.mark.parametrize("prefix", ["messages", "queues/q"])
def test_what_failed_comes_again_after_its_delay(http: HttpClient, prefix: str) -> None:
    [receipt] = received(http)
    assert statuses(http.post(f"{prefix}/nack", {"receipts": [receipt], "delay": "1h"})) == ["settled"]
    assert http.receive("q") == []
    [receipt] = received(http)
    assert statuses(http.post(f"{prefix}/nack", {"receipts": [receipt], "delay": 0, "reason": "busy"})) == ["settled"]
    [again] = http.receive("q", wait="20s")
    assert again["deliveries"] == 2


@pytest.mark.parametrize("prefix", ["messages", "queues/q"])
def test_what_is_rejected_becomes_a_dead_letter(http: HttpClient, prefix: str) -> None:
    [receipt] = received(http)
    assert statuses(http.post(f"{prefix}/reject", {"receipts": [receipt], "reason": "no such customer"})) == ["settled"]
    [letter] = http.get("queues/q/dlq").json["items"]
    assert (letter["message"]["text"], letter["reason"], letter["detail"]) == ("0", "rejected", "no such customer")


@pytest.mark.parametrize("prefix", ["messages", "queues/q"])
def test_more_time_is_counted_from_now(http: HttpClient, prefix: str) -> None:
    [receipt] = received(http)
    assert statuses(http.post(f"{prefix}/extend", {"receipts": [receipt], "visibility": "20ms"})) == ["settled"]
    [again] = http.receive("q", wait="20s")
    assert again["deliveries"] == 2
    assert http.post(f"{prefix}/extend", {"receipts": [receipt]}).status == 409


@pytest.mark.parametrize("verb", ["ack", "nack", "reject", "extend"])
def test_a_delivery_is_settled_once(http: HttpClient, verb: str) -> None:
    [receipt] = received(http)
    assert http.post("messages/ack", {"receipts": [receipt]}).status == 200
    answer = http.post(f"messages/{verb}", {"receipts": [receipt]})
    assert (answer.status, statuses(answer)) == (409, ["stale"])


@pytest.mark.parametrize("verb", ["ack", "nack", "reject", "extend"])
def test_of_two_deliveries_of_a_message_only_the_current_one_is_settled(http: HttpClient, verb: str) -> None:
    http.publish("q", "x")
    [first] = http.receive("q", visibility="1ms")
    [second] = http.receive("q", wait="20s", visibility="1h")
    answer = http.post(f"messages/{verb}", {"receipts": [first["receipt"], second["receipt"]]})
    assert (answer.status, statuses(answer)) == (207, ["stale", "settled"])


def test_good_and_bad_receipts_are_told_apart(http: HttpClient) -> None:
    [done, good] = received(http, 2)
    http.post("messages/ack", {"receipts": [done]})
    answer = http.post("messages/ack", {"receipts": ["nonsense", done, good, good]})
    assert (answer.status, statuses(answer)) == (207, ["malformed", "stale", "settled"])


def test_receipts_of_all_partitions_and_groups_go_in_one_request(server: RunningServer, http: HttpClient) -> None:
    server.declare("wide", partitions=4)
    http.post("queues/wide/messages", {"messages": [{"text": str(n), "key": str(n)} for n in range(40)]})
    found = [each["receipt"] for group in ("a", "b") for each in http.receive("wide", group=group, max=100)]
    assert statuses(http.post("messages/ack", {"receipts": found})) == ["settled"] * 80


def test_receipts_of_a_deleted_queue_or_group_are_gone(server: RunningServer, http: HttpClient) -> None:
    [receipt] = received(http)
    http.delete("queues/q/groups/default")
    assert statuses(http.post("messages/ack", {"receipts": [receipt]})) == ["gone"]
    [receipt] = received(http)[:1]
    http.delete("queues/q")
    server.declare("q")
    assert statuses(http.post("messages/ack", {"receipts": [receipt]})) == ["gone"]


def test_a_queue_settles_its_own_receipts_only(server: RunningServer, http: HttpClient) -> None:
    server.declare("other")
    [receipt] = received(http, queue="other")
    assert statuses(http.post("queues/q/ack", {"receipts": [receipt]})) == ["gone"]
    assert http.post("queues/nowhere/ack", {"receipts": [receipt]}).code == "no-such-queue"
    assert statuses(http.post("queues/other/ack", {"receipts": [receipt]})) == ["settled"]


def test_receipts_are_not_good_in_another_namespace(server: RunningServer, http: HttpClient) -> None:
    [receipt] = received(http)
    assert statuses(http.post("messages/ack?namespace=other", {"receipts": [receipt]})) == ["gone"]
    assert statuses(http.post("messages/ack", {"receipts": [receipt]})) == ["settled"]


def test_receipts_of_before_a_restart_are_told_apart_and_what_to_do_about_them(place: Path) -> None:
    with running_server(place / "own") as server:
        server.declare("q", retry_policy={"initial_backoff": 0})
        server.http().publish("q", "0")
        [first] = server.http().receive("q", visibility="100ms")
        receipt = first["receipt"]
        server.restart()
        http = server.http()
        answer = http.post("messages/ack", {"receipts": [receipt]})
        assert (answer.status, statuses(answer)) == (409, ["restarted"])
        assert "receive them again" in answer.json["advice"]
        [message] = http.receive("q", wait="20s")
        assert message["text"] == "0"
        assert statuses(http.post("messages/ack", {"receipts": [message["receipt"]]})) == ["settled"]


def test_who_may_not_consume_may_not_settle(place: Path) -> None:
    with running_server(place / "locked", auth={}) as server:
        server.declare("q")
        server.with_roles("producer").publish("q", "x")
        [message] = server.with_roles("consumer").receive("q")
        for path in ("messages/ack", "queues/q/ack"):
            answer = server.with_roles("producer").post(path, {"receipts": [message["receipt"]]})
            assert (answer.status, answer.code) == (403, "not-authorised")
        assert statuses(server.with_roles("consumer").post("messages/ack", {"receipts": [message["receipt"]]})) == [
            "settled"
        ]


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("q@", "Q@"),
        lambda text: text.replace(":0:", ":99999:"),
        lambda text: text.rpartition("-")[0] + "-999999",
        lambda text: text.rpartition("-")[0] + "-٣",
        lambda text: text.rpartition("-")[0] + "-",
        lambda text: text + "0" * 5000,
        lambda text: text.replace("@", "@" + "9" * 30),
        lambda text: "",
        lambda text: "\0",
    ],
)
def test_a_receipt_that_was_tampered_with_settles_nothing(http: HttpClient, change: Any) -> None:
    [receipt] = received(http)
    answer = http.post("messages/ack", {"receipts": [change(receipt)]})
    assert answer.status == 409, answer
    assert http.get("queues/q/groups/default").json["in_flight"] == 1


@pytest.mark.parametrize(
    "body", [{}, {"receipts": []}, {"receipts": [1]}, {"receipts": ["a"] * 10_001}, {"receipts": 1}]
)
def test_requests_without_receipts_are_refused(http: HttpClient, body: dict[str, object]) -> None:
    assert http.post("messages/ack", body).code == "malformed-body"


def test_times_that_will_not_do_are_named_before_anything_is_settled(http: HttpClient) -> None:
    [receipt] = received(http)
    for verb, field in (("nack", "delay"), ("extend", "visibility")):
        answer = http.post(f"messages/{verb}", {"receipts": [receipt], field: "13h"})
        assert (answer.code, answer.json["field"]) == ("invalid-argument", field)
    assert statuses(http.post("messages/ack", {"receipts": [receipt]})) == ["settled"]
