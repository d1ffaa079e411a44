"""Publishing to a queue over HTTP."""

from __future__ import annotations

import base64
import json
import logging
from pathlib import Path

import pytest
from tests.support.http_client import HttpClient, basic
from tests.support.http_server import RunningServer, running_server
from tests.support.mqtt_gateway import user

ANY_BYTES = bytes(range(256))


@pytest.fixture(autouse=True)
def _queue(server: RunningServer) -> None:
    server.declare("q")


@pytest.mark.parametrize(
    ("message", "value"),
    [
        ({"text": "größe"}, "größe".encode()),
        ({"text": ""}, b""),
        ({"json": {"a": [1, None]}}, b'{"a": [1, null]}'),
        ({"json": "text"}, b'"text"'),
        ({"json": None}, b"null"),
        ({"value": "text"}, b"text"),
        ({"value": 17}, b"17"),
        ({"base64": base64.b64encode(ANY_BYTES).decode()}, ANY_BYTES),
    ],
)
def test_a_value_is_stored_as_it_was_meant(http: HttpClient, message: dict[str, object], value: bytes) -> None:
    assert http.post("queues/q/messages", message).json["accepted"] == 1
    [found] = http.receive("q", encoding="base64")
    assert base64.b64decode(found.get("base64", "")) == value


@pytest.mark.parametrize("content_type", ["application/json", "application/x-ndjson"])
def test_many_short_texts_with_escapes_are_stored_as_they_were_meant(http: HttpClient, content_type: str) -> None:
    texts = [f"é{number}/" for number in range(100)]
    messages = [json.dumps({"text": text}).replace("/", "\\/") for text in texts]
    is_json = content_type == "application/json"
    body = f'{{"messages":[{",".join(messages)}]}}' if is_json else "\n".join(messages)
    answer = http.request("POST", "queues/q/messages", body.encode(), {"content-type": content_type})
    assert answer.json["accepted"] == 100
    assert sorted(each["text"] for each in http.receive("q", max=100)) == sorted(texts)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("queues/s/messages", {"text": "v"}),
        ("queues/s/messages?acks=none", {"text": "v"}),
        ("queues/s/messages", {"text": "v", "headers": {"a": "1"}}),
        ("queues/s/messages", {"messages": [{"text": "v"}]}),
    ],
)
def test_spread_goes_round_from_the_first_message_on(
    server: RunningServer, http: HttpClient, path: str, body: dict[str, object]
) -> None:
    server.declare("s", partitions=2, unkeyed="spread")
    found = [http.post(path, body).json["results"][0]["partition"] for _ in range(6)]
    assert found in ([0, 1] * 3, [1, 0] * 3)


@pytest.mark.parametrize(
    "body",
    [
        {"text": "v" * ((1 << 20) + 1)},
        {"text": "v", "partition": 99},
        {"messages": [{"text": "v"}, {"text": "v" * ((1 << 20) + 1)}]},
        {"text": "v", "producer": {"id": "ü" * 255, "sequence": 0}},
    ],
)
def test_a_refused_publish_leaves_no_queue(server: RunningServer, http: HttpClient, body: dict[str, object]) -> None:
    assert http.post("queues/new/messages", body).status in (400, 413)
    lines = http.request("POST", "queues/new/messages", b"{}\n", {"content-type": "application/x-ndjson"})
    assert lines.status == 400
    assert server.call(lambda: [queue.name for queue in server.broker.queues]) == ["q"]
    large = {"messages": [{"topic": "$queue/new", "text": "v" * ((1 << 20) + 1)}]}
    assert http.post("publish", large).status == 413
    assert server.call(lambda: [queue.name for queue in server.broker.queues]) == ["q"]


