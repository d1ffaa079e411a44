"""Queues, groups and dead letters as operators see them over HTTP."""

from __future__ import annotations

import pytest
from tests.support.http_client import HttpClient
from tests.support.http_server import RunningServer

# Queues


def test_a_queue_is_declared_described_and_deleted(http: HttpClient) -> None:
    made = http.post("queues", {"name": "shop/orders", "partitions": 2})
    assert made.status == 201
    told = http.get("queues/shop%2Forders")
    assert told.json["name"] == "shop/orders"
    assert http.get("queues/shop%2Forders/config").json["partitions"] == 2
    assert told.headers["etag"] == made.headers["etag"]
    assert http.post("queues", {"name": "shop/orders", "partitions": 3}).code == "queue-exists"
    assert http.delete("queues/shop%2Forders?dry_run=true").status == 204
    assert http.delete("queues/shop%2Forders").status == 204
    assert http.get("queues/shop%2Forders").code == "no-such-queue"


def test_a_setting_that_is_not_known_names_the_nearest(http: HttpClient) -> None:
    answer = http.post("queues", {"name": "q", "partition": 2})
    assert (answer.code, answer.json["field"]) == ("invalid-setting", "partition")
    assert "did you mean partitions" in answer.json["detail"]
    for settings in ({}, {"name": 1}, {"name": "q", "partitions": "many"}, {"name": "q", "limits": 1}):
        assert http.post("queues", settings).status == 400


def test_queues_are_listed_in_pages(server: RunningServer, http: HttpClient) -> None:
    names = [f"q{number:02}" for number in range(25)]
    for name in names:
        server.declare(name)
    found, cursor = list[str](), ""
    while cursor is not None:
        page = http.get(f"queues?limit=10&cursor={cursor}" if cursor else "queues?limit=10").json
        found += [queue["name"] for queue in page["items"]]
        cursor = page["next"]
    assert found == names
    for query in ("limit=0", "limit=1001", "limit=x", "cursor=%2B%2B%2B", "cursor=_"):
        assert http.get(f"queues?{query}").code == "invalid-argument", query


def test_what_was_changed_meanwhile_is_not_changed_again(server: RunningServer, http: HttpClient) -> None:
    server.declare("q")
    seen = http.get("queues/q/config").headers["etag"]
    changed = http.put("queues/q/config", {"limits": {"max_queue_depth": 7}}, if_match=seen)
    assert changed.json["limits"]["max_queue_depth"] == 7 and changed.headers["etag"] != seen
    late = http.put("queues/q/config", {"limits": {"max_queue_depth": 8}}, if_match=seen)
    assert (late.status, late.code, late.headers["etag"]) == (412, "precondition-failed", changed.headers["etag"])
    assert http.delete("queues/q", if_match=seen).status == 412
    assert http.put("queues/q/config", {"limits": {"max_queue_depth": 9}}, if_match="*").status == 200
    assert http.get("queues/q/config").json["limits"]["max_queue_depth"] == 9
    assert http.put("queues/q/config", {"limits": {"depth": 9}}).code == "invalid-setting"


def test_a_queue_made_anew_has_another_etag(server: RunningServer, http: HttpClient) -> None:
    server.declare("q")
    seen = http.get("queues/q/config").headers["etag"]
    http.delete("queues/q")
    server.declare("q")
    assert http.put("queues/q/config", {}, if_match=seen).status == 412


def test_a_queue_is_told_in_numbers(server: RunningServer, http: HttpClient) -> None:
    server.declare("q")
    http.publish("q", "a", "b", "c")
    [first, *_] = http.receive("q", max=2)
    http.post("messages/ack", {"receipts": [first["receipt"]]})
    stats = http.get("queues/q/stats").json
    group = stats["groups"]["default"]
    assert (stats["messages"], group["lag"], group["in_flight"], group["acked"]) == (3, 2, 1, 1)
    [partition] = http.get("queues/q/partitions").json["items"]
    assert partition["partition"] == 0
    [group] = http.get("queues/q/consumers").json["items"]
    assert group == {"group": "default", "consumers": []}


