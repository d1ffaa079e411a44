"""Event streams: decoding, and going on after a lost connection."""

from __future__ import annotations

import asyncio
import json

import pytest
from tests.support.loop import run
from tests.support.scripted_http import FAST, Answer, problem, scripted_http

import penstock
from penstock.aio import Client
from penstock.client.errors import ConnectionLost
from penstock.client.http.errors import HttpRefused
from penstock.client.http.events import Event, EventDecoder

STREAM = (
    b": beat\r\nretry: 1\r\n\r\nid: 0:1\ndata: one\n\nevent: gap\ndata: {\ndata:}\nid: 0:5\n\n"
    b"unknown: x\nevent: ignored\n\nevent: end\n\n"
)
EVENTS = [Event("message", "one", "0:1"), Event("gap", "{\n}", "0:5"), Event("end", "", "0:5")]
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


def chunked(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def message(offset: int) -> bytes:
    said = {"id": f"m{offset}", "queue": "q", "partition": 0, "offset": offset, "timestamp_ms": 0, "text": "x"}
    return b"id: 0:%d\ndata: %s\n\n" % (offset + 1, json.dumps(said).encode())


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_any_split_of_the_bytes_gives_the_same_events(size: int) -> None:
    decoder = EventDecoder(1000)
    found = [event for at in range(0, len(STREAM), size) for event in decoder.receive(STREAM[at : at + size])]
    assert found == EVENTS
    assert decoder.retry_s == 0.001


def test_an_event_without_end_is_cut_off() -> None:
    decoder = EventDecoder(100)
    with pytest.raises(ConnectionLost, match="max_answer_bytes"):
        for _ in range(20):
            decoder.receive(b"data: 0123456789\n")
    with pytest.raises(ConnectionLost, match="max_answer_bytes"):
        EventDecoder(100).receive(b"x" * 101)


LOST_AND_RESUMED = [
    Answer(HEAD + chunked(b"retry: 1\nid: 0:0\n\n"), ends=True),
    Answer(HEAD + chunked(message(0)) + chunked(message(1)[:9]), ends=True),
    problem(503, "closed"),
    Answer(HEAD + chunked(message(1)) + chunked(b"event: end\n\n") + b"0\r\n\r\n"),
]


def test_a_lost_stream_goes_on_behind_the_last_event() -> None:
    async def main() -> None:
        async with scripted_http(LOST_AND_RESUMED) as server, Client(server.url, retries=FAST) as client:
            events = [event async for event in client.events("q", from_="earliest")]
            assert [event.message.offset for event in events if event.kind == "message"] == [0, 1]
            assert events[-1].kind == "end"
            assert [request.headers.get("last-event-id") for request in server.requests] == [None, "0:0", "0:1", "0:1"]
            assert "from=earliest" in server.requests[0].line
            assert "from=" not in server.requests[3].line

    run(main())


def test_threads_read_streams_too() -> None:
    async def main() -> list[int]:
        async with scripted_http(LOST_AND_RESUMED) as server:
            return await asyncio.to_thread(read, server.url)

    def read(url: str) -> list[int]:
        with penstock.Client(url, retries=FAST) as client:
            return [event.message.offset for event in client.events("q", last_event_id="0:0") if event.kind != "end"]

    assert run(main()) == [0, 1]


def test_a_stream_that_is_refused_or_cannot_be_had_ends() -> None:
    async def main() -> None:
        async with scripted_http([problem(404, "no-such-queue")]) as server, Client(server.url) as client:
            with pytest.raises(HttpRefused):
                await anext(client.events("q"))
        async with Client("http://127.0.0.1:1", retries=FAST) as client:
            with pytest.raises(ConnectionLost):
                await anext(client.topic_events("a/#"))

    run(main())