@pytest.mark.parametrize(
    ("query", "body"),
    [
        ("", {"text": "v"}),
        ("", {"text": "v", "key": "k"}),
        ("", {"messages": [{"text": "v"}, {"text": "w"}]}),
        ("?acks=none", {"text": "v"}),
    ],
)
def test_who_makes_a_queue_by_naming_it_is_told_once(
    http: HttpClient, caplog: pytest.LogCaptureFixture, query: str, body: dict[str, object]
) -> None:
    caplog.set_level(logging.INFO, "penstock")
    answers = [http.post(f"queues/ordres/messages{query}", body).json for _ in range(2)]
    assert [answer.get("created") for answer in answers] == [True, None]
    assert caplog.text.count("queue created because it was named namespace=default queue=ordres") == 1


def test_streams_of_lines_and_topics_say_which_queues_they_made(http: HttpClient) -> None:
    def lines(queue: str, accept: str) -> bytes:
        headers = {"content-type": "application/x-ndjson", "accept": accept}
        return http.request("POST", f"queues/{queue}/messages", b'{"text": "1"}\n{"text": "2"}\n', headers).body

    assert [json.loads(lines("one", "*/*")).get("created") for _ in range(2)] == [True, None]
    told = [json.loads(line) for line in lines("two", "application/x-ndjson").splitlines()]
    assert [line.get("created") for line in told] == [True, None]
    messages = {"messages": [{"topic": "$queue/three", "text": "v"}, {"topic": "t", "text": "v"}]}
    assert [http.post("publish", messages).json.get("created") for _ in range(2)] == [["three"], None]


def test_a_null_value_is_told_from_an_empty_one(http: HttpClient) -> None:
    given = [{"value": None, "key": "k", "headers": {"a": "1"}}, {"value": "", "key": "k"}]
    http.post("queues/q/messages", {"messages": given})
    null, empty = http.receive("q", max=2)
    assert "text" not in null and "base64" not in null
    assert null["headers"] == [["a", "1"], ["null-value", "1"]]
    assert empty["text"] == "" and "headers" not in empty


def test_everything_that_belongs_to_a_message_comes_back_with_it(http: HttpClient) -> None:
    sent = {
        "text": "v",
        "key": "k",
        "headers": [["a", "1"], ["a", "2"], ["ü", "ß"]],
        "content_type": "text/plain",
        "reply_to": "answers/1",
        "correlation_id": "c-1",
        "topic": "orders/new",
    }
    [result] = http.post("queues/q/messages", sent).json["results"]
    [found] = http.receive("q")
    assert {name: found[name] for name in sent} == sent
    assert {name: found[name] for name in result} == result
    assert (found["queue"], found["deliveries"]) == ("q", 1)


def test_what_a_message_does_not_have_is_left_out(http: HttpClient) -> None:
    http.post("queues/q/messages", {"messages": [{"text": "a", "key": "k", "topic": "t"}, {"text": "b"}]})
    [_, plain] = http.receive("q")
    assert not {"key", "key_base64", "topic", "headers", "content_type", "base64"} & set(plain)


def test_binary_keys_are_safe_both_ways(http: HttpClient) -> None:
    sent = base64.b64encode(ANY_BYTES).decode()
    http.post("queues/q/messages", {"text": "v", "key_base64": sent})
    [found] = http.receive("q")
    assert found["key_base64"] == sent and "key" not in found


def test_a_body_of_any_type_is_one_message_with_its_headers(http: HttpClient) -> None:
    headers = {
        "Content-Type": "image/png",
        "Penstock-Key": "k",
        "Penstock-Topic": "pictures/1",
        "Penstock-Header-Colour": "red",
        "Penstock-Reply-To": "answers",
        "Penstock-Correlation-Id": "c",
        "Penstock-Partition": "0",
    }
    assert http.request("POST", "queues/q/messages", ANY_BYTES, headers).status == 200
    raw = http.post("queues/q/receive", {"max": 1}, accept="application/octet-stream")
    assert (raw.status, raw.body, raw.headers["content-type"]) == (200, ANY_BYTES, "image/png")
    said = {"key": "k", "topic": "pictures/1", "header-colour": "red", "reply-to": "answers", "correlation-id": "c"}
    assert {name: raw.headers[f"penstock-{name}"] for name in said} == said
    assert http.post("messages/ack", {"receipts": [raw.headers["penstock-receipt"]]}).json["settled"] == 1