def test_a_purge_tells_before_it_removes(server: RunningServer, http: HttpClient) -> None:
    server.declare("q")
    http.publish("q", "a", "b")
    assert http.post("queues/q/purge?dry_run=true").json == {"purged": 2, "dry_run": True}
    assert http.get("queues/q/stats").json["messages"] == 2
    assert http.post("queues/q/purge").json == {"purged": 2, "dry_run": False}
    assert http.receive("q") == []


# Groups


def test_a_group_is_made_where_it_is_told_to_begin(server: RunningServer, http: HttpClient) -> None:
    server.declare("q")
    http.publish("q", "a", "b")
    assert http.post("queues/q/groups", {"name": "late", "start": "latest"}).json["lag"] == 0
    assert http.post("queues/q/groups", {"name": "early"}).json["lag"] == 2
    assert http.post("queues/q/groups", {"name": "early"}).code == "group-exists"
    assert [group["name"] for group in http.get("queues/q/groups").json["items"]] == ["early", "late"]
    assert [group["name"] for group in http.get("groups").json["items"]] == ["early", "late"]
    assert http.get("queues/q/groups/none").code == "no-such-group"
    assert http.delete("queues/q/groups/late?dry_run=true").status == 204
    assert http.get("queues/q/groups/late").status == 200
    assert http.delete("queues/q/groups/late").status == 204
    assert http.get("queues/q/groups/late").status == 404


def test_a_group_is_moved_after_it_was_told_where_to(server: RunningServer, http: HttpClient) -> None:
    server.declare("q")
    http.publish("q", *map(str, range(5)))
    receipts = [message["receipt"] for message in http.receive("q", max=3)]
    http.post("messages/ack", {"receipts": receipts})
    path = "queues/q/groups/default/reset"
    dry = http.post(path, {"to": "earliest", "dry_run": True}).json
    assert dry == {"dry_run": True, "partitions": [{"partition": 0, "before": 3, "after": 0}]}
    assert http.get("queues/q/groups/default").json["lag"] == 2
    assert http.post(path, {"to": "1"}).json["partitions"] == [{"partition": 0, "before": 3, "after": 1}]
    assert [message["text"] for message in http.receive("q")] == ["1", "2", "3", "4"]
    assert http.post(path, {"to": "latest"}).json["partitions"][0]["after"] == 5
    assert http.receive("q") == []
    assert http.post(path, {"to": "1h"}).json["partitions"][0]["after"] == 0
    assert http.post(path, {"to": "2020-01-01T00:00:00Z"}).json["partitions"][0]["after"] == 0
    for wrong in ({"to": "noon"}, {"to": "earliest", "partitions": [7]}, {"to": "earliest", "x": 1}):
        assert http.post(path, wrong).status == 400, wrong


def test_everything_below_a_committed_offset_is_done(server: RunningServer, http: HttpClient) -> None:
    server.declare("q")
    http.publish("q", *map(str, range(5)))
    assert http.post("queues/q/groups", {"name": "g"}).status == 201
    assert http.post("queues/q/groups/g/commit", {"offsets": {"0": 3}}).json == {"settled": 3}
    assert [message["text"] for message in http.receive("q", group="g")] == ["3", "4"]
    assert http.post("queues/q/groups/g/commit", {"offsets": {"0": 99}}).json == {"settled": 2}
    for wrong in ({"7": 1}, {"x": 1}, {"0": -1}, {"-0": 1}):
        assert http.post("queues/q/groups/g/commit", {"offsets": wrong}).status == 400, wrong


