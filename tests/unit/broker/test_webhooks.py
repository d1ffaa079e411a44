"""Webhooks: what is sent, how often, and whom a receiver that does not answer delays: nobody."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.broker import stage
from tests.support.loop import run
from tests.support.receiver import Receiver, receiving

from penstock.broker.webhooks.events import Event, Hook, check_url, place_of
from penstock.broker.webhooks.mailbox import MAX_WAITING
from penstock.broker.webhooks.post import post
from penstock.broker.webhooks.webhooks import Webhooks
from penstock.core.errors import InvalidArgument

SECRET = "a secret of some length"
NOW_MS = 1_700_000_000_000


def webhooks(*hooks: Hook) -> Webhooks:
    made = Webhooks(lambda: NOW_MS, first_retry_s=0.001)
    made.apply(hooks)
    return made


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not is_so():  # noqa: ASYNC110 - a thread that answers tells nobody
            await asyncio.sleep(0.002)


def tell(made: Webhooks, name: str, event: Event = Event.CONNECTED) -> None:
    made.tell(event, {"client_id": name})


def clients_of(receiver: Receiver) -> list[object]:
    return [request.facts["client_id"] for request in receiver.requests]


# What is sent


def test_an_event_is_json_and_its_signature_verifies() -> None:
    async def main(url: str) -> None:
        made = webhooks(Hook(url, secret=SECRET, headers=(("Authorization", "Bearer x"),)))
        tell(made, "c")
        await made.idle()
        assert (made.sent, made.failed, made.dropped) == (1, 0, 0)

    with receiving() as receiver:
        run(main(receiver.url))
    [request] = receiver.requests
    facts, headers = request.facts, request.headers
    assert (facts["event"], facts["client_id"], facts["time_ms"]) == ("connected", "c", NOW_MS)
    assert headers["Penstock-Event-Id"] == facts["id"]
    assert (headers["Authorization"], headers["Content-Type"]) == ("Bearer x", "application/json")
    signed = headers["Penstock-Timestamp"].encode() + b"." + request.body
    assert headers["Penstock-Signature"] == "v1=" + hmac.new(SECRET.encode(), signed, hashlib.sha256).hexdigest()


def test_without_a_secret_nothing_is_signed() -> None:
    async def main(url: str) -> None:
        made = webhooks(Hook(url))
        tell(made, "c")
        await made.idle()

    with receiving() as receiver:
        run(main(receiver.url))
    assert "Penstock-Signature" not in receiver.requests[0].headers


@pytest.mark.parametrize(
    ("headers", "said"),
    [((), "Basic dXNlcjpwQHNzOg=="), ((("authorization", "Bearer x"),), "Bearer x")],
)
def test_a_login_in_the_address_goes_as_a_header_unless_there_is_one(
    headers: tuple[tuple[str, str], ...], said: str
) -> None:
    async def main(url: str) -> None:
        made = webhooks(Hook(url.replace("http://", "http://user:p%40ss:@"), headers=headers))
        tell(made, "c")
        await made.idle()
        assert (made.sent, made.failed) == (1, 0)

    with receiving() as receiver:
        run(main(receiver.url))
    sent = receiver.requests[0].headers
    assert (sent["Authorization"], sent["Host"]) == (said, receiver.url.split("/")[2])


@pytest.mark.parametrize("url", ["http://user:hidden@a:b/", "http://a:hidden/", "hidden", "http://hidden@[a/"])
def test_a_failure_repeats_nothing_of_an_address_that_will_not_do(url: str) -> None:
    failure = post(url, b"", {}, 0.1)
    assert failure is not None and failure.is_final
    assert "hidden" not in failure.reason


def test_a_hook_is_told_only_what_it_asked_for() -> None:
    async def main(first: str, second: str) -> None:
        made = webhooks(Hook(first, frozenset({Event.CONNECTED})), Hook(second, frozenset({Event.DISCONNECTED})))
        assert not made.wants(Event.LAG)
        tell(made, "c", Event.CONNECTED)
        tell(made, "c", Event.DISCONNECTED)
        tell(made, "c", Event.LAG)
        await made.idle()

    with receiving() as first, receiving() as second:
        run(main(first.url, second.url))
        assert (first.events, second.events) == (["connected"], ["disconnected"])


# Tries


@pytest.mark.parametrize("answer", [500, 503, 408, 429])
def test_what_may_pass_is_tried_again_in_order_and_under_one_id(answer: int) -> None:
    async def main(url: str) -> None:
        made = webhooks(Hook(url))
        tell(made, "first")
        tell(made, "second")
        await made.idle()
        assert (made.sent, made.failed) == (2, 0)

    with receiving(answer, answer) as receiver:
        run(main(receiver.url))
        assert clients_of(receiver) == ["first", "first", "first", "second"]
        assert len({request.facts["id"] for request in receiver.requests}) == 2


def test_after_the_last_try_it_is_given_up_and_said(caplog: pytest.LogCaptureFixture) -> None:
    async def main(url: str) -> None:
        made = webhooks(Hook(url, retries=2))
        tell(made, "lost")
        tell(made, "next")
        await made.idle()
        assert (made.sent, made.failed) == (1, 1)

    with receiving(500, 500, 500) as receiver:
        run(main(receiver.url))
        assert clients_of(receiver) == ["lost"] * 3 + ["next"]
    assert "event not delivered url=http://127.0.0.1" in caplog.text
    assert "/hooks" not in caplog.text


@pytest.mark.parametrize("answer", [400, 404, 301, 302, 307])
def test_what_will_not_pass_is_not_tried_again_and_no_redirect_is_followed(answer: int) -> None:
    async def main(url: str) -> None:
        made = webhooks(Hook(url))
        tell(made, "c")
        await made.idle()
        assert made.failed == 1

    with receiving(answer) as receiver:
        run(main(receiver.url))
        assert len(receiver.requests) == 1


def test_a_receiver_that_is_not_there_is_tried_again() -> None:
    async def main(url: str) -> None:
        made = webhooks(Hook(url, retries=1))
        tell(made, "c")
        await made.idle()
        assert (made.sent, made.failed) == (0, 1)

    with receiving() as receiver:
        url = receiver.url
    run(main(url))


# A receiver that does not answer


def test_a_silent_receiver_delays_neither_the_loop_nor_other_receivers(tmp_path: Path) -> None:
    async def main(silent: Receiver, lively: Receiver) -> None:
        async with stage(tmp_path) as s:
            s.broker.webhooks.apply([Hook(silent.url), Hook(lively.url)])
            for number in range(3):
                tell(s.broker.webhooks, str(number))
            queue = await s.queue()
            await s.put(queue, b"1")
            await until(lambda: len(lively.requests) == 3 and len(silent.requests) == 1)
            await until(lambda: s.broker.webhooks.waiting == 3)
            assert len(silent.requests) == 1, "one request at a time"
        # The broker was closed though the silent one has a request still.
        assert not silent.opened.is_set()

    with receiving(silent=True) as silent, receiving() as lively:
        run(main(silent, lively))


def test_what_waits_is_bounded_and_what_is_dropped_is_counted(caplog: pytest.LogCaptureFixture) -> None:
    async def main(receiver: Receiver) -> None:
        made = webhooks(Hook(receiver.url))
        for number in range(MAX_WAITING + 5):
            tell(made, str(number))
        assert (made.waiting, made.dropped) == (MAX_WAITING, 5)
        [described] = made.described()
        assert (described.waiting, described.dropped, described.is_signed) == (MAX_WAITING, 5, False)
        await made.close()
        assert (made.waiting, made.dropped) == (0, MAX_WAITING + 5)
        tell(made, "after the end")

    with receiving(silent=True) as receiver, caplog.at_level(logging.WARNING, "penstock.broker.webhooks"):
        run(main(receiver))
    assert sum("event dropped" in record.getMessage() for record in caplog.records) == 3, "the first, second and fourth"


# Reload


def test_a_reload_keeps_what_waits_for_an_address_that_stays() -> None:
    async def main(receiver: Receiver) -> None:
        hook = Hook(receiver.url)
        made = webhooks(hook)
        tell(made, "before")
        tell(made, "waiting")
        await until(lambda: len(receiver.requests) == 1)
        made.apply([replace(hook, secret=SECRET, events=frozenset({Event.LAG}))])
        tell(made, "not wanted any more")
        receiver.opened.set()
        await made.idle()

    with receiving(silent=True) as receiver:
        run(main(receiver))
        assert clients_of(receiver) == ["before", "waiting"]
        assert ["Penstock-Signature" in request.headers for request in receiver.requests] == [False, True]


def test_a_hook_that_is_taken_out_ends_and_its_counts_stay() -> None:
    async def main(receiver: Receiver) -> None:
        made = webhooks(Hook(receiver.url))
        tell(made, "sent")
        await made.idle()
        receiver.opened.clear()
        tell(made, "under way")
        await until(lambda: len(receiver.requests) == 2)
        made.apply([])
        assert (made.described(), made.wants(Event.CONNECTED)) == ([], False)
        await made.close()
        assert (made.sent, made.dropped) == (1, 1)

    with receiving() as receiver:
        run(main(receiver))


# Addresses


@pytest.mark.parametrize(
    "wrong",
    ["", "example.com", "ftp://example.com/x", "http://", "https:///x", "http://a b", "http://[", "http://a:b/", "h"],
)
def test_what_is_no_address_is_refused_without_being_repeated(wrong: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        check_url(wrong)
    assert len(wrong) < 3 or wrong not in str(caught.value).replace("https://example.com/hooks", "")


def test_of_an_address_only_scheme_and_host_are_shown() -> None:
    assert place_of("https://user:pass@hooks.example:8443/T0/secret?token=1") == "https://hooks.example:8443"
    assert "pass" not in repr(Hook("https://user:pass@hooks.example/x", secret=SECRET)) and SECRET not in repr(
        Hook("https://x/", secret=SECRET)
    )
