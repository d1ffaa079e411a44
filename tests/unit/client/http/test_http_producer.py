"""Producers against servers that lose answers and refuse messages."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from tests.support.loop import run
from tests.support.scripted_http import FAST, Answer, Request, ScriptedHttp, answer, problem, scripted_http

from penstock.aio import Client
from penstock.client.errors import ConnectionLost
from penstock.client.http.accumulator import ProducerOptions
from penstock.client.http.errors import HttpRefused
from penstock.codecs.http.messages import PublishedMessage
from penstock.core.errors import InvalidArgument

CUT = Answer(b"", ends=True)


def stored(count: int) -> Answer:
    results = [{"id": f"m{offset}", "partition": 0, "offset": offset} for offset in range(count)]
    return answer(200, {"accepted": count, "duplicates": 0, "results": results})


@dataclass(frozen=True)
class Outcome:
    server: ScriptedHttp
    results: list[PublishedMessage | BaseException]
    failure: Exception | None

    @property
    def bodies(self) -> list[dict[str, object]]:
        return [json.loads(request.body) for request in self.server.requests]


def produce(answers: Sequence[Answer], batches: Sequence[Sequence[object]], **options: object) -> Outcome:
    """Each batch is flushed; what flushing the last one raised is kept."""

    async def main() -> Outcome:
        async with scripted_http(answers) as server, Client(server.url, retries=FAST) as client:
            producer = client.producer("orders", linger_s=3600, **options)  # type: ignore[arg-type]  # options of it
            futures: list[asyncio.Future[PublishedMessage]] = []
            failure: Exception | None = None
            for batch in batches:
                futures += [await producer.send(value) for value in batch]
                try:
                    await producer.flush()
                except (ConnectionLost, HttpRefused) as error:
                    failure = error
            return Outcome(server, await asyncio.gather(*futures, return_exceptions=True), failure)

    return run(main())


def test_a_batch_sent_again_has_the_same_producer_and_sequence() -> None:
    outcome = produce([CUT, stored(2), stored(1)], [["a", "b"], ["c"]])
    first, again, following = outcome.bodies
    assert first == again
    assert [message["text"] for message in first["messages"]] == ["a", "b"]  # type: ignore[attr-defined]  # JSON
    producer = first["producer"]
    assert isinstance(producer, dict)
    assert (producer["epoch"], producer["sequence"]) == (0, 0)
    assert following["producer"] == {**producer, "sequence": 2}


def test_after_an_unknown_outcome_a_producer_begins_anew() -> None:
    outcome = produce([CUT] * 4 + [stored(1)], [["lost"], ["stored"]])
    assert isinstance(outcome.results[0], ConnectionLost)
    assert isinstance(outcome.results[1], PublishedMessage)
    first, last = outcome.bodies[0]["producer"], outcome.bodies[-1]["producer"]
    assert isinstance(first, dict)
    assert last == {**first, "epoch": 1, "sequence": 0}


def test_a_producer_that_the_server_does_not_remember_so_begins_anew_and_stores_the_batch() -> None:
    outcome = produce([problem(409, "out-of-order"), stored(1)], [["a"]])
    assert outcome.failure is None
    assert [body["producer"]["epoch"] for body in outcome.bodies] == [0, 1]  # type: ignore[index]  # JSON


def test_the_message_that_is_named_fails_and_the_others_are_stored() -> None:
    refused = problem(400, "malformed-body", "bad", field="messages[1].headers")
    outcome = produce([refused, stored(1), refused, stored(1)], [["a", "bad", "c"]])
    first, bad, last = outcome.results
    assert isinstance(first, PublishedMessage)
    assert isinstance(last, PublishedMessage)
    assert isinstance(bad, HttpRefused)
    assert outcome.failure is bad
    assert [len(body["messages"]) for body in outcome.bodies] == [3, 1, 1, 1]  # type: ignore[arg-type]  # JSON


def test_a_message_that_is_not_named_is_found() -> None:
    refused = problem(413, "too-large", "too large")
    outcome = produce([refused, stored(2), refused, refused, stored(1)], [["a", "b", "large", "d"]])
    assert [isinstance(result, PublishedMessage) for result in outcome.results] == [True, True, False, True]


def test_a_refusal_of_the_whole_reaches_every_message_and_the_flush() -> None:
    outcome = produce([problem(403, "not-authorised", "you may not")], [["a", "b"]])
    assert all(isinstance(result, HttpRefused) for result in outcome.results)
    assert outcome.failure is not None
    assert outcome.failure.__notes__ == ["2 messages to queue 'orders' were not sent or not stored"]
    assert len(outcome.server.requests) == 1


def test_without_acks_a_batch_whose_answer_is_lost_is_not_sent_again() -> None:
    outcome = produce([CUT, stored(1)], [["a"]], acks="none")
    assert isinstance(outcome.results[0], ConnectionLost)
    [request] = outcome.server.requests
    assert "acks=none" in request.line
    assert "producer" not in outcome.bodies[0]


def test_batches_are_cut_by_count_by_size_and_by_partition() -> None:
    assert [_count(request) for request in produce([stored(2)], [["a"] * 4], batch_messages=2).server.requests] == [
        2,
        2,
    ]
    sized = produce([stored(1)], [["a" * 60] * 3], batch_bytes=80)
    assert [_count(request) for request in sized.server.requests] == [1, 1, 1]

    async def main() -> None:
        async with scripted_http([stored(1)]) as server, Client(server.url) as client:
            async with client.producer("orders", linger_s=3600) as producer:
                for partition in (0, 1, None):
                    await producer.send("a", partition=partition)
            assert len(server.requests) == 3

    run(main())


def _count(request: Request) -> int:
    return len(json.loads(request.body)["messages"])


def test_an_error_of_the_block_is_not_hidden_by_one_of_closing() -> None:
    async def main() -> None:
        async with scripted_http([problem(403, "not-authorised")]) as server, Client(server.url) as client:
            with pytest.raises(ZeroDivisionError):
                async with client.producer("orders") as producer:
                    await producer.send("a")
                    raise ZeroDivisionError

    run(main())


def test_a_value_that_json_has_not_is_refused_at_once() -> None:
    async def main() -> None:
        async with Client("http://127.0.0.1:1") as client:
            with pytest.raises(InvalidArgument, match="give bytes"):
                await client.producer("orders").send(object())

    run(main())


def test_options_of_a_producer_that_make_no_sense_are_refused() -> None:
    for wrong in ({"batch_messages": 0}, {"linger_s": -1}, {"batch_bytes": 0}, {"acks": "some"}):
        with pytest.raises(InvalidArgument):
            ProducerOptions(**wrong)