def test_a_group_that_is_paused_gets_nothing(server: RunningServer, http: HttpClient) -> None:
    server.declare("q")
    http.publish("q", "x")
    http.receive("q", group="other")
    http.post("queues/q/groups", {"name": "g"})
    assert http.post("queues/q/groups/g/pause").status == 204
    assert http.receive("q", group="g") == []
    assert http.post("queues/q/groups/g/resume").status == 204
    assert len(http.receive("q", group="g")) == 1


# Dead letters


@pytest.fixture
def letters(server: RunningServer, http: HttpClient) -> list[str]:
    """Ids of three dead letters."""
    server.declare("q", dlq_config={"enabled": True})
    http.publish("q", "a", "b", "c")
    receipts = [message["receipt"] for message in http.receive("q")]
    http.post("messages/reject", {"receipts": receipts, "reason": "broken"})
    return [letter["message"]["id"] for letter in http.get("queues/q/dlq").json["items"]]


def test_dead_letters_say_where_they_come_from(http: HttpClient, letters: list[str]) -> None:
    told = http.get("queues/q/dlq").json
    assert (told["queue"], told["waiting"], len(told["items"])) == ("$dlq/q", 3, 3)
    first = told["items"][0]
    assert (first["group"], first["reason"], first["detail"], first["deliveries"]) == (
        "default",
        "rejected",
        "broken",
        1,
    )
    assert first["source"].startswith("q@")
    assert len(http.get("queues/q/dlq?limit=2").json["items"]) == 2
    assert http.get("queues/q/dlq?group=none").json["items"] == []
    assert http.get("queues/q/dlq?reason=bored").code == "invalid-argument"


def test_a_queue_without_dead_letters_has_none(server: RunningServer, http: HttpClient) -> None:
    server.declare("q")
    assert http.get("queues/q/dlq").json == {"queue": None, "waiting": 0, "items": []}
    assert http.get("queues/nowhere/dlq").code == "no-such-queue"
    assert http.post("queues/q/dlq/retry", {}).json == {"retried": 0, "left": {}, "missing": [], "dry_run": False}
    assert http.post("queues/nowhere/dlq/retry", {}).code == "no-such-queue"


def test_one_dead_letter_is_sent_again(http: HttpClient, letters: list[str]) -> None:
    path = letters[1].replace("/", "%2F").replace("$", "%24")
    assert http.post(f"queues/q/dlq/{path}/retry").json["retried"] == 1
    assert [message["text"] for message in http.receive("q", wait="20s")] == ["b"]
    assert http.post(f"queues/q/dlq/{path}/retry").code == "not-found"
    assert http.get("queues/q/dlq").json["waiting"] == 2


def test_some_or_all_dead_letters_are_sent_again(server: RunningServer, http: HttpClient, letters: list[str]) -> None:
    missing = letters[0].rpartition(":")[0] + ":999"
    report = http.post("queues/q/dlq/retry", {"ids": [letters[0], missing]}).json
    assert report == {"retried": 1, "left": {}, "missing": [missing], "dry_run": False}
    server.declare("elsewhere")
    assert http.post("queues/q/dlq/retry", {"to": "elsewhere"}).json["retried"] == 2
    assert [message["text"] for message in http.receive("elsewhere", wait="20s")] == ["b", "c"]
    assert http.post("queues/q/dlq/retry", {"to": "nowhere"}).code == "no-such-queue"
    for wrong in ({"rate": 0}, {"limit": 0}, {"ids": ["x"]}, {"reason": "bored"}):
        assert http.post("queues/q/dlq/retry", wrong).status in (200, 400)


def test_a_dead_letter_is_dropped(http: HttpClient, letters: list[str]) -> None:
    path = letters[0].replace("/", "%2F").replace("$", "%24")
    assert http.delete(f"queues/q/dlq/{path}").status == 204
    assert http.delete(f"queues/q/dlq/{path}").code == "not-found"
    assert http.get("queues/q/dlq").json["waiting"] == 2
    for nonsense in ("x", "%00", "$dlq%2Fq@1:0"):
        assert http.delete(f"queues/q/dlq/{nonsense}").status in (400, 404)