def test_ids_of_mixed_keys_are_those_that_consumers_see(server: RunningServer, http: HttpClient) -> None:
    server.declare("wide", partitions=4)
    messages = [{"text": str(number), "key": f"key {number % 7}"} for number in range(50)]
    results = http.post("queues/wide/messages", {"messages": messages}).json["results"]
    found = {message["text"]: message["id"] for message in http.receive("wide", max=100)}
    assert [found[str(number)] for number in range(50)] == [result["id"] for result in results]
    assert {result["partition"] for result in results} == {0, 1, 2, 3}


@pytest.mark.parametrize("partitions", [1, 4])
def test_a_request_sent_again_gives_the_first_result(server: RunningServer, http: HttpClient, partitions: int) -> None:
    server.declare("once", partitions=partitions)
    body = {"messages": [{"text": str(number), "key": str(number)} for number in range(20)]}
    first, again = (http.post("queues/once/messages", body, idempotency_key="order 17").json for _ in range(2))
    assert (first["duplicates"], again["duplicates"], again["accepted"]) == (0, 20, 20)
    assert all(result.pop("duplicate") for result in again["results"])
    assert again["results"] == first["results"]
    assert len(http.receive("once", max=100)) == 20


def test_no_other_login_can_fence_a_producer(tmp_path: Path) -> None:
    def publish(caller: HttpClient, epoch: int, sequence: int) -> tuple[int, int]:
        producer = {"id": "p", "epoch": epoch, "sequence": sequence}
        answer = caller.post("queues/q/messages", {"text": str(sequence), "producer": producer})
        return answer.status, answer.json.get("duplicates", -1)

    with running_server(tmp_path / "server", auth={}) as server:
        server.declare("q")
        one, other = server.with_roles("producer"), server.with_roles("producer")
        assert publish(one, 0, 0) == (200, 0)
        assert publish(other, 9, 5) == (200, 0)
        assert publish(one, 0, 1) == (200, 0)
        assert publish(one, 0, 1) == (200, 1)
        assert publish(other, 8, 6)[0] == 409


def test_a_producer_that_numbers_its_messages_stores_each_once(http: HttpClient) -> None:
    def send(sequence: int, *texts: str) -> dict[str, object]:
        producer = {"id": "p", "sequence": sequence}
        answer = http.post("queues/q/messages", {"messages": [{"text": text} for text in texts], "producer": producer})
        found: dict[str, object] = answer.json
        return found

    assert send(0, "a", "b")["duplicates"] == 0
    assert send(1, "b", "c")["duplicates"] == 1
    assert send(5, "f")["code"] == "out-of-order"
    assert [message["text"] for message in http.receive("q")] == ["a", "b", "c"]


def test_two_callers_may_use_the_same_idempotency_key(place: Path) -> None:
    with running_server(place / "locked", auth={}) as server:
        server.declare("shared")
        for _ in range(2):
            caller = server.with_roles("producer")
            answer = caller.post("queues/shared/messages", {"text": "x"}, idempotency_key="1")
            assert answer.json["duplicates"] == 0


def test_nobody_can_take_the_place_of_an_idempotency_key(server: RunningServer, http: HttpClient) -> None:
    """By a producer's name, or by a name with a slash in it."""
    producer = {"id": "http/anonymous/1", "sequence": 0}
    http.post("queues/q/messages", {"text": "in the way", "producer": producer})
    assert http.post("queues/q/messages", {"text": "mine"}, idempotency_key="1").json["duplicates"] == 0
    slash = server.http(basic("anonymous/1", "any"))
    assert slash.post("queues/q/messages", {"text": "a"}, idempotency_key="2").json["duplicates"] == 0
    assert http.post("queues/q/messages", {"text": "b"}, idempotency_key="1/2").json["duplicates"] == 0


