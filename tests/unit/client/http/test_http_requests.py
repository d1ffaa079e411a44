"""Requests against servers that refuse, cut off, babble, and come back."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Sequence
from pathlib import Path

import pytest
import trustme
from tests.support.loop import run
from tests.support.scripted_http import FAST, Answer, ScriptedHttp, answer, problem, scripted_http

from penstock.aio import Client
from penstock.client.errors import ConnectionLost
from penstock.client.http.errors import HttpRefused
from penstock.client.http.options import HttpOptions, TlsFiles
from penstock.core.errors import Closed, ErrorCode, InvalidArgument

OK = answer(200, {"version": "1"})
STORED = answer(200, {"accepted": 1, "duplicates": 0, "results": [{"id": "a", "partition": 0, "offset": 7}]})
CUT = Answer(b"", ends=True)
HALF = Answer(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf", ends=True)
BABBLE = Answer(b"220 smtp.example ready\r\n", ends=True)
BUSY = problem(503, "closed", "the server is stopping")


def name_of(trouble: Answer) -> str:
    return trouble.data[:12].decode() or "cut"


def version(answers: Sequence[Answer]) -> tuple[object, ScriptedHttp]:
    """Of one GET."""

    async def main() -> tuple[object, ScriptedHttp]:
        async with scripted_http(answers) as server, Client(server.url, retries=FAST) as client:
            return await client.version(), server

    return run(main())


def publish(answers: Sequence[Answer], idempotency_key: str | None = None) -> tuple[int, ScriptedHttp]:
    """The offset of one message, or -1 if it was not stored as far as the client knows."""

    async def main() -> tuple[int, ScriptedHttp]:
        async with scripted_http(answers) as server, Client(server.url, retries=FAST) as client:
            try:
                sent = await client.publish("orders", "x", idempotency_key=idempotency_key)
            except (HttpRefused, ConnectionLost):
                return -1, server
            return sent.offset, server

    return run(main())


@pytest.mark.parametrize("trouble", [BUSY, problem(502, ""), CUT, HALF, BABBLE], ids=name_of)
def test_what_is_safe_to_send_again_is_sent_until_it_is_answered(trouble: Answer) -> None:
    said, server = version([trouble, trouble, OK])
    assert said == {"version": "1"}
    assert len(server.requests) == 3


@pytest.mark.parametrize("trouble", [BUSY, CUT, HALF, BABBLE], ids=name_of)
def test_a_publish_is_sent_once_unless_it_has_an_idempotency_key(trouble: Answer) -> None:
    assert publish([trouble, STORED])[0] == -1
    offset, server = publish([trouble, STORED], idempotency_key="k1")
    assert offset == 7
    assert [request.headers["idempotency-key"] for request in server.requests] == ["k1", "k1"]
    assert server.requests[0].body == server.requests[1].body


def test_a_server_that_wants_less_is_asked_again_whatever_it_was() -> None:
    offset, server = publish([problem(429, "too-many-requests", "slow down", "Retry-After: 0"), STORED])
    assert offset == 7
    assert len(server.requests) == 2


def test_a_wait_longer_than_anybody_waits_is_told_instead() -> None:
    with pytest.raises(HttpRefused) as refused:
        version([problem(429, "too-many-requests", "slow down", "Retry-After: 3600")])
    assert refused.value.retry_after_s == 3600
    assert refused.value.is_passing


def test_after_the_last_try_the_last_trouble_is_told() -> None:
    with pytest.raises(HttpRefused, match="the server is stopping"):
        version([BUSY])
    with pytest.raises(ConnectionLost, match="closed by the server; see whether the server runs"):
        version([CUT])


def test_a_refusal_has_all_that_the_problem_says() -> None:
    said = problem(404, "no-such-queue", "no queue 'x': declare it", field="queue")
    with pytest.raises(HttpRefused) as refused:
        version([said])
    error = refused.value
    assert (error.status, error.code, error.problem) == (404, ErrorCode.NO_SUCH_QUEUE, "no-such-queue")
    assert (error.detail, error.field, error.request_id) == ("no queue 'x': declare it", "queue", "r1")
    assert "no queue 'x': declare it" in str(error)
    assert "[request r1]" in str(error)


def test_a_refusal_that_is_no_problem_document_says_what_to_do() -> None:
    proxy = Answer(b"HTTP/1.1 401 X\r\nContent-Length: 4\r\nContent-Type: text/html\r\n\r\nnope")
    with pytest.raises(HttpRefused, match="nope; give a token") as refused:
        version([proxy])
    assert refused.value.code is ErrorCode.REFUSED


def test_connections_are_used_again_and_a_stale_one_is_replaced() -> None:
    async def main() -> None:
        async with scripted_http([OK, OK, CUT, OK]) as server, Client(server.url, retries=FAST) as client:
            for _ in range(3):
                await client.version()
            assert [request.connection for request in server.requests] == [1, 1, 1, 2]

    run(main())


def test_answers_may_come_in_chunks_or_end_with_the_connection() -> None:
    chunked = Answer(b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n6\r\n{"a": \r\n2\r\n1}\r\n0\r\n\r\n')
    assert version([chunked])[0] == {"a": 1}
    assert version([Answer(b"HTTP/1.1 200 OK\r\n\r\n{}", ends=True)])[0] == {}
    assert version([Answer(b"HTTP/1.1 100 Continue\r\n\r\n" + OK.data)])[0] == {"version": "1"}


def test_an_answer_without_end_is_cut_off() -> None:
    with pytest.raises(ConnectionLost, match="not HTTP"):
        version([Answer(b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 20_000)])
    with pytest.raises(ConnectionLost, match="bytes of headers"):
        version([Answer(b"HTTP/1.1 200 OK\r\nA: " + b"b" * 100_000)])


def test_an_answer_that_is_not_what_was_asked_for_is_told() -> None:
    with pytest.raises(ConnectionLost, match="is there a Penstock server"):
        version([Answer(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>")])


def test_no_server_is_told_with_the_url_and_what_to_do() -> None:
    async def main() -> None:
        async with Client("http://127.0.0.1:1", retries=FAST) as client:
            with pytest.raises(ConnectionLost, match=r"http://127\.0\.0\.1:1 .*penstock serve"):
                await client.version()

    run(main())


def test_a_closed_client_says_so() -> None:
    async def main() -> None:
        client = Client("http://127.0.0.1:1", retries=FAST)
        await client.close()
        with pytest.raises(Closed):
            await client.version()

    run(main())


def test_more_requests_than_connections_wait_for_their_turn() -> None:
    async def main() -> None:
        async with scripted_http([OK]) as server, Client(server.url, max_connections=2) as client:
            await asyncio.gather(*(client.version() for _ in range(20)))
            assert server.connections <= 2
            assert len(server.requests) == 20

    run(main())


@pytest.mark.parametrize(
    ("login", "header", "value"),
    [
        ({"token": "abc"}, "authorization", "Bearer abc"),
        ({"api_key": "psk_1_2"}, "x-api-key", "psk_1_2"),
        ({"username": "ann", "password": "pw"}, "authorization", "Basic YW5uOnB3"),
    ],
)
def test_a_login_goes_with_every_request(login: dict[str, str], header: str, value: str) -> None:
    async def main() -> None:
        async with scripted_http([OK]) as server, Client(f"{server.url}/below/", **login) as client:  # type: ignore[arg-type]  # names of logins
            await client.version()
            assert server.requests[0].headers[header] == value
            assert server.requests[0].line == "GET /below/version HTTP/1.1"
            assert value not in repr(client.options)

    run(main())


def test_options_that_make_no_sense_are_refused() -> None:
    for url in ("localhost:8080", "ftp://x", "http://", "http://ann:pw@x", "http://x/?a=b"):
        with pytest.raises(InvalidArgument):
            HttpOptions(url)
    with pytest.raises(InvalidArgument, match="one login"):
        HttpOptions(token="a", api_key="b")
    with pytest.raises(InvalidArgument, match="printable"):
        HttpOptions(token="a\r\nX: y").head()


def test_tls_trusts_whom_it_is_told_to_and_shows_its_own_certificate(tmp_path: Path) -> None:
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    authority.configure_trust(context)
    context.verify_mode = ssl.CERT_REQUIRED
    ca_file, own_file = tmp_path / "ca.pem", tmp_path / "own.pem"
    authority.cert_pem.write_to_path(ca_file)
    authority.issue_cert("till-7").private_key_and_cert_chain_pem.write_to_path(own_file)

    async def main() -> None:
        async with scripted_http([OK], context) as server:
            async with Client(server.url, tls=TlsFiles(ca_file, own_file)) as client:
                assert await client.version() == {"version": "1"}
            async with Client(server.url, retries=FAST) as client:
                with pytest.raises(ConnectionLost, match="give the authority"):
                    await client.version()

    run(main())
    with pytest.raises(InvalidArgument, match="PEM files"):
        Client("https://127.0.0.1", tls=TlsFiles(tmp_path / "none.pem"))
