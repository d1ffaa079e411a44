"""HTTP itself: what clients may send, how long they may take, and what becomes of others meanwhile."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.http_client import HttpClient, RawClient, basic
from tests.support.http_server import RunningServer, running_server

QUICK = {"head_timeout": "200ms", "stall_timeout": "200ms", "keep_alive": "1s", "max_body_size": "64KiB"}
PUBLISH = "/api/v1/queues/q/messages"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with running_server(tmp_path_factory.mktemp("quick"), http=QUICK) as made:
        yield made


@pytest.fixture
def raw(server: RunningServer) -> Iterator[RawClient]:
    with server.raw() as client:
        yield client


def sent(raw: RawClient, body: object, *headers: str, path: str = PUBLISH) -> None:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    raw.head("POST", path, f"Content-Length: {len(data)}", *headers)
    raw.send(data)


# Garbage


@pytest.mark.parametrize(
    "data",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01",
        b"\x10\x10\x00\x04MQTT\x05\x02\x00\x00\x00",
        b"\0" * 100,
        b"GET\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost x\r\n\r\n",
        b"GET http:// HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"CONNECT localhost:80 HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: x\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
    ],
)
def test_bytes_that_are_no_request_are_refused_and_the_connection_ends(raw: RawClient, data: bytes) -> None:
    raw.send(data)
    answer = raw.answer()
    assert (answer.status, answer.code) == (400, "malformed-request")
    assert raw.is_ended()


HOST = b"Host: localhost\r\n"
GET, POST = (
    b"GET /health HTTP/1.1\r\n",
    f"POST {PUBLISH} HTTP/1.1\r\n".encode() + HOST + b"Content-Type: text/plain\r\n",
)
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"
REQUESTS = {
    "no Host": (GET + b"\r\n", 400),
    "two Host": (GET + HOST + HOST + b"\r\n", 400),
    "two Host that differ": (GET + HOST + b"Host: other\r\n\r\n", 400),
    "Host with a space": (GET + b"Host: a b\r\n\r\n", 400),
    "Host with a path": (GET + b"Host: localhost/\r\n\r\n", 400),
    "xchunked": (POST + b"Transfer-Encoding: xchunked\r\n\r\n", 400),
    "gzip": (POST + b"Transfer-Encoding: gzip\r\n\r\n", 400),
    "identity": (POST + b"Transfer-Encoding: identity\r\n\r\n", 400),
    "chunked, gzip": (POST + b"Transfer-Encoding: chunked, gzip\r\n\r\n", 400),
    "chunked twice": (POST + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
    "chunked of HTTP/1.0": (CHUNKED.replace(b"HTTP/1.1", b"HTTP/1.0"), 400),
    "gzip, chunked": (POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n", 501),
    "gzip and chunked": (POST + b"Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n", 501),
    "length and chunked": (POST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
    "chunked and length": (POST + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n", 400),
    "two lengths": (POST + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\n", 400),
    "a list of lengths": (POST + b"Content-Length: 5, 5\r\n\r\n", 400),
    "length +5": (POST + b"Content-Length: +5\r\n\r\n", 400),
    "endless length": (POST + b"Content-Length: 99999999999999999999\r\n\r\n", 400),
    "chunk size zz": (CHUNKED + b"zz\r\n", 400),
    "chunk size 0x5": (CHUNKED + b"0x5\r\nhello\r\n", 400),
    "chunk size -5": (CHUNKED + b"-5\r\nhello\r\n", 400),
    "chunk size +5": (CHUNKED + b"+5\r\nhello\r\n", 400),
    "chunk size 5_": (CHUNKED + b"5_\r\nhello\r\n", 400),
    "empty chunk size": (CHUNKED + b"\r\n", 400),
    "endless chunk size": (CHUNKED + b"fffffffffffffffff\r\n", 400),
    "chunk ended by LF": (CHUNKED + b"5\nhello\n0\n\n", 400),
    "chunk longer than it says": (CHUNKED + b"5\r\nhello!\r\n", 400),
    "second chunk": (CHUNKED + b"5\r\nhello\r\nzz\r\n", 400),
    "HTTP/2.0": (b"GET /health HTTP/2.0\r\n" + HOST + b"\r\n", 505),
    "HTTP/3.0": (b"GET /health HTTP/3.0\r\n" + HOST + b"\r\n", 505),
    "HTTP/0.9": (b"GET /health HTTP/0.9\r\n" + HOST + b"\r\n", 505),
    "HTTP/9.9": (b"GET / HTTP/9.9\r\n\r\n", 505),
    "preface of HTTP/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
    "folded line": (GET + HOST + b"A: b\r\n c\r\n\r\n", 400),
    "folded first line": (GET + b" Host: localhost\r\n\r\n", 400),
    "bare CR": (GET + HOST + b"A: b\rC: d\r\n\r\n", 400),
    "bare LF": (b"GET /health HTTP/1.1\nHost: localhost\n\n", 400),
    "space before the colon": (GET + b"Host : localhost\r\n\r\n", 400),
    "no name": (GET + HOST + b": a\r\n\r\n", 400),
    "NUL in a value": (GET + HOST + b"A: b\0c\r\n\r\n", 400),
    "NUL in a name": (GET + HOST + b"A\0: b\r\n\r\n", 400),
    "NUL in the target": (b"GET /hea\0lth HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    "control character": (GET + HOST + b"A: b\x01c\r\n\r\n", 400),
    "long method": (b"G" * 10_000 + b" /health HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    "fragment": (b"GET /health#part HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    "URL of another scheme": (b"GET ftp://localhost/health HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    "URL with a user": (b"GET http://a:b@localhost/health HTTP/1.1\r\n" + HOST + b"\r\n", 400),
}


@pytest.mark.parametrize(("data", "status"), REQUESTS.values(), ids=REQUESTS)
def test_a_request_whose_end_or_host_is_in_doubt_is_refused_and_the_connection_ends(
    raw: RawClient, http: HttpClient, data: bytes, status: int
) -> None:
    """RFC 9112: one that two servers could read in two ways is a way around the first one."""
    raw.send(data)
    answer = raw.answer()
    assert (answer.status, answer.headers["connection"]) == (status, "close")
    assert answer.code == {400: "malformed-request", 501: "not-implemented", 505: "http-version"}[status]
    assert raw.is_ended()
    assert http.get("/health").status == 200


def test_nothing_of_a_body_with_a_broken_chunk_is_published(raw: RawClient, http: HttpClient) -> None:
    raw.send(CHUNKED.replace(b"/q/", b"/broken/") + b"5\r\nhello\r\n")
    raw.send(b"zz\r\n")
    assert raw.answer().status == 400
    assert http.get("/api/v1/queues/broken").status == 404


@pytest.mark.parametrize(
    "target", ["http://localhost/health", "HTTP://localhost:80/health?", "http://[::1]:8080/health"]
)
def test_a_target_may_be_a_whole_url_and_names_the_host(raw: RawClient, target: str) -> None:
    raw.send(f"GET {target} HTTP/1.1\r\nHost: elsewhere\r\n\r\n".encode())
    assert raw.answer().status == 200
    raw.send(b"GET http://elsewhere/health HTTP/1.1\r\n" + HOST + b"\r\n")
    assert raw.answer().status == 421


def test_a_request_of_http_1_0_needs_no_host(raw: RawClient) -> None:
    raw.send(b"GET /health HTTP/1.0\r\n\r\n")
    assert raw.answer().status == 421  # in development mode nobody is answered who does not say localhost


def test_random_bytes_harm_nobody_else(server: RunningServer, http: HttpClient) -> None:
    choose = random.Random(7)
    words = [b"GET / HTTP/1.1\r\n", b"Host: localhost\r\n", b"\r\n", b"Transfer-Encoding: chunked\r\n", b"5\r\n"]
    for _ in range(150):
        with server.raw() as raw:
            parts = [choose.choice([*words, choose.randbytes(choose.randrange(50))]) for _ in range(8)]
            raw.try_send(b"".join(parts))
    assert http.publish("q", "still here")
    server.until(lambda: server.works.http.connection_count == 1)
    assert server.works.http.app.state.counters.failures == 0


# Heads


@pytest.mark.parametrize("size", [70_000, 300_000, 2_000_000])
def test_a_head_that_is_too_large_is_refused(server: RunningServer, http: HttpClient, size: int) -> None:
    for is_second in (False, True):
        with server.raw() as raw:
            if is_second:
                raw.head("GET", "/health")
                assert raw.answer().status == 200
            raw.try_send(b"GET /health HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * size + b"\r\n\r\n")
            if size < 100_000:
                assert raw.answer().code == "headers-too-large"
            else:
                raw.is_ended()
    assert http.get("/health").status == 200


def test_many_small_headers_are_too_large_together(raw: RawClient) -> None:
    raw.try_send(b"GET /health HTTP/1.1\r\nHost: localhost\r\n" + b"a: b\r\n" * 20_000 + b"\r\n")
    assert raw.answer().status == 431


def test_a_large_body_behind_a_small_head_is_no_large_head(raw: RawClient) -> None:
    sent(raw, b"x" * 60_000, "Content-Type: text/plain", "X: " + "x" * 30_000)
    assert raw.answer().status == 200


# Time


def test_a_client_that_says_nothing_is_let_go(raw: RawClient) -> None:
    assert raw.is_ended()


def test_a_head_must_come_in_time(raw: RawClient) -> None:
    raw.send(b"GET /health HTTP/1.1\r\nHost: ")
    answer = raw.answer()
    assert (answer.status, answer.code) == (408, "timeout")
    assert raw.is_ended()


def test_a_body_must_go_on_coming(raw: RawClient, http: HttpClient) -> None:
    raw.head("POST", PUBLISH, "Content-Length: 10")
    raw.send(b"{")
    assert raw.answer().code == "timeout"
    assert raw.is_ended()
    assert http.get("/health").status == 200


def test_a_connection_without_requests_is_let_go_after_a_while(raw: RawClient) -> None:
    raw.head("GET", "/health")
    assert raw.answer().status == 200
    assert raw.is_ended()


def test_who_waits_for_the_broker_is_not_late(server: RunningServer, raw: RawClient) -> None:
    server.declare("q")
    sent(raw, {"wait": "1s"}, path="/api/v1/queues/q/receive")
    assert raw.answer().json == {"messages": []}


def test_half_a_request_behind_a_long_poll_is_never_taken_for_its_answer(server: RunningServer, raw: RawClient) -> None:
    server.declare("q")
    sent(raw, {"wait": "5s"}, path="/api/v1/queues/q/receive")
    raw.send(b"GET /health HTTP/1.1\r\nHost: ")
    assert raw.is_ended()


def test_a_body_that_never_comes_behind_a_long_poll_ends_too(server: RunningServer, raw: RawClient) -> None:
    server.declare("q")
    sent(raw, {"wait": "600ms"}, path="/api/v1/queues/q/receive")
    raw.head("POST", PUBLISH, "Content-Length: 10")
    assert raw.answer().json == {"messages": []}
    assert raw.answer().code == "timeout"
    assert raw.is_ended()


# Bodies


def test_a_body_that_says_it_is_too_large_is_refused_before_it_comes(raw: RawClient) -> None:
    raw.head("POST", PUBLISH, "Content-Length: 1000000000000")
    answer = raw.answer()
    assert (answer.status, answer.code, answer.headers["connection"]) == (413, "body-too-large", "close")
    assert raw.is_ended()


@pytest.mark.parametrize("path", [PUBLISH, "/api/v1/queues", "/api/v1/messages/ack"])
def test_a_body_without_a_length_is_refused_at_the_limit(raw: RawClient, path: str) -> None:
    raw.head("POST", path, "Transfer-Encoding: chunked")
    chunk = b"2000\r\n" + b" " * 0x2000 + b"\r\n"
    taken = 0
    while taken < 1000 and raw.try_send(chunk):
        taken += 1
    assert taken < 1000, "eight megabytes were taken"


def test_a_body_in_pieces_is_whole_again(server: RunningServer, raw: RawClient, http: HttpClient) -> None:
    raw.head("POST", PUBLISH, "Transfer-Encoding: chunked", "Content-Type: text/plain")
    for number in range(200):
        raw.send(b"3\r\n%03d\r\n" % number)
    raw.send(b"0\r\n\r\n")
    assert raw.answer().status == 200
    assert http.receive("q")[0]["text"] == "".join(f"{number:03}" for number in range(200))


def test_what_is_refused_is_not_read_as_the_next_request(raw: RawClient) -> None:
    sent(raw, b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n", path="/nowhere")
    assert raw.answer().code == "not-found"
    raw.head("GET", "/version")
    assert "version" in raw.answer().json


def test_the_client_is_told_to_go_on_when_its_body_is_wanted(raw: RawClient) -> None:
    raw.head("POST", PUBLISH, "Content-Length: 13", "Expect: 100-continue")
    assert raw.answer().status == 100
    raw.send(b'{"text": "x"}')
    assert raw.answer().status == 200


def test_the_client_is_not_told_to_go_on_when_its_body_is_not_wanted(raw: RawClient) -> None:
    raw.head("POST", PUBLISH, "Content-Length: 1000000", "Expect: 100-continue")
    assert raw.answer().status == 413


# Methods, paths, ids


def test_requests_sent_ahead_are_answered_in_order(raw: RawClient) -> None:
    for number in range(20):
        raw.head("GET", "/health", f"X-Request-Id: n{number}")
    assert [raw.answer().headers["penstock-request-id"] for _ in range(20)] == [f"n{number}" for number in range(20)]


def test_head_is_get_without_the_body(raw: RawClient) -> None:
    raw.head("GET", "/openapi.json")
    whole = raw.answer()
    raw.head("HEAD", "/openapi.json")
    head = raw.answer(is_bodiless=True)
    assert (head.status, head.headers["content-length"]) == (200, str(len(whole.body)))
    raw.head("GET", "/health")
    assert raw.answer().json == {"status": "ok"}


def test_options_tell_what_is_possible(http: HttpClient) -> None:
    answer = http.request("OPTIONS", "queues/q/config")
    assert (answer.status, answer.headers["allow"]) == (204, "GET, HEAD, PUT")
    assert http.request("OPTIONS", "nowhere").status == 404


def test_a_method_that_is_not_possible_is_told_which_are(http: HttpClient) -> None:
    answer = http.delete("/health")
    assert (answer.status, answer.code, answer.headers["allow"]) == (405, "method-not-allowed", "GET, HEAD")


def test_a_websocket_where_there_is_none_is_refused(raw: RawClient) -> None:
    upgrade = "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13"
    raw.head("GET", "/api/v1/queues", *upgrade, "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==")
    assert raw.answer().status == 405


def test_another_upgrade_is_passed_over(raw: RawClient) -> None:
    raw.head("GET", "/health", "Connection: Upgrade", "Upgrade: h2c")
    assert raw.answer().status == 200


def test_a_request_has_the_id_that_its_sender_gave_it(http: HttpClient) -> None:
    assert http.get("/health", x_request_id="abc-1.2_X").headers["penstock-request-id"] == "abc-1.2_X"
    problem = http.get("nowhere", x_request_id="abc")
    assert problem.json["instance"] == "abc"
    for bad in ("a b", "x" * 65, "<script>"):
        found = http.get("/health", x_request_id=bad).headers["penstock-request-id"]
        assert found != bad and 0 < len(found) <= 64


@pytest.mark.parametrize(
    ("segment", "name"),
    [
        ("shop%2Forders", "shop/orders"),
        ("$queue$shop$orders", "shop/orders"),
        ("%24queue%2Fshop%2Forders", "shop/orders"),
        ("..", ".."),
        ("%2e%2e", ".."),
        ("gr%C3%B6%C3%9Fe", "größe"),
        ("a%20b", "a b"),
        ("a;b=c", "a;b=c"),
        ("a%2F%2Fb", "a//b"),
        ("x%23y", "x#y"),
        ("$queue$x%2523z", "x#z"),
        ("%2B", "+"),
        ("orders.dlq", "orders.dlq"),
    ],
)
def test_names_in_paths_lead_to_their_queues(server: RunningServer, http: HttpClient, segment: str, name: str) -> None:
    server.declare(name)
    assert http.get(f"queues/{segment}").json["name"] == name
    assert http.publish(segment, "x")[0]["id"].startswith(f"{name}@")


@pytest.mark.parametrize("segment", ["%00", "a%0Ab", "%FF", "$queue$", "$queue$a$$b", "$queue$a%252Fb", "n" * 300])
def test_names_that_no_queue_can_have_are_refused(http: HttpClient, segment: str) -> None:
    for answer in (http.get(f"queues/{segment}"), http.post(f"queues/{segment}/messages", {"text": "x"})):
        assert (answer.status, answer.code) == (400, "invalid-argument"), answer


def test_dead_letters_have_names_in_paths_too(server: RunningServer, http: HttpClient) -> None:
    server.declare("shop/orders", dlq_config={"enabled": True})
    http.publish("shop%2Forders", "x")
    [message] = http.receive("shop%2Forders")
    http.post("messages/reject", {"receipts": [message["receipt"]]})
    for segment in ("$dlq$shop$orders", "%24dlq%2Fshop%2Forders"):
        assert http.get(f"queues/{segment}").json["name"] == "$dlq/shop/orders"
    assert [letter["text"] for letter in http.receive("$dlq$shop$orders")] == ["x"]


@pytest.mark.parametrize("path", ["/api/v1/queues/", "//health", "/health/", "/api/v1", "/api/v1/queues//config"])
def test_a_path_with_nothing_behind_it_is_not_found(http: HttpClient, path: str) -> None:
    assert http.get(path).code == "not-found"


def test_the_root_leads_to_the_documentation(http: HttpClient) -> None:
    answer = http.get("/")
    assert (answer.status, answer.headers["location"]) == (302, "docs")


@pytest.mark.parametrize("query", ["dry_run=1", "limit", "a=1&a=2", "x=%FF", "&".join(f"a{n}=" for n in range(99))])
def test_parameters_that_are_not_known_are_refused(server: RunningServer, http: HttpClient, query: str) -> None:
    server.declare("q")
    for method, path in (("GET", "queues"), ("POST", "queues/q/pause"), ("GET", "overview")):
        answer = http.request(method, f"{path}?{query}")
        assert (answer.status, answer.code) == (400, "invalid-argument"), answer


def test_null_in_a_query_is_not_nothing(http: HttpClient) -> None:
    answer = http.get("clients?connected=null")
    assert (answer.code, answer.json["field"]) == ("invalid-argument", "connected")
    assert http.get("clients?connected=true").status == 200


# Pages in browsers


def test_pages_of_other_origins_are_kept_out(server: RunningServer, http: HttpClient) -> None:
    answer = http.get("queues", origin="https://evil.example")
    assert (answer.status, "access-control-allow-origin" in answer.headers) == (403, False)
    assert http.get("queues", origin="null").status == 403
    host, port = server.address
    assert http.get("queues", origin=f"http://{host}:{port}").status == 200


def test_in_development_mode_a_name_that_is_not_this_machines_is_refused(http: HttpClient) -> None:
    answer = http.get("queues", host="rebound.example")
    assert (answer.status, answer.code) == (421, "wrong-host")
    for host in ("localhost", "127.0.0.1:1", "[::1]:8080", "LOCALHOST"):
        assert http.get("queues", host=host).status == 200


def test_configured_origins_may_call(tmp_path: Path) -> None:
    with running_server(tmp_path, http={"cors_origins": ["https://console.example"]}) as server:
        http, origin = server.http(), "https://console.example"
        answer = http.get("queues", origin=origin)
        assert answer.headers["access-control-allow-origin"] == origin
        assert http.get("nowhere", origin=origin).headers["access-control-allow-origin"] == origin
        asked = {"Origin": origin, "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "x-a"}
        told = http.request("OPTIONS", "queues", None, asked)
        assert (told.status, told.headers["access-control-allow-methods"]) == (204, "GET, HEAD, POST")
        assert told.headers["access-control-allow-headers"] == "x-a" and "Origin" in told.headers["vary"]
        assert http.get("queues", origin="https://other.example").status == 403


# Limits and the end


def test_a_connection_that_sends_too_much_is_told_when_to_go_on(tmp_path: Path) -> None:
    limits = {"max_messages_per_client": 1, "message_burst_size": 2}
    listeners = {"mqtt": {"port": 0}, "http": {"port": 0, "host": "0.0.0.0"}}
    with running_server(tmp_path, rate_limit=limits, auth={"allow_anonymous": False}, listeners=listeners) as server:
        server.declare("q")
        client = HttpClient(("127.0.0.1", server.address[1]), {"X-API-Key": server.key("admin")})
        statuses = [client.post("queues/q/messages", {"text": "x"}) for _ in range(4)]
        assert [answer.status for answer in statuses[:2]] == [200, 200]
        assert (statuses[-1].status, statuses[-1].code) == (429, "too-many-requests")
        assert int(statuses[-1].headers["retry-after"]) >= 1
        client.close()


def test_who_guesses_passwords_is_told_to_wait(tmp_path: Path) -> None:
    listeners = {"mqtt": {"port": 0}, "http": {"port": 0, "host": "0.0.0.0"}}
    with running_server(tmp_path, auth={"max_failed_logins_per_ip": 3}, listeners=listeners) as server:
        guesser = HttpClient(("127.0.0.1", server.address[1]), basic("admin", "guess"))
        answers = [guesser.get("queues") for _ in range(5)]
        assert [answer.status for answer in answers] == [401, 401, 401, 429, 429]
        assert answers[-1].code == "too-many-attempts" and int(answers[-1].headers["retry-after"]) >= 1
        guesser.headers = {"X-API-Key": server.key("admin")}
        assert guesser.get("queues").status == 200
        guesser.close()


def test_a_server_that_stops_answers_what_is_under_way(tmp_path: Path) -> None:
    with running_server(tmp_path) as server:
        server.declare("q")
        waiting, idle, answers = server.http(), server.raw(), list[int]()
        receive = {"wait": "30s"}
        thread = threading.Thread(target=lambda: answers.append(waiting.post("queues/q/receive", receive).status))
        thread.start()
        server.until(lambda: any(queue.groups for queue in server.broker.queues))
        server.wait(server.works.http.drain())
        thread.join(20)
        assert answers == [503]
        assert idle.is_ended()