def test_an_idempotency_key_has_a_size(http: HttpClient) -> None:
    assert http.post("queues/q/messages", {"text": "x"}, idempotency_key="k" * 200).status == 200
    for headers in ({"Idempotency-Key": "k" * 201}, {"Idempotency-Key": ""}):
        answer = http.request("POST", "queues/q/messages", {"text": "x"}, headers)
        assert (answer.code, answer.json["field"]) == ("invalid-argument", "Idempotency-Key")
    body = {"text": "x", "producer": {"id": "p", "sequence": 0}}
    assert http.post("queues/q/messages", body, idempotency_key="k").json["field"] == "producer"


def test_without_acknowledgement_the_answer_says_that_it_did_not_wait(http: HttpClient) -> None:
    answer = http.post("queues/q/messages?acks=none", {"text": "x"})
    assert (answer.status, answer.json["accepted"]) == (202, 1)
    assert [message["text"] for message in http.receive("q", wait=10)] == ["x"]
    assert http.post("queues/q/messages?acks=leader", {"text": "x"}).status == 200
    assert http.post("queues/q/messages?acks=some", {"text": "x"}).code == "invalid-argument"


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "messages[0]"),
        ({"text": "a", "json": 1}, "messages[0]"),
        ({"messages": [{"text": "a"}, {"text": 1}]}, "messages[1].text"),
        ({"messages": [{"text": "a"}, {"base64": "*"}]}, "messages[1].base64"),
        ({"messages": [{"text": "a"}], "key": "k"}, "key"),
        ({"text": "a", "key": "k", "key_base64": "aw=="}, "messages[0].key_base64"),
        ({"text": "a", "headers": {"a\0": "b"}}, "messages[0].headers"),
        ({"text": "a", "topic": "a/#"}, "messages[0].topic"),
        ({"text": "a", "topic": "t" * 70_000}, "messages[0].topic"),
        ({"text": "a", "reply_to": "a\0"}, "messages[0].reply_to"),
        ({"messages": [{"text": "a", "partition": 0}, {"text": "b"}]}, "messages[0].partition"),
        ({"text": "a", "producer": {"id": "p"}}, "producer"),
    ],
)
def test_a_message_that_will_not_do_is_named_and_nothing_is_stored(
    http: HttpClient, body: dict[str, object], field: str
) -> None:
    answer = http.post("queues/q/messages", body)
    assert (answer.status, answer.code, answer.json["field"]) == (400, "malformed-body", field)
    assert http.receive("q") == []


@pytest.mark.parametrize("body", [b"", b"[]", b"\xff", b'{"text":"\\ud800"}', b"[" * 100_000, b'{"text": "a"} {}'])
def test_bytes_that_are_no_message_are_refused(http: HttpClient, body: bytes) -> None:
    assert http.post("queues/q/messages", body).code == "malformed-body"
    assert http.post("queues/q/messages", {"text": "still here"}).status == 200


def test_deep_json_is_refused_or_taken_and_never_the_end_of_the_server(http: HttpClient) -> None:
    deep = b'{"json":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    assert http.post("queues/q/messages", deep).code == "malformed-body"


def test_a_partition_that_is_not_there_is_refused(http: HttpClient) -> None:
    for partition in (-1, 1, 1 << 40):
        assert http.post("queues/q/messages", {"text": "x", "partition": partition}).status == 400
    answer = http.post("queues/q/messages", b"x", content_type="text/plain", penstock_partition="first")
    assert answer.json["field"] == "Penstock-Partition"


