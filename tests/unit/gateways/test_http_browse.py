"""GET of a queue's messages."""

from __future__ import annotations

from tests.support.http_gateway import RunningHttp


def texts(answer: dict[str, list[dict[str, str]]]) -> list[str]:
    return [message["text"] for message in answer["messages"]]


def test_all_messages_are_seen_once_by_following_the_cursor(http: RunningHttp) -> None:
    http.declare(partitions=4)
    for number in range(10):
        http.put("q", *(b"%d-%d" % (number, i) for i in range(20)), keys=[b"k%d" % i for i in range(20)])
    seen, cursor = [], ""
    while cursor is not None:
        answer = http.get(f"/queues/q/messages?limit=7{f'&cursor={cursor}' if cursor else ''}").json
        assert len(answer["messages"]) <= 7
        seen += texts(answer)
        cursor = answer["next"]
    assert sorted(seen) == sorted(f"{number}-{i}" for number in range(10) for i in range(20))


def test_partitions_are_merged_by_time(http: RunningHttp) -> None:
    http.declare(partitions=3)
    for number in range(9):
        http.put("q", b"%d" % number, partition=number % 3)
        http.clock.advance(1)
    assert texts(http.get("/queues/q/messages").json) == [str(number) for number in range(9)]


def test_a_partition_an_offset_and_an_end_can_be_asked_for(http: RunningHttp) -> None:
    http.declare(partitions=2)
    http.put("q", *(b"%d" % number for number in range(10)), partition=1)
    http.put("q", b"other", partition=0)
    answer = http.get("/queues/q/messages?partition=1&from=offset:3&until=offset:6").json
    assert texts(answer) == ["3", "4", "5"]
    assert answer["next"] is None
    assert texts(http.get("/queues/q/messages?from=latest").json) == []


def test_a_span_of_time_can_be_asked_for(http: RunningHttp) -> None:
    http.declare()
    for number in range(5):
        http.put("q", b"%d" % number)
        http.clock.advance(3600)
    assert texts(http.get("/queues/q/messages?from=3h&until=1h").json) == ["2", "3"]


def test_a_filter_that_matches_little_gives_a_short_answer_and_goes_on(http: RunningHttp) -> None:
    http.declare()
    for number in range(25):
        wanted = [b"$queue/q/rare" if number == 24 and i == 999 else b"$queue/q/often" for i in range(1000)]
        http.put("q", *(b"%d" % i for i in range(1000)), topics=wanted)
    answer = http.get("/queues/q/messages?filter=rare").json
    assert answer["messages"] == []
    requests = 1
    while not answer["messages"]:
        answer = http.get(f"/queues/q/messages?filter=rare&cursor={answer['next']}").json
        requests += 1
    assert [message["offset"] for message in answer["messages"]] == [24_999]
    assert 2 <= requests <= 4


def test_an_answer_is_bounded_in_bytes(http: RunningHttp) -> None:
    http.declare()
    for _ in range(80):
        http.put("q", bytes(100_000))
    answer = http.get("/queues/q/messages?limit=1000").json
    assert 40 <= len(answer["messages"]) <= 43
    assert answer["next"] == f"0:{len(answer['messages'])}"


def test_binary_values_are_base64_and_text_is_on_demand(http: RunningHttp) -> None:
    http.declare()
    http.put("q", b"\xff\x00", b"text")
    first, second = http.get("/queues/q/messages").json["messages"]
    assert (first["base64"], second["text"]) == ("/wA=", "text")
    assert http.get("/queues/q/messages?encoding=base64").json["messages"][1]["base64"] == "dGV4dA=="


def test_what_cannot_be_meant_is_refused(http: RunningHttp) -> None:
    http.declare()
    for query in (
        "cursor=nonsense",
        "cursor=0:1,0:2",
        "from=offset:x",
        "partition=7",
        "limit=1001",
        "filter=a%23",
        "x=1",
    ):
        answer = http.get(f"/queues/q/messages?{query}")
        assert (query, answer.status, answer.json["code"]) == (query, 400, "invalid-argument")
    assert http.get("/queues/none/messages").status == 404


def test_browsing_settles_nothing(http: RunningHttp) -> None:
    http.declare()
    http.put("q", b"a")
    before = http.get("/queues/q/groups").json
    assert texts(http.get("/queues/q/messages").json) == ["a"]
    assert http.get("/queues/q/groups").json == before
    assert texts(http.post("/queues/q/receive", {"group": "g"}).json) == ["a"]
