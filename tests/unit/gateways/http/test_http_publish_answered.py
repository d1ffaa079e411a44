"""A stream of lines that is answered line for line."""

from __future__ import annotations

import json
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from tests.support.http_client import HttpClient, RawClient
from tests.support.http_server import RunningServer, running_server

LINES = "application/x-ndjson"
_PATH = "/api/v1/queues/{}/messages"


@pytest.fixture(autouse=True)
def _queue(server: RunningServer) -> None:
    server.declare("q")


def lines(*messages: object) -> bytes:
    return b"".join(each if isinstance(each, bytes) else json.dumps(each).encode() + b"\n" for each in messages)


def results(body: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in body.splitlines()]


def sent(http: HttpClient, data: bytes, queue: str = "q") -> list[dict[str, Any]]:
    answer = http.post(f"queues/{queue}/messages", data, content_type=LINES, accept=LINES)
    assert (answer.status, answer.content_type) == (207, LINES), answer
    return results(answer.body)


def begin(raw: RawClient, queue: str = "q") -> None:
    raw.head("POST", _PATH.format(queue), "Transfer-Encoding: chunked", f"Content-Type: {LINES}", f"Accept: {LINES}")


def send(raw: RawClient, data: bytes) -> None:
    raw.send(b"%x\r\n%s\r\n" % (len(data), data))


def next_results(raw: RawClient) -> list[dict[str, Any]]:
    """A chunk of the answer."""
    size = int(raw.line(), 16)
    data = raw.read(size)
    assert raw.line() == b"\r\n"
    return results(data)


def test_each_line_is_told_where_its_message_is(server: RunningServer, http: HttpClient) -> None:
    server.declare("many", partitions=3)
    keyed = [{"text": str(number), "key": f"k{number}"} for number in range(20)]
    found = sent(http, lines(*keyed[:10], b"\n", *keyed[10:]), "many")
    assert [each["line"] for each in found] == [*range(1, 11), *range(12, 22)]
    stored = {
        (each["partition"], each["offset"]): each["text"] for each in http.get("queues/many/messages").json["messages"]
    }
    assert [stored[each["partition"], each["offset"]] for each in found] == [each["text"] for each in keyed]
    assert {each["partition"] for each in found} == {0, 1, 2}
    assert found[0]["id"].startswith("many@")


def test_broken_lines_stand_among_the_others_in_their_order(http: HttpClient) -> None:
    found = sent(
        http, lines({"text": "a"}, b"{\n", {"text": "b"}, {"text": "c", "json": 1}, {"text": "d", "partition": 9})
    )
    assert [(each["line"], "error" in each) for each in found] == [
        (1, False), (2, True), (3, False), (4, True), (5, True),
    ]  # fmt: skip
    assert [each["error"]["code"] for each in found if "error" in each] == [
        "malformed-body", "malformed-body", "invalid-argument",
    ]  # fmt: skip
    assert [message["text"] for message in http.receive("q")] == ["a", "b"]


def test_an_empty_stream_has_an_empty_answer(http: HttpClient) -> None:
    assert sent(http, b"\n\n") == []


def test_results_come_while_the_stream_goes_on(server: RunningServer) -> None:
    with server.raw() as raw:
        begin(raw)
        for number in range(3):
            send(raw, lines({"text": str(number)}))
            if not number:
                assert raw.answer().status == 207
            [result] = next_results(raw)
            assert (result["line"], result["offset"]) == (number + 1, number)
        raw.send(b"0\r\n\r\n")
        assert raw.line() == b"0\r\n"


def test_a_queue_that_is_full_fails_the_lines_that_were_read_and_ends_the_stream(
    server: RunningServer, http: HttpClient
) -> None:
    server.declare("small", limits={"max_queue_depth": 1}, partitions=1)
    http.receive("small")
    with server.raw() as raw:
        begin(raw, "small")
        send(raw, lines({"text": "a"}))
        assert raw.answer().status == 207
        assert "error" not in next_results(raw)[0]
        send(raw, lines({"text": "b"}, {"text": "c"}))
        assert [(each["line"], each["error"]["code"]) for each in next_results(raw)] == [
            (2, "queue-full"), (3, "queue-full"),
        ]  # fmt: skip
        assert (raw.line(), raw.line()) == (b"0\r\n", b"\r\n")
        assert raw.is_ended()


def test_a_line_that_is_too_long_is_told_and_ends_the_stream(place: Path) -> None:
    with running_server(place / "small", http={"max_body_size": "1KiB"}) as server:
        server.declare("q")
        with server.raw() as raw:
            begin(raw)
            send(raw, lines({"text": "a"}) + b"x" * 4000)
            assert raw.answer().status == 207
            found = next_results(raw)
            found += [] if len(found) == 2 else next_results(raw)
            assert [(each["line"], each.get("error", {}).get("code")) for each in found] == [
                (1, None), (2, "body-too-large"),
            ]  # fmt: skip


def test_a_client_that_reads_no_results_is_let_go(place: Path) -> None:
    with running_server(place / "patient", http={"stall_timeout": "100ms"}) as server:
        server.declare("q")
        with server.raw() as raw:
            begin(raw)
            some = lines(*[{"text": ""}] * 2000)
            assert any(not raw.try_send(b"%x\r\n%s\r\n" % (len(some), some)) for _ in count())


def test_what_a_stream_cannot_have_is_refused_at_once(http: HttpClient) -> None:
    headers = {"Content-Type": LINES, "Accept": LINES, "Idempotency-Key": "1"}
    assert http.request("POST", "queues/q/messages", lines({"text": "a"}), headers).status == 400