def test_consumers_of_other_protocols_can_read_whatever_was_taken(server: RunningServer, http: HttpClient) -> None:
    consumer = server.consumer("q", user(consumer_group="g", ack_mode="puback"))
    http.post("queues/q/messages", {"messages": [{"text": "1", "topic": "a/b"}, {"text": "2"}]})
    http.post("queues/q/messages", {"text": "3", "key": "k" * 70_000, "reply_to": "r", "headers": {"": "\t"}})
    found = [consumer.expect_message() for _ in range(3)]
    assert [(message.topic, message.payload) for message in found] == [
        ("a/b", b"1"),
        ("$queue/q", b"2"),
        ("$queue/q", b"3"),
    ]
    assert found[2].properties.response_topic == "r"


def test_a_queue_is_made_by_the_first_message_where_that_is_allowed(place: Path, http: HttpClient) -> None:
    assert http.publish("brand-new", "x")
    with running_server(place / "strict", broker={"auto_create": False}) as server:
        assert server.http().post("queues/brand-new/messages", {"text": "x"}).code == "no-such-queue"


def test_a_full_queue_says_when_to_come_again(server: RunningServer, http: HttpClient) -> None:
    server.declare("small", limits={"max_queue_depth": 1})
    http.receive("small")
    http.publish("small", "x")
    answer = http.post("queues/small/messages", {"text": "y"})
    assert (answer.status, answer.code, answer.headers["retry-after"]) == (429, "queue-full", "1")


# Lines


def lines(*messages: object) -> bytes:
    return b"".join(each if isinstance(each, bytes) else json.dumps(each).encode() + b"\n" for each in messages)


def send_lines(http: HttpClient, data: bytes, queue: str = "q") -> tuple[int, dict[str, object]]:
    answer = http.post(f"queues/{queue}/messages", data, content_type="application/x-ndjson")
    return answer.status, answer.json


def test_each_line_is_a_message(http: HttpClient) -> None:
    status, report = send_lines(http, lines({"text": "a"}, b"\n", {"json": 1}, b'{"text": "no newline"}'))
    assert (status, report) == (
        200,
        {"lines": 4, "accepted": 3, "failed": 0, "errors": [], "stopped": None},
    )
    assert [message["text"] for message in http.receive("q")] == ["a", "1", "no newline"]


def test_broken_lines_are_named_and_the_others_are_taken(http: HttpClient) -> None:
    broken = lines({"text": "a"}, b"{\n", {"text": "b"}, {"text": "c", "json": 1}, {"text": "d", "partition": 9})
    status, report = send_lines(http, broken)
    assert (status, report["accepted"], report["failed"], report["lines"]) == (207, 2, 3, 5)
    assert [error["line"] for error in report["errors"]] == [2, 4, 5]  # type: ignore[attr-defined]  # a list
    assert [message["text"] for message in http.receive("q")] == ["a", "b"]


def test_lines_under_an_idempotency_key_are_refused_rather_than_stored_twice(http: HttpClient) -> None:
    headers = {"Content-Type": "application/x-ndjson", "Idempotency-Key": "1"}
    assert http.request("POST", "queues/q/messages", lines({"text": "a"}), headers).status == 400
    assert http.receive("q") == []


def test_lines_of_which_none_can_be_read_are_an_error(http: HttpClient) -> None:
    status, problem = send_lines(http, b"\n\nx\ny\n")
    assert (status, problem["code"]) == (400, "malformed-body")
    assert "line 3" in str(problem["detail"])


def test_not_more_than_a_hundred_errors_are_told(http: HttpClient) -> None:
    status, report = send_lines(http, lines({"text": "a"}, b"x\n" * 5000))
    assert (status, report["failed"], len(report["errors"])) == (207, 5000, 100)  # type: ignore[arg-type]  # a list


def test_a_stream_is_taken_while_it_comes(server: RunningServer, http: HttpClient) -> None:
    with server.raw() as raw:
        headers = "Transfer-Encoding: chunked", "Content-Type: application/x-ndjson"
        raw.head("POST", "/api/v1/queues/q/messages", *headers)
        for number in range(3):
            line = lines({"text": str(number)})
            raw.send(b"%x\r\n%s\r\n" % (len(line), line))
            assert [message["text"] for message in http.receive("q", wait=10)] == [str(number)]
        raw.send(b"0\r\n\r\n")
        assert raw.answer().json["accepted"] == 3


