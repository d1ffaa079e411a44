"""A member over a WebSocket that reads and settles nothing: a healthy one gets what it holds."""

from __future__ import annotations

import json

import pytest
from tests.support.http_gateway import RunningHttp
from websockets.sync.client import ClientConnection

TIMEOUT_S, BACKOFF_S = 30, 1
ROUNDS = 6
SENT = [b"%d" % number for number in range(24)]


def advance(http: RunningHttp, seconds: float) -> None:
    async def run() -> None:
        http.clock.advance(seconds)
        http.broker.alarms.ring()
        await http.broker.settling.finish()
        await http.broker.shard.drain()

    http.wait(run())


def shares(http: RunningHttp) -> list[list[int]]:
    """The partitions of each member, in the order they came. In the loop."""
    [group] = http.broker.queue("q").groups.values()
    return [sorted(member.partitions) for member in group.consumers.values()]


def stream(http: RunningHttp, members: int) -> ClientConnection:
    """It is so manieth member."""
    opened = http.websocket("/queues/q/stream?group=g&prefetch=100")
    http.until(lambda: bool(http.broker.queue("q").groups) and len(shares(http)) == members)
    return opened


def work(http: RunningHttp, socket: ClientConnection) -> list[str]:
    """What the second member is given, settled, until all that is there is somebody's."""
    [group] = http.broker.queue("q").groups.values()
    done: list[str] = []
    while True:
        http.until(lambda: group.ready() == 0)
        held = http.call(lambda: [member.held for member in group.consumers.values()][-1])
        if not held:
            return done
        receipts: list[str] = []
        while len(receipts) < held:
            frame = json.loads(socket.recv(20))
            receipts.append(frame["receipt"])
            done.append(frame["text"])
        socket.send(json.dumps({"ack": receipts}))
        assert json.loads(socket.recv(20))["settled"] == held


@pytest.mark.parametrize("max_retries", [0, 1, 2, 10])
def test_a_healthy_member_gets_what_a_hung_one_never_settles(http: RunningHttp, max_retries: int) -> None:
    backoff = {"initial_backoff": f"{BACKOFF_S}s", "max_backoff": f"{BACKOFF_S}s", "total_timeout": "none"}
    http.declare(partitions=4, retry_policy={"max_retries": max_retries, **backoff})
    with stream(http, 1) as hung, stream(http, 2) as healthy:
        http.until(lambda: [len(partitions) for partitions in shares(http)] == [2, 2])
        for partition in range(4):
            http.put("q", *SENT[6 * partition : 6 * partition + 6], partition=partition)
        assert json.loads(hung.recv(20))["receipt"]
        done: list[str] = []
        for _ in range(ROUNDS):
            done += work(http, healthy)
            advance(http, TIMEOUT_S)
            advance(http, 2 * BACKOFF_S)
        done += work(http, healthy)
        assert sorted(done, key=int) == [value.decode() for value in SENT]
        assert http.get("/queues/$dlq$q/messages").json.get("messages", []) == []
        assert http.unsettled() == 0
        assert http.call(lambda: shares(http)) == [[], [0, 1, 2, 3]]
        hung.ping().wait(20)
