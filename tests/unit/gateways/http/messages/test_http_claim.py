"""Messages that a stream holds and does not settle can be taken over by a request."""

from __future__ import annotations

from pathlib import Path

from tests.support.http_gateway import RunningHttp, running_http

from penstock.broker.feed.consumer import Consumer


async def _held(http: RunningHttp) -> Consumer:
    """A stream of group g that has what is in the queue."""
    consumer = http.broker.join(await http.broker.group(http.broker.queue("q"), "g"))
    await consumer.receive(10)
    return consumer


def test_what_a_stream_does_not_settle_is_claimed_and_settled_by_receipt(tmp_path: Path) -> None:
    with running_http(tmp_path) as http:
        http.post("/queues/q/messages", {"text": "a"})
        consumer = http.wait(_held(http))
        assert http.post("/queues/q/claim", {"group": "g", "idle": "1h"}).json["messages"] == []
        [message] = http.post("/queues/q/claim", {"group": "g", "idle": 0, "visibility": "1m"}).json["messages"]
        assert (message["text"], message["deliveries"], consumer.held) == ("a", 2, 0)
        assert http.post("/messages/ack", {"receipts": [message["receipt"]]}).status == 200
        assert http.get("/queues/q/stats").json["groups"]["g"]["in_flight"] == 0


def test_a_claim_names_a_group_that_is_there(tmp_path: Path) -> None:
    with running_http(tmp_path) as http:
        http.post("/queues/q/messages", {"text": "a"})
        assert http.post("/queues/q/claim", {"group": "nobody"}).status == 404