def test_a_stream_that_breaks_off_keeps_what_was_taken(server: RunningServer, http: HttpClient) -> None:
    with server.raw() as raw:
        raw.head("POST", "/api/v1/queues/q/messages", "Content-Length: 1000", "Content-Type: application/x-ndjson")
        raw.send(lines({"text": "whole"}, b'{"text": "ha'))
        assert [message["text"] for message in http.receive("q", wait=10)] == ["whole"]
    server.until(lambda: server.works.http.connection_count == 1)
    assert http.receive("q") == []


def test_a_line_that_is_too_long_ends_the_stream_and_says_so(place: Path) -> None:
    with running_server(place / "small", http={"max_body_size": "1KiB"}) as server:
        server.declare("q")
        with server.raw() as raw:
            raw.head("POST", "/api/v1/queues/q/messages", "Content-Length: 90000", "Content-Type: application/x-ndjson")
            raw.send(lines({"text": "a"}) + b"x" * 4000)
            answer = raw.answer()
            assert (answer.status, answer.json["accepted"], answer.json["lines"]) == (207, 1, 1)
            assert answer.json["stopped"]["code"] == "body-too-large"
            assert raw.is_ended()
        assert len(server.http().receive("q")) == 1


def test_lines_that_the_queue_refuses_are_counted(server: RunningServer, http: HttpClient) -> None:
    server.declare("small", limits={"max_queue_depth": 1})
    http.receive("small")
    status, problem = send_lines(http, lines({"text": "a"}, {"text": "b"}), "small")
    assert (status, problem["code"]) == (429, "queue-full")
    with server.raw() as raw:
        raw.head("POST", "/api/v1/queues/small/messages", "Content-Length: 64", "Content-Type: application/x-ndjson")
        raw.send(lines({"text": "a"}))
        assert http.receive("small", wait=10)
        raw.send(lines({"text": "b"}))
        report = raw.answer().json
    assert (report["accepted"], report["failed"], report["stopped"]["code"]) == (1, 1, "queue-full")


@pytest.mark.parametrize("name", ["json", "value"])
def test_a_partition_may_be_written_with_a_point_and_the_value_stays_as_it_is_written(
    server: RunningServer, http: HttpClient, name: str
) -> None:
    """As JSON Schema has it: 1.0 is an integer."""
    server.declare("wide", partitions=3)
    message = b'{"%s": {"a": 2.0, "b": [1.0]}, "partition": 1.0}' % name.encode()
    one = http.request("POST", "queues/wide/messages", message, {"content-type": "application/json"})
    several = b'{"messages": [%s, %s]}' % (message, message)
    two = http.request("POST", "queues/wide/messages", several, {"content-type": "application/json"})
    lines = http.request("POST", "queues/wide/messages", message + b"\n", {"content-type": "application/x-ndjson"})
    assert [each.status for each in (one, two, lines)] == [200] * 3, [one.body, two.body, lines.body]
    found = http.receive("wide", encoding="base64")
    assert {base64.b64decode(each["base64"]) for each in found} == {b'{"a": 2.0, "b": [1.0]}'}
    assert {each["partition"] for each in found} == {1} and len(found) == 4
    half = message.replace(b"1.0}", b"1.5}")
    refused = http.request("POST", "queues/wide/messages", half, {"content-type": "application/json"})
    assert refused.status == 400 and refused.json["field"] == "partition"


def test_a_header_is_as_long_as_the_description_says_and_no_longer(http: HttpClient) -> None:
    for field in ("content_type", "correlation_id"):
        assert http.post("queues/q/messages", {"text": "x", field: "é" * 16_383}).status == 200
        refused = http.post("queues/q/messages", {"text": "x", field: "x" * 16_384})
        assert (refused.status, refused.code) == (400, "malformed-body")
