"""Messages that were received and not looked at go back at once, and nothing counts against them."""

from __future__ import annotations

from pathlib import Path

from tests.support.http_gateway import RunningHttp, running_http


def test_what_is_released_comes_again_at_once_and_is_no_failure(tmp_path: Path) -> None:
    with running_http(tmp_path) as http:
        http.post("/queues/q/messages", {"text": "a"})
        for _ in range(20):
            answer = http.post("/messages/release", {"receipts": [_received(http)]})
            assert answer.status == 200
        stats = http.get("/queues/q/stats").json["groups"]["default"]
        assert (stats["failed"], stats["dead_lettered"], stats["in_flight"]) == (0, 0, 0)


def test_a_stale_receipt_releases_nothing(tmp_path: Path) -> None:
    with running_http(tmp_path) as http:
        http.post("/queues/q/messages", {"text": "a"})
        receipt = _received(http)
        http.post("/messages/ack", {"receipts": [receipt]})
        assert http.post("/messages/release", {"receipts": [receipt]}).status == 409


def _received(http: RunningHttp) -> str:
    [message] = http.post("/queues/q/receive", {}).json["messages"]
    receipt: str = message["receipt"]
    return receipt
