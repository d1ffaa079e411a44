"""Single messages that come at the same time share a frame, and each sender is told of its own."""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.support.http_gateway import RunningHttp

from penstock.broker.publish.publishing import Publishing
from penstock.broker.queue import Placed, Queue
from penstock.core.errors import Closed, PenstockError
from penstock.gateways.http.gathering import Gathering
from penstock.log.columns import Columns

_MANY = 24


def _frames(http: RunningHttp) -> int:
    return http.call(lambda: http.broker.shard.metrics.frames)


def _put_together(http: RunningHttp, queue: Queue, gathering: Gathering) -> list[Placed | BaseException | None]:
    """From as many connections, in one turn of the loop; `number` as the value of each."""

    async def run() -> list[Placed | BaseException | None]:
        senders = [http.broker.publisher() for _ in range(_MANY)]
        puts = (gathering.put(queue, b"%d" % number, sender) for number, sender in enumerate(senders))
        return await asyncio.gather(*puts, return_exceptions=True)

    return http.wait(run())


def test_messages_that_come_together_are_one_frame_over_the_partitions_of_their_senders(http: RunningHttp) -> None:
    queue = http.declare(partitions=3)
    for partition in range(3):
        http.put("q", b"before", partition=partition)
    before = _frames(http)
    placed = [each for each in _put_together(http, queue, http.gateway.app.state.gathering) if isinstance(each, Placed)]
    assert _frames(http) == before + 1
    assert {each.partition for each in placed} == {0, 1, 2}
    stored = {
        (message["partition"], message["offset"]): message["text"]
        for message in http.get("/queues/q/messages?limit=1000").json["messages"]
    }
    assert [stored[each.partition, each.base_offset] for each in placed] == [str(number) for number in range(_MANY)]


def test_each_of_many_connections_is_told_where_its_own_message_is(http: RunningHttp) -> None:
    http.declare(partitions=3)
    with ThreadPoolExecutor(_MANY) as pool:
        answers = list(pool.map(lambda n: http.post("/queues/q/messages", {"text": f"m{n}"}), range(4 * _MANY)))
    stored = {message["id"]: message["text"] for message in http.get("/queues/q/messages?limit=1000").json["messages"]}
    assert [stored[answer.json["results"][0]["id"]] for answer in answers] == [f"m{n}" for n in range(4 * _MANY)]


def test_what_does_not_fit_together_is_not_staged(http: RunningHttp) -> None:
    queue = http.declare(limits={"max_queue_depth": _MANY - 1})
    http.post("/queues/q/receive", {"group": "g"})
    assert _put_together(http, queue, http.gateway.app.state.gathering) == [None] * _MANY
    assert http.get("/queues/q/messages").json["messages"] == []
    assert http.post("/queues/q/messages", {"text": "alone"}).status == 200


def test_a_full_queue_refuses_each_of_those_that_come_together(http: RunningHttp) -> None:
    http.declare(limits={"max_queue_depth": 1})
    http.post("/queues/q/receive", {"group": "g"})
    assert http.post("/queues/q/messages", {"text": "the only one"}).status == 200
    with ThreadPoolExecutor(_MANY) as pool:
        answers = list(pool.map(lambda n: http.post("/queues/q/messages", {"text": str(n)}), range(_MANY)))
    assert {(answer.status, answer.json["code"]) for answer in answers} == {(429, "queue-full")}


class _Failing(Publishing):
    def __init__(self, outcome: Callable[[], tuple[list[Placed], asyncio.Future[None]]]) -> None:
        self._outcome = outcome

    def put_placed_now(
        self, queue: Queue, columns: Columns, numbers: list[int], counts: array[int]
    ) -> tuple[list[Placed], asyncio.Future[None]] | None:
        return self._outcome()


def _raises(error: Exception) -> tuple[list[Placed], asyncio.Future[None]]:
    raise error


def _fails_to_commit() -> tuple[list[Placed], asyncio.Future[None]]:
    committed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    committed.set_exception(Closed("the log"))
    return [], committed


@pytest.mark.parametrize(
    ("outcome", "told"),
    [
        (lambda: _raises(PenstockError("refused")), type(None)),
        (lambda: _raises(RuntimeError("a mistake")), RuntimeError),
        (_fails_to_commit, Closed),
    ],
)
def test_nobody_is_left_waiting_when_staging_or_the_commit_fails(
    http: RunningHttp, outcome: Callable[[], tuple[list[Placed], asyncio.Future[None]]], told: type
) -> None:
    found = _put_together(http, http.declare(), Gathering(_Failing(outcome)))
    assert {type(each) for each in found} == {told}
