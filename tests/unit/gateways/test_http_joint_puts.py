"""Single messages that come at the same time share a frame, and each sender is told of its own."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from tests.support.http_gateway import RunningHttp

_MANY = 24


def test_each_of_many_connections_is_told_where_its_own_message_is(http: RunningHttp) -> None:
    http.declare(partitions=3)
    with ThreadPoolExecutor(_MANY) as pool:
        answers = list(pool.map(lambda n: http.post("/queues/q/messages", {"text": f"m{n}"}), range(4 * _MANY)))
    stored = {message["id"]: message["text"] for message in http.get("/queues/q/messages?limit=1000").json["messages"]}
    assert [stored[answer.json["results"][0]["id"]] for answer in answers] == [f"m{n}" for n in range(4 * _MANY)]


def test_a_full_queue_refuses_each_of_those_that_come_together(http: RunningHttp) -> None:
    http.declare(limits={"max_queue_depth": 1})
    http.post("/queues/q/receive", {"group": "g"})
    assert http.post("/queues/q/messages", {"text": "the only one"}).status == 200
    with ThreadPoolExecutor(_MANY) as pool:
        answers = list(pool.map(lambda n: http.post("/queues/q/messages", {"text": str(n)}), range(_MANY)))
    assert {(answer.status, answer.json["code"]) for answer in answers} == {(429, "queue-full")}
